import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Earlier contents of documents, as programs make them and people get them back.
    struct VersionTests {
        private struct Count: Decodable { var count: Int }

        @Test(arguments: ["", "passthrough"])
        func `what vim, cp and a shell replace can be listed, shown and restored`(options: String) async throws {
            try await mounted(options: options) { source in
                try source.save("doc", Array("one\n".utf8))
            } _: { account in
                try account.shell("cat doc; vim -N -u NONE -i NONE -es -c 'normal Gotwo' -c wq doc")
                try account.settle()
                try account.shell("echo three > doc")
                try account.settle()
                try account.shell("echo four > $tmp/four; cp $tmp/four doc")
                try account.settle()
                let versions = try account.cove("versions ls doc", as: [VersionStatus].self)
                #expect(versions.map(\.size) == [6, 8, 4] && versions.allSatisfy { $0.isLocal && !$0.isConflict })
                #expect(versions.map { $0.host == nil } == [false, false, true])
                let shown = try versions.map { try account.cove("versions show doc \($0.id)") }
                #expect(shown == ["three\n", "one\ntwo\n", "one\n"])
                let lines = try account.cove("versions ls doc").split(separator: "\n")
                #expect(lines.count == 3 && lines[2].contains(/^ *\d+  \d{4}-\d\d-\d\d \d\d:\d\d +4B  -$/))
                let document = try account.info("doc").documentID
                let restored = try account.cove("versions restore doc \(versions[1].id)", as: ItemStatus.self)
                #expect(restored.size == 8 && restored.documentID == document && restored.path == "doc")
                #expect(try account.shell("cat doc") == "one\ntwo\n")
                #expect(try account.cove("versions ls doc", as: [VersionStatus].self).map(\.size) == [5, 6, 8, 4])
                // To be open for writing changes nothing.
                try account.settle()
                try account.shell(": >> doc")
                #expect(try account.cove("versions ls doc", as: [VersionStatus].self).map(\.size) == [5, 6, 8, 4])
                try account.shell("echo end >> doc; cat doc")
                #expect(try account.cove("versions ls doc", as: [VersionStatus].self).map(\.size) == [8, 5, 6, 8, 4])
                try account.expectSame()
                #expect(try account.statistics().conflicts == 0)
            }
        }

        @Test func `a restore is seen by those who watch, and not by those who read`() async throws {
            try await mounted { source in
                try source.save("doc", Array("one\n".utf8))
            } _: { account in
                try account.shell("cat doc; ls; echo two > $tmp/two; mv $tmp/two new; mv new doc; mkfifo $tmp/go")
                let reader = try account.start("exec 3<doc; echo open; read -r < $tmp/go; cat <&3")
                try waitUntil("it is open") { reader.output == "open\n" }
                let watcher = try account.start("exec inotifywait -e moved_to --format '%e %f' .")
                try waitUntil("it watches") { watcher.error.contains("Watches established") }
                let id = try account.cove("versions ls doc", as: [VersionStatus].self)[0].id
                try account.shell("$COVE versions restore doc \(id)")
                #expect(try watcher.wait(deadline: 20).output == "MOVED_TO doc\n")
                try account.shell("echo > $tmp/go")
                #expect(try reader.wait(deadline: 20).output == "open\ntwo\n")
                #expect(try account.shell("cat doc") == "one\n")
                try account.expectSame()
            }
        }

        @Test func `versions outlive the daemon and a mount`() async throws {
            try await mounted { source in
                try source.save("doc", [UInt8](repeating: 65, count: 700_000))
            } _: { account in
                try account.shell("cat doc > $tmp/old; echo two > new; mv new doc")
                let id = try account.cove("versions ls doc", as: [VersionStatus].self)[0].id
                try account.killDaemon()
                #expect(try account.shell("$COVE versions show doc \(id) | cmp - $tmp/old; cat doc") == "two\n")
                try account.crash()
                try account.start()
                try account.shell("$COVE versions show doc \(id) -o $tmp/shown; cmp $tmp/shown $tmp/old")
                // What has that name already is nobody's to replace, nor to take away.
                try account.shell("! $COVE versions show doc \(id) -o $tmp/shown; cmp $tmp/shown $tmp/old")
                try account.end()
                try account.start()
                try account.shell("$COVE versions restore doc \(id); cmp doc $tmp/old")
                try account.expectSame()
                #expect(try account.shell("cmp $src/doc $tmp/old; ls $src") == "doc\n")
                #expect(try account.cove("versions rm doc --all", as: Count.self).count == 2)
                #expect(try account.cove("versions ls doc") == "")
            }
        }

        @Test func `what another device replaces is kept, and a conflict ends when a person says so`() async throws {
            try await mounted { source in
                for name in ["doc", "other"] { try source.save(name, Array("base\n".utf8)) }
            } _: { account in
                try account.shell("cat doc other; $COVE pause --state $STATE; echo here > doc")
                for name in ["doc", "other"] { try account.source.save(name, Array("elsewhere\n".utf8)) }
                try account.shell("$COVE resume --state $STATE")
                try account.expectSame()
                let other = try account.cove("versions ls other", as: [VersionStatus].self)
                #expect(other.map(\.host) == [nil] && other.map(\.size) == [5])
                let copy = try #require(
                    try account.cove("versions ls doc", as: [VersionStatus].self).first { $0.isConflict }
                )
                #expect(try account.cove("versions show doc \(copy.id)") == "here\n")
                #expect(try account.shell("getfattr --only-values -n user.cove.conflicts doc") == "1")
                try account.shell("$COVE versions restore doc \(copy.id)")
                #expect(try account.cove("versions resolve doc", as: Count.self).count == 1)
                #expect(try account.cove("conflicts") == "")
                #expect(try account.shell("cat doc; ls | wc -l") == "here\n3\n")
                try account.expectSame()
            }
        }

        @Test func `what can't be done is said in one line`() async throws {
            try await mounted { source in
                try source.makeDirectory("d")
                try source.save("doc", Array("one\n".utf8))
            } _: { account in
                try account.expectRefusal("$COVE versions ls d", "d: only files have versions; name a file")
                let missing = "doc: it has no such version; see `cove versions ls`"
                for command in ["show", "restore", "rm", "resolve"] {
                    try account.expectRefusal("$COVE versions \(command) doc 7", missing)
                }
                try account.expectRefusal(
                    "$COVE versions rm doc",
                    "VERSION: name one, or all with --all; see `cove versions ls`",
                    status: 2
                )
                try account.shell("cat doc; echo two > new; mv new doc")
                let id = try account.cove("versions ls doc", as: [VersionStatus].self)[0].id
                try account.expectRefusal(
                    "exec 3>>doc; echo more >&3; $COVE versions restore doc \(id)",
                    "doc: something uses the item; try again when it is closed"
                )
                #expect(try account.shell("cat doc") == "two\nmore\n")
            }
        }
    }
}
