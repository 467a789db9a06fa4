import CoveCore
import CoveTestSupport
import Testing

extension Mounted {
    /// Programs that look at every file without anyone having asked.
    struct IndexerTests {
        /// A picture that decoders take, of 40 by 30 points.
        private static let picture = """
            python3 - $src/picture.png <<'END'
            import struct, sys, zlib
            def chunk(kind, data):
                return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
            rows = b"".join(b"\\0" + bytes([200, 30, y]) * 40 for y in range(30))
            with open(sys.argv[1], "wb") as file:
                file.write(b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 40, 30, 8, 2, 0, 0, 0))
                           + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
            END

            """

        private func account() throws -> MountedAccount {
            let account = try MountedAccount()
            try account.shell(Self.picture + "mkdir -p $src/notes/deep; echo text > $src/notes/deep/note.txt")
            try account.start()
            return account
        }

        @Test func `59. indexers and thumbnailers see placeholders, and what is here`() async throws {
            try await blocking {
                let account = try account()
                try account.shell("ls -R")
                // KDE's worker is one program for many tasks.
                try account.shell("cp $(readlink -f $(command -v cat)) $tmp/kioworker; cp $tmp/kioworker $tmp/tumblerd")
                for program in ["kioworker picture.png /usr/lib/kio/thumbnail.so", "tumblerd picture.png"] {
                    let result = try account.start("$tmp/\(program) | wc -c").wait(deadline: 60)
                    #expect(result.status != 0 && result.output == "0\n", "\(result)")
                    #expect(result.error.contains("Resource deadlock avoided"), "\(result)")
                }
                let refused = try account.start("gdk-pixbuf-thumbnailer -s 128 picture.png $tmp/out.png").wait(
                    deadline: 60
                )
                #expect(refused.status != 0, "\(refused)")
                #expect(try account.info("picture.png").state == "dataless")
                #expect(try account.statistics().downloadsStarted == 0)
                // Another task of the same worker may read, and what is here everybody may.
                try account.shell("$tmp/kioworker picture.png > $tmp/copy; cmp $tmp/copy $src/picture.png")
                try account.shell("$tmp/tumblerd picture.png | cmp - $src/picture.png")
                try account.shell("gdk-pixbuf-thumbnailer -s 128 picture.png $tmp/out.png; [ -s $tmp/out.png ]")
                #expect(try account.statistics().downloadsStarted == 1)
                try account.end()
            }
        }

        @Test func `updatedb finds all names and fetches nothing`() async throws {
            try await blocking {
                let account = try account()
                try account.shell(
                    "updatedb -l 0 -U $mnt -o $tmp/names --prunepaths '' --prunefs '' --prune-bind-mounts no"
                )
                #expect(try account.shell("plocate -d $tmp/names note.txt") == "\(account.mount)/notes/deep/note.txt\n")
                #expect(try account.statistics().downloadsStarted == 0)
                try account.end()
            }
        }
    }
}
