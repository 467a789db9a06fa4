import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// The desktop's programs that make pictures, good and bad ones.
struct ThumbnailerTests {
    private let folder: TemporaryDirectory

    init() throws { folder = try TemporaryDirectory("maker") }

    private func write(_ name: String, _ text: String) throws -> String {
        let path = folder.appending(name)
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        return path
    }

    /// Runs a script as a thumbnailer: `$1` is the file, `$2` the picture to be made.
    private func make(
        _ script: String,
        of bytes: [UInt8] = Array("text".utf8),
        limit: TimeSpan = .seconds(20)
    ) async throws -> Picture? {
        let file = folder.appending("input")
        try Data(bytes).write(to: URL(fileURLWithPath: file))
        var maker = ThumbnailMaker(folder: folder.appending("making"))
        maker.limit = limit
        let ready = maker
        // No file of its own: a process that another test is starting could have it open, so that it can't be run.
        let words = ["/bin/bash", "-c", script.replacingOccurrences(of: "%", with: "%%"), "-", "%i", "%o", "%s"]
        return await OffPool.run {
            ready.picture(of: file, named: "document.txt", by: .init(words: words)).picture
        }
    }

    private static let copies = "cat \"$1\" > \"$2\""

    @Test func `their files are read, and what can't be run is left out`() throws {
        let (first, second) = (folder.appending("first"), folder.appending("second"))
        for path in [first, second] {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        }
        func entry(_ name: String, _ exec: String, _ types: String, _ more: String = "") throws {
            let text = "[Thumbnailer Entry]\n\(more)Exec = \(exec)\nMimeType=\(types)\n[Other]\nExec=/bin/false\n"
            _ = try write(name, text)
        }
        try entry("first/a.thumbnailer", "cat -s '%s' \"a %u\" %o\\ b", "image/PNG; text/plain;;")
        try entry("second/a.thumbnailer", "/bin/true %i %o", "image/png;image/jpeg")
        try entry("second/b.thumbnailer", "/no/such/program %i", "image/gif")
        try entry("second/c.thumbnailer", "cat %i", "image/webp", "TryExec=/no/such\n")
        try entry("second/d.thumbnailer", "cat 'open", "image/tiff")
        try entry("second/e.txt", "cat", "image/bmp")
        _ = try write("second/f.thumbnailer", String(repeating: "x", count: 100_000))
        mkfifo(folder.appending("second/g.thumbnailer"), 0o600)
        let found = Thumbnailers(folders: [first, second, folder.appending("none")])
        let cat = try #require(found.program(for: ["no/type", "image/png"]))
        #expect(
            cat.command(input: "/in/a b", output: "/out/o.png", side: 256)
                == ["/usr/bin/cat", "-s", "256", "a file:///in/a%20b", "/out/o.png b"]
        )
        #expect(found.program(for: ["image/jpeg"])?.words == ["/bin/true", "%i", "%o"])
        #expect(found.program(for: ["text/plain"]) == cat)
        for type in ["gif", "webp", "tiff", "bmp"] { #expect(found.program(for: ["image/\(type)"]) == nil, "\(type)") }
    }

    @Test func `a picture is made of a file`() async throws {
        let png = TestPicture.png(width: 64, height: 48, red: 9, texts: [("Software", "other")])
        let made = try await make(Self.copies, of: png)
        #expect(made?.width == 64 && made?.height == 48)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.appending("making")) == [])
    }

    @Test(arguments: [
        "", "exit 3", "kill -SEGV $$", "echo text > \"$2\"", "ln -s /etc/passwd \"$2\"", "mkfifo \"$2\"; cat > \"$2\"",
        "mkdir \"$2\"", "head -c 100000000 /dev/zero > \"$2\"", "dd if=/dev/zero of=$2 bs=1M count=1 seek=100000",
        "cp \"$1\" \"$2\"; exit 1",
    ]) func `what makes no picture gives none`(script: String) async throws {
        let large = TestPicture.png(width: 1100, height: 2, red: 1)
        #expect(try await make(script, of: large, limit: .seconds(2)) == nil)
    }

    @Test func `a picture that is too large is asked for once more`() async throws {
        let (large, small) = (
            TestPicture.png(width: 1100, height: 2, red: 1), TestPicture.png(width: 9, height: 2, red: 1)
        )
        let script =
            "if [ $3 = 1024 ]; then head -c \(large.count) \"$1\"; else tail -c \(small.count) \"$1\"; fi > \"$2\""
        #expect(try await make(script, of: large + small)?.width == 9)
    }

    @Test func `one that hangs is ended with all that it began`() async throws {
        let mark = "cove-test-\(UInt32.random(in: 1_000_000...9_999_999))"
        let began = System.monotonic()
        #expect(try await make("exec -a \(mark) sleep 1000 & exec -a \(mark) sleep 1000", limit: .seconds(1)) == nil)
        #expect(System.monotonic() - began < .seconds(15))
        try waitUntil("nothing is left of it", deadline: 20) {
            (try? Command.run("pgrep", ["-f", mark], mayFail: true).output.isEmpty) ?? false
        }
    }

    @Test func `it sees nothing of the user, reaches nobody and changes nothing`() async throws {
        let secret = try write("secret", "the user's")
        let png = TestPicture.png(width: 8, height: 8, red: 3)
        let listener = try Command(
            "python3",
            [
                "-uc",
                "import socket; s=socket.create_server(('127.0.0.1',0)); print(s.getsockname()[1]); s.accept(); print('reached')",
            ]
        )
        defer { listener.signal(SIGKILL) }
        try waitUntil("it listens", deadline: 20) { listener.output.contains("\n") }
        let port = listener.output.prefix { $0 != "\n" }
        // It makes its picture only if every one of these fails.
        let script = """
            set +e
            cat "\(secret)" && exit 1
            ls "\(folder.path)" && exit 1
            ls -A /home /root /var/lib 2>/dev/null | grep . && exit 1
            echo x > "$1" && exit 1
            echo x > /usr/bin/x && exit 1
            echo x > /bin/bash && exit 1
            (echo > /dev/tcp/127.0.0.1/\(port)) && exit 1
            env | grep -i -E 'cove|secret' && exit 1
            [ $(ls /proc | grep -c '^[0-9]') -lt 20 ] || exit 1
            head -c 2 /etc/shadow && exit 1
            \(Self.copies)
            """
        #expect(try await make(script, of: png)?.width == 8)
        #expect(!listener.output.contains("reached"))
        #expect(try String(contentsOfFile: secret, encoding: .utf8) == "the user's")
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() == [
                "input", "making", "secret",
            ]
        )
    }

    @Test func `it has little memory and little room`() async throws {
        let png = TestPicture.png(width: 8, height: 8, red: 3)
        let greedy = """
            python3 -c 'x = bytearray(3 << 30)' && exit 1
            for n in 1 2 3 4; do head -c 60000000 /dev/zero > /tmp/$n; done && exit 1
            for n in 1 2 3 4; do head -c 60000000 /dev/zero > /out/$n; done && exit 1
            rm /out/*
            \(Self.copies)
            """
        #expect(try await make(greedy, of: png)?.width == 8)
    }

    @Test func `smaller ones are made by a program of the desktop`() async throws {
        let program = try #require(Thumbnailers(folders: ["/usr/share/thumbnailers"]).program(for: ["image/png"]))
        let picture = try #require(Picture(TestPicture.png(width: 1000, height: 500, red: 90)))
        let maker = ThumbnailMaker(folder: folder.appending("making"))
        let made = await OffPool.run { maker.reduced(picture, to: [512, 256, 128], by: program).pictures }
        #expect(made[512]?.width == 512 && made[512]?.height == 256)
        #expect(made[256]?.width == 256 && made[128]?.width == 128)
    }

    @Test func `the sizes of images are told by their beginnings`() throws {
        #expect(ImageSize.largestSide(in: TestPicture.png(width: 30, height: 41, red: 1)) == 41)
        for (name, type) in [("a.jpg", "jpeg"), ("a.gif", "gif"), ("a.bmp", "bmp")] {
            let bytes: [UInt8]
            switch type {
            case "gif": bytes = Array("GIF89a".utf8) + [70, 0, 9, 1, 0, 0, 0]
            case "bmp": bytes = Array("BM".utf8) + [UInt8](repeating: 0, count: 16) + [7, 0, 0, 0, 9, 1, 0, 0]
            default:
                bytes = [0xFF, 0xD8, 0xFF, 0xE0, 0, 4, 1, 2, 0xFF, 0xFF, 0xC4, 0, 2, 0xFF, 0xC2, 0, 17, 8, 1, 9, 0, 70]
            }
            #expect(ImageSize.largestSide(in: bytes) == 265, "\(name)")
            for count in 0..<bytes.count { _ = ImageSize.largestSide(in: Array(bytes.prefix(count))) }
        }
        #expect(ImageSize.largestSide(in: [0xFF, 0xD8] + [UInt8](repeating: 0xFF, count: 100_000)) == nil)
        #expect(ImageSize.largestSide(in: Array("text".utf8)) == nil)
    }
}
