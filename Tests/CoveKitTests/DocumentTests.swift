import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveKit

/// A document of text whose parts a test can make fail.
final class TextDocument: Document {
    var text = "new"
    var loads = 0
    var errors: [CoveError.Code] = []
    var isBroken = false
    /// Runs in the middle of a save, before the new file takes the old one's place.
    nonisolated let whileWriting = Mutex<(@Sendable () throws -> Void)?>(nil)

    override func contents(forType type: String) throws -> FileContents { .file(Data(text.utf8)) }

    override func load(fromContents contents: FileContents, ofType type: String) throws {
        guard !isBroken, let data = contents.data, let text = String(data: data, encoding: .utf8) else {
            throw CocoaError(.fileReadCorruptFile)
        }
        self.text = text
        loads += 1
    }

    override func handleError(_ error: CoveError) { errors.append(error.code) }

    nonisolated override func writeContents(
        _ contents: FileContents,
        to url: URL,
        for operation: SaveOperation,
        originalContentsURL: URL?
    ) throws {
        try super.writeContents(contents, to: url, for: operation, originalContentsURL: originalContentsURL)
        try whileWriting.withLock { $0 }?()
    }

    func edit(_ text: String) {
        self.text = text
        updateChangeCount(.done)
    }

    /// Waits for a state, which may be there already.
    func wait(for isRight: @escaping @Sendable (State) -> Bool) async {
        let changes = stateChanges
        if isRight(documentState) { return }
        for await state in changes where isRight(state) { return }
    }
}

/// Time that passes when a test says so.
final class ManualClock: Clock, Sendable {
    struct Instant: InstantProtocol {
        var offset: Duration
        func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        func duration(to other: Instant) -> Duration { other.offset - offset }
        static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    private struct State {
        var now = Instant(offset: .zero)
        var sleepers: [(Instant, CheckedContinuation<Void, Never>)] = []
    }

    private let state = Mutex(State())

    var now: Instant { state.withLock { $0.now } }
    var minimumResolution: Duration { .nanoseconds(1) }
    /// How many sleep.
    var sleepers: Int { state.withLock { $0.sleepers.count } }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                guard deadline > state.now else { return true }
                state.sleepers.append((deadline, continuation))
                return false
            }
            if isOver { continuation.resume() }
        }
    }

    /// Lets time pass.
    func advance(by duration: Duration) {
        let awake = state.withLock { state in
            state.now = state.now.advanced(by: duration)
            let now = state.now
            let awake = state.sleepers.filter { $0.0 <= now }
            state.sleepers.removeAll { $0.0 <= now }
            return awake
        }
        for sleeper in awake { sleeper.1.resume() }
    }
}

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
            if states.count == 4 { break }
        }
        #expect(states == [[.closed, .progressAvailable], .progressAvailable, .normal, .closed])
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
        let changes = document.stateChanges
        try await change(url, to: "theirs")
        for await state in changes where state == .normal { break }
        #expect(document.text == "theirs" && document.loads == 1)
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
        let coordinator = FileCoordinator()
        try await coordinator.coordinate(
            writingItemAt: old,
            options: .forMoving,
            writingItemAt: new,
            options: .forReplacing
        ) { from, to in
            try FileManager.default.moveItem(at: from, to: to)
            try coordinator.item(at: from, didMoveTo: to)
        }
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
        let changes = [one, two].map(\.stateChanges)
        try await change(one.fileURL, to: "theirs")
        for (document, states) in zip([one, two], changes) {
            for await state in states where state.isDisjoint(with: [.progressAvailable, .editingDisabled]) { break }
            #expect(document.text == "theirs" && document.documentState == .normal)
        }
        for document in [one, two] { document.edit("given up") }
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
        let changes = document.stateChanges
        try await change(folder.url("copy.txt"), to: "theirs")
        for await state in changes where state == .normal { break }
        #expect(document.text == "theirs")
        try await document.close()
    }

    @Test func `packages are saved and read as one`() async throws {
        let url = folder.url("p.rtfd")
        let old = FileContents.package(["a": .file(Data("1".utf8)), "d": .package(["b": .file(Data("2".utf8))])])
        let new = FileContents.package(["a": .file(Data("3".utf8))])
        for contents in [old, new] {
            try SafeSave(url).run(isPackage: true, DocumentAttributes()) { try contents.write(to: $0) }
            #expect(try FileContents(contentsOf: url) == contents)
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.directory.path) == ["p.rtfd"])
        let bad = FileContents.package(["../x": .file(Data())])
        #expect(throws: (any Error).self) {
            try SafeSave(url).run(isPackage: true, DocumentAttributes()) { try bad.write(to: $0) }
        }
        #expect(try FileContents(contentsOf: url) == new)
    }

    @Test func `a save keeps attributes, and what a symbolic link points at is saved in its place`() async throws {
        let file = try folder.make("real")
        let link = folder.url("link")
        try FileManager.default.createSymbolicLink(at: link, withDestinationURL: file)
        let document = AttributedDocument(fileURL: link)
        try await document.open()
        document.edit("through the link")
        try await document.save(to: link, for: .forOverwriting)
        #expect(try text(file) == "through the link")
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link.path) == file.path)
        try await document.close()
        let values = try FileContents(contentsOf: file)
        #expect(values == .file(Data("through the link".utf8)))
        let mode = try FileManager.default.attributesOfItem(atPath: file.path)
        #expect(mode[.posixPermissions] as? Int == 0o604)
        #expect(mode[.modificationDate] as? Date == Date(timeIntervalSince1970: 1_700_000_000))
    }

    private final class AttributedDocument: Document {
        private var text = ""
        override func contents(forType type: String) throws -> FileContents { .file(Data(text.utf8)) }
        override func load(fromContents contents: FileContents, ofType type: String) throws {}
        func edit(_ text: String) {
            self.text = text
            updateChangeCount(.done)
        }
        override func fileAttributesToWrite(to url: URL, for operation: SaveOperation) throws -> DocumentAttributes {
            var attributes = DocumentAttributes()
            attributes.permissions = 0o604
            attributes.modificationDate = Date(timeIntervalSince1970: 1_700_000_000)
            return attributes
        }
    }
}
