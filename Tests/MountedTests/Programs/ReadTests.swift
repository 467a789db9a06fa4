import CoveCore
import CoveTestSupport
import Testing

extension Mounted {
    /// Bytes come when they are read, and only those.
    struct ReadTests {
        @Test func `what was read to its end is closed without an error, whatever replaced it`() async throws {
            try await mounted { source in
                try source.save("file", Array("text 0\n".utf8))
            } _: { account in
                let source = account.source
                try account.shell("ls; cat file")
                let reader = try account.start(
                    """
                    while [ ! -e $tmp/end ]; do
                        { exec 3<file; } 2>/dev/null || continue
                        cat <&3 >$tmp/read || echo closing
                        exec 3<&-
                    done
                    """
                )
                for number in 1...60 {
                    try source.save("file", Array("text \(number)\n".utf8))
                    try waitUntil("it is shown") { try account.shell("cat file") == "text \(number)\n" }
                    // The kernel writes dates back when it is told to.
                    try account.shell("sync -f $mnt")
                }
                try account.shell("touch $tmp/end")
                let result = try reader.wait(deadline: 20)
                #expect(result.status == 0 && result.output.isEmpty && result.error.isEmpty, "\(result)")
            }
        }

        @Test func `reading one file fetches that file only`() async throws {
            try await mounted { source in
                var random = SeededGenerator(seed: 1)
                for name in ["a", "b", "c"] { try source.save(name, random.bytes(3_000_000)) }
            } _: { account in
                #expect(try account.shell("ls") == "a\nb\nc\n")
                try account.shell("cmp a $src/a")
                #expect(try account.statistics().bytesDownloaded == 3_000_000)
                #expect(try account.shell("stat -c %b b c") == "1\n1\n")
            }
        }

        @Test(arguments: [
            "tar -S -cf - . | tar -xf - -C $tmp/copy", "cp -a --sparse=auto . $tmp/copy", "rsync -aS ./ $tmp/copy",
        ])
        func `a program that looks for holes copies what is not here byte for byte`(script: String) async throws {
            try await mounted { source in
                var random = SeededGenerator(seed: 2)
                try source.save("a", random.bytes(1_500_000))
                try source.makeDirectory("d")
                try source.save("d/b", [UInt8](repeating: 0, count: 700_000) + random.bytes(1))
                try source.save("d/empty", [])
            } _: { account in
                try account.shell("mkdir $tmp/copy; \(script); diff -r $src $tmp/copy")
            }
        }

        @Test func `two first reads at once are one download`() async throws {
            try await mounted(options: "simulate-latency=200ms") { source in
                var random = SeededGenerator(seed: 3)
                try source.save("doc", random.bytes(4_000_000))
            } _: { account in
                try account.shell("ls; cmp doc $src/doc & cmp doc $src/doc; wait $!")
                #expect(try account.statistics().bytesDownloaded == 4_000_000)
                #expect(try account.statistics().downloadsStarted == 1)
            }
        }

        @Test func `four KiB in the middle of a GiB fetch at most eight MiB`() async throws {
            try await mounted { source in
                try Command.run("truncate", ["-s", "1G", "\(source.path)/big"])
                try Command.run(
                    "sh",
                    ["-c", "printf %4096d 7 | dd of=\(source.path)/big bs=4k seek=100000 conv=notrunc"]
                )
            } _: { account in
                let text = try account.shell("dd if=big bs=4k skip=100000 count=1 status=none")
                #expect(text == String(repeating: " ", count: 4095) + "7")
                let fetched = try account.statistics().bytesDownloaded
                #expect(fetched >= 4096 && fetched <= 8 << 20)
                #expect(try account.info("big").state == "partial")
            }
        }

        @Test func `a file that is emptied is not fetched before`() async throws {
            try await mounted { source in
                for name in ["a", "b"] { try source.save(name, [UInt8](repeating: 65, count: 500_000)) }
            } _: { account in
                try account.shell("> a; echo new > b")
                try account.expectSame()
                #expect(try account.statistics().bytesDownloaded == 0)
                #expect(try account.shell("cat $src/a $src/b") == "new\n")
            }
        }
    }
}
