import CoveKit
import Foundation

/// Shows the sides of a file's conflict, asks which one is to stay, and ends the conflict on every device.
///
///     ResolveConflict FILE
@main struct Program {
    static func main() async {
        guard CommandLine.arguments.count == 2 else {
            say("usage: ResolveConflict FILE")
            exit(2)
        }
        let url = URL(fileURLWithPath: CommandLine.arguments[1])
        do {
            let others = try await FileVersion.unresolvedConflictVersionsOfItem(at: url)
            guard !others.isEmpty, let current = try await FileVersion.currentVersionOfItem(at: url) else {
                return say("there is no conflict")
            }
            let sides = [current] + others
            for (number, side) in sides.enumerated() {
                let text = String(decoding: try await side.contents().prefix(60), as: UTF8.self)
                say("\(number)  by \(side.localizedNameOfSavingComputer ?? "this device or another")  \(text)")
            }
            say("which one is to stay?")
            guard let number = readLine().flatMap({ Int($0) }), sides.indices.contains(number) else {
                return say("all stay")
            }
            try await keep(sides[number], of: url, among: sides)
            say("\(number) stays")
        } catch {
            say("\(error)")
            exit(1)
        }
    }

    /// Makes one side of a conflict the document, and deletes the others that were shown: what came since stays in conflict.
    static func keep(_ side: FileVersion, of url: URL, among shown: [FileVersion]) async throws {
        try await FileCoordinator().coordinate(writingItemAt: url) { url in
            let others = try await FileVersion.unresolvedConflictVersionsOfItem(at: url)
            if !side.isCurrent { try await side.replaceItem(at: url) }
            for other in others where shown.contains(where: { $0.id == other.id }) {
                try await other.remove()
                try await other.resolve()
            }
        }
    }
}

/// Writes a line at once.
private func say(_ line: String) {
    FileHandle.standardOutput.write(Data((line + "\n").utf8))
}
