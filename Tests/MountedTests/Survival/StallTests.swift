import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// One file's fetch makes no progress, ever: who does not read it notices nothing.
    struct StallTests {
        /// What must work beside a program that waits.
        struct Rule: CustomTestStringConvertible, Sendable {
            let testDescription: String
            let script: String

            init(_ description: String, _ script: String) {
                testDescription = description
                self.script = script
            }
        }

        static let rules = [
            Rule("lookup and getattr", "stat d/stuck d/free; ! stat d/none; stat -f d/stuck"),
            Rule("readdir", "[ $(ls d | wc -l) = 52 ]; ls -l d; ls -la .; find . -size +0"),
            Rule(
                "extended attributes",
                "getfattr -n user.cove.downloading-status d/stuck; setfattr -n user.a -v b d/free"
            ),
            Rule(
                "create, link and unlink",
                "echo a > d/new; ln d/free d/hard; ln -s x d/soft; rm d/new d/hard d/soft d/other1"
            ),
            Rule(
                "rename",
                "mv d/free d/moved; mv d/moved .; mkdir d/sub; mv d/sub d/sub2; rmdir d/sub2; mv d e; mv e d"
            ),
            Rule(
                "rename and removal of the waiting file",
                "mv d/stuck d/stuck2; chmod 600 d/stuck2; touch d/stuck2; rm d/stuck2"
            ),
            Rule("reads", "cat d/free d/other*; cmp d/free $src/d/free"),
            Rule(
                "writes",
                "echo b >> d/free; sync d/free; truncate -s 5 d/other2; dd if=/dev/zero of=z bs=1M count=20 conv=fsync"
            ),
            Rule("df", "df .; df d/stuck; stat -f ."),
            Rule("a new folder's first listing", "ls -lR far; cat far/away/file"),
            Rule(
                "mmap",
                """
                python3 -c 'import mmap, os; m = mmap.mmap(os.open("d/free", os.O_RDWR), 4); m[0:2] = b"MM"; m.flush()'
                [ "$(head -c 2 d/free)" = MM ]
                """
            ),
            Rule("sync", "sync -f ."),
        ]

        private static func fill(_ source: SourceFolder) throws {
            try source.makeDirectory("d")
            try source.makeDirectory("far/away")
            try source.save("far/away/file", Array("far".utf8))
            try source.save("d/stuck", [UInt8](repeating: 65, count: 5_000_000))
            try source.save("d/free", Array("free".utf8))
            for number in 0..<50 { try source.save("d/other\(number)", Array("other".utf8)) }
        }

        @Test(arguments: rules) func `a stalled fetch holds up nothing else`(rule: Rule) async throws {
            try await mounted(options: "simulate-stall=stuck*,stall-limit=10m", prepare: Self.fill) { account in
                let readers = try ["cat", "head -c 1", "md5sum"].map { try account.start("exec \($0) d/stuck") }
                try waitUntil("the readers wait") {
                    let statistics = try account.statistics()
                    return statistics.parkedRequests >= 1 && statistics.openHandles >= readers.count
                }
                try account.shell(rule.script, deadline: 10)
                for reader in readers {
                    #expect(!reader.hasEnded(within: 0))
                    reader.signal(SIGTERM)
                    #expect(try reader.wait(deadline: 5).status == 128 + SIGTERM)
                }
            }
        }

        @Test func `more programs wait than there are threads, and all can be killed`() async throws {
            try await mounted(options: "simulate-stall=stuck*,stall-limit=10m") { source in
                for number in 0..<100 { try source.save("stuck\(number)", Array("x".utf8)) }
                try source.save("free", Array("free".utf8))
            } _: { account in
                let readers = try account.start("for n in $(seq 0 99); do cat stuck$n & done; wait")
                try waitUntil("100 readers wait") { try account.statistics().parkedRequests >= 100 }
                #expect(
                    try account.shell("cat free; echo y > new; cat new; df . >/dev/null; ls | wc -l", deadline: 10)
                        == "freey\n102\n"
                )
                readers.signal(SIGKILL)
                #expect(readers.hasEnded(within: 10))
            }
        }

        @Test func `who reads past the page cache can be killed`() async throws {
            try await mounted(options: "simulate-stall=stuck*,stall-limit=10m") { source in
                try source.save("stuck", [UInt8](repeating: 65, count: 3_000_000))
            } _: { account in
                let reader = try account.start("echo $$ > $tmp/pid; exec dd if=stuck of=/dev/null bs=1M iflag=direct")
                // Not in the open, nor while the program is loaded.
                try waitUntil("it reads") {
                    try account.shell("cat /proc/$(cat $tmp/pid)/syscall || :").hasPrefix("0 0x0 ")
                        && account.statistics().parkedRequests >= 1
                }
                reader.signal(SIGKILL)
                #expect(try reader.wait(deadline: 10).status == 128 + SIGKILL)
                try waitUntil("nothing waits for it") { try account.statistics().openHandles == 0 }
            }
        }

        @Test func `what a killed reader waited for is given up, and what others wait for is not`() async throws {
            try await mounted(options: "simulate-stall=stuck*,stall-limit=10m") { source in
                for name in ["stuck1", "stuck2"] { try source.save(name, [UInt8](repeating: 65, count: 3_000_000)) }
            } _: { account in
                let mapped = """
                    exec python3 -c '
                    import mmap, os
                    f = os.open("stuck2", os.O_RDONLY); m = mmap.mmap(f, 0, prot=mmap.PROT_READ); os.close(f); m[9]'
                    """
                let readers = try ["exec cat stuck1", "exec tail -c 9 stuck1", mapped].map { try account.start($0) }
                // The two share one open file.
                let sharing = try account.start("exec 3<stuck1; (exec cat <&3) & echo $! > $tmp/child; exec cat <&3")
                try waitUntil("all of them wait") {
                    try account.statistics().openHandles == 4 && account.statistics().parkedRequests >= 3
                }
                try waitUntil("a child") { try account.shell("[ -s $tmp/child ] && echo yes || :") == "yes\n" }
                try account.shell("kill -9 $(cat $tmp/child)")
                for reader in readers {
                    reader.signal(SIGKILL)
                    #expect(try reader.wait(deadline: 5).status == 128 + SIGKILL)
                }
                try waitUntil("only one is left") { try account.statistics().openHandles == 1 }
                #expect(!sharing.hasEnded(within: 2.5))
                #expect(try account.statistics().parkedRequests >= 1)
                sharing.signal(SIGKILL)
                #expect(sharing.hasEnded(within: 5))
                try waitUntil("nothing waits") {
                    let statistics = try account.statistics()
                    return statistics.openHandles == 0 && statistics.parkedRequests == 0
                }
            }
        }

        @Test(arguments: ["200ms", "3s"])
        func `a directory that nobody has opened goes once it is known to be empty, and holds nothing up for long`(
            latency: String
        ) async throws {
            try await mounted(options: "simulate-latency=\(latency),stall-limit=1m") { source in
                for directory in ["d", "e", "f/full"] { try source.makeDirectory(directory) }
            } _: { account in
                let program = """
                    python3 - <<'END'
                    import errno, os, time
                    os.listdir(".")
                    os.mkdir("n")
                    def attempt(call):
                        busy = 0
                        while True:
                            start = time.monotonic()
                            try: call()
                            except OSError as error:
                                assert time.monotonic() - start < 2.5, "it waited for too long"
                                if error.errno != errno.EBUSY: return errno.errorcode[error.errno], busy > 0
                                busy += 1
                            else: return "done", busy > 0
                    print(attempt(lambda: os.rmdir("d")), attempt(lambda: os.rename("n", "e")))
                    print(attempt(lambda: os.rmdir("f")), sorted(os.listdir(".")))
                    END
                    """
                let isSlow = latency == "3s" ? "True" : "False"
                let expected = """
                    ('done', \(isSlow)) ('done', \(isSlow))
                    ('ENOTEMPTY', \(isSlow)) ['e', 'f']

                    """
                let output = try account.shell(program, deadline: 60)
                #expect(output == expected)
            }
        }

        @Test func `a name the source does not tell in time ends with an error`() async throws {
            try await mounted(options: "offline,simulate-latency=1h,stall-limit=1s") { account in
                let result = try account.start("exec stat name").wait(deadline: 20)
                #expect(result.status == 1 && result.error.contains("timed out"), "\(result.error)")
                #expect(try account.statistics().parkedRequests == 0)
            }
        }

        @Test func `names asked for one by one leave nothing behind`() async throws {
            try await mounted { account in
                func ask(_ prefix: String) throws -> Int64 {
                    let names = "(\"\(prefix)%d\" % n for n in range(4000))"
                    try account.shell("python3 -c 'import os; [os.path.exists(name) for name in \(names)]'")
                    return try account.statistics().memoryBytes
                }
                let before = try ask("a")
                #expect(try ask("b") - before < 8 << 20)
            }
        }

        @Test func `a fetch without progress ends with an error, never with other bytes`() async throws {
            try await mounted(options: "simulate-stall=stuck*,stall-limit=1s") { source in
                try source.save("stuck", [UInt8](repeating: 65, count: 100_000))
            } _: { account in
                let result = try account.start("exec cat stuck").wait(deadline: 20)
                #expect(result.status == 1 && result.output.isEmpty)
                #expect(result.error.contains("timed out") || result.error.contains("No route to host"))
            }
        }
    }
}
