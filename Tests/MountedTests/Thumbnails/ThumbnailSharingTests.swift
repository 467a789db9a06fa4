import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// What the source has of pictures, whatever happens while it gets and drops them.
    struct ThumbnailSharingTests {
        private func account(_ options: String = "settle=50ms", at source: String? = nil) throws -> MountedAccount {
            let account = try MountedAccount(options: options, address: source.map { "dir://\($0)" })
            for width in [100, 200] {
                try Data(TestPicture.png(width: width, height: 20, red: 9)).write(
                    to: URL(fileURLWithPath: account.scratch.appending("\(width).png"))
                )
            }
            try account.start()
            return account
        }

        /// How wide the pictures are that the source has.
        private func stored(_ source: SourceFolder) -> [Int] {
            let root = source.path + "/.cove-thumbnails"
            let names = (try? FileManager.default.subpathsOfDirectory(atPath: root)) ?? []
            return names.compactMap { ThumbnailCache.read("\(root)/\($0)")?.width }.sorted()
        }

        private func width(_ name: String, _ account: MountedAccount) throws -> Int? {
            let result = try account.start("$COVE thumbnail '\(name)'").wait(deadline: 60)
            return result.status == 0 ? ThumbnailCache.read(String(result.output.dropLast()))?.width : nil
        }

        private func waitUntilStored(_ widths: [Int], _ account: MountedAccount) throws {
            try waitUntil("the source has \(widths)", deadline: 90) { stored(account.source) == widths }
        }

        @Test func `of two pictures given one after the other the source has the second`() async throws {
            try await blocking {
                let account = try account("settle=50ms,simulate-latency=400ms")
                try account.shell("echo text > a.txt; $COVE sync --wait")
                try account.shell("$COVE thumbnail a.txt --set $tmp/100.png; $COVE thumbnail a.txt --set $tmp/200.png")
                #expect(try width("a.txt", account) == 200)
                try waitUntilStored([200], account)
                // One that is taken away while it is sent is not there in the end.
                try account.shell("$COVE thumbnail a.txt --set $tmp/100.png; $COVE thumbnail a.txt --remove")
                try waitUntilStored([], account)
                #expect(try width("a.txt", account) == nil)
                try account.end()
            }
        }

        @Test func `pictures follow a folder that goes and comes back while they are sent and dropped`() async throws {
            try await blocking {
                let account = try account("settle=50ms,simulate-latency=100ms")
                try account.shell("mkdir d; for n in $(seq 12); do cp $tmp/100.png d/$n.png; done; $COVE sync --wait")
                let all = [Int](repeating: 100, count: 12)
                try waitUntilStored(all, account)
                let places = try account.shell("cd $src/.cove-thumbnails; find . -name '*.png' | sort")
                for names in [("d", "e"), ("e", "d")] {
                    try account.shell("mv \(names.0) \(names.1); $COVE sync --wait")
                }
                try waitUntil("all are where they were, and nowhere else", deadline: 90) {
                    try account.shell("cd $src/.cove-thumbnails; find . -name '*.png' | sort") == places
                }
                // No folder is left that has none.
                try waitUntil("there is one folder", deadline: 60) {
                    try account.shell("ls $src/.cove-thumbnails | wc -l") == "1\n"
                }
                // The same by another device, which has none of them.
                let other = try self.account(at: account.source.path)
                try other.shell("mv d f; $COVE sync --wait")
                try account.settle()
                try waitUntil("they are shared for the new place", deadline: 90) {
                    try account.shell("cd $src/.cove-thumbnails; find . -name '*.png' | sort") != places
                        && stored(account.source) == all
                }
                #expect(try width("f/7.png", other) == 100)
                #expect(try other.statistics().downloadsStarted == 0)
                try account.shell("rm -r f; $COVE sync --wait --accept-local-deletions")
                try waitUntilStored([], account)
                try account.end()
                try other.end()
            }
        }

        @Test func `a picture whose file is gone is found again, and so is one that was missed`() async throws {
            try await blocking {
                let account = try account()
                try account.shell("cp $tmp/100.png a.png; $COVE sync --wait")
                try waitUntilStored([100], account)
                try account.shell("$COVE evict a.png; rm $STATE/thumbnails/*.png")
                #expect(try width("a.png", account) == 100)
                #expect(try account.statistics().thumbnailsFetched == 1)
                // What comes later has none until its bytes are here, and then at once.
                try account.source.save("b.png", TestPicture.png(width: 150, height: 20, red: 3))
                try account.settle()
                #expect(try width("b.png", account) == nil)
                try account.shell("cat b.png > /dev/null")
                #expect(try width("b.png", account) == 150)
                try waitUntilStored([100, 150], account)
                // A file that is edited while it is open has one when it is closed and sent.
                try account.shell("exec 3<>a.png; cat $tmp/200.png >&3; $COVE thumbnail a.png || true; exec 3>&-")
                try account.settle()
                try waitUntilStored([150, 200], account)
                try account.end()
            }
        }

        @Test func `a read-only account drops nothing, and a folder of pictures hinders no deletion`() async throws {
            try await blocking {
                let account = try account()
                try account.shell("mkdir below; cp $tmp/100.png below/a.png; $COVE sync --wait")
                let reader = try self.account("settle=50ms,ro", at: account.source.path)
                #expect(try width("below/a.png", reader) == nil || width("below/a.png", reader) == 100)
                // Another account's root is a folder here, with a hidden folder of pictures.
                let nested = try self.account(at: account.source.path + "/below")
                try nested.shell("cp $tmp/200.png b.png; $COVE sync --wait")
                try waitUntil("it has its own pictures", deadline: 60) {
                    (try? account.shell("find $src/below/.cove-thumbnails -name '*.png' | wc -l")) == "1\n"
                }
                try nested.end()
                try account.settle()
                try account.shell("rm -r below; $COVE sync --wait")
                try waitUntil("the folder is gone", deadline: 60) {
                    !FileManager.default.fileExists(atPath: account.source.path + "/below")
                }
                try waitUntilStored([], account)
                try reader.settle()
                #expect(try reader.shell("ls") == "")
                try reader.end()
                try account.end()
            }
        }

        @Test func `a thumbnailer that hangs delays no other picture, and is left alone`() async throws {
            try await blocking {
                let account = try MountedAccount(options: "settle=50ms")
                let folder = account.scratch.appending(".local/share/thumbnailers")
                try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
                let entry = "[Thumbnailer Entry]\nExec=/bin/sleep 9876541\nMimeType=text/plain;\n"
                try Data(entry.utf8).write(to: URL(fileURLWithPath: folder + "/hangs.thumbnailer"))
                try account.start()
                try account.shell("for n in 1 2 3 4 5 6; do echo $n > $n.txt; done; $COVE sync --wait")
                try waitUntil("it runs", deadline: 60) {
                    try account.shell("pgrep -f '[s]leep 9876541' || true").isEmpty == false
                }
                let picture = account.scratch.appending("given.png")
                try Data(TestPicture.png(width: 64, height: 20, red: 3)).write(to: URL(fileURLWithPath: picture))
                let start = ContinuousClock.now
                try account.shell("$COVE thumbnail 6.txt --set $tmp/given.png")
                #expect(try width("6.txt", account) == 64)
                #expect(ContinuousClock.now - start < .seconds(15))
                // The unmount does not wait for it, and nothing is left of it.
                try account.end()
                try waitUntil("it has ended", deadline: 60) {
                    try account.start("pgrep -f '[s]leep 9876541' || true").wait(deadline: 20).output.isEmpty
                }
            }
        }
    }
}
