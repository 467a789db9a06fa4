internal import CoveCore

/// Where the folders of what is looked at are, and which of them belong to a package: people see that as one document, so that
/// what is in it is no result of its own.
struct QueryFolders {
    struct Folder {
        /// Where it is.
        var path: RemotePath
        /// The innermost package that it is in or that it is; nil for most.
        var package: RemotePath?
        /// The entry of the folder of the root that it is in or that it is; nil for the root.
        var top: EntryRow?

        /// True where a query of a folder finds what is in this one: of a package whoever asks for it or for a folder in it.
        func isShown(to folder: RemotePath) -> Bool {
            package.map { folder.isInside($0) } ?? true
        }
    }

    /// What has a longer path, in bytes, is no result: no program can name it, and the paths of a deep tree would take much memory.
    private static let longestPath = 16_384

    private var known: [ItemID: Folder?] = [.root: Folder(path: .root)]

    /// A folder by its item; nil when it is not in the tree, or too deep in it.
    mutating func folder(_ id: ItemID, _ database: Database) throws(Errno) -> Folder? {
        var way: [EntryRow] = []
        var current = id
        var found: Folder?
        while true {
            if let folder = known[current] {
                found = folder
                break
            }
            guard let entry = try database.entry(ofDirectory: current), way.count < 4096 else { break }
            way.append(entry)
            current = entry.parent
        }
        if way.isEmpty, found == nil { known[id] = .some(nil) }
        while let entry = way.popLast() {
            if let folder = found, folder.path.bytes.count + entry.name.count > Self.longestPath { found = nil }
            if var folder = found {
                let name = FileName(unchecked: entry.name)
                folder.path = folder.path.appending(name)
                if entry.parent == .root { folder.top = entry }
                if try database.isPackage(name, entry.item) { folder.package = folder.path }
                found = folder
            }
            known[entry.item] = .some(found)
        }
        return found
    }
}
