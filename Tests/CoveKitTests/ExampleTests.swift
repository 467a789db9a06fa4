import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveKit

@MainActor final class Album: Document, @unchecked Sendable {
    var caption = ""
    private var files = FileContents.package([:])

    override func contents(forType type: String) async throws -> FileContents {
        files["caption.txt"] = .file(Data(caption.utf8))
        return files  // what was not touched is not written anew
    }

    override func load(fromContents contents: FileContents, ofType type: String) async throws {
        files = contents
        caption = String(decoding: try await contents["caption.txt"]?.read() ?? Data(), as: UTF8.self)
    }

    func picture(_ name: String) async throws -> Data? { try await files["Pictures"]?[name]?.read() }
}

func move(_ old: URL, to new: URL) async throws {
    let coordinator = FileCoordinator()
    try await coordinator.coordinate(
        writingItemAt: old,
        options: .forMoving,
        writingItemAt: new,
        options: .forReplacing
    ) { old, new in
        try FileManager.default.moveItem(at: old, to: new)
        try coordinator.item(at: old, didMoveTo: new)
    }
}

private func joined(_ urls: [URL]) async throws -> String {
    let intents = urls.map { FileAccessIntent.readingIntent(with: $0) }
    return try await FileCoordinator().coordinate(with: intents, timeout: .seconds(60)) {
        try intents.map { try String(contentsOf: $0.url, encoding: .utf8) }.joined()
    }
}

func watchForPictures(in folder: URL) async {
    let query = MetadataQuery(in: folder)
    query.predicate = MetadataKey.contentType.begins(with: "image/") && MetadataKey.fsSize > 100_000
    query.sortDescriptors = [.init(MetadataKey.fsContentChangeDate, ascending: false)]
    for await event in query.events {  // starts it
        switch event {
        case .didFinishGathering:
            print("\(query.resultCount) pictures, the newest at \(query.result(at: 0)?.url.path ?? "-")")
        case .didUpdate(let update): print("\(update.added.count) more, \(update.removed.count) fewer")
        case .didFail(let error): print("it ended: \(error)")
        default: break
        }
    }
}

final class Notepad: FilePresenter {
    private struct State {
        var url: URL?
        var text = ""
        /// How often the text was edited, and how many of these edits the file has.
        var edits = 0
        var saved = 0
    }

    private let state: Mutex<State>
    /// One after the other uses the file.
    private let file = Mutex(())

    init(_ url: URL) { state = Mutex(State(url: url)) }

    var presentedItemURL: URL? { state.withLock { $0.url } }
    var text: String { state.withLock { $0.text } }

    func type(_ more: String) {
        state.withLock {
            $0.text += more
            $0.edits += 1
        }
    }

    func open() async throws {
        try await FileCoordinator.addFilePresenter(self)
        do { try await load() } catch {
            await FileCoordinator.removeFilePresenter(self)
            throw error
        }
    }

    func close() async throws {
        try await savePresentedItemChanges()
        await FileCoordinator.removeFilePresenter(self)
    }

    func savePresentedItemChanges() async throws {
        guard let url = presentedItemURL, state.withLock({ $0.saved != $0.edits }) else { return }
        // Made for this presenter, it does not wait for the one who asks.
        try await FileCoordinator(filePresenter: self).coordinate(writingItemAt: url) { url in
            try self.file.withLock { _ in
                let (text, edits) = self.state.withLock { ($0.text, $0.edits) }
                try text.write(to: url, atomically: true, encoding: .utf8)
                // What was typed meanwhile is not in the file.
                self.state.withLock { $0.saved = edits }
            }
        }
    }

    func presentedItemDidMove(to newURL: URL) async { state.withLock { $0.url = newURL } }

    func presentedItemDidChange() async {
        // The next message comes when this returns, and a claim may wait for the answer to one.
        Task { try? await load() }
    }

    private func load() async throws {
        guard let url = presentedItemURL else { return }
        try await FileCoordinator(filePresenter: self).coordinate(readingItemAt: url) { url in
            try self.file.withLock { _ in
                let edits = self.state.withLock { $0.edits }
                let read = try String(contentsOf: url, encoding: .utf8)
                // What was typed and is not saved yet stays; saving it replaces what others wrote.
                self.state.withLock { if $0.saved == edits, $0.edits == edits { $0.text = read } }
            }
        }
    }
}

/// What the examples of the library's catalog say of it.
struct ExampleTests {
    private let folder: Folder

    init() throws { folder = try Folder() }

    @Test func `the examples are these, and those of the sample`() throws {
        func words(_ text: String) -> String { text.split(whereSeparator: \.isWhitespace).joined(separator: " ") }
        func source(_ path: String) -> URL {
            URL(fileURLWithPath: #filePath).appendingPathComponent("../../../Sources/\(path)").standardizedFileURL
        }
        let here = try text(URL(fileURLWithPath: #filePath))
        let samples = try ["ResolveConflict", "FindOrCreate"].map { try text(source("Samples/\($0)/Program.swift")) }
        let known = words(here) + samples.map { words($0) }.joined()
        for (page, count) in ["Documents": 1, "Coordinators": 2, "Presenters": 1, "Conflicts": 1, "Queries": 2] {
            let examples = try swiftExamples(of: source("CoveKit/CoveKit.docc/\(page).md"))
            #expect(examples.count == count, "\(page)")
            for example in examples { #expect(known.contains(words(example)), "\(example)") }
        }
    }

    @MainActor @Test func `a package document`() async throws {
        _ = try folder.make("trip.album/Pictures/1", "one")
        let album = Album(fileURL: folder.url("trip.album"))
        try await album.open()
        album.caption = "Sea"
        album.updateChangeCount(.done)
        try await album.close()
        #expect(try text(folder.url("trip.album/caption.txt")) == "Sea")
        let again = Album(fileURL: folder.url("trip.album"))
        try await again.open()
        let picture = try await again.picture("1")
        #expect(again.caption == "Sea" && picture == Data("one".utf8))
        try await again.close()
    }

    @Test func `a coordinator and a presenter`() async throws {
        try await blocking {
            let (old, new, other) = (try folder.make("old", "a"), folder.url("new"), try folder.make("other", "b"))
            let notepad = Notepad(other)
            try await notepad.open()
            notepad.type("typed")
            try await move(old, to: new)
            #expect(try await joined([new, other]) == "abtyped")
            try await FileCoordinator().coordinate(writingItemAt: other) {
                try "theirs".write(to: $0, atomically: true, encoding: .utf8)
            }
            try waitUntil("it shows what others wrote") { notepad.text == "theirs" }
            notepad.type(", mine")
            try await notepad.close()
            #expect(try text(other) == "theirs, mine")
        }
    }

    @Test func `a presenter of the example follows its file, and saves there`() async throws {
        try await blocking {
            let (old, new) = (try folder.make("old", "a"), folder.url("new"))
            let notepad = Notepad(old)
            try await notepad.open()
            try await move(old, to: new)
            try waitUntil("it has moved") { notepad.presentedItemURL?.lastPathComponent == "new" }
            notepad.type("b")
            #expect(try await joined([new]) == "ab")
            // It has not gone back by the save.
            notepad.type("c")
            #expect(try await joined([new]) == "abc" && !FileManager.default.fileExists(atPath: old.path))
            try await notepad.close()
        }
    }

    @Test func `a presenter of the example keeps what was typed when others write`() async throws {
        let file = try folder.make("f", "a")
        let notepad = Notepad(file)
        try await notepad.open()
        notepad.type("mine")
        try await FileCoordinator().coordinate(writingItemAt: file) {
            try "theirs".write(to: $0, atomically: true, encoding: .utf8)
        }
        // Messages to one presenter come in order: this one, which has it save, after the change.
        #expect(try await joined([file]) == "amine" && notepad.text == "amine")
        try await notepad.close()
    }

    @Test func `a presenter of the example loses nothing that is typed while it saves`() async throws {
        let file = try folder.make("f", "")
        let notepad = Notepad(file)
        try await notepad.open()
        try await withThrowingTaskGroup { group in
            group.addTask { for number in 0..<2000 { notepad.type("\(number) ") } }
            for _ in 0..<2 { group.addTask { for _ in 0..<50 { _ = try await joined([file]) } } }
            try await group.waitForAll()
        }
        try await notepad.close()
        #expect(try text(file) == (0..<2000).map { "\($0) " }.joined())
    }
}
