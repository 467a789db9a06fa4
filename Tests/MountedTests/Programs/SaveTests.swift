import CoveCore
import CoveTestSupport
import Testing

extension Mounted {
    /// Programs that save a document each in its own way.
    struct SaveTests {
        /// One way to add a line to `doc`.
        private static let editors = [
            // Its own default is to make no backup of what lies where temporary files do.
            "vim -N -u NONE -i NONE -es -c 'set backupskip=' -c 'normal Goline '$n -c wq doc",
            #"emacs --batch -Q doc --eval "(progn (goto-char (point-max)) (insert \"line $n\n\") (save-buffer))" 2>&1"#,
            #"sed -i "$ a line $n" doc"#,
            "{ cat doc; echo line $n; } > $tmp/doc; rsync -b --suffix='~' $tmp/doc doc",
        ]

        @Test func `eighty saves by four programs leave one document`() async throws {
            try await mounted { source in
                try source.save("doc", Array("line 0\n".utf8))
            } _: { account in
                let document = try account.info("doc").documentID
                let birth = try account.shell("stat -c %.9W doc")
                #expect(try account.shell("stat -c %.9W $src/doc") == birth)
                for number in 0..<20 {
                    for (index, editor) in Self.editors.enumerated() {
                        try account.shell("n=\(number * 4 + index + 1)\n\(editor)")
                        try account.settle()
                    }
                }
                try account.expectSame(without: ["*~"])
                #expect(try account.shell("cmp doc <(printf 'line %d\\n' {0..80}); ls $src") == "doc\n")
                #expect(try account.info("doc").documentID == document)
                let statistics = try account.statistics()
                #expect(try account.shell("stat -c %.9W doc") == birth)
                #expect(statistics.contentUpdates == 80)
                #expect(statistics.deletions == 0)
                #expect(statistics.conflicts == 0)
            }
        }

        @Test func `saves in quick succession are sent as one`() async throws {
            try await mounted { source in
                try source.save("doc", Array("line 0\n".utf8))
            } _: { account in
                let document = try account.info("doc").documentID
                try account.shell(Self.editors.enumerated().map { "n=\($0 + 1)\n\($1)" }.joined(separator: "\n"))
                try account.expectSame(without: ["*~"])
                #expect(try account.shell("cat $src/doc; ls $src") == "line 0\nline 1\nline 2\nline 3\nline 4\ndoc\n")
                #expect(try account.info("doc").documentID == document)
                let statistics = try account.statistics()
                #expect(statistics.contentUpdates <= 4 && statistics.deletions == 0 && statistics.conflicts == 0)
            }
        }

        @Test func `documents named like scratch files go to the cloud, and Vim's trial file does not`() async throws {
            try await mounted { account in
                try account.shell(
                    """
                    mkdir Photos~; echo 1 > Photos~/a.jpg
                    for name in film.swf x.swt 4913 lunch.tmp .nfsrc; do echo "$name" > "$name"; done
                    echo older > doc~; ln -s here .#doc; echo lock > .~lock.doc#; echo swap > .doc.swp
                    """
                )
                try account.expectSame(without: ["doc~", ".#doc", ".~lock.doc#", ".doc.swp"])
                #expect(
                    try account.shell("cd $src; find . -mindepth 1 | sort | tr '\\n' ' '") == """
                        ./.nfsrc ./4913 ./Photos~ ./Photos~/a.jpg ./film.swf ./lunch.tmp ./x.swt\u{20}
                        """
                )
                try account.shell("rm 4913")
                try account.settle()
                let before = try account.statistics()
                try account.shell(
                    """
                    echo text > letter
                    vim -N -u NONE -i NONE -es -c 'set backup backupcopy=auto backupskip=' -c 'normal Gomore' -c wq letter
                    """
                )
                try account.expectSame(without: ["doc~", ".#doc", ".~lock.doc#", ".doc.swp", "letter~"])
                let after = try account.statistics()
                #expect(after.contentUpdates - before.contentUpdates == 1 && after.deletions == before.deletions)
            }
        }
    }
}
