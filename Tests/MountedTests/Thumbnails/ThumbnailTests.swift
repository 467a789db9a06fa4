import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// Pictures of documents on one device and on another one.
    struct ThumbnailTests {
        /// Two devices at one source; the second one has fetched nothing yet.
        private final class Devices {
            let first: MountedAccount
            let second: MountedAccount
            private let owner: AnyObject?

            /// The source is the first one's own folder where none is given.
            init(at shared: SharedSource? = nil) throws {
                let source = try shared?.start()
                owner = source?.owner
                let options = "settle=50ms\(source == nil ? "" : ",poll=500ms")"
                first = try MountedAccount(options: options, address: source?.address)
                second = try MountedAccount(options: options, address: source?.address ?? "dir://\(first.source.path)")
                try first.start()
                try second.start()
            }

            func put(_ name: String, _ bytes: [UInt8]) throws {
                let file = first.scratch.appending("new")
                try Data(bytes).write(to: URL(fileURLWithPath: file))
                try first.shell("cp \(file) \(name)")
                try first.settle()
            }

            /// The device's first answer that is one.
            func thumbnail(_ name: String, on account: MountedAccount) throws -> Picture {
                var found: Picture?
                try waitUntil("\(name) has a picture", deadline: 60) {
                    let result = try? account.start("$COVE thumbnail '\(name)'").wait(deadline: 60)
                    guard let result, result.status == 0 else { return false }
                    found = ThumbnailCache.read(String(result.output.dropLast()))
                    return found != nil
                }
                return try #require(found)
            }

            func end() throws {
                try first.end()
                try second.end()
            }
        }

        /// The picture that programs of the desktop find for a file of a mount.
        private func published(_ name: String, _ account: MountedAccount, size: String = "xx-large") -> Picture? {
            let file = ThumbnailCache.name(of: Array("\(account.mount)/\(name)".utf8))
            return ThumbnailCache.read(account.scratch.appending(".cache/thumbnails/\(size)/\(file)"))
        }

        private static let pdf: [UInt8] = {
            var text = "%PDF-1.4\n"
            var places: [Int] = []
            let content = "1 0 0 rg 100 100 300 500 re f"
            let objects = [
                "<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R >>",
                "<< /Length \(content.utf8.count) >>\nstream\n\(content)\nendstream",
            ]
            for (number, object) in objects.enumerated() {
                places.append(text.utf8.count)
                text += "\(number + 1) 0 obj\n\(object)\nendobj\n"
            }
            let table = text.utf8.count
            text += "xref\n0 5\n0000000000 65535 f \n"
            for place in places { text += String(repeating: "0", count: 10 - "\(place)".count) + "\(place) 00000 n \n" }
            return Array((text + "trailer << /Size 5 /Root 1 0 R >>\nstartxref\n\(table)\n%%EOF\n").utf8)
        }()

        @Test(arguments: [SharedSource.folder, .apache, .seaweedFS, .program, .remote])
        func `63. a PNG and a PDF of one device have their pictures on another, which fetches no bytes of them`(
            _ shared: SharedSource
        ) async throws {
            try await blocking {
                let devices = try Devices(at: shared)
                try devices.put("picture.png", TestPicture.png(width: 1600, height: 800, red: 200))
                try devices.put("page.pdf", Self.pdf)
                try waitUntil("both are shared", deadline: 60) {
                    (try? devices.first.statistics().thumbnailsSent) == 2
                }
                for (name, width) in [("picture.png", 1024), ("page.pdf", 724)] {
                    let picture = try devices.thumbnail(name, on: devices.second)
                    #expect(abs(picture.width - width) < 3, "\(name): \(picture.width)")
                    let shown = try #require(published(name, devices.second), "\(name)")
                    let path = "\(devices.second.mount)/\(name)"
                    #expect(shown.texts["Thumb::URI"] == ThumbnailCache.uri(of: Array(path.utf8)))
                    let time = try devices.second.shell("stat -c %Y '\(name)'")
                    #expect(shown.texts["Thumb::MTime"].map { $0 + "\n" } == time)
                    for (size, side) in ThumbnailCache.sizes {
                        let one = try #require(published(name, devices.second, size: size), "\(name) \(size)")
                        #expect(max(one.width, one.height) <= side && max(one.width, one.height) > side * 9 / 10)
                    }
                    #expect(try devices.second.info(name).state == "dataless")
                }
                let statistics = try devices.second.statistics()
                #expect(statistics.bytesDownloaded == 0 && statistics.downloadsStarted == 0)
                #expect(statistics.thumbnailsMade == 0 && statistics.thumbnailsFetched == 2)
                // The folder of pictures is nobody's document.
                let names = try devices.second.shell("ls -A; ls .cove-thumbnails 2>&1 || true")
                #expect(names.hasPrefix("page.pdf\npicture.png\nls: cannot access"), "\(names)")
                // It changes with the bytes, on both.
                try devices.put("picture.png", TestPicture.png(width: 400, height: 800, red: 10))
                try waitUntil("the new one is shared", deadline: 60) {
                    (try? devices.first.statistics().thumbnailsSent) == 3
                }
                try devices.second.settle()
                try waitUntil("the new picture is shown", deadline: 60) {
                    published("picture.png", devices.second)?.width == 400
                }
                // What has another name has its picture there, and none at the old one.
                try devices.second.shell("mv picture.png 'a name é.png'")
                try waitUntil("it has moved", deadline: 60) {
                    published("picture.png", devices.second) == nil
                        && published("a name é.png", devices.second)?.width == 400
                }
                try devices.second.shell("rm 'a name é.png'")
                try waitUntil("it is gone", deadline: 60) { published("a name é.png", devices.second) == nil }
                #expect(try devices.second.statistics().downloadsStarted == 0)
                try devices.end()
            }
        }

        @Test func `what is no longer what a picture shows has none, before anything else is known`() async throws {
            try await blocking {
                let devices = try Devices()
                try devices.put("a.png", TestPicture.png(width: 64, height: 64, red: 200))
                _ = try devices.thumbnail("a.png", on: devices.first)
                #expect(published("a.png", devices.first) != nil)
                // A write, without any picture in it.
                try devices.first.shell("printf text > a.png")
                #expect(try devices.first.start("$COVE thumbnail a.png").wait(deadline: 60).status == 1)
                try waitUntil("the old one is taken back", deadline: 60) { published("a.png", devices.first) == nil }
                try devices.first.settle()
                try devices.second.settle()
                #expect(try devices.second.start("$COVE thumbnail a.png").wait(deadline: 60).status == 1)
                try devices.end()
            }
        }

        @Test func `a picture outlives an eviction, a death and another mount, and follows its folder`() async throws {
            try await blocking {
                let devices = try Devices()
                try devices.first.shell("mkdir old")
                try devices.put("old/a.png", TestPicture.png(width: 64, height: 32, red: 200))
                try waitUntil("it is shared", deadline: 60) { (try? devices.first.statistics().thumbnailsSent) == 1 }
                try devices.first.shell("$COVE evict old/a.png")
                #expect(try devices.thumbnail("old/a.png", on: devices.first).width == 64)
                try devices.first.killDaemon()
                #expect(try devices.thumbnail("old/a.png", on: devices.first).width == 64)
                #expect(try devices.first.statistics().thumbnailsFetched == 0)
                // The source has it under the new name, too; under the old one the next daemon may have given it once more.
                let pictures = "find $src/.cove-thumbnails -type f"
                let former = try devices.first.shell(pictures).split(separator: "\n")
                try devices.first.shell("mv old new")
                try devices.first.settle()
                try waitUntil("it is shared again", deadline: 60) {
                    let found = try? devices.first.shell(pictures).split(separator: "\n")
                    return found.map { !Set($0).isSubset(of: former) } ?? false
                }
                try devices.second.settle()
                #expect(try devices.thumbnail("new/a.png", on: devices.second).width == 64)
                try devices.second.end()
                try devices.second.start()
                #expect(try devices.thumbnail("new/a.png", on: devices.second).width == 64)
                for device in [devices.first, devices.second] {
                    #expect(try device.statistics().downloadsStarted == 0)
                }
                try devices.end()
            }
        }

        @Test func `62. a picture that is given goes to other devices with the version it shows`() async throws {
            try await blocking {
                let devices = try Devices()
                try devices.first.shell("echo text > note.txt")
                try Data(TestPicture.png(width: 300, height: 200, red: 8)).write(
                    to: URL(fileURLWithPath: devices.first.scratch.appending("given.png"))
                )
                try devices.first.shell("$COVE thumbnail note.txt --set $tmp/given.png")
                try devices.first.settle()
                try waitUntil("it is shared", deadline: 60) { (try? devices.first.statistics().thumbnailsSent) == 1 }
                let picture = try devices.thumbnail("note.txt", on: devices.second)
                #expect(picture.width == 300)
                #expect(
                    try devices.second.shell("$COVE thumbnail --json note.txt").contains("\"width\" : 300")
                        || devices.second.shell("$COVE thumbnail --json note.txt").contains("\"width\":300")
                )
                // What is none is refused and changes nothing.
                let refused = try devices.first.start("$COVE thumbnail note.txt --set note.txt").wait(deadline: 60)
                #expect(refused.status == 1 && refused.error.contains("that is no picture"), "\(refused)")
                // No file is left where it was handed over.
                #expect(try devices.first.shell("find $STATE -name '.thumbnail-*'") == "")
                try devices.first.shell("$COVE thumbnail note.txt --remove")
                #expect(try devices.first.start("$COVE thumbnail note.txt").wait(deadline: 60).status == 1)
                try waitUntil("the source has none", deadline: 60) {
                    (try? devices.first.shell("find $src/.cove-thumbnails -name '*.png'")) == ""
                }
                // What is made out of nothing, or of a folder, says what to do.
                let folder = try devices.first.start("mkdir d; $COVE thumbnail d").wait(deadline: 60)
                #expect(folder.status == 1 && folder.error.contains("only files have thumbnails"), "\(folder)")
                try devices.end()
            }
        }

        @Test func `a file manager finds pictures when it lists a folder, and other programs wait for none`()
            async throws
        {
            try await blocking {
                let devices = try Devices()
                for number in 1...3 {
                    try devices.put("\(number).png", TestPicture.png(width: 64 * number, height: 64, red: 200))
                }
                try devices.put("text.txt", Array("text".utf8))
                try waitUntil("they are shared", deadline: 60) {
                    (try? devices.first.statistics().thumbnailsSent) == 3
                }
                let second = devices.second
                try second.shell("ls -l; cat /dev/null > $tmp/seen")
                #expect(try second.statistics().thumbnailsFetched == 0)
                try second.shell("cp $(readlink -f $(command -v ls)) $tmp/thunar; $tmp/thunar")
                try waitUntil("all are there", deadline: 60) {
                    (1...3).allSatisfy { published("\($0).png", second)?.width == 64 * $0 }
                }
                #expect(published("text.txt", second) == nil)
                #expect(try second.statistics().downloadsStarted == 0)
                // What somebody has cleaned away is there again the next time, and those who watch the file hear of it.
                let watch = try second.start("exec inotifywait -m -q -e attrib --format '%f' .")
                try waitUntil("it watches", deadline: 60) { try watched(second, by: watch) }
                try second.shell("rm -r $tmp/.cache/thumbnails")
                try devices.first.shell("touch -d '2020-01-01 12:00' 2.png")
                try devices.first.settle()
                try second.settle()
                try waitUntil("the other time is told", deadline: 60) { watch.output.contains("2.png") }
                try second.shell("$tmp/thunar")
                try waitUntil("it is published with it", deadline: 60) {
                    published("2.png", second)?.texts["Thumb::MTime"] == "\(1_577_880_000)"
                        && (1...3).allSatisfy { published("\($0).png", second) != nil }
                }
                watch.signal(SIGKILL)
                try devices.end()
            }
        }

        /// True once inotify has the folder: a change of a file's attributes is told.
        private func watched(_ account: MountedAccount, by watch: Command) throws -> Bool {
            try account.shell("chmod u+r 1.png")
            return watch.output.contains("1.png")
        }

        @Test func `without thumbnails in the configuration nothing is made or published`() async throws {
            try await blocking {
                let account = try MountedAccount(options: "settle=50ms")
                let folder = account.scratch.appending(".config/cove")
                try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
                try Data("{ thumbnails: false }".utf8).write(to: URL(fileURLWithPath: folder + "/config.json5"))
                try account.start()
                let file = account.scratch.appending("a.png")
                try Data(TestPicture.png(width: 64, height: 64, red: 200)).write(to: URL(fileURLWithPath: file))
                try account.shell("cp $tmp/a.png .")
                try account.settle()
                let result = try account.start("$COVE thumbnail a.png").wait(deadline: 60)
                #expect(result.status == 1 && result.error.contains("there is no thumbnail of it"), "\(result)")
                try account.shell("[ ! -e $tmp/.cache/thumbnails ] && [ ! -e $src/.cove-thumbnails ]")
                try account.end()
            }
        }
    }
}
