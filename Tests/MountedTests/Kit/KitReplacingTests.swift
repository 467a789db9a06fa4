import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Versions that take the place of files, those that are elsewhere, and pictures of them.
    struct KitReplacingTests {
        /// A document that was saved as one, two and three.
        private static func saved(_ body: @escaping @Sendable (MountedAccount) throws -> Void) async throws {
            try await mounted { source in
                try source.save("doc", Array("one".utf8))
            } _: { account in
                for text in ["two", "three"] {
                    try account.shell("cat doc > $tmp/read; printf \(text) > doc")
                    try account.settle()
                }
                #expect(try versions(of: "doc", account) == ["two", "one"])
                try body(account)
                try account.expectSame()
            }
        }

        /// The contents of the earlier versions, newest first, and of the other sides of conflicts.
        private static func versions(of name: String, _ account: MountedAccount) throws -> [String] {
            let lines = try account.driver("versions \(account.path(name))").finish()
            return lines.filter { $0.hasPrefix("version") }.compactMap {
                $0.split(separator: " ").last.map(String.init)
            }
        }

        @Test func `36. a version that takes its document's place by moving is gone then, another one stays`()
            async throws
        {
            try await Self.saved { account in
                #expect(try account.driver("take \(account.path("doc")) two copying").finish() == ["taken two"])
                #expect(try Self.versions(of: "doc", account) == ["three", "two", "one"])
                #expect(try account.driver("take \(account.path("doc")) one moving").finish() == ["taken one"])
                #expect(try account.shell("cat doc; ls") == "onedoc\n")
                let left = try Self.versions(of: "doc", account)
                #expect(!left.contains("one") && left.contains("three") && left.contains("two"), "\(left)")
            }
        }

        @Test func `36. the other side of a conflict that takes its document's place by moving ends the conflict`()
            async throws
        {
            try await mounted { source in
                try source.save("doc", Array("base".utf8))
            } _: { account in
                let second = try MountedAccount(address: "dir://\(account.source.path)")
                try second.start()
                try account.shell("cat doc; $COVE pause --state $STATE; printf here > doc")
                try second.shell("cat doc > $tmp/seen; printf elsewhere > doc")
                try second.settle()
                try account.shell("$COVE resume --state $STATE")
                try account.settle()
                #expect(try account.shell("cat doc; ls | wc -l; $COVE conflicts | wc -l") == "elsewhere2\n1\n")
                #expect(try account.driver("take \(account.path("doc")) here moving").finish() == ["taken here"])
                #expect(try account.shell("cat doc; ls; $COVE conflicts") == "heredoc\n")
                try account.settle()
                try second.settle()
                #expect(try second.shell("cat doc; ls; $COVE conflicts") == "heredoc\n")
                try second.end()
            }
        }

        @Test func `36. a version takes the place of another file, which keeps what it was, and leaves its document`()
            async throws
        {
            try await Self.saved { account in
                try account.shell("printf other > copy; chmod 640 copy; setfattr -n user.mark -v x copy")
                try account.settle()
                let (doc, copy) = (account.path("doc"), account.path("copy"))
                let (document, other) = (try account.info("doc").documentID, try account.info("copy").documentID)
                #expect(try account.driver("take \(doc) one copying \(copy)").finish() == ["taken one"])
                #expect(try account.shell("cat doc copy") == "threeone")
                #expect(try account.shell("stat -c %a copy; getfattr --only-values -n user.mark copy") == "640\nx")
                #expect(try account.info("doc").documentID == document && account.info("copy").documentID == other)
                #expect(try Self.versions(of: "doc", account) == ["two", "one"])
                #expect(try Self.versions(of: "copy", account) == ["other"])
                // Where no file is, and where no mount is.
                let outside = account.scratch.appending("outside")
                for path in [account.path("new"), outside] {
                    #expect(try account.driver("take \(doc) one copying \(path)").finish() == ["taken one"])
                }
                #expect(try account.shell("cat new $tmp/outside doc; ls") == "oneonethreecopy\ndoc\nnew\n")
                #expect(try Self.versions(of: "doc", account) == ["two", "one"])
                try account.shell("printf kept > copy")
                #expect(try account.driver("take \(doc) one moving \(copy)").finish() == ["taken one"])
                #expect(try account.shell("cat doc copy") == "threeone")
                #expect(try Self.versions(of: "doc", account) == ["two"])
            }
        }

        @Test func `36. versions whose bytes are elsewhere are told apart, and take a document's place`() async throws {
            try await blocking {
                let cloud = try ScriptedCloud()
                let writer = try MountedAccount(options: "settle=50ms", address: cloud.source)
                try writer.start()
                for (age, text) in [(3, "one"), (2, "second"), (1, "now")] {
                    // A server tells versions by the second of the file's date.
                    try writer.shell(
                        "printf \(text) > $tmp/new; touch -d '\(age) minutes ago' $tmp/new; cp -p $tmp/new doc"
                    )
                    try writer.settle()
                }
                // All that the writer has is here.
                #expect(try writer.driver("distant \(writer.path("doc"))").finish() == ["no more"])
                try writer.end()
                let account = try MountedAccount(options: "settle=50ms", address: cloud.source)
                try account.start()
                let doc = account.path("doc")
                #expect(try account.shell("cat doc") == "now")
                let all = ["distant without a place: second", "distant without a place: one", "no more"]
                #expect(try account.driver("distant \(doc)").finish() == all)
                #expect(try account.driver("take \(doc) one copying").finish() == ["taken one"])
                #expect(try account.shell("cat doc") == "one")
                try account.settle()
                // What the document was is here.
                #expect(try Self.versions(of: "doc", account).contains("now"))
                let left = try account.driver("distant \(doc)").finish()
                #expect(left.contains(all[0]) && !left.contains { $0.hasSuffix(": now") }, "\(left)")
                #expect(cloud.bytes("doc") == Array("one".utf8))
                try account.end()
            }
        }

        @Test func `a version has the picture of its own change, wherever a program of the desktop has made one`()
            async throws
        {
            try await Self.saved { account in
                let program = try Command.built("CoveKitDriver")
                func pictures() throws -> [String] {
                    try account.shell("XDG_CACHE_HOME=$tmp/cache \(program) 'pictures \(account.path("doc"))'")
                        .split(separator: "\n").map(String.init)
                }
                #expect(try pictures() == ["three none false", "two none false", "one none false"])
                let id = try account.info("doc").documentID
                let version = try account.cove("versions ls doc", as: [VersionStatus].self)[0].id
                // A file manager names them by the path that it shows; each has a length of its own.
                try Self.picture.write(
                    toFile: account.scratch.appending("picture.py"),
                    atomically: false,
                    encoding: .utf8
                )
                let first = try account.shell("python3 $tmp/picture.py $mnt/doc 10 normal").dropLast()
                #expect(try pictures() == ["three \(first) true", "two none false", "one none false"])
                let second = try account.shell(
                    "python3 $tmp/picture.py $mnt/.cove/versions/\(id)/\(version) 30 large"
                ).dropLast()
                #expect(try pictures() == ["three \(first) true", "two \(second) true", "one none false"])
                // The picture of an earlier change shows something else.
                try account.shell("touch -d '1 hour ago' doc")
                #expect(try pictures().first == "three none false")
            }
        }

        /// `picture.py PATH LENGTH SIZE`: puts a picture of a file where programs of the desktop keep those of a size.
        private static let picture = """
            import hashlib, os, struct, sys, urllib.parse, zlib
            path, side, size = sys.argv[1], int(sys.argv[2]), sys.argv[3]
            def part(kind, body):
                return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
            text = part(b"tEXt", b"Thumb::MTime\\0%d" % os.stat(path).st_mtime)
            head = b"\\x89PNG\\r\\n\\x1a\\n" + part(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
            body = part(b"IDAT", zlib.compress((b"\\0" + b"abc" * side) * side, 0)) + part(b"IEND", b"")
            folder = os.environ["tmp"] + "/cache/thumbnails/" + size
            os.makedirs(folder, exist_ok=True)
            name = hashlib.md5(("file://" + urllib.parse.quote(path)).encode()).hexdigest()
            with open(folder + "/" + name + ".png", "wb") as file:
                file.write(head + text + body)
            print(len(head + body))
            """
    }
}
