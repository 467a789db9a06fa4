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

        private func account(_ more: String = "") throws -> MountedAccount {
            let account = try MountedAccount()
            try account.shell(Self.picture + "mkdir -p $src/notes/deep; echo text > $src/notes/deep/note.txt\n" + more)
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

        @Test func `an indexer is known although an upgrade has replaced its program while it runs`() async throws {
            try await blocking {
                let account = try account()
                let script = "import os, sys; os.unlink(sys.executable); open(sys.argv[1], 'rb')"
                try account.shell("cp $(readlink -f /usr/bin/python3) $tmp/tracker-miner-fs-3")
                let result = try account.start("$tmp/tracker-miner-fs-3 -c \"\(script)\" picture.png").wait(
                    deadline: 60
                )
                #expect(result.status != 0 && result.error.contains("Resource deadlock avoided"), "\(result)")
                #expect(try account.statistics().downloadsStarted == 0)
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

        @Test func `Baloo finds all names and fetches nothing`() async throws {
            try await blocking {
                let account = try account()
                try account.shell(
                    """
                    export XDG_CONFIG_HOME=$tmp/config XDG_DATA_HOME=$tmp/data QT_QPA_PLATFORM=offscreen
                    mkdir -p $XDG_CONFIG_HOME $XDG_DATA_HOME
                    printf '[Basic Settings]\\nIndexing-Enabled=true\\n[General]\\nfolders[$e]=%s/\\nfirst run=true\\n' $mnt > $XDG_CONFIG_HOME/baloofilerc
                    cd /
                    dbus-run-session -- bash -c '
                        baloo_file & indexer=$!
                        until baloosearch note 2> /dev/null | grep -q notes/deep/note.txt; do sleep 0.1; done
                        kill $indexer; wait $indexer || true
                    '
                    """,
                    deadline: 100
                )
                #expect(try account.statistics().downloadsStarted == 0)
                try account.end()
            }
        }

        @Test func `Tracker's service finds all names, reads what is here, and fetches nothing`() async throws {
            try await blocking {
                // Of a name that tells no type, whoever wants to know it reads the beginning.
                let account = try account("cp $src/picture.png $src/here.png; echo text > $src/notes/untyped")
                try account.shell("cat here.png > /dev/null")
                // It leaves out what is below the folder of temporary files. The first question has the bus start it, and it starts
                // what reads files; that marks each file it is done with, whether it could read it or not.
                try account.shell(
                    """
                    export HOME=$tmp XDG_CONFIG_HOME=$tmp/config XDG_DATA_HOME=$tmp/data XDG_CACHE_HOME=$tmp/cache
                    export XDG_RUNTIME_DIR=$tmp/runtime TMPDIR=$tmp/temporary GSETTINGS_BACKEND=keyfile
                    mkdir -p $XDG_CONFIG_HOME/glib-2.0/settings $XDG_DATA_HOME $XDG_CACHE_HOME $TMPDIR
                    mkdir -m 700 $XDG_RUNTIME_DIR
                    cat > $XDG_CONFIG_HOME/glib-2.0/settings/keyfile <<END
                    [org/freedesktop/tracker/miner/files]
                    index-recursive-directories=['$mnt']
                    index-single-directories=@as []
                    index-applications=false
                    initial-sleep=0
                    END
                    cd /
                    dbus-run-session -- bash -c '
                        ask() { tracker3 sparql --dbus-service org.freedesktop.Tracker3.Miner.Files -q "SELECT $1"; }
                        done="?file { GRAPH tracker:FileSystem { ?file tracker:extractorHash ?hash } }"
                        width="?file ?width { ?picture nfo:width ?width ; nie:isStoredAs ?file }"
                        names="?file { GRAPH tracker:FileSystem { ?file a nfo:FileDataObject } }"
                        until [ $(ask "$done" | grep -cE "/(here.png|picture.png|note.txt)") = 3 ]; do sleep 0.1; done
                        until [ $(ask "$names" | grep -c untyped) = 1 ]; do sleep 0.1; done
                        ask "$width" > $tmp/pictures
                    ' 2> $tmp/said
                    """,
                    deadline: 200
                )
                #expect(try account.statistics().downloadsStarted == 1)
                let pictures = try account.shell("cat $tmp/pictures")
                #expect(pictures.contains("/here.png, 40") && !pictures.contains("/picture.png"), "\(pictures)")
                for name in ["picture.png", "notes/deep/note.txt", "notes/untyped"] {
                    #expect(try account.info(name).state == "dataless", "\(name)")
                }
                try account.end()
            }
        }

        @Test func `what Tracker reads of files that are not here is refused, and of others is told`() async throws {
            try await blocking {
                let account = try account()
                let extract = "HOME=$tmp dbus-run-session -- /usr/libexec/tracker-extract-3 --file $mnt/picture.png"
                let none = try account.start(extract).wait(deadline: 60)
                #expect(!none.output.contains("width"), "\(none)")
                #expect(try account.statistics().downloadsStarted == 0)
                let told = try account.shell("cat picture.png > /dev/null; \(extract)")
                #expect(told.contains("nfo:width 40"), "\(told)")
                #expect(try account.statistics().downloadsStarted == 1)
                try account.end()
            }
        }
    }
}
