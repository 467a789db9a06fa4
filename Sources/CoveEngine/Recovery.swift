internal import CLinux
internal import CoveCore
internal import Glibc

/// What a start does before anything else: opens the catalog, and mends what a death left.
enum Recovery {
    /// Opens the catalog; a corrupt one is kept aside, with every content file that it may have known as dirty.
    static func openCatalog(path: String, store: ContentStore, log: Log) throws(EngineError) -> Catalog {
        do throws(CatalogOpenError) {
            return try Catalog(path: path, log: log)
        } catch {
            switch error {
            case .tooNew(let version):
                throw EngineError(
                    "\(path): it was written by a newer Cove (schema \(version), this one knows \(Schema.version)); "
                        + "run that version, or mount with another --state"
                )
            case .failed(let error):
                throw EngineError("\(path): it can't be opened: \(error); check the folder's owner and the disk")
            case .corrupt(let why): return try rebuild(path: path, store: store, why: why, log: log)
            }
        }
    }

    /// Starts an empty catalog beside a corrupt one; its content files are kept for a person to look at.
    private static func rebuild(
        path: String,
        store: ContentStore,
        why: String,
        log: Log
    ) throws(EngineError) -> Catalog {
        let aside = "corrupt-\(time(nil))"
        let folder = path.replacingLastComponent(with: aside)
        do throws(Errno) {
            try System.makeDirectories(folder)
            for suffix in ["", "-wal", "-shm"] {
                do throws(Errno) {
                    try System.rename(path + suffix, folder + "/catalog.db" + suffix)
                } catch {
                    if error != .noSuchEntry { throw error }
                }
            }
            try System.rename(store.directory, folder + "/content")
            try System.makeDirectories(store.directory)
        } catch {
            throw EngineError("\(path): it is corrupt (\(why)) and can't be kept aside: \(error); move it away by hand")
        }
        log.error("the catalog was corrupt (\(why)): it and all content are kept in \(folder); the tree is rebuilt")
        do throws(CatalogOpenError) {
            let catalog = try Catalog(path: path, log: log)
            try? catalog.write { database throws(Errno) in
                try database.setMeta("salvage", Array(folder.utf8))
            }
            return catalog
        } catch {
            throw EngineError("\(path): a new catalog can't be made: \(error); check the folder's owner and the disk")
        }
    }

    /// Makes the root, drops orphans, and gives items that died while they were written their real size.
    static func prepare(
        _ catalog: Catalog,
        store: ContentStore,
        configuration: EngineConfiguration,
        log: Log
    ) throws(Errno) {
        let boot = bootIdentity()
        let lastBoot = try catalog.read { database throws(Errno) in try database.meta("boot") }
        let isUnclean = lastBoot != nil && lastBoot != boot
        let orphans = try catalog.write { database throws(Errno) -> [ItemID] in
            if try database.item(.root) == nil {
                var root = ItemRow(
                    kind: .directory,
                    permissions: 0o755,
                    user: configuration.user,
                    group: configuration.group,
                    now: System.now()
                )
                root.linkCount = 2
                root.residency = .dataless
                _ = try database.insert(root)
            }
            let orphans = try database.orphans()
            for id in orphans { try database.deleteItem(id) }
            try recoverSizes(database, store, log)
            if isUnclean {
                try setAsideUnsynced(database, configuration, log)
                try dropUnsynced(database, log)
            }
            try database.setMeta("boot", boot)
            return orphans
        }
        catalog.synchronize()
        for id in orphans { store.remove(id) }
    }

    /// Bytes of changed items reached their files before the catalog heard of their size.
    private static func recoverSizes(_ database: Database, _ store: ContentStore, _ log: Log) throws(Errno) {
        let rows = try database.all(
            """
            SELECT DISTINCT i.id, i.size, i.state, i.mtime FROM journal j JOIN entries e ON e.id = j.entry
            JOIN items i ON i.id = e.item WHERE i.kind = 0 AND i.state = 0
            """,
            read: { ($0.item(0), $0.int(1), $0.int(3)) }
        )
        for (id, size, mtime) in rows {
            guard let status = try? System.lstat(store.path(id)) else { continue }
            let actual = Int64(status.st_size)
            guard actual > size else { continue }
            let written = Timestamp(status.st_mtim)
            try database.run(
                "UPDATE items SET size = ?, resident = ?, mtime = max(mtime, ?) WHERE id = ?",
                .int(actual),
                .int(actual),
                .int(max(mtime, written.rawValue)),
                .item(id)
            )
            log.notice("item \(id): recovered at \(actual) bytes")
        }
    }

    /// After the machine itself went down: changed bytes that were not durable may be anything, so they replace nothing.
    ///
    /// They stay as a conflict copy, and the document comes back from the provider.
    private static func setAsideUnsynced(
        _ database: Database,
        _ configuration: EngineConfiguration,
        _ log: Log
    ) throws(Errno) {
        let now = Int64(System.now().rawValue / 1_000_000)
        let ids = try database.all(
            """
            SELECT e.id FROM entries e JOIN items i ON i.id = e.item JOIN journal j ON j.entry = e.id
            WHERE i.kind = 0 AND i.synced = 0 AND i.state <> 1 AND i.size > 0 AND e.remote_id IS NOT NULL
                AND (e.remote_item IS NOT i.id OR e.remote_generation IS NOT i.generation)
            """,
            read: { $0.int(0) }
        )
        for id in ids {
            guard let entry = try database.entry(id: id) else { continue }
            // The provider's document is found again when its directory is listed.
            try database.deleteEntry(entry.id)
            let name = try Engine.conflictName(entry.parent, entry.name, host: configuration.hostName, database)
            let copy = EntryRow(parent: entry.parent, name: name, item: entry.item)
            let made = try database.insert(copy)
            try database.run("UPDATE items SET state = 0 WHERE id = ?", .item(entry.item))
            try database.run("DELETE FROM ranges WHERE item = ?", .item(entry.item))
            try database.enqueue(made, at: now)
            try database.recordConflict(
                copy: copy.document,
                of: entry.document,
                host: configuration.hostName,
                at: now
            )
            log.notice("entry \(id): its last changes may not have reached the disk; they are kept beside it")
        }
        if !ids.isEmpty { try database.setMeta("anchor", nil) }
    }

    /// After the machine itself went down: clean bytes that were not durable are fetched again.
    private static func dropUnsynced(
        _ database: Database,
        _ log: Log
    ) throws(Errno) {
        try database.run(
            """
            UPDATE items SET state = 1, resident = 0, version =
                (SELECT e.remote_version FROM entries e WHERE e.item = items.id LIMIT 1)
            WHERE kind = 0 AND state <> 1 AND synced = 0 AND size > 0 AND EXISTS
                (SELECT 1 FROM entries e WHERE e.item = items.id AND e.remote_id IS NOT NULL
                    AND e.remote_item = items.id AND e.remote_generation = items.generation)
            """
        )
        try database.run("DELETE FROM ranges WHERE item IN (SELECT id FROM items WHERE state = 1)")
        log.notice("the machine went down since the last mount: content that was not durable is fetched again")
    }

    /// At a clean end: all content is durable, and the next start, after whatever happens to the machine, may rely on it.
    static func seal(_ catalog: Catalog, _ store: ContentStore) {
        guard let directory = try? System.open(store.directory, O_RDONLY | O_DIRECTORY) else { return }
        defer { System.close(directory) }
        guard cove_syncfs(directory) == 0 else { return }
        try? catalog.write(durable: true) { database throws(Errno) in
            try database.run("UPDATE items SET synced = 1 WHERE synced = 0 AND resident > 0")
            try database.setMeta("boot", nil)
        }
    }

    /// Names this boot of the machine and of the state disk's mount.
    private static func bootIdentity() -> [UInt8] {
        guard let descriptor = try? System.open("/proc/sys/kernel/random/boot_id", O_RDONLY) else { return [] }
        defer { System.close(descriptor) }
        var buffer = [UInt8](repeating: 0, count: 64)
        let count = buffer.withUnsafeMutableBytes { (try? System.pread(descriptor, $0, 0)) ?? 0 }
        return Array(buffer.prefix(count))
    }
}

extension String {
    fileprivate func replacingLastComponent(with name: String) -> String {
        guard let slash = lastIndex(of: "/") else { return name }
        return String(self[...slash]) + name
    }
}
