internal import CoveCore

/// What listings of a folder tell of some of its names; files that are made there at a time share them.
struct S3FolderView: Sendable {
    /// Something is there, if only the object that stands for the folder.
    var isThere: Bool
    /// Those of the keys that are directories.
    private(set) var directories: Set<[UInt8]> = []
    private(set) var objects: [[UInt8]: S3Object] = [:]
    /// Keys of which nothing was told.
    private(set) var open: Set<[UInt8]>

    init(of keys: Set<[UInt8]>, isRoot: Bool) {
        open = keys
        isThere = isRoot
    }

    /// Learns from a page that begins with the folder, or before the first key that is open.
    mutating func take(_ listing: S3Listing) {
        isThere = isThere || !listing.objects.isEmpty || !listing.prefixes.isEmpty
        for object in listing.objects where open.contains(object.key) { objects[object.key] = object }
        let found = listing.prefixes.map { $0.last == 0x2F ? Array($0.dropLast()) : $0 }
        directories.formUnion(found.filter(open.contains))
        guard listing.next != nil else { return open = [] }
        // Servers differ in whether a directory's name is sorted with its slash.
        let ends = [listing.objects.last?.key, found.last].compactMap(\.self)
        guard let end = ends.max(by: { $0.lexicographicallyPrecedes($1) }) else { return }
        open = open.filter { !($0 + [0x2F]).lexicographicallyPrecedes(end) }
    }

    mutating func note(_ key: [UInt8], isDirectory: Bool) {
        open.remove(key)
        if isDirectory { directories.insert(key) }
    }
}

extension S3Provider {
    /// What a file's folder holds of its name, as it is after this was asked.
    func look(around key: [UInt8]) async throws(ProviderError) -> S3FolderView {
        let folder = Self.folder(of: key)
        return try await folderLooks.look(at: folder, for: [key]) { [weak self] keys throws(ProviderError) in
            guard let self else { throw .cancelled }
            var view = S3FolderView(of: keys, isRoot: folder == address.prefix)
            let limit = keys.count > 2 ? 1000 : 100
            view.take(try await client.list(folder, delimiter: true, limit: limit))
            if let start = Self.start(before: view.open) {
                view.take(try await client.list(folder, delimiter: true, after: start, limit: limit))
            }
            for key in view.open { view.note(key, isDirectory: try await client.hasAny(key + [0x2F])) }
            return view
        }
    }

    /// What of some new objects is there, as far as one listing tells of many, or heads of few.
    func placed(_ key: [UInt8]) async throws(ProviderError) -> S3Object? {
        let folder = Self.folder(of: key)
        let view = try await placedLooks.look(at: folder, for: [key]) { [weak self] keys throws(ProviderError) in
            guard let self else { throw .cancelled }
            guard keys.count > 2, let start = Self.start(before: keys) else { return [:] }
            var view = S3FolderView(of: keys, isRoot: true)
            view.take(try await client.list(folder, delimiter: true, after: start))
            return view.objects
        }
        if let object = view[key] { return object }
        return try await client.head(key)
    }

    private static func folder(of key: [UInt8]) -> [UInt8] { Array(key[..<((key.lastIndex(of: 0x2F) ?? -1) + 1)]) }

    /// A text right before the first of some keys.
    private static func start(before keys: Set<[UInt8]>) -> String? {
        guard let first = keys.min(by: { $0.lexicographicallyPrecedes($1) }) else { return nil }
        return String(String.UnicodeScalarView(String(decoding: first, as: UTF8.self).unicodeScalars.dropLast()))
    }
}
