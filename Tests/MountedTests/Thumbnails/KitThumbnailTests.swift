import CoveCore
import CoveKit
import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// Pictures that apps save with their documents, and read of others'.
    struct KitThumbnailTests {
        /// A text whose picture is as wide as the text is long.
        @MainActor private final class Sketch: Document, @unchecked Sendable {
            var text = ""
            var picture: Data?

            override func contents(forType type: String) async throws -> FileContents { .file(Data(text.utf8)) }

            override func load(fromContents contents: FileContents, ofType type: String) async throws {
                text = String(decoding: try await contents.read(), as: UTF8.self)
            }

            override func fileAttributesToWrite(
                to url: URL,
                for operation: SaveOperation
            ) async throws -> DocumentAttributes {
                var attributes = DocumentAttributes()
                attributes.thumbnail = picture
                return attributes
            }
        }

        private static func png(_ width: Int) -> Data { Data(TestPicture.png(width: width, height: 20, red: 7)) }

        /// How wide the picture is that a promised item has; nil where it has none.
        private func width(_ url: URL) async throws -> Int? {
            let values = try await PromisedItem.resourceValues(ofItemAt: url, forKeys: [.thumbnailDictionaryKey])
            #expect(Array(values.keys) == [.thumbnailDictionaryKey])
            guard case .images(let images)? = values[.thumbnailDictionaryKey] ?? nil else { return nil }
            #expect(Array(images.keys) == ["NSThumbnail1024x1024SizeKey"])
            return images.values.first.flatMap { Picture([UInt8]($0))?.width }
        }

        private func waitForWidth(_ width: Int?, _ url: URL) async throws {
            let end = System.monotonic() + .seconds(60)
            while try await self.width(url) != width {
                guard System.monotonic() < end else { throw CommandFailure("its picture is not \(width as Int?) wide") }
                try await Task.sleep(for: .milliseconds(50))
            }
        }

        private func account(at source: String? = nil) async throws -> MountedAccount {
            try await blocking {
                let account = try MountedAccount(options: "settle=50ms", address: source.map { "dir://\($0)" })
                try account.start()
                return account
            }
        }

        @MainActor private func save(_ text: String, _ picture: Data?, at url: URL, isNew: Bool) async throws {
            let document = Sketch(fileURL: url)
            if !isNew { try await document.open() }
            document.text = text
            document.picture = picture
            try await document.save(to: url, for: isNew ? .forCreating : .forOverwriting)
            try await document.close()
        }

        @Test func `62. a picture saved with a document is a promised value on another device`() async throws {
            let first = try await account()
            let second = try await account(at: first.source.path)
            let (url, other) = (first.url("note.sketch"), second.url("note.sketch"))
            try await save("text", Self.png(300), at: url, isNew: true)
            #expect(try await width(url) == 300)
            try await blocking {
                try first.settle()
                try waitUntil("it is shared", deadline: 60) { (try? first.statistics().thumbnailsSent) == 1 }
                try second.settle()
            }
            try await waitForWidth(300, other)
            #expect(try await ItemThumbnail.data(ofItemAt: other).flatMap { Picture([UInt8]($0)) }?.height == 20)
            // A save without a picture leaves none, nor does what is no picture, which is no error of the save.
            try await save("other", nil, at: url, isNew: false)
            #expect(try await width(url) == nil)
            try await save("third", Data("no picture".utf8), at: url, isNew: false)
            #expect(try await width(url) == nil)
            try await blocking {
                try first.settle()
                try second.settle()
                #expect(try second.info("note.sketch").state == "dataless")
            }
            #expect(try await width(other) == nil)
            // Given by itself, under a write that leaves the contents alone.
            let coordinator = FileCoordinator(filePresenter: nil)
            try await coordinator.coordinate(writingItemAt: other, options: .contentIndependentMetadataOnly) { url in
                try await ItemThumbnail.set(Self.png(100), ofItemAt: url)
            }
            try await blocking {
                try waitUntil("it is shared", deadline: 60) { (try? second.statistics().thumbnailsSent) == 1 }
            }
            try await waitForWidth(100, url)
            await #expect(throws: CoveError.self) { try await ItemThumbnail.set(Data("x".utf8), ofItemAt: other) }
            await #expect(throws: CoveError.self) { try await ItemThumbnail.data(ofItemAt: second.url("none")) }
            #expect(try await width(other) == 100)
            try await ItemThumbnail.set(nil, ofItemAt: other)
            #expect(try await width(other) == nil)
            try await blocking {
                #expect(try second.statistics().downloadsStarted == 0)
                try first.end()
                try second.end()
            }
        }
    }
}

extension MountedAccount {
    fileprivate func url(_ name: String) -> URL { URL(fileURLWithPath: path(name)) }
}
