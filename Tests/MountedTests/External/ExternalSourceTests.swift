import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Sources that programs of their own serve.
    struct ExternalSourceTests {
        /// The example that is a zip archive, whose path is in `$tmp/a.zip`.
        private static func mountedArchive(
            _ files: String,
            _ body: @escaping @Sendable (MountedAccount) throws -> Void
        ) async throws {
            try await blocking {
                let place = try TemporaryDirectory("zip")
                let script = """
                    import os, zipfile
                    with zipfile.ZipFile(os.environ["zip"], "w", zipfile.ZIP_DEFLATED) as archive:
                        \(files)
                    """
                let archive = place.appending("a b.zip")
                try Command.run("python3", ["-c", script], environment: ["zip": archive])
                let program = FileManager.default.currentDirectoryPath + "/Providers/cove-zip"
                let address = "exec:\(program)?path=\(archive.replacing(" ", with: "%20"))"
                let account = try MountedAccount(options: "poll=200ms,log=debug", address: address)
                try account.start()
                do {
                    try body(account)
                } catch {
                    let words = (try? account.shell("cat $STATE/provider.log; tail -50 $STATE/log")) ?? ""
                    throw CommandFailure("\(error)\n\(words)")
                }
                try account.end()
                withExtendedLifetime(place) {}
            }
        }

        /// The process of the provider that a daemon has started.
        private static func provider(_ account: MountedAccount) throws -> pid_t {
            var open = [try pid_t(account.statistics().daemonPID)]
            while let next = open.popLast() {
                let children = try account.shell("cat /proc/\(next)/task/*/children").split { !$0.isNumber }
                for child in children.compactMap({ pid_t($0) }) {
                    let words = try String(contentsOfFile: "/proc/\(child)/cmdline", encoding: .utf8)
                    // The one that confines it names it as well.
                    if words.contains("cove-zip"), !words.contains("bwrap") { return child }
                    open.append(child)
                }
            }
            throw CommandFailure("no process of the provider")
        }

        @Test func `an archive is shown as a tree, and its members are unpacked when they are read`() async throws {
            try await Self.mountedArchive(
                [
                    "archive.writestr('letters/Brief ä.txt', 'Hallo' + chr(10))",
                    "archive.writestr('letters/2026/empty', b'')",
                    "archive.writestr('big', os.urandom(1 << 20) * 9)",
                    "archive.writestr('../evil', b'x')",
                    "archive.writestr('/abs', b'root')",
                    "[archive.writestr('many/%04d' % n, b'%d' % n) for n in range(2500)]",
                ].joined(separator: "; ")
            ) { account in
                #expect(
                    try account.shell("find . -type f | grep -v many | sort") == """
                        ./abs
                        ./big
                        ./letters/2026/empty
                        ./letters/Brief ä.txt

                        """
                )
                #expect(try account.shell("ls many | wc -l") == "2500\n")
                #expect(try account.shell("stat -c %s big letters/*.txt") == "9437184\n6\n")
                let statistics = try account.cove("status --state $STATE", as: AccountStatus.self)
                #expect(statistics.residentBytes == 0)
                #expect(statistics.weaknesses.contains { $0.contains("can't be written to") })
                #expect(try account.shell("cat letters/Brief* many/2499") == "Hallo\n2499")
                let check =
                    "import sys, zipfile; assert zipfile.ZipFile(sys.argv[1]).read('big') == open('big', 'rb').read()"
                try account.shell("python3 -c \"\(check)\" '\(try Self.archive(of: account))'")
            }
        }

        @Test func `a member that can't be costs its folder no other one`() async throws {
            try await Self.mountedArchive(
                [
                    "archive.writestr('f', b'one')",
                    "archive.writestr(zipfile.ZipInfo('undated', (2020, 15, 3, 1, 2, 3)), b'two')",
                    "archive.writestr(zipfile.ZipInfo('dated', (2020, 2, 29, 1, 2, 4)), b'three')",
                    "archive.writestr('vast', b'four')",
                    "archive.NameToInfo['vast'].file_size = (1 << 63) + 5",
                ].joined(separator: "; ")
            ) { account in
                let shown = try account.shell("ls; cat *")
                #expect(shown == "dated\nf\nundated\nthreeonetwo")
                #expect(try account.shell("TZ=UTC stat -c %y dated") == "2020-02-29 01:02:04.000000000 +0000\n")
                #expect(try account.cove("provider log --state $STATE").contains("it can't have 9223372036854775813"))
            }
        }

        private static func archive(of account: MountedAccount) throws -> String {
            let status = try account.cove("status --state $STATE", as: AccountStatus.self)
            let encoded = try #require(status.source.split(separator: "path=").last)
            return try #require(String(encoded).removingPercentEncoding)
        }

        @Test func `a process that dies costs what waited for it, and the next attempt has another one`() async throws {
            try await Self.mountedArchive("archive.writestr('f', b'bytes'); archive.writestr('g', b'more')") {
                account in
                #expect(try account.shell("cat f") == "bytes")
                let first = try Self.provider(account)
                #expect(kill(first, SIGKILL) == 0)
                try waitUntil("another process serves") { (try? account.shell("cat g")) == "more" }
                #expect(try Self.provider(account) != first)
                #expect(try account.cove("provider log --state $STATE").contains(", exit status 137"))
                // What is here stays readable whatever the process does.
                #expect(try account.shell("cat f g") == "bytesmore")
            }
        }

        @Test func `a stopped process makes no program wait for longer than its time`() async throws {
            try await Self.mountedArchive("archive.writestr('f', b'bytes'); archive.writestr('g', b'more')") {
                account in
                #expect(try account.shell("ls; cat f") == "f\ng\nbytes")
                let process = try Self.provider(account)
                #expect(kill(process, SIGSTOP) == 0)
                let waiting = try account.start("cat g")
                // What is here already is not held up.
                #expect(try account.shell("cat f; ls") == "bytesf\ng\n")
                #expect(kill(process, SIGCONT) == 0)
                #expect(try waiting.wait(deadline: 60).output == "more")
            }
        }

        @Test func `what a program serves is edited and followed as any source is`() async throws {
            try await SharedSource.program.devices { here, there, files in
                try here.shell(
                    "mkdir d; echo one > d/f; head -c 9000000 /dev/urandom > big; ln -s d/f link; $COVE sync --wait"
                )
                #expect(
                    try here.shell("cat \(files)/d/f; readlink \(files)/link; cmp big \(files)/big") == "one\nd/f\n"
                )
                try waitUntil("the other device has it") { (try? there.shell("cat d/f")) == "one\n" }
                try there.shell("cmp big \(files)/big; echo two > d/f; mv d e; $COVE sync --wait")
                try waitUntil("the first device has it") { (try? here.shell("cat e/f")) == "two\n" }
                try here.shell("echo three > \(files)/e/f")
                for device in [here, there] {
                    try waitUntil("a change at the source is seen") { (try? device.shell("cat e/f")) == "three\n" }
                }
                try here.shell("rm -r e big link; $COVE sync --wait; test -z \"$(ls \(files))\"")
            }
        }

        @Test func `a program that is not there is refused in one line`() async throws {
            try await blocking {
                let account = try MountedAccount(address: "exec:/no/such/program")
                let error = #expect(throws: CommandFailure.self) { try account.start() }
                #expect("\(String(describing: error))".contains("/no/such/program: it can't be run: No such file"))
            }
        }
    }
}
