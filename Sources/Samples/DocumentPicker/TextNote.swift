import CoveKit
import Foundation

/// A document that is plain text in UTF-8.
@MainActor final class TextNote: Document, @unchecked Sendable {
    var text = ""

    /// The name of its file.
    var name: String { fileURL.lastPathComponent }

    override func contents(forType type: String) async throws -> FileContents { .file(Data(text.utf8)) }

    override func load(fromContents contents: FileContents, ofType type: String) async throws {
        guard let data = contents.data, let loaded = String(data: data, encoding: .utf8) else {
            throw CocoaError(.fileReadInapplicableStringEncoding)
        }
        text = loaded
    }

    override func handleError(_ error: CoveError) async { say("failed: \(error)") }

    /// Adds a line and saves.
    func add(_ line: String) async throws {
        text += line + "\n"
        updateChangeCount(.done)
        try await save(to: fileURL, for: .forOverwriting)
        say("saved: \(name)")
    }
}

/// Writes a line at once.
func say(_ line: String) {
    FileHandle.standardOutput.write(Data((line + "\n").utf8))
}
