import CoveKit
import Foundation

/// Prints where the document of a name is in a mounted account, and makes it where there is none yet.
///
///     FindOrCreate MOUNT NAME
@main struct Program {
    static func main() async {
        guard CommandLine.arguments.count == 3 else {
            say("usage: FindOrCreate MOUNT NAME")
            exit(2)
        }
        let (mount, name) = (URL(fileURLWithPath: CommandLine.arguments[1]), CommandLine.arguments[2])
        do {
            guard let url = try await findOrCreate(name, in: mount) else {
                say("there are several documents called \(name); none is opened")
                exit(1)
            }
            let text = try await FileCoordinator().coordinate(readingItemAt: url) { url in
                try String(contentsOf: url, encoding: .utf8)
            }
            say("\(url.path): \(text)")
        } catch {
            say("\(error)")
            exit(1)
        }
    }

    /// The document of a name, which is made where there is none; nil where there are several.
    static func findOrCreate(_ name: String, in mount: URL) async throws -> URL? {
        let query = MetadataQuery(in: mount)
        query.predicate = MetadataKey.fsName == name
        query.searchScopes = Set(MetadataQuery.Scope.allCases)
        var isComplete = false
        for await event in query.events {
            if case .didFail(let error) = event { throw error }
            guard case .didFinishGathering = event else { continue }
            isComplete = query.unlistedFolderCount == 0
            break
        }
        query.disableUpdates()
        query.stop()
        guard query.resultCount == 0 else { return query.resultCount == 1 ? query.result(at: 0)?.url : nil }
        guard isComplete else {
            throw CoveError(.unreachable, "it may be in a folder that can't be looked into", url: mount)
        }
        let folder = mount.appendingPathComponent("Documents")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let url = folder.appendingPathComponent(name)
        try await FileCoordinator().coordinate(writingItemAt: url) { url in
            try Data("(default value)".utf8).write(to: url)
        }
        return url
    }
}

/// Writes a line at once.
private func say(_ line: String) {
    FileHandle.standardOutput.write(Data((line + "\n").utf8))
}
