internal import CoveCore

/// Making an account of documents one of apps.
extension Access {
    /// Makes this device one that uses apps, and tells the others.
    ///
    /// Folders of the root that apps have had by the identifiers of containers become these, with the same name; nothing moves.
    /// Cut off anywhere and asked for again it ends alike. Returns what containers there are then, nil where there was nothing to do.
    func migrate() async throws(AccessError) -> [ContainerRecord]? {
        if configuration.isReadOnly { throw AccessError(.readOnly, "the account is mounted read-only") }
        let wasLegacy = context.generation.isLegacy
        context.generation.setMigrating(true)
        defer { context.generation.setMigrating(false) }
        let isMarked = try await failing("the account can't be migrated") { () throws(Errno) -> Bool in
            if wasLegacy {
                for identifier in try await legacyContainers() {
                    let app = AppIdentifier(withoutPrefix: identifier)
                    let made = try await change(container: identifier) { known in
                        known
                            ?? ContainerRecord(identifier: identifier, name: identifier.text, app: app, isPublic: true)
                    }
                    // Another device has migrated it as another app's.
                    try await declare(identifier, of: made.app)
                }
            }
            let isMarked = try await mark()
            let context = context
            try await onQueue { () throws(Errno) in try context.generation.migrate(context.catalog) }
            return isMarked
        }
        await read()
        try? await onQueue { [self] () throws(Errno) in try markFolders() }
        return wasLegacy || isMarked ? containers : nil
    }

    /// Says in the account that its devices use apps; false where it says so already.
    func mark() async throws(Errno) -> Bool {
        try await turns.take { () throws(Errno) -> Bool in
            if let folder = try await folder(DriveFolder.path), try await find(DriveFolder.account, in: folder) != nil {
                return false
            }
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
                    WHERE e.parent = 1 AND i.kind = 1 ORDER BY e.name LIMIT ?
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
