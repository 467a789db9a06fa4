internal import CoveCore

/// Making an account of documents one of apps.
extension Access {
    /// Makes this device one that uses apps, and tells the others.
    ///
    /// Folders of the root that apps have had by the identifiers of containers become these, with the same name; nothing moves.
    /// `except`: those that stay folders. `isTrial`: nothing is done. `takeIn`: has what other devices have made of the account here.
    /// Cut off anywhere and asked for again it ends alike. Returns what containers there are then, nil where there was nothing to do.
    func migrate(
        except: Set<AppIdentifier>,
        isTrial: Bool,
        takeIn: () async throws(ProviderError) -> Void
    ) async throws(AccessError) -> [AppIdentifier]? {
        if configuration.isReadOnly { throw AccessError(.readOnly, "the account is mounted read-only") }
        let wasLegacy = context.generation.isLegacy
        context.generation.setMigrating(true)
        defer { context.generation.setMigrating(false) }
        let isDone = try await failing("the account can't be migrated") { () throws(Errno) -> Bool in
            // What is guessed is never put in the place of what another device knows.
            if wasLegacy {
                do throws(ProviderError) { try await takeIn() } catch { throw error.errno }
            }
            return try await isMarked() && !wasLegacy
        }
        if isDone { return nil }
        try await readAll()
        let registry = registry
        let folders = try await failing("the account can't be migrated") { () throws(Errno) in
            wasLegacy ? try await legacyContainers() : []
        }
        let guessed = Set(folders).subtracting(registry.containers.keys)
        if let unknown = except.subtracting(guessed).min() {
            throw AccessError(
                .invalidArgument,
                "\(unknown) is none of the folders that become containers; --dry-run tells which do"
            )
        }
        if isTrial { return guessed.subtracting(except).union(registry.containers.keys).sorted() }
        try await failing("the account can't be migrated") { () throws(Errno) in
            for identifier in folders where !except.contains(identifier) {
                let app = AppIdentifier(withoutPrefix: identifier)
                let made = try await change(container: identifier) { known in
                    known ?? ContainerRecord(identifier: identifier, name: identifier.text, app: app, isPublic: true)
                }
                // Another device may have migrated it as another app's, and what was cut off may not have come so far; what
                // an app's own manifest declares stays.
                let owner = registry.apps[made.app]
                if owner == nil || owner?.version == AppRecord.unknownVersion {
                    try await declare(identifier, of: made.app)
                }
            }
            _ = try await mark()
            let context = context
            try await onQueue { () throws(Errno) in try context.generation.migrate(context.catalog) }
        }
        await read()
        try? await onQueue { [self] () throws(Errno) in try markFolders() }
        return containers.map(\.identifier)
    }

    /// The folders of containers that are not here, under the names that they have here.
    func unseenFolders() async -> [FileName] {
        let containers = containers
        let unseen = try? await onQueue { [self] () throws(Errno) -> [FileName] in
            try catalog.read { database throws(Errno) -> [FileName] in
                var unseen: [FileName] = []
                for record in containers where try self.entry(ofContainer: record.identifier, database) == nil {
                    unseen.append(self.names.here(record.identifier.folderName))
                }
                return unseen
            }
        }
        return unseen ?? []
    }

    /// How often the documents are read until nothing has changed meanwhile, as folders that are listed by it.
    private static let readings = 5

    /// Has all that the account says of apps read.
    private func readAll() async throws(AccessError) {
        for _ in 0..<Self.readings {
            await read()
            let found = try? await onQueue { [self] () throws(Errno) in try fingerprint() }
            if found != nil, state.withLock({ $0.fingerprint == found }) { return }
        }
        throw AccessError(
            .hostUnreachable,
            "the account can't be migrated: what it says of apps could not be read; try again once the source answers"
        )
    }

    /// True where the account says that its devices use apps.
    private func isMarked() async throws(Errno) -> Bool {
        guard let folder = try await folder(DriveFolder.path) else { return false }
        return try await find(DriveFolder.account, in: folder) != nil
    }

    /// Says in the account that its devices use apps; false where it says so already.
    func mark() async throws(Errno) -> Bool {
        try await turns.take { () throws(Errno) -> Bool in
            if try await isMarked() { return false }
            guard let value = try? JSONValue(encoding: AccountRecord(generation: .drive)) else {
                throw .invalidArgument
            }
            try await write(value.bytes + [0x0A], as: DriveFolder.account, in: DriveFolder.path)
            return true
        }
    }

    /// The folders of the root that have a container's identifier and `Documents`.
    private func legacyContainers() async throws(Errno) -> [AppIdentifier] {
        try await list(.root)
        let folders = try await onQueue { [catalog] () throws(Errno) in
            try catalog.read { database throws(Errno) in
                try database.all(
                    """
                    SELECT e.name, e.item FROM entries e JOIN items i ON i.id = e.item
                    WHERE e.parent = 1 AND i.kind = 1 AND CAST(e.name AS TEXT) GLOB '*?.?*.?*' ORDER BY e.name LIMIT ?
                    """,
                    .int(Int64(DriveFolder.mostRecords))
                ) { (name: $0.blob(0), item: $0.item(1)) }
            }
        }
        var found: [AppIdentifier] = []
        for folder in folders {
            guard let identifier = AppIdentifier(FileName(unchecked: folder.name).description),
                identifier.folderName.bytes == folder.name, identifier.text.split(separator: ".").count >= 3,
                let documents = try await find(DriveFolder.documents, in: folder.item)
            else { continue }
            let isFolder = try await onQueue { [catalog] () throws(Errno) in
                try catalog.read { database throws(Errno) in try database.item(documents)?.kind == .directory }
            }
            if isFolder { found.append(identifier) }
        }
        return found
    }
}

extension AppIdentifier {
    /// The app of a container that only its identifier tells of: the prefix of containers is no part of it.
    fileprivate init(withoutPrefix identifier: AppIdentifier) {
        let prefix = "iCloud."
        let rest =
            identifier.text.hasPrefix(prefix) ? AppIdentifier(String(identifier.text.dropFirst(prefix.count))) : nil
        self = rest ?? identifier
    }
}
