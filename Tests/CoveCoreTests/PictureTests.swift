import CoveTestSupport
import Foundation
import Testing

@testable import CoveCore

/// PNG files, and the folder in which programs of the desktop share them.
struct PictureTests {
    private let plain = TestPicture.png(width: 40, height: 30, red: 200)

    @Test func `a picture is read and written with texts`() throws {
        let bytes = TestPicture.png(width: 40, height: 30, red: 200, texts: [("Thumb::MTime", "17"), ("A", "b")])
        let picture = try #require(Picture(bytes))
        #expect(picture.width == 40 && picture.height == 30)
        #expect(picture.texts == ["Thumb::MTime": "17", "A": "b"])
        #expect(picture.bytes(texts: [:]) == plain)
        let other = try #require(Picture(picture.bytes(texts: ["X": "1", "Y": "2", "X": "3"])))
        #expect(other.texts == ["X": "3", "Y": "2"])
        let folder = try TemporaryDirectory("picture")
        try Data(other.bytes(texts: ["X": "1"])).write(to: URL(fileURLWithPath: folder.appending("a.png")))
        let seen = try Command.run("file", [folder.appending("a.png")]).output
        #expect(seen.contains("PNG image data, 40 x 30, 8-bit/color RGB"))
    }

    @Test func `what is damaged is no picture, wherever that is`() {
        for count in 0..<plain.count { #expect(Picture(Array(plain.prefix(count))) == nil, "\(count)") }
        for index in plain.indices {
            var bytes = plain
            bytes[index] ^= 1 << UInt8(index % 8)
            #expect(Picture(bytes) == nil, "\(index)")
        }
        // What follows the end is not kept.
        #expect(Picture(plain + [1, 2, 3])?.bytes(texts: [:]) == plain)
    }

    @Test func `limits and odd pieces`() throws {
        let signature = Array(plain.prefix(8))
        let header = Array(plain[8..<33])
        let rest = Array(plain[33...])
        func holding(_ name: String, _ content: [UInt8] = [1, 2, 3]) -> Picture? {
            Picture(signature + header + TestPicture.chunk(name, content) + rest)
        }
        // What need not be understood is left out; what must be is refused, and so is a second header.
        #expect(holding("eXIf")?.bytes(texts: [:]) == plain)
        #expect(holding("gAMA", [0, 0, 1, 2])?.bytes(texts: [:]).count == plain.count + 16)
        #expect(holding("XXXX") == nil)
        #expect(holding("IHDR", Array(header[8..<21])) == nil)
        #expect(holding("tEXt", [1, 2, 3])?.texts == [:])
        #expect(Picture(signature + rest) == nil)
        #expect(Picture(signature + header + TestPicture.chunk("IEND", [])) == nil)
        #expect(Picture(TestPicture.png(width: 1024, height: 1, red: 1)) != nil)
        #expect(Picture(TestPicture.png(width: 1025, height: 1, red: 1)) == nil)
        #expect(Picture(TestPicture.png(width: 200, height: 1, red: 1), side: 128) == nil)
        for size in [[0, 0, 0, 0], [0xFF, 0xFF, 0xFF, 0xFF], [0x80, 0, 0, 0]] as [[UInt8]] {
            let header = TestPicture.chunk("IHDR", size + [0, 0, 0, 1, 8, 2, 0, 0, 0])
            #expect(Picture(signature + header + rest) == nil)
            #expect(Picture(signature + size + Array("IHDR".utf8)) == nil)
        }
        let many = (0..<100).flatMap { TestPicture.chunk("tEXt", Array("k\($0)\0v".utf8)) }
        #expect(try #require(Picture(signature + header + many + rest)).texts.count <= 32)
        #expect(Picture(plain + [UInt8](repeating: 0, count: Picture.greatestSize)) == nil)
    }

    @Test func `the picture of a file is the largest one of its present change`() throws {
        let folder = try TemporaryDirectory("cache")
        let cache = ThumbnailCache(cacheFolder: folder.path)
        let path = Array("/home/ada/A b/é#.txt".utf8)
        #expect(ThumbnailCache.uri(of: path) == "file:///home/ada/A%20b/%C3%A9%23.txt")
        let sum = try Command.run("bash", ["-c", "printf %s \"$0\" | md5sum", ThumbnailCache.uri(of: path)]).output
        #expect(ThumbnailCache.name(of: path) == "\(sum.prefix(32)).png")
        let modified = Timestamp(seconds: 1_700_000_000, nanoseconds: 5000)
        func put(_ size: String, _ time: String) throws {
            let place = folder.appending("thumbnails/\(size)")
            try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: true)
            let bytes = TestPicture.png(width: 8, height: 8, red: 1, texts: [("Size", size), ("Thumb::MTime", time)])
            try Data(bytes).write(to: URL(fileURLWithPath: "\(place)/\(ThumbnailCache.name(of: path))"))
        }
        func found() -> String? { cache.picture(of: path, modified: modified)?.texts["Size"] }
        #expect(found() == nil)
        try put("normal", "1700000000")
        #expect(found() == "normal")
        // Tumbler writes parts of a second.
        try put("x-large", "1700000000.000005")
        try put("xx-large", "1699999999")
        #expect(found() == "x-large")
    }

    @Test func `a published picture tells its file, and goes alone`() throws {
        let folder = try TemporaryDirectory("cache")
        let cache = ThumbnailCache(cacheFolder: folder.path)
        let (path, other) = (Array("/a/\u{FF}.png".utf8), [0x2F, 0x62, 0xFF] as [UInt8])
        let picture = try #require(Picture(plain))
        let time = Timestamp(seconds: 1_700_000_000, nanoseconds: 123_456_789)
        for path in [path, other] { try cache.publish(picture, as: "large", of: path, modified: time) }
        let name = ThumbnailCache.name(of: path)
        let file = "\(cache.folder)/large/\(name)"
        #expect(try System.lstat(file).st_mode & 0o777 == 0o600)
        let published = String(decoding: try Data(contentsOf: URL(fileURLWithPath: file)), as: UTF8.self)
        #expect(published.contains("Thumb::URI\0\(ThumbnailCache.uri(of: path))"))
        // The first time is for programs that want all of it, the last for those that want seconds.
        let first = try #require(published.range(of: "Thumb::MTime\u{0}1700000000.123456"))
        let last = try #require(published.range(of: "Thumb::MTime\u{0}1700000000", options: .backwards))
        #expect(first.lowerBound < last.lowerBound)
        #expect(cache.picture(of: path, modified: time) != nil && cache.holds(name))
        // What another program has put there since is its own.
        try Data(plain).write(to: URL(fileURLWithPath: file))
        cache.remove(name)
        #expect(cache.holds(name))
        cache.remove(ThumbnailCache.name(of: other))
        #expect(!cache.holds(ThumbnailCache.name(of: other)))
        // Neither a link nor a pipe is read.
        try System.unlink(file)
        try System.symlinkat(Array("/etc/passwd".utf8), AT_FDCWD, Array(file.utf8))
        #expect(ThumbnailCache.read(file) == nil)
        try System.unlink(file)
        mkfifo(file, 0o600)
        #expect(ThumbnailCache.read(file) == nil)
    }

    @Test func `an image is handed over once, and nothing else is`() throws {
        let folder = try TemporaryDirectory("handover")
        let socket = folder.appending("a.sock")
        let name = try ThumbnailHandover.put(plain, beside: socket)
        #expect(try ThumbnailHandover.take(name, beside: socket) == plain)
        #expect(throws: Errno.noSuchEntry) { try ThumbnailHandover.take(name, beside: socket) }
        for bad in ["", "a.sock", "../etc/passwd", ".thumbnail-", ".thumbnail-" + String(repeating: "/", count: 32)] {
            #expect(throws: Errno.invalidArgument, "\(bad)") { try ThumbnailHandover.take(bad, beside: socket) }
        }
        try System.symlinkat(Array("/etc/passwd".utf8), AT_FDCWD, Array(folder.appending(name).utf8))
        #expect(throws: (any Error).self) { try ThumbnailHandover.take(name, beside: socket) }
        ThumbnailHandover.drop(name, beside: socket)
        mkfifo(folder.appending(name), 0o600)
        #expect(throws: Errno.invalidArgument) { try ThumbnailHandover.take(name, beside: socket) }
        #expect(throws: Errno.fileTooLarge) {
            try ThumbnailHandover.put([UInt8](repeating: 0, count: ThumbnailHandover.greatestSize + 1), beside: socket)
        }
    }
}
