internal import CoveCore

/// What a source has, as far as checks look at it that change nothing.
struct ExistingItems: Sendable {
    /// A file, by its path.
    struct File: Sendable {
        let path: String
        let item: RemoteItem
        /// So many of its bytes are read, from the beginning.
        var part: Int64 { min(item.size, 1 << 20) }
    }

    private static let mostDirectories = 20
    private static let mostFiles = 12

    /// Directories by their paths, the root as the empty one.
    let directories: [String]
    /// Files of different sizes, the smaller ones first, of which none is empty.
    let files: [File]

    /// Walks through directories, those nearest to the root first, until there are enough.
    init(_ bench: CheckBench) async throws(ProviderError) {
        var directories = [""]
        var files: [File] = []
        var next = 0
        while next < directories.count {
            let directory = directories[next]
            next += 1
            for item in try await bench.list(directory) {
                // What is no UTF-8 is tried by nobody here.
                guard let name = String(validating: item.name, as: UTF8.self), FileName(validating: item.name) != nil
                else { continue }
                let path = directory.isEmpty ? name : "\(directory)/\(name)"
                if item.kind == .directory, directories.count < Self.mostDirectories { directories.append(path) }
                if item.kind == .file, item.size > 0 { files.append(File(path: path, item: item)) }
            }
        }
        files.sort { ($0.item.size, $0.path) < ($1.item.size, $1.path) }
        let step = max(1, (files.count + Self.mostFiles - 1) / Self.mostFiles)
        self.directories = directories
        self.files = stride(from: 0, to: files.count, by: step).map { files[$0] }
    }
}
