import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveKit

/// Pictures that programs of the desktop have made of files.
struct ThumbnailTests {
    /// A picture that carries texts, and has no more of a picture than that.
    private func picture(_ texts: [(key: String, text: String)]) -> [UInt8] {
        var bytes: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]
        for (key, text) in texts {
            let body = Array(key.utf8) + [0] + Array(text.utf8)
            bytes +=
                [0, 0, UInt8(body.count >> 8), UInt8(body.count & 255)] + Array("tEXt".utf8) + body + [0, 0, 0, 0]
        }
        return bytes
    }

    @Test func `a picture's texts are read, and what is none tells nothing`() {
        let whole = picture([("Thumb::URI", "file:///f"), ("Thumb::MTime", "1700000000")])
        #expect(ThumbnailCache.text("Thumb::MTime", in: whole) == "1700000000")
        #expect(ThumbnailCache.text("Thumb::URI", in: whole) == "file:///f")
        #expect(ThumbnailCache.text("Thumb", in: whole) == nil)
        for count in 0..<whole.count { _ = ThumbnailCache.text("Thumb::MTime", in: Array(whole.prefix(count))) }
        #expect(ThumbnailCache.text("Thumb::MTime", in: Array(whole.prefix(60))) == nil)
        let endless = Array(whole.prefix(8)) + [0xFF, 0xFF, 0xFF, 0xFF] + Array("tEXt".utf8) + [0, 0, 0, 0]
        #expect(ThumbnailCache.text("Thumb::MTime", in: endless) == nil)
        #expect(ThumbnailCache.text("Thumb::MTime", in: Array("GIF89a".utf8)) == nil)
    }

    @Test func `the picture of a file is the largest one of its present change`() throws {
        let cache = try TemporaryDirectory("cache")
        let path = "/home/ada/A b/é#.txt"
        #expect(ThumbnailCache.uri(of: path) == "file:///home/ada/A%20b/%C3%A9%23.txt")
        let sum = try Command.run("bash", ["-c", "printf %s \"$0\" | md5sum", ThumbnailCache.uri(of: path)]).output
        let name = sum.prefix(32)
        func put(_ size: String, _ time: String) throws {
            let folder = cache.appending("thumbnails/\(size)")
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            let bytes = picture([("Size", size), ("Thumb::MTime", time)])
            try Data(bytes).write(to: URL(fileURLWithPath: "\(folder)/\(name).png"))
        }
        func found() -> String? {
            let modified = Timestamp(seconds: 1_700_000_000, nanoseconds: 5)
            return ThumbnailCache.picture(of: path, modified: modified, in: cache.path).flatMap {
                ThumbnailCache.text("Size", in: [UInt8]($0))
            }
        }
        #expect(found() == nil)
        try put("normal", "1700000000")
        #expect(found() == "normal")
        try put("x-large", "1700000000")
        try put("xx-large", "1699999999")
        #expect(found() == "x-large")
    }
}
