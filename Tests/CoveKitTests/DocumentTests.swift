import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveKit

/// Documents in an ordinary folder; the numbers are those of the acceptance checklist.
@MainActor struct DocumentTests {
    private let folder: Folder

    init() throws { folder = try Folder() }

    private func created(_ name: String = "doc.txt", clock: any Clock<Duration> = ManualClock()) async throws
        -> TextDocument
    {
        let document = TextDocument(fileURL: folder.url(name), clock: clock)
        try await document.save(to: document.fileURL, for: .forCreating)
        return document
    }

    @Test func `28. what is saved is read again`() async throws {
        let document = TextDocument(fileURL: folder.url("Grüße 漢字.txt"))
        document.text = "Zażółć gęślą jaźń 🌊\n"
        try await document.save(to: document.fileURL, for: .forCreating)
        #expect(document.documentState == .normal && !document.hasUnsavedChanges)
        try await document.close()
        let again = TextDocument(fileURL: document.fileURL)
        try await again.open()
        #expect(again.text == document.text && again.localizedName == "Grüße 漢字" && again.fileType == "txt")
        let modified = try FileManager.default.attributesOfItem(atPath: again.fileURL.path)[.modificationDate] as? Date
        #expect(abs(try #require(again.fileModificationDate).timeIntervalSince(try #require(modified))) < 0.001)
        try await again.close()
    }

    @Test func `who stops to listen while the state changes holds up nobody`() async throws {
        let document = TextDocument(fileURL: folder.url("doc.txt"))
        let (changes, readers) = (Box(), Box())
        try BlockingThread.start {
            while !readers.isSet.load(ordering: .relaxed) {
                document.change { $0.formSymmetricDifference(.progressAvailable) }
            }
            changes.isSet.store(true, ordering: .relaxed)
        }
        try BlockingThread.start {
            for _ in 0..<2000 {
                let stream = document.stateChanges
                let reader = Task { for await _ in stream {} }
                sched_yield()
                reader.cancel()
            }
            readers.isSet.store(true, ordering: .relaxed)
        }
        try await blocking {
            try waitUntil("all have come and gone") { changes.isSet.load(ordering: .relaxed) }
        }
    }

    private final class Box: Sendable { let isSet = Atomic<Bool>(false) }

    @Test func `29. closed before, normal while it is open, closed after, and when it can't be loaded`() async throws {
        let document = TextDocument(fileURL: try folder.make("doc.txt"))
        #expect(document.documentState == .closed)
        document.isBroken = true
        let error = await #expect(throws: CoveError.self) { try await document.open() }
        #expect(error?.cause is CocoaError && document.errors.count == 1)
        #expect(document.documentState == .closed && !isPresented(document))
        document.isBroken = false
        let changes = document.stateChanges
        try await document.open()
        #expect(document.documentState == .normal && isPresented(document))
        try await document.close()
        #expect(document.documentState == .closed && !isPresented(document))
        var states: [Document.State] = []
        for await state in changes {
            states.append(state)
            if states.count == 5 { break }
        }
        #expect(states == [.closed, [.closed, .progressAvailable], .progressAvailable, .normal, .closed])
        let closed = await #expect(throws: CoveError.self) {
            try await document.save(to: document.fileURL, for: .forOverwriting)
        }
        #expect(closed?.code == .invalidArgument && document.documentState == .closed)
        try await document.open()
        let again = await #expect(throws: CoveError.self) { try await document.open() }
        #expect(again?.code == .invalidArgument && document.documentState == .normal)
        try await document.close()
        let missing = TextDocument(fileURL: folder.url("none"))
        let absent = await #expect(throws: CoveError.self) { try await missing.open() }
        #expect(absent?.code == .noSuchFile)
    }

    private func isPresented(_ document: Document) -> Bool {
        FileCoordinator.filePresenters.contains { $0 === document }
    }

    @Test func `30. a save that fails before its end leaves the old contents and nothing else`() async throws {
        let document = try await created()
        try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: document.fileURL.path)
        document.whileWriting.withLock { $0 = { throw CoveError(.noSpace) } }
        document.edit("newer")
        let error = await #expect(throws: CoveError.self) { try await document.autosave() }
        #expect(error?.code == .noSpace && document.documentState == .savingError && document.hasUnsavedChanges)
        let seen = Mutex<[String]>([])
        let path = folder.directory.path
        #expect(try text(document.fileURL) == "new")
        #expect(try FileManager.default.contentsOfDirectory(atPath: path) == ["doc.txt"])
        document.whileWriting.withLock { body in
            body = {
                let names = try FileManager.default.contentsOfDirectory(atPath: path)
                seen.withLock { $0 = names.sorted() }
            }
        }
        // What a process that was killed has left: nobody holds its lock.
        _ = try folder.make(".doc.txt.cove-save-0", "half")
        // Nobody writes into this one: it is not waited for.
        #expect(mkfifo("\(path)/.doc.txt.cove-save-1", 0o600) == 0)
        try await document.autosave()
        #expect(seen.withLock { $0 } == [".doc.txt.cove-save-0", "doc.txt"])
        #expect(try FileManager.default.contentsOfDirectory(atPath: path) == ["doc.txt"])
        #expect(try text(document.fileURL) == "newer" && document.documentState == .normal)
        let mode = try FileManager.default.attributesOfItem(atPath: document.fileURL.path)[.posixPermissions] as? Int
        #expect(mode == 0o640)
        try await document.close()
    }

    @Test func `31. an edit during a save is unsaved after it`() async throws {
        let document = try await created()
        let (isWriting, mayGoOn) = (AsyncStream.makeStream(of: Void.self), DispatchSemaphore(value: 0))
        document.whileWriting.withLock { body in
            body = {
                isWriting.continuation.yield()
                mayGoOn.wait()
            }
        }
        document.edit("first")
        let saving = Task { try await document.autosave() }
        for await _ in isWriting.stream { break }
        document.edit("second")
        document.whileWriting.withLock { $0 = nil }
        mayGoOn.signal()
        try await saving.value
        #expect(document.hasUnsavedChanges)
        #expect(try text(document.fileURL) == "first")
        try await document.close()
        #expect(try text(document.fileURL) == "second")
    }

    @Test func `32. autosave comes when a change is old enough, and not without one`() async throws {
        let clock = ManualClock()
        let document = try await created(clock: clock)
        #expect(clock.sleepers == 0)
        document.edit("later")
        while clock.sleepers == 0 { await Task.yield() }
        clock.advance(by: .seconds(9))
        #expect(try text(document.fileURL) == "new" && document.hasUnsavedChanges)
        clock.advance(by: .seconds(1))
        await document.wait { $0.contains(.progressAvailable) }
        await document.wait { $0 == .normal }
        #expect(try text(document.fileURL) == "later")
        #expect(!document.hasUnsavedChanges && clock.sleepers == 0)
        document.updateChangeCount(.done)
        document.updateChangeCount(.undone)
        #expect(!document.hasUnsavedChanges)
        clock.advance(by: .seconds(10))
        try await document.close()
    }

    @Test func `33. close saves, and presents no longer`() async throws {
        let document = try await created()
        document.edit("last")
        try await document.close()
        #expect(try text(document.fileURL) == "last" && !isPresented(document))
        let failing = try await created("other.txt")
        failing.edit("lost?")
        failing.whileWriting.withLock { $0 = { throw CoveError(.noSpace) } }
        await #expect(throws: CoveError.self) { try await failing.close() }
        #expect(!failing.documentState.contains(.closed) && isPresented(failing) && failing.hasUnsavedChanges)
        failing.whileWriting.withLock { $0 = nil }
        try await failing.close()
        #expect(try text(failing.fileURL) == "lost?")
    }

    @Test func `34. a document loads what others write, unless it has changes of its own`() async throws {
        let document = try await created()
        let url = document.fileURL
        try await change(url, to: "theirs")
        await document.load(of: "theirs")
        #expect(document.loads == 1)
        // An edit of one's own is neither lost nor written over the other's.
        document.edit("mine")
        try await change(url, to: "theirs again")
        let error = await #expect(throws: CoveError.self) { try await document.autosave() }
        #expect(error?.code == .stale && document.documentState.contains(.savingError) && document.text == "mine")
        #expect(try text(url) == "theirs again")
        try await document.revert()
        #expect(document.text == "theirs again" && !document.hasUnsavedChanges && document.documentState == .normal)
        document.isBroken = true
        await #expect(throws: CoveError.self) { try await document.revert() }
        #expect(document.documentState == [.editingDisabled, .savingError] && document.text == "theirs again")
        document.isBroken = false
        try await document.revert()
        #expect(document.documentState == .normal)
        try await document.close()
    }

    private func change(_ url: URL, to text: String) async throws {
        try await FileCoordinator().coordinate(writingItemAt: url) {
            try text.write(to: $0, atomically: true, encoding: .utf8)
        }
    }

    @Test func `35. a document follows its file, and closes when that is deleted`() async throws {
        let document = try await created()
        let (old, new) = (document.fileURL, folder.url("renamed.txt"))
        try await move(old, to: new)
        // Messages to one presenter come in order: this one after the move.
        try await FileCoordinator().coordinate(readingItemAt: new) { _ in }
        #expect(document.fileURL == new)
        document.edit("more")
        try await document.autosave()
        #expect(try text(new) == "more" && !FileManager.default.fileExists(atPath: old.path))
        document.edit("never saved")
        try await FileCoordinator().coordinate(writingItemAt: new, options: .forDeleting) {
            try FileManager.default.removeItem(at: $0)
        }
        #expect(document.documentState == .closed && !isPresented(document))
        #expect(!FileManager.default.fileExists(atPath: new.path))
    }

    @Test func `37. where nothing can be written a save says so, and the next good one clears it`() async throws {
        let document = try await created()
        let lost = folder.url("none/doc.txt")
        let error = await #expect(throws: CoveError.self) { try await document.save(to: lost, for: .forCreating) }
        #expect(error?.code == .noSuchFile && document.documentState == .savingError)
        #expect(document.fileURL == folder.url("doc.txt") && document.errors == [.noSuchFile])
        try await document.save(to: document.fileURL, for: .forOverwriting)
        #expect(document.documentState == .normal)
        try await document.close()
    }

    @Test func `a reader in another place gets what is unsaved`() async throws {
        let document = try await created()
        document.edit("unsaved")
        let read = try await FileCoordinator().coordinate(readingItemAt: document.fileURL) { try text($0) }
        #expect(read == "unsaved" && !document.hasUnsavedChanges)
        try await document.close()
    }

    @Test func `documents of one file load and revert side by side`() async throws {
        let one = try await created()
        let two = TextDocument(fileURL: one.fileURL, clock: ManualClock())
        try await two.open()
        try await change(one.fileURL, to: "theirs")
        for document in [one, two] { await document.load(of: "theirs") }
        for document in [one, two] { document.edit("given up") }
        // Neither reads before both have begun: one that has not yet saves for the other what it is about to give up.
        let begun = Events()
        for document in [one, two] {
            document.whileDisabled = {
                begun.add("revert")
                while begun.all.count < 2 { await Task.yield() }
            }
        }
        async let other: Void = two.revert()
        try await one.revert()
        try await other
        #expect(one.text == "theirs" && two.text == "theirs")
        for document in [one, two] { try await document.close() }
    }

    @Test func `save to another place moves the document there`() async throws {
        let document = try await created()
        document.edit("copy")
        try await document.save(to: folder.url("copy.txt"), for: .forCreating)
        #expect(document.fileURL == folder.url("copy.txt") && !document.hasUnsavedChanges)
        #expect(try text(folder.url("doc.txt")) == "new" && text(folder.url("copy.txt")) == "copy")
        try await change(folder.url("copy.txt"), to: "theirs")
        await document.load(of: "theirs")
        try await document.close()
    }
}
