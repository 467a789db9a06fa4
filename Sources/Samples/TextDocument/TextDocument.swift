import CoveKit
import Foundation

/// A document that is plain text in UTF-8.
@MainActor final class TextDocument: Document, @unchecked Sendable {
    var text = "(default value)"
    /// Called with each text that was loaded.
    var didLoad: (String) -> Void = { _ in }

    override func contents(forType type: String) async throws -> FileContents { .file(Data(text.utf8)) }

    override func load(fromContents contents: FileContents, ofType type: String) async throws {
        guard let data = contents.data, let loaded = String(data: data, encoding: .utf8) else {
            throw CocoaError(.fileReadInapplicableStringEncoding)
        }
        text = loaded
        didLoad(loaded)
    }

    override func handleError(_ error: CoveError) async { say("failed: \(error)") }
}

/// Writes a line at once.
func say(_ line: String) {
    FileHandle.standardOutput.write(Data((line + "\n").utf8))
}
