import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveKit

/// Documents whose file is reached by a symbolic link.
@MainActor struct DocumentLinkTests {
    private let folder: Folder

    init() throws { folder = try Folder() }

    @Test func `a document at a symbolic link is what that points at`() async throws {
        let file = try folder.make("real.txt")
        let link = folder.url("link.txt")
        try FileManager.default.createSymbolicLink(at: link, withDestinationURL: file)
        let document = TextDocument(fileURL: link, clock: ManualClock())
        try await document.open()
        document.edit("mine")
        // Whoever reads the file has the document save.
        #expect(try await FileCoordinator().coordinate(readingItemAt: file) { try text($0) } == "mine")
        // The document's save waits for whoever has the file.
        let holder = try await blocking { try Held(reading: file).begun() }
        document.edit("mine again")
        let saving = Task { try await document.autosave() }
        try await waits(document)
        try await blocking { try holder.end() }
        try await saving.value
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link.path) == file.path)
        #expect(document.fileURL == link)
        try await FileCoordinator().coordinate(writingItemAt: file) {
            try "theirs".write(to: $0, atomically: true, encoding: .utf8)
        }
        await document.load(of: "theirs")
        document.type = "md"
        document.edit("marked down")
        try await document.close()
        #expect(try text(folder.url("real.md")) == "marked down" && document.fileURL == folder.url("real.md"))
    }

    @Test(arguments: zip(["link.txt", "links/link.txt"], ["real.txt", "../real.txt"]))
    func `another type gives what a symbolic link points at another name, not the link`(
        name: String,
        destination: String
    ) async throws {
        let (file, new, link) = (try folder.make("real.txt"), folder.url("real.md"), folder.url(name))
        try FileManager.default.createDirectory(at: link.deletingLastPathComponent(), withIntermediateDirectories: true)
        try FileManager.default.createSymbolicLink(atPath: link.path, withDestinationPath: destination)
        let follower = NotingPresenter(file, messages: [.didMove])
        try await FileCoordinator.addFilePresenter(follower)
        let document = TextDocument(fileURL: link, clock: ManualClock())
        try await document.open()
        // The document's save waits for whoever has the file, and leaves all as it was where it fails.
        let holder = try await blocking { try Held(reading: file).begun() }
        document.whileWriting.withLock { $0 = { throw CoveError(.noSpace) } }
        document.type = "md"
        document.edit("marked down")
        let saving = Task { try await document.autosave() }
        try await waits(document)
        try await blocking { try holder.end() }
        let failure = await #expect(throws: CoveError.self) { try await saving.value }
        #expect(try failure?.code == .noSpace && text(file) == "text" && text(link) == "text")
        #expect(document.fileURL == link && !FileManager.default.fileExists(atPath: new.path))
        document.whileWriting.withLock { $0 = nil }
        try await document.autosave()
        #expect(document.fileURL == new && document.fileType == "md" && document.documentState == .normal)
        let kind = try FileManager.default.attributesOfItem(atPath: new.path)[.type] as? FileAttributeType
        #expect(try kind == .typeRegular && text(new) == "marked down")
        #expect(!FileManager.default.fileExists(atPath: file.path))
        // The link is left as it was.
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link.path) == destination)
        try await blocking { try follower.events.wait(for: "moved real.md") }
        document.edit("more")
        #expect(try await FileCoordinator().coordinate(readingItemAt: new) { try text($0) } == "more")
        try await document.close()
        await FileCoordinator.removeFilePresenter(follower)
    }

    @Test func `a type that what a symbolic link points at has by its name renames nothing`() async throws {
        let (file, link) = (try folder.make("real.md"), folder.url("link.txt"))
        try FileManager.default.createSymbolicLink(at: link, withDestinationURL: file)
        let document = TextDocument(fileURL: link, clock: ManualClock())
        try await document.open()
        document.type = "md"
        document.edit("marked down")
        try await document.close()
        #expect(try text(file) == "marked down" && document.fileURL == file && document.fileType == "md")
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link.path) == file.path)
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.directory.path)
        #expect(names.sorted() == ["link.txt", "real.md"])
    }

    @Test func `a document that is made through a symbolic link waits for whoever has what that points at`()
        async throws
    {
        let (file, link) = (try folder.make("real.txt", "old"), folder.url("link.txt"))
        try FileManager.default.createSymbolicLink(at: link, withDestinationURL: file)
        let document = TextDocument(fileURL: link, clock: ManualClock())
        let writer = try await blocking { try Held(writing: file).begun() }
        let saving = Task { try await document.save(to: link, for: .forCreating) }
        try await waits(document)
        #expect(try text(file) == "old")
        try await blocking { try writer.end() }
        try await saving.value
        #expect(try text(file) == "new" && document.fileURL == link && document.documentState == .normal)
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link.path) == file.path)
        // It presents the file from then on.
        document.edit("mine")
        #expect(try await FileCoordinator().coordinate(readingItemAt: file) { try text($0) } == "mine")
        try await document.close()
    }
}
