import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Something ends the daemon whenever it comes: that costs itself, and not the mount.
    struct PoisonTests {
        /// Variables with which a daemon dies of what has "poison" in its name.
        private static func deadly(in folder: TemporaryDirectory) throws -> [String: String] {
            let source = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("death.c")
            let library = folder.appending("death.so")
            try Command.run("gcc", ["-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-o", library, source.path, "-ldl"])
            return ["LD_PRELOAD": library]
        }

        private static func pid(_ account: MountedAccount) throws -> Int { try account.statistics().daemonPID }

        /// Waits for the daemon that is careful; its process.
        private static func careful(_ account: MountedAccount, after former: Int) throws -> Int {
            try waitUntil("a daemon serves that is careful", deadline: 60) {
                (try? account.shell("$COVE status --state $STATE; cd /"))?.contains("`cove resume` goes on") == true
            }
            let now = try pid(account)
            #expect(now != former)
            return now
        }

        @Test func `a request that ends the daemon fails, and nothing else does`() async throws {
            try await blocking {
                let folder = try TemporaryDirectory("poison")
                let account = try MountedAccount(options: "settle=50ms", variables: Self.deadly(in: folder))
                try account.source.save("fine", Array("hi\n".utf8))
                try account.start()
                try account.shell("ls; cat fine; echo here > local; $COVE sync --wait")
                let first = try Self.pid(account)
                let other = try account.start(
                    """
                    n=0
                    until [ -e $tmp/stop ]; do n=$((n+1)); echo $n > "own$n"; [ "$(cat "own$n")" = $n ]; rm "own$n"; done
                    """
                )
                let reader = try account.start("exec cat poison-request").wait(deadline: 60)
                #expect(reader.status == 1 && reader.error.hasSuffix(": Input/output error\n"), "\(reader.error)")
                let careful = try Self.careful(account, after: first)
                // A second attempt ends no daemon.
                #expect(try account.shell("cat poison-request 2>&1 || true").hasSuffix(": Input/output error\n"))
                #expect(try account.shell("cat fine local; ls").hasPrefix("hi\nhere\nfine\n"))
                let status = try account.shell("$COVE status --json")
                #expect(status.contains("\"paused\"") && status.contains("two daemons died within a minute"))
                let doctor = try account.shell(
                    "$COVE doctor --state $STATE || true; $COVE doctor --json --state $STATE || true"
                )
                #expect(doctor.components(separatedBy: "requests of programs were answered with an error").count == 3)
                #expect(try Self.pid(account) == careful)
                try account.shell("$COVE resume; echo more > more; touch $tmp/stop")
                _ = try other.wait(deadline: 60)
                try account.shell("rm -f own*")
                try account.expectSame()
                #expect(try Self.pid(account) == careful)
                #expect(try account.shell("cat $STATE/log").contains("keeper: two daemons died within a minute"))
                try account.end()
            }
        }

        @Test func `bytes that end the daemon cost their file alone`() async throws {
            try await blocking {
                let folder = try TemporaryDirectory("poison")
                let account = try MountedAccount(options: "settle=50ms", variables: Self.deadly(in: folder))
                try account.start()
                try account.shell("ls")
                let first = try Self.pid(account)
                let writer = try account.start(
                    """
                    exec python3 -c '
                    import os
                    f = os.open("file", os.O_CREAT | os.O_WRONLY)
                    os.write(f, b"poison-request")
                    try: os.fsync(f)
                    except OSError as e: print(e.errno, flush=True)
                    '
                    """
                ).wait(deadline: 60)
                #expect(writer.output == "5\n", "\(writer.error)")
                let careful = try Self.careful(account, after: first)
                try account.shell("rm file; echo fine > file; cat file; $COVE resume")
                try account.expectSame()
                #expect(try Self.pid(account) == careful)
                try account.end()
            }
        }

        @Test func `a transfer that ends the daemon is set aside, and others go on`() async throws {
            try await blocking {
                let folder = try TemporaryDirectory("poison")
                let cloud = try ScriptedCloud()
                for name in ["poison-get", "poison-other", "far"] { cloud.put(name, Array("\(name)\n".utf8)) }
                let account = try MountedAccount(
                    options: "settle=50ms",
                    address: cloud.source,
                    variables: Self.deadly(in: folder)
                )
                try account.start()
                try account.shell("ls")
                let first = try Self.pid(account)
                try account.shell("echo one > poison-put")
                let careful = try Self.careful(account, after: first)
                // What goes at the same time may be what ends the daemon, too.
                try account.shell("echo two > fine")
                #expect(try account.shell("cat poison-put fine") == "one\ntwo\n")
                #expect(try account.shell("$COVE status").contains("poison-put: two daemons died while this"))
                try account.shell("$COVE resume")
                try waitUntil("the others are sent", deadline: 60) { cloud.bytes("fine") == Array("two\n".utf8) }
                #expect(try account.shell("cat far") == "far\n")
                #expect(cloud.bytes("poison-put") == nil)
                #expect(try Self.pid(account) == careful)
                // It stays aside when the account is mounted again.
                try account.end()
                try account.start()
                try account.shell("ls; echo more > more")
                try waitUntil("others are sent", deadline: 60) { cloud.bytes("more") == Array("more\n".utf8) }
                let mounted = try Self.pid(account)
                #expect(try account.shell("$COVE status").contains("poison-put: two daemons died while this"))
                #expect(cloud.bytes("poison-put") == nil && mounted != careful)
                // A person who wants it tried again has it end two more.
                try account.shell("$COVE sync")
                let again = try Self.careful(account, after: mounted)
                try account.shell("rm poison-put; $COVE resume; echo three > fine")
                try waitUntil("what is left is sent", deadline: 60) { cloud.bytes("fine") == Array("three\n".utf8) }
                #expect(try Self.pid(account) == again)
                // Reading bytes.
                let reader = try account.start("exec cat poison-get").wait(deadline: 60)
                #expect(reader.status == 1, "\(reader.output)")
                let last = try Self.careful(account, after: again)
                try account.shell("$COVE resume; cat poison-other; ! cat poison-get")
                #expect(try Self.pid(account) == last)
                try account.end()
            }
        }

        @Test func `a folder that ends the daemon when it is listed costs that folder alone`() async throws {
            try await blocking {
                let folder = try TemporaryDirectory("poison")
                let cloud = try ScriptedCloud()
                cloud.makeFolder("poison-propfind")
                cloud.makeFolder("fine")
                cloud.put("fine/far", Array("far\n".utf8))
                let account = try MountedAccount(
                    options: "settle=50ms",
                    address: cloud.source,
                    variables: Self.deadly(in: folder)
                )
                try account.start()
                let first = try Self.pid(account)
                #expect(try account.start("exec ls poison-propfind").wait(deadline: 60).status != 0)
                let careful = try Self.careful(account, after: first)
                try account.shell("$COVE resume; until cat fine/far; do sleep 0.1; done; ! ls poison-propfind")
                #expect(try Self.pid(account) == careful)
                try account.end()
            }
        }
    }
}
