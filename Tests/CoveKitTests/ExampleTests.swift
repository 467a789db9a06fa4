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

final class Notepad: FilePresenter {
    let presentedItemURL: URL?
    private let state = Mutex((text: "", isSaved: true))

    init(_ url: URL) { presentedItemURL = url }

    var text: String { state.withLock { $0.text } }

    func type(_ more: String) { state.withLock { $0 = ($0.text + more, false) } }

    func savePresentedItemChanges() async throws {
        guard let url = presentedItemURL, !state.withLock({ $0.isSaved }) else { return }
        // Made for this presenter, it does not wait for the one who asks.
        try await FileCoordinator(filePresenter: self).coordinate(writingItemAt: url) { url in
            try self.text.write(to: url, atomically: true, encoding: .utf8)
        }
        state.withLock { $0.isSaved = true }
    }

    func presentedItemDidChange() async {
        guard let url = presentedItemURL, let read = try? String(contentsOf: url, encoding: .utf8) else { return }
        state.withLock { $0 = (read, true) }
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
        let known = words(here) + words(try text(source("Samples/ResolveConflict/Program.swift")))
        for (page, count) in ["Documents": 1, "Coordinators": 2, "Presenters": 1, "Conflicts": 1] {
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
        let (old, new, other) = (try folder.make("old", "a"), folder.url("new"), try folder.make("other", "b"))
        let notepad = Notepad(other)
        try await FileCoordinator.addFilePresenter(notepad)
        notepad.type("typed")
        try await move(old, to: new)
        #expect(try await joined([new, other]) == "atyped")
        try await FileCoordinator().coordinate(writingItemAt: other) {
            try "theirs".write(to: $0, atomically: true, encoding: .utf8)
        }
        // Messages to one presenter come in order: this one after the change.
        try await FileCoordinator().coordinate(readingItemAt: other) { _ in }
        #expect(notepad.text == "theirs")
        await FileCoordinator.removeFilePresenter(notepad)
    }
}
