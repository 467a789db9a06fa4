import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveKit

/// Documents that are packages.
@MainActor struct PackageTests {
    /// A package of a text and of pictures that are read when somebody looks at them.
    @MainActor private final class Album: Document, @unchecked Sendable {
        var contents = FileContents.package([:])
        var caption = ""
        override func contents(forType type: String) async throws -> FileContents {
            contents["caption"] = .file(Data(caption.utf8))
            return contents
        }
        override func load(fromContents contents: FileContents, ofType type: String) async throws {
            self.contents = contents
            caption = try await String(decoding: contents["caption"]?.read() ?? Data(), as: UTF8.self)
        }
        func edit(_ caption: String) {
            self.caption = caption
            updateChangeCount(.done)
        }
    }

    private let folder: Folder
    private let url: URL

    init() throws {
        folder = try Folder()
        url = folder.url("a.album")
    }

    private func make() throws {
        _ = try folder.make("a.album/caption", "old")
        _ = try folder.make("a.album/Pictures/1", "one")
        _ = try folder.make("a.album/Pictures/2", "two")
    }

    private func opened() async throws -> Album {
        try make()
        let album = Album(fileURL: url, clock: ManualClock())
        try await album.open()
        return album
    }

    private func inode(_ name: String) throws -> UInt64 { try UInt64(System.lstat(folder.url(name).path).st_ino) }

    /// Edits inside a package that its document must see.
    private nonisolated static let edits: [(String, @Sendable (URL) throws -> Void)] = [
        ("a change in place", { try "THEIRS".write(to: $0, atomically: false, encoding: .utf8) }),
        ("a replaced file", { try "one".write(to: $0, atomically: true, encoding: .utf8) }),
        ("a new file", { try "new".write(to: $0.appendingPathExtension("x"), atomically: false, encoding: .utf8) }),
        ("a file less", { try FileManager.default.removeItem(at: $0) }),
        ("another name", { try FileManager.default.moveItem(at: $0, to: $0.appendingPathExtension("x")) }),
        (
            "the same size at the same time",
            { url in
                let before = try System.lstat(url.path)
                let file = try System.open(url.path, O_WRONLY)
                defer { System.close(file) }
                try System.pwriteAll(file, Array("ONE".utf8), 0)
                try System.setModificationTime(file, Timestamp(before.st_mtim))
            }
        ),
    ]

    @Test(arguments: edits.map(\.0)) func `an edit inside a package is neither overlooked nor exchanged away`(
        name: String
    ) async throws {
        let edit = try #require(Self.edits.first { $0.0 == name }).1
        let album = try await opened()
        let picture = folder.url("a.album/Pictures/1")
        try edit(picture)
        album.edit("mine")
        let failure = await #expect(throws: CoveError.self) { try await album.autosave() }
        #expect(failure?.code == .stale && album.hasUnsavedChanges)
        #expect(try text(folder.url("a.album/caption")) == "old")
        // Without edits of its own it loads what it finds.
        try await album.revert()
        album.edit("mine")
        try await album.autosave()
        #expect(try text(folder.url("a.album/caption")) == "mine")
        try await album.close()
    }

    @Test func `what happens beside the files of a package is no edit`() async throws {
        let album = try await opened()
        let package = try System.open(url.path, O_RDONLY)
        try System.setAttribute(package, Array("user.color".utf8), Array("red".utf8))
        System.close(package)
        _ = try Data(contentsOf: folder.url("a.album/Pictures/1"))
        album.edit("mine")
        try await album.autosave()
        #expect(try text(folder.url("a.album/caption")) == "mine")
        try await album.close()
    }

    @Test func `a package's document hears of what is coordinated inside`() async throws {
        let album = try await opened()
        try await FileCoordinator().coordinate(writingItemAt: folder.url("a.album/caption")) {
            try "theirs".write(to: $0, atomically: true, encoding: .utf8)
        }
        for await state in album.stateChanges where state == .normal && album.caption == "theirs" { break }
        try await album.close()
    }

    @Test func `files of a package are read when they are needed, and only as they were`() async throws {
        let album = try await opened()
        guard case .stored(let one)? = album.contents["Pictures"]?["1"], let two = album.contents["Pictures"]?["2"]
        else {
            throw CoveError(.other)
        }
        #expect(one.size == 3 && two.data == nil)
        #expect(try await one.read() == Data("one".utf8))
        #expect(abs(one.modificationDate.timeIntervalSinceNow) < 60)
        // The package moves, and its files with it.
        let moved = folder.url("b.album")
        let coordinator = FileCoordinator()
        try await coordinator.coordinate(
            writingItemAt: url,
            options: .forMoving,
            writingItemAt: moved,
            options: .forReplacing
        ) { from, to in
            try FileManager.default.moveItem(at: from, to: to)
            try coordinator.item(at: from, didMoveTo: to)
        }
        try await FileCoordinator().coordinate(readingItemAt: moved) { _ in }
        #expect(try await two.read() == Data("two".utf8))
        try "other".write(to: moved.appendingPathComponent("Pictures/1"), atomically: false, encoding: .utf8)
        try FileManager.default.removeItem(at: moved.appendingPathComponent("Pictures/2"))
        for file in [FileContents.stored(one), two] {
            let failure = await #expect(throws: CoveError.self) { try await file.read() }
            #expect(failure?.code == .stale)
        }
        let folder = await #expect(throws: CoveError.self) { try await album.contents.read() }
        #expect(folder?.code.rawValue == EISDIR)
        try await album.revert()
        try await album.close()
    }

    @Test func `a save writes what is new, and takes over the rest`() async throws {
        let album = try await opened()
        let (one, two) = (try inode("a.album/Pictures/1"), try inode("a.album/Pictures/2"))
        guard var pictures = album.contents["Pictures"] else { throw CoveError(.other) }
        pictures["first"] = pictures["1"]
        pictures["1"] = nil
        // The same bytes, in memory, are not written either.
        pictures["2"] = .file(Data("two".utf8))
        pictures["3"] = .file(Data("three".utf8))
        album.contents["Pictures"] = pictures
        for caption in ["mine", "mine again"] {
            album.edit(caption)
            try await album.autosave()
            #expect(try text(folder.url("a.album/caption")) == caption)
            #expect(try inode("a.album/Pictures/first") == one && inode("a.album/Pictures/2") == two)
            #expect(try System.lstat(folder.url("a.album/Pictures/2").path).st_nlink == 1)
        }
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.url("a.album/Pictures").path)
        #expect(names.sorted() == ["2", "3", "first"])
        // It goes along to another place.
        album.edit("elsewhere")
        try await album.save(to: folder.url("c.album"), for: .forCreating)
        #expect(
            try text(folder.url("c.album/Pictures/first")) == "one"
                && text(folder.url("a.album/caption")) == "mine again"
        )
        #expect(try await album.contents["Pictures"]?["first"]?.read() == Data("one".utf8))
        try await album.close()
    }

    @Test func `what has files in common with the package that it replaces is no other for it`() async throws {
        let copy = folder.url("b.album")
        let first = try await opened()
        first.edit("first")
        try await first.save(to: copy, for: .forCreating)
        try await first.close()
        let second = Album(fileURL: url, clock: ManualClock())
        try await second.open()
        second.edit("second")
        // In the place of a package whose files are, but for their names, its own.
        try await second.save(to: copy, for: .forCreating)
        second.edit("third")
        try await second.autosave()
        #expect(try text(folder.url("b.album/caption")) == "third")
        #expect(try await second.contents["Pictures"]?["1"]?.read() == Data("one".utf8))
        try await second.close()
    }

    @Test func `a save that fails leaves the package and what can be read of it`() async throws {
        let album = try await opened()
        album.contents["bad/name"] = .file(Data())
        album.edit("mine")
        await #expect(throws: CoveError.self) { try await album.autosave() }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.directory.path) == ["a.album"])
        album.contents["bad/name"] = nil
        #expect(try await album.contents["Pictures"]?["1"]?.read() == Data("one".utf8))
        try await album.autosave()
        #expect(try text(folder.url("a.album/Pictures/1")) == "one")
        try await album.close()
    }

    @Test func `a package says that it is one where its name does not`() async throws {
        let album = try await opened()
        album.edit("mine")
        try await album.autosave()
        #expect(try System.attribute(Array(url.path.utf8), PackageTypes.attribute) == [0x31])
        try await album.save(to: folder.url("known.rtfd"), for: .forCreating)
        #expect(throws: Errno.self) {
            try System.attribute(Array(folder.url("known.rtfd").path.utf8), PackageTypes.attribute)
        }
        try await album.close()
    }

    @Test func `what is nested too deep is refused, not fatal`() async throws {
        var path = url.path
        for _ in 0..<150 {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            path += "/d"
        }
        let album = Album(fileURL: url)
        let failure = await #expect(throws: CoveError.self) { try await album.open() }
        #expect(failure?.code.rawValue == ELOOP)
        var contents = FileContents.file(Data())
        for _ in 0..<150 { contents = .package(["d": contents]) }
        let deep = contents
        #expect(throws: CoveError.self) { try deep.write(to: folder.url("deep")) }
    }
}

/// Taking edits back.
@MainActor struct UndoTests {
    @MainActor private final class Note: Document, @unchecked Sendable {
        lazy var undoManager = makeUndoManager()
        var text = "" {
            didSet { undoManager.registerUndo(withTarget: self) { $0.text = oldValue } }
        }
        override func contents(forType type: String) async throws -> FileContents { .file(Data(text.utf8)) }
        override func load(fromContents contents: FileContents, ofType type: String) async throws {
            text = String(decoding: contents.data ?? Data(), as: UTF8.self)
            undoManager.removeAllActions()
        }
    }

    @Test func `what is registered counts as an edit, and can be taken back and done again`() async throws {
        let folder = try Folder()
        let note = Note(fileURL: try folder.make("note", "one"), clock: ManualClock())
        try await note.open()
        let undo = note.undoManager
        #expect(!note.hasUnsavedChanges && !undo.canUndo && !undo.canRedo)
        undo.undo()
        note.text = "two"
        undo.setActionName("Typing")
        #expect(note.hasUnsavedChanges && undo.canUndo && undo.undoActionName == "Typing")
        undo.undo()
        #expect(note.text == "one" && !note.hasUnsavedChanges && undo.canRedo && undo.redoActionName == "Typing")
        undo.redo()
        #expect(note.text == "two" && note.hasUnsavedChanges && !undo.canRedo)
        try await note.autosave()
        undo.undo()
        #expect(note.hasUnsavedChanges)
        note.text = "three"
        #expect(!undo.canRedo)
        undo.beginUndoGrouping()
        note.text = "four"
        note.text = "five"
        #expect(!undo.canUndo)
        undo.endUndoGrouping()
        undo.undo()
        #expect(note.text == "three")
        undo.undo()
        #expect(note.text == "one" && !undo.canUndo)
        undo.redo()
        undo.redo()
        #expect(note.text == "five")
        undo.levelsOfUndo = 1
        undo.undo()
        undo.undo()
        #expect(note.text == "three")
        try await note.revert()
        #expect(note.text == "two" && !undo.canUndo && !undo.canRedo && !note.hasUnsavedChanges)
        try await note.close()
    }
}
