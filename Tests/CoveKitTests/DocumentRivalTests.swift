import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveKit

/// Documents whose file others want, or delete.
@MainActor struct DocumentRivalTests {
    private let folder: Folder

    init() throws { folder = try Folder() }

    private func created(_ name: String = "doc.txt", clock: any Clock<Duration> = ManualClock()) async throws
        -> TextDocument
    {
        let document = TextDocument(fileURL: folder.url(name), clock: clock)
        try await document.save(to: document.fileURL, for: .forCreating)
        return document
    }

    @Test(.timeLimit(.minutes(2))) func `who asks for what a revert gives up does not wait for the revert`()
        async throws
    {
        let document = try await created()
        document.edit("given up")
        let url = document.fileURL
        let holder = try await blocking { try Held(writing: url).begun() }
        // As if a save were running, behind which the revert comes, and then the question of others.
        let operations = document.operations
        await operations.begin()
        let reverting = Task { try await document.revert() }
        while operations.waitingCount < 1 { await Task.yield() }
        let asked = Task { try await document.savePresentedItemChanges() }
        while operations.waitingCount < 2 { await Task.yield() }
        operations.end()
        try await asked.value
        try await blocking { try holder.end() }
        try await reverting.value
        #expect(document.text == "new" && document.documentState == .normal)
        // Afterwards others get what is unsaved again.
        document.edit("newer")
        #expect(try await FileCoordinator().coordinate(readingItemAt: url) { try text($0) } == "newer")
        try await document.close()
    }

    @Test(arguments: [true, false]) func `35. what waits for a file that is deleted does not bring it back`(
        isSave: Bool
    ) async throws {
        let document = try await created()
        let url = document.fileURL
        let (holder, deleter) = try await blocking {
            (
                try Held(writing: url).begun(),
                try Held([.writingIntent(with: url, options: .forDeleting)]) { urls in
                    try FileManager.default.removeItem(at: urls[0])
                }.queued()
            )
        }
        document.edit("mine")
        let operation = Task {
            if isSave { try await document.autosave() } else { try await document.revert() }
        }
        try await waits(document)
        try await blocking {
            try holder.end()
            try deleter.begun().end()
        }
        // It may come before the deletion, but not after it.
        if case .failure(let failure) = await operation.result {
            #expect(CoveError(failure).code == .noSuchFile && document.text == "mine")
        }
        #expect(document.documentState == .closed)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.directory.path).isEmpty)
    }

    @Test func `34. a save that waited behind a writer does not write over what that wrote`() async throws {
        let document = try await created()
        let url = document.fileURL
        let writer = try await blocking {
            try Held([.writingIntent(with: url)]) { urls in
                try "theirs".write(to: urls[0], atomically: true, encoding: .utf8)
            }.begun()
        }
        document.edit("mine")
        let saving = Task { try await document.autosave() }
        try await waits(document)
        try await blocking { try writer.end() }
        let failure = await #expect(throws: CoveError.self) { try await saving.value }
        #expect(try failure?.code == .stale && text(url) == "theirs" && document.text == "mine")
        #expect(document.hasUnsavedChanges && document.documentState == .savingError)
        try await document.revert()
        try await document.close()
    }

    @Test func `an autosave while the document catches up with others saves, or says why it can't`() async throws {
        let document = try await created()
        var saving: Task<Void, any Error>?
        document.whileDisabled = {
            document.edit("mine")
            saving = Task { try await document.autosave() }
        }
        try "theirs".write(to: document.fileURL, atomically: true, encoding: .utf8)
        await document.catchUp()
        let failure = await #expect(throws: CoveError.self) { try await saving?.value }
        #expect(failure?.code == .stale && document.hasUnsavedChanges && document.text == "mine")
        #expect(try text(document.fileURL) == "theirs")
        document.whileDisabled = nil
        try await document.revert()
        #expect(document.text == "theirs")
        try await document.close()
    }

    @Test func `a file that is gone is not made again by a save, but by the one who asks for it`() async throws {
        let document = try await created()
        let url = document.fileURL
        try FileManager.default.removeItem(at: url)
        document.edit("mine")
        let failure = await #expect(throws: CoveError.self) { try await document.autosave() }
        #expect(failure?.code == .noSuchFile && !FileManager.default.fileExists(atPath: url.path))
        #expect(document.hasUnsavedChanges && document.documentState == .savingError)
        // A reader is not kept from finding out by itself.
        try await FileCoordinator().coordinate(readingItemAt: url) { _ in }
        try await document.save(to: url, for: .forCreating)
        #expect(try text(url) == "mine" && document.documentState == .normal)
        try await document.close()
    }

    @Test func `a file that is away for a moment closes no document, one that stays away does`() async throws {
        let clock = ManualClock()
        let document = try await created(clock: clock)
        let backup = folder.url("doc.txt.orig")
        try FileManager.default.moveItem(at: document.fileURL, to: backup)
        await document.presentedItemDidChange()
        while clock.sleepers == 0 { await Task.yield() }
        try "saved by way of a backup".write(to: document.fileURL, atomically: false, encoding: .utf8)
        clock.advance(by: .seconds(15))
        await document.presentedItemDidChange()
        await document.load(of: "saved by way of a backup")
        try FileManager.default.removeItem(at: document.fileURL)
        await document.presentedItemDidChange()
        while clock.sleepers == 0 { await Task.yield() }
        #expect(document.documentState == .normal)
        clock.advance(by: .seconds(15))
        await document.wait { $0 == .closed }
    }

    @Test func `a document that is told of a change before that is to be seen looks again`() async throws {
        let document = try await created()
        let (url, other) = (document.fileURL, folder.url("other.txt"))
        await document.presentedItemDidChange()
        #expect(await document.catchUp() == false)
        try "replaced".write(to: other, atomically: false, encoding: .utf8)
        #expect(rename(other.path, url.path) == 0)
        await document.load(of: "replaced")
        try FileManager.default.moveItem(at: url, to: other)
        await document.presentedItemDidChange()
        try await until("it is missed") { document.shared.withLock { $0.closing } != nil }
        try "saved".write(to: url, atomically: false, encoding: .utf8)
        await document.load(of: "saved")
        #expect(document.shared.withLock { $0.closing } == nil)
        try await document.close()
    }

    @Test func `a document that was moved saves by itself once that was no backup`() async throws {
        let clock = ManualClock()
        let document = try await created(clock: clock)
        let (name, other) = (document.fileURL, folder.url("other.txt"))
        try FileManager.default.moveItem(at: name, to: other)
        await document.presentedItemDidMove(to: other)
        document.edit("mine")
        try await until("both times have begun") { clock.sleepers == 2 }
        // Old enough to be saved.
        clock.advance(by: .seconds(10))
        try await until("the save waits") {
            document.shared.withLock { $0.isAutosaveHeld } || !document.hasUnsavedChanges
        }
        #expect(try text(other) == "new" && document.hasUnsavedChanges)
        clock.advance(by: .seconds(5))
        try await until("it is saved") { !document.hasUnsavedChanges }
        #expect(try text(other) == "mine")
        try FileManager.default.moveItem(at: other, to: name)
        await document.presentedItemDidMove(to: name)
        document.edit("late")
        try await document.save(to: name, for: .forOverwriting)
        #expect(try text(name) == "late")
        // Back where it was just now.
        try FileManager.default.moveItem(at: name, to: other)
        await document.presentedItemDidMove(to: other)
        #expect(document.shared.withLock { $0.vacancy == nil })
        document.edit("later")
        try await document.close()
        #expect(try text(other) == "later")
    }

    @Test func `a document that is told late of its move is not missed at the old name any longer`() async throws {
        let clock = ManualClock()
        let document = try await created(clock: clock)
        let other = folder.url("other.txt")
        try FileManager.default.moveItem(at: document.fileURL, to: other)
        await document.catchUp()
        try await until("it is missed") { clock.sleepers == 1 }
        await document.presentedItemDidMove(to: other)
        #expect(document.shared.withLock { $0.closing } == nil)
        // Only the time in which the old name may be taken again is waited for.
        try await until("that begins") { clock.sleepers == 1 && document.shared.withLock { $0.vacancy } != nil }
        try await document.close()
    }

    @Test func `a document that is told late of its move closes when the file is gone from there, too`() async throws {
        let clock = ManualClock()
        let document = try await created(clock: clock)
        let other = folder.url("other.txt")
        try FileManager.default.removeItem(at: document.fileURL)
        await document.catchUp()
        try await until("it is missed") { clock.sleepers == 1 }
        await document.presentedItemDidMove(to: other)
        try await until("both times have begun") { clock.sleepers == 2 }
        clock.advance(by: .seconds(15))
        await document.wait { $0 == .closed }
    }

    @Test func `who may delete a file finds its document closed`() async throws {
        for _ in 0..<200 {
            let document = try await created()
            let state = try await FileCoordinator().coordinate(writingItemAt: document.fileURL, options: .forDeleting) {
                try FileManager.default.removeItem(at: $0)
                return document.documentState
            }
            #expect(state == .closed)
        }
    }

    @Test func `a file that comes back and goes again has the whole time once more`() async throws {
        let clock = ManualClock()
        let document = try await created(clock: clock)
        let contents = try Data(contentsOf: document.fileURL)
        try FileManager.default.removeItem(at: document.fileURL)
        await document.catchUp()
        while clock.sleepers < 1 { await Task.yield() }
        clock.advance(by: .seconds(10))
        try contents.write(to: document.fileURL)
        await document.catchUp()
        try #require(document.shared.withLock { $0.closing == nil })
        try FileManager.default.removeItem(at: document.fileURL)
        await document.catchUp()
        while clock.sleepers < 1 { await Task.yield() }
        // The time of the first wait ends, and the second goes on.
        clock.advance(by: .seconds(5))
        await document.catchUp()
        #expect(document.documentState == .normal && clock.sleepers == 1)
        clock.advance(by: .seconds(10))
        await document.wait { $0 == .closed }
    }

    @Test func `a type has the extension that the document says`() async throws {
        final class Mapped: Document, @unchecked Sendable {
            override var fileType: String { super.fileType == "txt" ? "public.plain-text" : "public.html" }
            override var savingFileType: String { get async { "public.html" } }
            override func fileNameExtension(forType type: String, saveOperation: SaveOperation) -> String {
                type == "public.html" ? "html" : "txt"
            }
            override func contents(forType type: String) async throws -> FileContents { .file(Data("text".utf8)) }
            override func load(fromContents contents: FileContents, ofType type: String) async throws {}
        }
        let document = Mapped(fileURL: try folder.make("page.txt"))
        try await document.open()
        try await document.save(to: document.fileURL, for: .forOverwriting)
        #expect(document.fileURL == folder.url("page.html") && document.fileType == "public.html")
        try await document.save(to: document.fileURL, for: .forOverwriting)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.directory.path) == ["page.html"])
        try await document.close()
    }

    @Test func `the state's changes begin with the state, and few of them wait`() async throws {
        let document = try await created()
        let slow = document.stateChanges
        for _ in 0..<1000 {
            document.change { $0.insert(.inConflict) }
            document.change { $0.remove(.inConflict) }
        }
        var states: [Document.State] = []
        document.change { $0.insert(.savingError) }
        for await state in slow {
            states.append(state)
            if state == .savingError { break }
        }
        #expect(states.count <= 64 && states.last == .savingError)
        for await state in document.stateChanges {
            #expect(state == .savingError)
            break
        }
        try await document.close()
    }
}

/// Documents of programs that have no main actor.
struct DocumentIsolationTests {
    /// Its text is anybody's, under a lock.
    private final class Locked: Document, @unchecked Sendable {
        let text = Mutex("")
        override func contents(forType type: String) async throws -> FileContents {
            .file(Data(text.withLock { $0 }.utf8))
        }
        override func load(fromContents contents: FileContents, ofType type: String) async throws {
            let loaded = String(decoding: contents.data ?? Data(), as: UTF8.self)
            text.withLock { $0 = loaded }
        }
    }

    @globalActor private actor Desk { static let shared = Desk() }

    /// Its text is an actor's.
    @Desk private final class Placed: Document, @unchecked Sendable {
        var text = ""
        override func contents(forType type: String) async throws -> FileContents {
            Desk.assertIsolated()
            return .file(Data(text.utf8))
        }
        override func load(fromContents contents: FileContents, ofType type: String) async throws {
            Desk.assertIsolated()
            text = String(decoding: contents.data ?? Data(), as: UTF8.self)
        }
    }

    @Test func `documents work while the main thread does nothing for them`() async throws {
        let folder = try Folder()
        let url = try folder.make("doc", "old")
        // The main actor is busy until all is done.
        let isBusy = DispatchSemaphore(value: 0)
        let mayEnd = DispatchSemaphore(value: 0)
        DispatchQueue.main.async {
            isBusy.signal()
            mayEnd.wait()
        }
        defer { mayEnd.signal() }
        await FileThreads.run { isBusy.wait() }
        let locked = Locked(fileURL: url)
        try await locked.open()
        locked.text.withLock { $0 += " locked" }
        locked.updateChangeCount(.done)
        // Another document's reading has this one save.
        try await Self.edit(url)
        try await locked.close()
        #expect(try text(url) == "old locked placed")
    }

    @Desk private static func edit(_ url: URL) async throws {
        let placed = Placed(fileURL: url)
        try await placed.open()
        placed.text += " placed"
        placed.updateChangeCount(.done)
        try await placed.close()
    }

    @Desk @Test func `an edit in the moment of a reload is not lost`() async throws {
        // Whatever the turns, the edit is there, or the document says that it loaded over it before.
        let folder = try Folder()
        let url = try folder.make("doc", "0")
        let document = Placed(fileURL: url)
        try await document.open()
        for turn in 1...50 {
            let writing = Task {
                try await FileCoordinator().coordinate(writingItemAt: url) {
                    try "\(turn)".write(to: $0, atomically: true, encoding: .utf8)
                }
            }
            for _ in 0..<(turn % 10) { await Task.yield() }
            document.text = "edit \(turn)"
            document.updateChangeCount(.done)
            try await writing.value
            // The edit was saved for the writer, or is unsaved beside what that wrote.
            #expect(document.text == "edit \(turn)" || !document.hasUnsavedChanges)
            try await document.revert()
        }
        try await document.close()
    }
}
