import CoveKit
import Foundation

/// Finds `test.txt` below a folder or creates it, edits it, saves it, and watches it until it is closed or deleted.
///
///     TextDocument FOLDER [LINE]     adds the line, then prints the text each time another program changes it
@main struct Program {
    static func main() async {
        let arguments = CommandLine.arguments
        guard arguments.count == 2 || arguments.count == 3 else {
            say("usage: TextDocument FOLDER [LINE]")
            exit(2)
        }
        do {
            let folder = URL(fileURLWithPath: arguments[1])
            guard let document = try await document(in: folder) else { exit(1) }
            if arguments.count == 3 { try await add(arguments[2], to: document) }
            Document.autosaveOnTermination()
            document.didLoad = { say("changed: \($0)") }
            say("watching \(document.fileURL.lastPathComponent)")
            await watch(document)
        } catch {
            say("\(error)")
            exit(1)
        }
    }

    /// Opens the only `test.txt`, creates it when there is none, and leaves several alone.
    @MainActor private static func document(in folder: URL) async throws -> TextDocument? {
        let found = find("test.txt", in: folder)
        switch found.count {
        case 0:
            let document = TextDocument(fileURL: folder.appendingPathComponent("test.txt"))
            try await document.save(to: document.fileURL, for: .forCreating)
            say("created: \(document.text)")
            return document
        case 1:
            let document = TextDocument(fileURL: found[0])
            try await document.open()
            say("opened: \(document.text)")
            return document
        default:
            say("there are \(found.count) files test.txt; nothing is opened")
            return nil
        }
    }

    /// Looks for a name in all folders; the files' contents are not needed for that.
    private static func find(_ name: String, in folder: URL) -> [URL] {
        guard let all = FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil) else { return [] }
        return all.compactMap { $0 as? URL }.filter { $0.lastPathComponent == name }
    }

    /// Edits the text and saves it.
    @MainActor private static func add(_ line: String, to document: TextDocument) async throws {
        document.text += "\n" + line
        document.updateChangeCount(.done)
        try await document.save(to: document.fileURL, for: .forOverwriting)
        say("saved: \(document.text)")
    }

    /// Tells of each change of the document's state until it is closed.
    @MainActor private static func watch(_ document: TextDocument) async {
        for await state in document.stateChanges {
            if state.contains(.inConflict) { say("in conflict") }
            if state.contains(.closed) { break }
        }
        say("closed")
    }
}
