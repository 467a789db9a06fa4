import CoveCore
import Testing

/// Types of documents: identifiers, MIME types, and what conforms to what, by the tables of this machine.
@Suite struct TypeTests {
    private static let seed = [
        "public.utf8-plain-text", "public.plain-text", "public.rtf", "public.png", "public.text", "com.adobe.pdf",
        "public.image",
    ]

    private func accepted(_ types: [String], _ names: [String]) throws -> [String] {
        let filter = try TypeFilter(types)
        return names.filter { filter.accepts(filter.subject(name: $0, kind: "file")) }
    }

    @Test func `71. the seven types of the sample show txt, rtf, png, pdf and jpg, and hide zip`() throws {
        let shown = ["a.txt", "b.rtf", "c.png", "d.pdf", "e.jpg", "README", "notes.md", "photo.JPEG", "x.heic"]
        let hidden = ["f.zip", "g.mp3", "h.mov", "i", "j.tar.gz", "k.docx", "l.iso"]
        #expect(try accepted(Self.seed, shown + hidden) == shown)
    }

    @Test(
        arguments: [
            ("public.utf8-plain-text", ["a.txt"], ["a.png", "a.pdf", "a.zip"]),
            ("public.plain-text", ["a.txt", "a.c", "a.py"], ["a.png"]),
            ("public.text", ["a.txt", "a.rtf", "a.html", "a.csv"], ["a.png", "a.docx"]),
            ("public.rtf", ["a.rtf"], ["a.txt"]), ("text/rtf", ["a.rtf"], ["a.txt"]),
            ("application/rtf", ["a.rtf"], ["a.txt"]), ("public.png", ["a.png"], ["a.jpg"]),
            ("public.jpeg", ["a.jpg", "a.jpeg"], ["a.png"]), ("public.image", ["a.png", "a.jpg", "a.svg"], ["a.pdf"]),
            ("image/*", ["a.png", "a.webp"], ["a.pdf"]), ("IMAGE/PNG", ["a.png"], ["a.jpg"]),
            ("com.adobe.pdf", ["a.pdf"], ["a.txt"]), ("COM.ADOBE.PDF", ["a.pdf"], ["a.txt"]),
            ("public.audio", ["a.mp3", "a.flac", "a.ogg"], ["a.mp4"]), ("public.movie", ["a.mp4", "a.mov"], ["a.mp3"]),
            ("public.audiovisual-content", ["a.mp4", "a.mp3"], ["a.png"]),
            ("public.archive", ["a.zip", "a.tar", "a.tar.gz", "a.7z"], ["a.docx", "a.epub", "a.txt"]),
            ("public.zip-archive", ["a.zip"], ["a.docx", "a.tar"]),
            ("application/zip", ["a.zip", "a.docx"], ["a.tar"]),
            ("public.data", ["a.zip", "a", "a.txt"], []), ("public.content", ["a.zip", "a"], []),
            ("*/*", ["a.zip", "a"], []), ("application/octet-stream", ["a.zip", "a"], []),
            ("public.folder", [], ["a.txt", "a"]), ("com.apple.package", [], ["a.txt", "a.pages"]),
            ("application/x-nobody-knows", [], ["a.txt", "a"]),
        ]
    )
    func `a file conforms to what its type is, or is a special case of`(
        _ type: String,
        _ shown: [String],
        _ hidden: [String]
    ) throws {
        #expect(try accepted([type], shown + hidden) == shown)
    }

    @Test(
        arguments: [
            ([], [], true), ([], ["public.png"], true), (["public.png"], ["public.image"], true),
            (["image/*"], ["public.png", "text/plain"], true), (["public.png"], ["public.jpeg"], false),
            (["public.image"], ["public.audio"], false), (["public.image"], ["application/xml"], true),
            (["application/zip"], ["public.zip-archive"], true),
            (["public.zip-archive"], ["public.tar-archive"], false),
            (["application/x-nobody-knows"], ["application/x-nobody-knows"], true), (["public.data"], ["*/*"], true),
            (["public.folder"], ["com.apple.package"], true), (["public.folder"], [], true),
            (["public.folder"], ["public.data"], false), (["public.item"], ["public.folder"], true),
        ]
    )
    func `types overlap where something is of both`(_ left: [String], _ right: [String], _ isSo: Bool) throws {
        let (left, right) = (try TypeFilter(left), try TypeFilter(right))
        #expect(left.overlaps(right) == isSo && right.overlaps(left) == isSo)
    }

    @Test func `folders and packages conform to what they are`() throws {
        func accepts(_ type: String?, _ name: String, _ kind: String = "directory") throws -> Bool {
            let filter = try TypeFilter(type.map { [$0] } ?? [])
            return filter.accepts(filter.subject(name: name, kind: kind))
        }
        for type in ["public.folder", "public.item", "inode/directory"] {
            #expect(try accepts(type, "a") && accepts(type, "a.pages"), "\(type)")
        }
        for type in ["com.apple.package", "public.content", nil] {
            #expect(try !accepts(type, "a") && accepts(type, "a.pages"), "\(type ?? "-")")
        }
        for type in ["public.data", "public.text", "*/*", "public.archive"] {
            #expect(try !accepts(type, "a") && !accepts(type, "a.pages"), "\(type)")
        }
        // What neither holds bytes nor items can't be picked at all.
        for kind in ["symlink", "fifo", "socket", "device", "?"] {
            #expect(try !accepts("public.item", "a.txt", kind) && !accepts(nil, "a.txt", kind), "\(kind)")
        }
        #expect(try TypeFilter().accepts(.file(type: "application/zip")))
    }

    @Test(
        arguments: [
            "", "png", "public.pgn", "image", "/", "image/", "/png", "a/b/c", "im age/png", "image/p*", "*/png",
            "image/\u{1B}",
            "-/a", String(repeating: "a", count: 300) + "/b",
        ]
    )
    func `what is no type is an error`(_ name: String) {
        #expect(throws: TypeFilter.UnknownType(name: name)) { try TypeFilter(["public.png", name]) }
    }

    @Test(
        arguments: [
            ("text/plain", "public.plain-text"), ("text/x-csrc", "public.plain-text"), ("text/rtf", "public.rtf"),
            ("image/png", "public.png"), ("image/x-xcf", "public.image"), ("application/pdf", "com.adobe.pdf"),
            ("application/zip", "public.zip-archive"), ("application/x-7z-compressed", "public.archive"),
            ("application/octet-stream", "public.data"), ("inode/directory", "public.folder"),
            ("application/x-nobody-knows", "public.data"), ("audio/x-nobody-knows", "public.audio"),
        ]
    )
    func `a MIME type has the identifier that tells most of it`(_ type: String, _ identifier: String) {
        #expect(UniformType.identifier(ofMIME: type) == identifier)
    }

    @Test func `every identifier that is known is understood, and none twice`() throws {
        let names = UniformType.known.map(\.identifier)
        #expect(Set(names.map { $0.lowercased() }).count == names.count)
        for name in names { #expect(throws: Never.self) { try TypeFilter([name]) } }
    }
}
