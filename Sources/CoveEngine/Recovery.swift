internal import CoveCore
internal import Glibc

/// What a start does before anything else: opens the catalog, and mends what a death left.
struct Recovery {
    /// In the catalog from an end that was not clean until all content files were looked at.
    static let sweepKey = "sweep"

    let configuration: EngineConfiguration
    let store: ContentStore
    /// What programs had open while another daemon took over.
    let live: LiveTable
    let disk: StateDisk
    /// True when the mount lives on, whose daemon has died.
    let isTakeover: Bool
    let log: Log

    private var path: String { configuration.stateDirectory + "/catalog.db" }

    /// Opens the catalog and prepares it; a corrupt one is kept aside, with every content file it may have known as dirty.
    func openCatalog() throws(EngineError) -> Catalog {
        if CatalogFiles.isHalfRepaired(in: configuration.stateDirectory) {
            throw EngineError("\(path): its repair was ended before it was done; run `cove doctor --repair` again")
        }
        do throws(CatalogOpenError) {
            return try openAndPrepare()
        } catch {
            guard case .corrupt(let why) = error else { throw explained(error) }
            // The kernel and programs know items by numbers that another catalog gives to others.
            guard !isTakeover else { throw EngineError("\(path): it is corrupt (\(why)); unmount, and mount again") }
            let folder = try keepAside(why)
            do throws(CatalogOpenError) {
                let catalog = try openAndPrepare(isNew: true)
                try? catalog.write { database throws(Errno) in try database.setMeta("salvage", Array(folder.utf8)) }
                return catalog
            } catch {
                throw explained(error)
            }
        }
    }

    /// Nothing has the catalog open any more when this throws.
    ///
    /// `isNew`: what was there has been kept aside just now.
    private func openAndPrepare(isNew: Bool = false) throws(CatalogOpenError) -> Catalog {
        if isTakeover, (try? System.lstat(path)) == nil { throw .failed(.noSuchEntry) }
        let catalog = try Catalog(
            path: path,
            disk: disk,
            log: log,
            whenMigrating: configuration.whenMigrating
        )
        let damage: String?
        do throws(Errno) {
            let lastBoot = try catalog.read { database throws(Errno) in try database.meta("boot") }
            let isEmpty = try catalog.read { database throws(Errno) in
                try database.first("SELECT 1 FROM items LIMIT 1") { _ in true } == nil
            }
            let isUnclean = !isTakeover && (disk.isMarked || lastBoot != nil && lastBoot != bootIdentity())
            if isEmpty, !isNew, try hasBytes() {
                // A new catalog would give the numbers of what is here to other items.
                damage = "it is empty, and there is content"
            } else {
                // After an end of which the catalog knows, what it holds is what was written.
                damage = isUnclean ? try catalog.damage() : nil
            }
            if damage == nil {
                try prepare(catalog, wasSealed: lastBoot == nil, isUnclean: isUnclean)
                try disk.unmark()
                disk.recovered(from: .damaged)
            }
        } catch {
            throw error == Errno(EUCLEAN) ? .corrupt("\(error)") : .failed(error)
        }
        if let damage { throw .corrupt(damage) }
        return catalog
    }

    /// True when there is content, or may be, or was before a start that was ended while it put that aside.
    private func hasBytes() throws(Errno) -> Bool {
        if isTakeover { return true }
        if try store.holdsAny() { return true }
        return CatalogFiles.halfKept(in: configuration.stateDirectory) != nil
    }

    private func explained(_ error: CatalogOpenError) -> EngineError {
        switch error {
        case .tooNew(let version):
            EngineError(
                "\(path): it was written by a newer Cove (schema \(version), this one knows \(Schema.version)); "
                    + "run that version, or mount with another --state"
            )
        case .failed(.noSpace):
            EngineError("\(path): the disk is full; free some room there")
        case .failed(let error):
            EngineError("\(path): it can't be opened: \(error); check the folder's owner and the disk")
        case .corrupt(let why):
            EngineError("\(path): it is corrupt again (\(why)); check the disk, and move the folder away by hand")
        }
    }

    /// Moves a corrupt catalog and all content into a folder, for a person to look at; the folder's path.
    private func keepAside(_ why: String) throws(EngineError) -> String {
        var folder = "\(configuration.stateDirectory)/corrupt-\(time(nil))"
        do throws(Errno) {
            if let half = CatalogFiles.halfKept(in: configuration.stateDirectory), try !store.holdsAny() {
                folder = half
            } else {
                try System.makeDirectories(folder)
                // First the content, which nothing may be left of that another catalog takes for its own.
                try System.rename(store.directory, folder + "/content")
                try System.makeDirectories(store.directory)
            }
            try CatalogFiles.move(from: path, to: folder)
            try System.syncDirectory(configuration.stateDirectory)
        } catch {
            throw EngineError("\(path): it is corrupt (\(why)) and can't be kept aside: \(error); move it away by hand")
        }
        log.error("the catalog was corrupt (\(why)): it and all content are kept in \(folder); the tree is rebuilt")
        return folder
    }

    /// Makes the root, drops orphans that nothing has open, and gives items that died while they were written their real size.
    private func prepare(_ catalog: Catalog, wasSealed: Bool, isUnclean: Bool) throws(Errno) {
        let orphans = try catalog.write { database throws(Errno) -> [ItemID] in
            if try database.item(.root) == nil {
                try database.insertRoot(
                    user: configuration.user,
                    group: configuration.group,
                    at: configuration.clock.now()
                )
            }
            if try Erasure.giveUp(database) { log.notice("that everything was to be erased is taken back") }
            if !isTakeover { try recoverUnsettled(database, isUnclean: isUnclean) }
            if isUnclean {
                try database.dropDamagedVersions(isUnclean: true)
                try dropUnsyncedDeleted(database)
            }
            let orphans = try database.orphans().filter { !live.isOpen($0) }
            for id in orphans { try database.deleteItem(id) }
            if isUnclean {
                log.notice("the machine went down since the last mount: content that was not durable is fetched again")
                try dropUnsynced(database)
            }
            var lost = try takeLacking(database)
            if !wasSealed {
                try database.setMeta(Recovery.sweepKey, [1])
                lost.formUnion(try recoverSizes(database, isUnclean: isUnclean))
                lost.formUnion(try recoverRanges(database, isUnclean: isUnclean))
                try database.dropDamagedVersions(isUnclean: false)
            }
            try setAsideUnsynced(database, isUnclean: isUnclean, lost: lost)
            try database.setMeta("boot", bootIdentity())
            return orphans
        }
        catalog.whenDurable { [store] in for id in orphans { store.remove(id) } }
        try catalog.synchronize()
        if isUnclean { try setAsideUnknown(catalog) }
    }

    /// At a clean end: all content is durable, and the next start, after whatever happens to the machine, may rely on it.
    func seal(_ catalog: Catalog) {
        do throws(Errno) {
            try disk.requireSound()
            try System.syncFileSystem(store.directory)
            try catalog.write(durable: true) { database throws(Errno) in
                try database.run(
                    """
                    UPDATE items SET synced = 1
                    WHERE synced = 0 AND resident > 0 AND id NOT IN (SELECT item FROM unsettled)
                    """
                )
                try database.setMeta("boot", nil)
            }
        } catch {
            disk.note(error, "all content can't be made durable")
        }
    }

    /// Names this boot of the machine and this mount of the state disk.
    private func bootIdentity() -> [UInt8] {
        if let identity = configuration.bootIdentity { return identity }
        var buffer = [UInt8](repeating: 0, count: 64)
        var count = 0
        if let descriptor = try? System.open("/proc/sys/kernel/random/boot_id", O_RDONLY) {
            count = buffer.withUnsafeMutableBytes { (try? System.pread(descriptor, $0, 0)) ?? 0 }
            System.close(descriptor)
        }
        let mount = (try? System.mountID(configuration.stateDirectory)) ?? 0
        return Array(buffer.prefix(count)) + Array("\(mount)".utf8)
    }
}
