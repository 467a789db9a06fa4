import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// Claims of a file that a program has open for writing, or wants to open; also where its bytes pass the daemon by.
    struct CoordinationOpenFileTests {
        /// Options of mounts.
        private static let modes = ["settle=100ms", "settle=100ms,passthrough"]

        private static func coordinated(
            _ mode: String,
            _ body: @escaping @Sendable (MountedAccount) throws -> Void
        ) async throws {
            try await mounted(options: mode) { account in
                try account.shell("echo old > F")
                try body(account)
                try account.expectSame()
                guard mode.contains("passthrough") else { return }
                #expect(try account.cove("doctor --state $STATE || true").contains("the kernel reads and writes"))
                #expect(try !account.shell("cat $STATE/log").contains("passthrough is off"))
            }
        }

        @Test(arguments: modes)
        func `a claim waits for a program that writes for longer than others rest`(mode: String) async throws {
            try await Self.coordinated(mode) { account in
                // A rest lasts 5 seconds.
                let writer = try account.start(
                    """
                    exec 3>> F; : > $tmp/opened
                    until [ -e $tmp/end -a $SECONDS -ge 8 ]; do echo part >&3; sleep 0.1; done; echo whole >&3
                    """
                )
                try account.waitForMark("opened")
                let holder = try account.start("$COVE coordinate --writing F -- tail -n 1 F")
                try account.waitForClaim("contents", of: "F")
                let line = try account.cove("claims --state $STATE")
                #expect(line.contains("while bash (\(writer.process)) writes F"), "\(line)")
                try account.shell("touch $tmp/end")
                let result = try holder.wait(deadline: 60)
                #expect(result.output == "whole\n" && result.error == "", "\(result)")
                #expect(try writer.wait(deadline: 60).status == 0)
            }
        }

        @Test func `a claim waits for one that writes again while it waited for another one`() async throws {
            try await Self.coordinated("settle=100ms") { account in
                let rested = try account.start(
                    """
                    exec 3>> F; until [ $SECONDS -ge 6 ]; do sleep 0.1; done; : > $tmp/rested
                    until [ -e $tmp/go ]; do sleep 0.01; done
                    until [ -e $tmp/end ]; do echo part >&3; echo >> $tmp/parts; sleep 0.1; done; echo whole >&3
                    """
                )
                let other = try account.start("exec 4>> G; until [ -e $tmp/close ]; do echo part >&4; sleep 0.1; done")
                try account.waitForMark("rested")
                let holder = try account.start("$COVE coordinate --writing F --writing G -- tail -n 1 F")
                try account.waitForClaim("contents", of: "F")
                try account.shell("touch $tmp/go")
                try account.waitForMark("parts")
                try account.shell("touch $tmp/close")
                #expect(try other.wait(deadline: 60).status == 0)
                try waitUntil("it goes on") { try account.shell("cat $tmp/parts").count > 20 }
                try account.shell("touch $tmp/end")
                #expect(try holder.wait(deadline: 60).output == "whole\n")
                #expect(try rested.wait(deadline: 60).status == 0)
            }
        }

        @Test(arguments: modes)
        func `who opens a file waits for a claim to write to it, and reads what that leaves`(mode: String) async throws
        {
            try await Self.coordinated(mode) { account in
                let holder = try account.start(
                    """
                    $COVE coordinate --writing F -- sh -c \
                        'touch $tmp/held; until [ -e $tmp/go ]; do sleep 0.01; done; echo new > F; echo more >> F'
                    """
                )
                try account.waitForMark("held")
                let reader = try account.start("cat F")
                try account.waitForWaiting(1)
                let writer = try account.start("echo last >> F")
                try account.waitForWaiting(2)
                #expect(try account.shell("stat -c %s F") == "4\n" && reader.output.isEmpty)
                try account.shell("touch $tmp/go")
                #expect(try holder.wait(deadline: 60).status == 0)
                let read = try reader.wait(deadline: 60).output
                #expect(read.hasPrefix("new\nmore\n"), "\(read)")
                #expect(try writer.wait(deadline: 60).status == 0)
                #expect(try account.shell("cat F") == "new\nmore\nlast\n")
            }
        }

        @Test(arguments: modes)
        func `who rests with a file open is told of and writes on, and a claim that is to fail for that does`(
            mode: String
        ) async throws {
            try await Self.coordinated(mode) { account in
                let rester = try account.start(
                    """
                    mkfifo $tmp/say; exec 3>> F 4<> $tmp/say; echo early >&3; : > $tmp/opened
                    until [ -e $tmp/said-last ]; do read -r line <&4; echo $line >&3; : > $tmp/said-$line; done
                    """
                )
                try account.waitForMark("opened")
                let name = "bash (\(rester.process))"
                let words = "has it open, and what it writes is not held back; end it, or use `--open-files fail`"
                let told = "cove: F: \(name) \(words)\n"
                // Granted as soon as it has rested.
                let first = try account.start("$COVE coordinate --writing F -- cat F").wait(deadline: 60)
                #expect(first.status == 0 && first.output == "old\nearly\n" && first.error == told, "\(first)")
                for claim in ["--writing F", "--reading F", "--reading F --writing G"] {
                    let command = "$COVE coordinate --open-files fail -E 9 \(claim) -- touch $tmp/run"
                    let refused = try account.start(command).wait(deadline: 60)
                    let why = "\(name) has F open for writing"
                    #expect(refused.status == 9 && refused.error.contains(why), "\(refused)")
                }
                #expect(try account.shell("$COVE claims --state $STATE; [ ! -e $tmp/run ]") == "")
                let holding = "touch $tmp/held; until [ -e $tmp/go ]; do sleep 0.01; done"
                let holder = try account.start("$COVE coordinate --writing F -- sh -c '\(holding)'")
                try account.waitForMark("held")
                #expect(holder.error == told)
                try account.shell("echo late > $tmp/say")
                try account.waitForMark("said-late")
                #expect(!holder.hasEnded(within: 0))
                let claims = try account.cove("claims --state $STATE")
                #expect(claims.contains("granted") && claims.contains("\(name) has F open"), "\(claims)")
                try account.shell("touch $tmp/go")
                #expect(try holder.wait(deadline: 60).status == 0)
                #expect(try account.shell("cat F") == "old\nearly\nlate\n")
                try account.shell("echo last > $tmp/say")
                #expect(try rester.wait(deadline: 60).status == 0)
                #expect(try account.shell("cat F") == "old\nearly\nlate\nlast\n")
            }
        }

        @Test(arguments: modes) func `who maps a file and has closed it is told of too`(mode: String) async throws {
            try await Self.coordinated(mode) { account in
                let script = """
                    import ctypes, os
                    libc = ctypes.CDLL(None)
                    libc.mmap.restype = ctypes.c_void_p
                    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
                    file = os.open("F", os.O_RDWR)
                    place = libc.mmap(None, 4096, 3, 1, file, 0)
                    os.close(file)
                    libc.mmap(None, 4096, 1, 1, os.open("G", os.O_RDONLY), 0)
                    open(os.environ["tmp"] + "/mapped", "w").close()
                    open(os.environ["tmp"] + "/stop").read()
                    ctypes.memmove(place, b"new", 3)
                    """
                try script.write(toFile: account.scratch.appending("map.py"), atomically: false, encoding: .utf8)
                let mapper = try account.start("echo > G; mkfifo $tmp/stop; exec python3 $tmp/map.py")
                try account.waitForMark("mapped")
                let name = "python3 (\(mapper.process))"
                let refused = try account.start("$COVE coordinate --open-files fail -E 9 --writing F -- true")
                let refusal = try refused.wait(deadline: 60)
                #expect(refusal.status == 9 && refusal.error.contains("\(name) has F open for writing"), "\(refusal)")
                let holder = try account.start("$COVE coordinate --writing F --writing G -- $COVE claims")
                let result = try holder.wait(deadline: 60)
                #expect(result.output.contains("\(name) has F open"), "\(result)")
                let told = "cove: F: \(name) has it open"
                #expect(result.error.hasPrefix(told) && !result.error.contains("G:"), "\(result)")
                try account.shell("echo > $tmp/stop")
                #expect(try mapper.wait(deadline: 60).status == 0)
                #expect(try account.shell("cat F") == "new\n")
            }
        }
    }
}
