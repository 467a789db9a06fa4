import CoveKit
import Foundation

/// The app: its container, its own document, and the one that was picked.
@MainActor final class Editor {
    /// Who this app is.
    static let identifier = "org.example.DocumentPicker"
    /// What it can edit.
    private static let types = ["public.utf8-plain-text", "public.plain-text", "public.text"]

    private let mount: URL
    private let own: TextNote
    private var picked: TextNote?
    /// What leads back to the picked document after a suspension or a new start.
    private let bookmarks: BookmarkFile

    private init(_ mount: URL, _ own: URL, _ bookmarks: BookmarkFile) {
        self.mount = mount
        self.own = TextNote(fileURL: own)
        self.bookmarks = bookmarks
    }

    /// Makes the app's container where there is none yet, and finds its folder.
    static func make(in mount: URL) async throws -> Editor {
        let words = ["container", "create", identifier, "--app", identifier, "--name", "Document Picker", "--public"]
        guard await Cove.run(words, at: mount) != nil else {
            throw CoveError(.accessDenied, "the app could not be registered", url: mount)
        }
        let files = FileManager.default
        let folder = await files.url(forUbiquityContainerIdentifier: nil, app: identifier, in: mount)
        guard let folder else { throw CoveError(.noSuchFile, "the app has no container", url: mount) }
        return Editor(mount, folder.appending(path: "Documents/test.txt"), try BookmarkFile())
    }

    /// Opens the app's own document, or creates it, and the one that was picked before.
    func begin() async throws {
        if FileManager.default.fileExists(atPath: own.fileURL.path) {
            try await own.open()
            say("opened: \(own.name)")
        } else {
            try await own.save(to: own.fileURL, for: .forCreating)
            say("created: \(own.name)")
        }
        try await comeBack()
    }

    /// Has the user pick a document: on the terminal, or the one at a path.
    func pick(_ path: String?) async throws {
        let types = Self.types.flatMap { ["--type", $0] }
        let choice = path.map { ["--choose", $0] } ?? []
        let words = ["pick", "--app", Self.identifier, "--mode", "open"] + types + choice
        guard let place = await Cove.run(words, at: mount) else { return say("nothing was picked") }
        try await picked?.close()
        let note = TextNote(fileURL: URL(fileURLWithPath: place))
        try await note.open()
        picked = note
        say("picked: \(note.name)")
    }

    /// Adds a line to the app's own document.
    func addToOwn(_ line: String) async throws { try await own.add(line) }

    /// Adds a line to the picked document.
    func addToPicked(_ line: String) async throws {
        guard let picked else { return say("nothing is picked") }
        try await picked.add(line)
    }

    /// Prints both.
    func show() {
        for note in [own, picked].compactMap(\.self) { say("\(note.name): \(note.text)") }
    }

    /// Closes both, and keeps what leads back to the picked one: an error is told, and keeps nobody from suspending.
    func suspend() async {
        await keepBookmark()
        for note in [own, picked].compactMap(\.self) {
            do { try await note.close() } catch { say("not closed: \(error)") }
        }
        picked = nil
    }

    /// Opens both again, wherever the picked one is by now.
    func resume() async throws {
        say("resumed")
        try await own.open()
        try await comeBack()
    }

    /// Closes both; the next start comes back to the picked one.
    func end() async throws {
        await keepBookmark()
        try await own.close()
        try await picked?.close()
    }

    private func keepBookmark() async {
        guard let picked else { return }
        do {
            try bookmarks.keep(try await Bookmark.make(of: picked.fileURL, app: Self.identifier))
        } catch {
            say("no bookmark: \(error)")
        }
    }

    private func comeBack() async throws {
        guard let bookmark = bookmarks.kept else { return }
        let found: (document: SecurityScopedURL, isStale: Bool)
        do throws(CoveError) {
            found = try await bookmark.resolve(app: Self.identifier)
        } catch {
            return say("the picked document can't be had: \(error)")
        }
        guard let url = await found.document.startAccessing() else {
            return say("the picked document may not be used any more")
        }
        // The note has its own right to the document from here on.
        let note = TextNote(fileURL: url)
        await found.document.stopAccessing()
        try await note.open()
        picked = note
        if found.isStale { await keepBookmark() }
        say("came back to: \(note.name)")
    }
}
