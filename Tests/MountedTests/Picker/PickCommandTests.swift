import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// `cove pick --choose`, which shows nothing.
    struct PickCommandTests {
        private static func fill(_ source: SourceFolder) throws {
            for name in ["a.txt", "b.rtf", "c.png", "d.pdf", "e.jpg", "f.zip", "g.mp3"] {
                try source.save(name, Array("bytes of \(name)".utf8))
            }
            try source.makeDirectory("docs")
            try source.makeDirectory("book.pages")
            try source.save("book.pages/index", Array("index".utf8))
            try source.makeDirectory("book.pages/inner")
            try source.save("book.pages/inner/x", Array("x".utf8))
        }

        private static let seed = [
            "public.utf8-plain-text", "public.plain-text", "public.rtf", "public.png", "public.text", "com.adobe.pdf",
            "public.image",
        ].map { "--type \($0)" }.joined(separator: " ")

        private struct Picked: Decodable, Equatable {
            var app: String
            var mode: String
            var path: String
            var source: String
        }

        @Test func `71. what is of the seven types is copied, and nothing else`() async throws {
            try await mounted(prepare: Self.fill) { account in
                for name in ["a.txt", "b.rtf", "c.png", "d.pdf", "e.jpg"] {
                    let words = "pick --app org.example.App --mode import \(Self.seed) --choose \(name)"
                    let picked = try account.cove(words, as: Picked.self)
                    #expect(
                        picked.app == "org.example.App" && picked.mode == "import"
                            && picked.source == "\(account.mount)/\(name)"
                    )
                    #expect(try account.shell("cat \(picked.path)") == "bytes of \(name)")
                    #expect(picked.path.hasSuffix("/\(name)") && !picked.path.hasPrefix(account.mount))
                }
                for name in ["f.zip", "g.mp3", "docs", "book.pages"] {
                    try account.expectRefusal(
                        "$COVE pick --app org.example.App --mode import --type public.png --type text/* --choose \(name)",
                        "$mnt/\(name): is not of a type that org.example.App takes (public.png, text/*); choose another one"
                    )
                }
                #expect(try account.info("f.zip").state == "dataless")
                let other = try account.shell("$COVE pick --app a --mode import --choose f.zip --json")
                #expect(other.contains("/picked/a/"))
            }
        }

        @Test func `what an app shows nobody is chosen by no path`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.addApp("a", document: "shown.txt", "shown\n")
                try account.addApp("b", document: "own.txt", "own\n")
                try account.cove("container create com.c.box --app com.c.app --name Private")
                try account.shell(
                    "echo data > a/data.txt; mkdir Private/Documents/in; echo x > Private/Documents/in/x.txt"
                )
                try account.shell("echo data > Private/data.txt; echo mine > $tmp/mine.txt; $COVE sync --wait")
                for place in [
                    "a/data.txt", "Private/data.txt", "Private/Documents/in/x.txt", "_cove-drive/account.json",
                ] {
                    for mode in ["import", "open"] {
                        try account.expectRefusal(
                            "$COVE pick --app com.b.app --mode \(mode) --choose \(place)",
                            "$mnt/\(place): is in a folder that its app shows nobody; choose another one"
                        )
                    }
                }
                for (mode, place) in [
                    ("export", "a"), ("export", "Private/Documents"), ("move", "Private/Documents/in"),
                ] {
                    try account.expectRefusal(
                        "$COVE pick --app com.b.app --mode \(mode) --file $tmp/mine.txt --choose \(place)",
                        "$mnt/\(place): is in a folder that its app shows nobody; choose another one"
                    )
                }
                try account.cove("pick --app com.b.app --mode import --choose a/Documents/shown.txt")
                try account.cove("pick --app com.b.app --mode export --file $tmp/mine.txt --choose a/Documents")
                try account.cove("pick --app com.c.app --mode import --choose Private/data.txt")
                // What is moved keeps what is known of it.
                try account.shell("echo moved > $tmp/moved.txt; setfattr -n user.note -v hi $tmp/moved.txt")
                try account.shell("touch -d @1000000000.5 $tmp/moved.txt")
                try account.cove("pick --app com.b.app --mode move --file $tmp/moved.txt --choose a/Documents")
                #expect(
                    try account.shell(
                        "cd a/Documents; stat -c %.9Y moved.txt; getfattr --only-values -n user.note moved.txt; rm moved.txt; ls $tmp"
                    ).hasPrefix("1000000000.500000000\nhi")
                )
                #expect(
                    try account.shell("ls a a/Documents Private/Documents; cat a/Documents/mine.txt") == """
                        Private/Documents:
                        in

                        a:
                        Documents
                        data.txt

                        a/Documents:
                        mine.txt
                        shown.txt
                        mine

                        """
                )
            }
        }

        @Test func `a package is copied as one, and a copy changes nothing`() async throws {
            try await mounted(prepare: Self.fill) { account in
                try account.shell("ls -R > $tmp/names")
                let copy = try account.shell(
                    "$COVE pick --app a --mode import --type com.apple.package --choose book.pages"
                ).dropLast()
                #expect(
                    try account.shell("diff -r \(copy) $src/book.pages; rm -r \(copy); ls -R | diff - $tmp/names") == ""
                )
                #expect(try account.cove("claims") == "")
                // Any directory can say that it is one.
                try account.shell("mkdir plain; echo in > plain/in")
                try account.expectRefusal(
                    "$COVE pick --app c --mode import --choose plain",
                    "$mnt/plain: is no document; choose another one"
                )
                try account.shell("setfattr -n user.cove.package -v 1 plain")
                #expect(try account.shell("cat $($COVE pick --app c --mode import --choose plain)/in") == "in\n")
                // What leads out of a package is not copied, and nothing is left of it.
                try account.shell("ln -s ../../a.txt book.pages/inner/link")
                try account.expectRefusal(
                    "$COVE pick --app b --mode import --choose book.pages",
                    "$mnt/book.pages: it can't be copied: Operation not permitted; try again"
                )
                #expect(try account.shell("ls $tmp/.cache/cove/picked/b") == "")
            }
        }

        @Test func `a copy waits for who changes the document, and others wait for it`() async throws {
            try await mounted(prepare: Self.fill) { account in
                try account.shell("mkfifo $tmp/held $tmp/go")
                let writer = try account.start(
                    "$COVE coordinate --writing a.txt bash -c 'echo > $tmp/held; read < $tmp/go; echo new > a.txt'"
                )
                try account.shell("read < $tmp/held")
                let picker = try account.start("$COVE pick --app a --mode import --choose a.txt")
                try waitUntil("the picker waits") { try account.cove("claims").contains("waiting") }
                try account.shell("echo > $tmp/go")
                #expect(try writer.wait(deadline: 60).status == 0)
                let copy = try picker.wait(deadline: 60)
                #expect(copy.status == 0)
                #expect(try account.shell("cat \(copy.output)") == "new\n")
            }
        }

        @Test func `a folder that becomes a link while it is picked from leads nowhere`() async throws {
            try await mounted(prepare: Self.fill) { account in
                try account.shell(
                    "mkfifo $tmp/held $tmp/go; mkdir -p picked $tmp/out; echo own > picked/a.txt; echo secret > $tmp/out/a.txt"
                )
                let writer = try account.start(
                    "$COVE coordinate --writing picked/a.txt bash -c 'echo > $tmp/held; read < $tmp/go; mv picked moved; ln -s $tmp/out picked'"
                )
                try account.shell("read < $tmp/held")
                let picker = try account.start("$COVE pick --app a --mode import --choose picked/a.txt")
                try waitUntil("the picker waits") { try account.cove("claims").contains("waiting") }
                try account.shell("echo > $tmp/go")
                #expect(try writer.wait(deadline: 60).status == 0)
                let copy = try picker.wait(deadline: 60)
                #expect(copy.status == 1 && copy.output.isEmpty && copy.error.contains("picked/a.txt"), "\(copy)")
            }
        }

        @Test func `an export makes a name that is free, and takes one that is given only if it is`() async throws {
            try await mounted(prepare: Self.fill) { account in
                try account.shell("echo mine > $tmp/note.txt; chmod 640 $tmp/note.txt")
                let export = "$COVE pick --app a --mode export --file $tmp/note.txt"
                for name in ["note.txt", "note 2.txt", "note 3.txt"] {
                    #expect(try account.shell("\(export) --choose docs") == "\(account.mount)/docs/\(name)\n")
                }
                #expect(try account.shell("\(export) --choose docs/new.md") == "\(account.mount)/docs/new.md\n")
                try account.expectRefusal(
                    "\(export) --choose docs/new.md",
                    "$mnt/docs/new.md: File exists; choose another name"
                )
                try account.expectRefusal("\(export) --choose a.txt", "$mnt/a.txt: File exists; choose another name")
                try account.expectRefusal(
                    "\(export) --choose docs/.cove-x",
                    ".cove-x: is a name that Cove keeps for itself; choose another name"
                )
                #expect(
                    try account.shell("stat -c %a docs/new.md; cat docs/* $tmp/note.txt | sort -u; ls -A docs | wc -l")
                        == "640\nmine\n4\n"
                )
                try account.expectSame()
            }
        }

        @Test func `what can't be picked is told`() async throws {
            try await mounted(prepare: Self.fill) { account in
                let pick = "$COVE pick --app a --mode"
                try account.shell("echo text > $tmp/own.txt")
                for mode in ["open --choose a.txt", "move --file $tmp/own.txt --choose docs"] {
                    let place = mode.hasSuffix("docs") ? "docs/own.txt" : "a.txt"
                    try account.expectRefusal(
                        "$COVE pick --app com.none.app --mode \(mode)",
                        "$mnt/\(place): no such app; register it with `cove app register`"
                    )
                }
                #expect(try account.shell("cat $tmp/own.txt; ls docs | grep own || true") == "text\n")
                for (words, line) in [
                    ("--mode import", "--app: is needed; say for which program, such as org.example.Editor"),
                    ("--app a/b --mode import", "--app: a/b is no application id; write it as org.example.Editor"),
                    ("--app a", "--mode: is needed; choose one of import, open, export, move"),
                    ("--app a --mode eat", "--mode: eat is not known; choose one of import, open, export, move"),
                    ("--app a --mode export", "--file: is needed; say which file goes to the folder"),
                    (
                        "--app a --mode import --file a.txt",
                        "--file: belongs to --mode export and move; leave it out, or choose one of these"
                    ),
                    (
                        "--app a --mode import --web --choose a.txt",
                        "--choose: it shows nothing, and --web shows a page; give one of them"
                    ),
                ] {
                    try account.expectRefusal("$COVE pick \(words)", line, status: 2)
                }
                let unknown = try account.start("$COVE pick --app a --mode import --type public.pgn").wait(deadline: 60)
                #expect(
                    unknown.status == 2
                        && unknown.error.hasPrefix("cove: --type: public.pgn is not known; give a MIME type, ")
                )
                #expect(unknown.error.contains(" public.png, ") && unknown.error.contains(" com.adobe.pdf, "))
                try account.expectRefusal(
                    "\(pick) import --choose nothing",
                    "nothing: no such item; check the name"
                )
                try account.expectRefusal(
                    "\(pick) import --choose /etc/passwd",
                    "/etc/passwd: is not inside a Cove mount; name a path below one (`findmnt -t fuse.cove`)"
                )
                try account.expectRefusal(
                    "\(pick) export --file docs --choose docs",
                    "docs: Is a directory; name a file that is there"
                )
                try account.expectRefusal(
                    "setsid -w \(pick) import",
                    "/dev/tty: there is no terminal to show the picker on: No such device or address; "
                        + "run it in one, or use --web or --choose PATH"
                )
            }
        }

        @Test func `83. a copy is the app's own, and stays as long as the session that picked it`() async throws {
            try await mounted(prepare: Self.fill) { account in
                let pick = "f=$($COVE pick --app a --mode import --choose a.txt)"
                let use = "setsid -w bash -ec '\(pick); cat $f; echo edited >> $f; cp $f $tmp/kept'; cat a.txt"
                #expect(try account.shell(use) == "bytes of a.txtbytes of a.txt")
                // Another session makes room, and keeps its own.
                let second = try account.shell("$COVE pick --app a --mode import --choose a.txt").dropLast()
                let third = try account.shell("$COVE pick --app a --mode import --choose b.rtf").dropLast()
                let picked = "ls $tmp/.cache/cove/picked/a | wc -l"
                #expect(try account.shell("cat \(second) \(third); \(picked)") == "bytes of a.txtbytes of b.rtf2\n")
                // So does the end of one that was killed.
                let session = "echo $$ > $tmp/session; $COVE pick --app a --mode import --choose a.txt; exec sleep 100"
                let killed = try account.start("exec setsid -w sh -c '\(session)'")
                try waitUntil("it has picked") { killed.output.contains("\n") }
                #expect(try account.shell(picked) == "3\n")
                try account.shell("kill -9 $(cat $tmp/session)")
                _ = try killed.wait(deadline: 20)
                try waitUntil("its copy is gone, and no other one") {
                    let found = try account.shell("ls \(killed.output.dropLast()) 2>&1 || true; \(picked)")
                    return found.contains("No such file") && found.hasSuffix("\n2\n")
                }
                #expect(try account.shell("cat $tmp/kept") == "bytes of a.txtedited\n")
            }
        }

        @Test func `84. what is moved to another app's folder is gone here, and its maker can go on writing it`()
            async throws
        {
            try await mounted { account in
                try account.addApp("a", document: "report.txt", "original\n")
                try account.addApp("b", document: "own.txt", "own\n")
                try account.shell("echo made > $tmp/made.txt")
                let move = "pick --app com.b.app --mode move --file $tmp/made.txt --choose a/Documents"
                #expect(try account.shell("$COVE \(move)") == "\(account.mount)/b/Documents/made.txt\n")
                #expect(try account.shell("ls $tmp/made.txt 2>&1 || true").contains("No such file"))
                let written = try account.asApp("b", "echo more >> Documents/made.txt; cat Documents/made.txt")
                #expect(written == "made\nmore\n")
                #expect(try account.shell("cat a/Documents/made.txt") == "made\nmore\n")
            }
        }

        @Test func `85. what is exported stays here too, and its maker has no way to the copy`() async throws {
            try await mounted { account in
                try account.addApp("a", document: "report.txt", "original\n")
                try account.addApp("b", document: "own.txt", "own\n")
                try account.shell("echo made > $tmp/made.txt")
                let export = "pick --app com.b.app --mode export --file $tmp/made.txt --choose a/Documents"
                #expect(try account.shell("$COVE \(export)") == "\(account.mount)/a/Documents/made.txt\n")
                let left = "cat $tmp/made.txt a/Documents/made.txt; ls b/Documents"
                #expect(try account.shell(left) == "made\nmade\nown.txt\n")
                #expect(try account.cove("refs ls") == "")
                let copy = "a/Documents/made.txt"
                let tried = try account.asApp("b", "cat '\(account.mount)/\(copy)' $COVE_SHARED/\(copy)")
                #expect(!tried.contains("made\n"), "\(tried)")
            }
        }
    }
}
