internal import CLinux
internal import CoveCore
internal import Glibc
internal import Synchronization

/// What a program that sees one app's part of the account may do; all others may do everything.
extension Access {
    /// What is done with an item.
    enum Use: Sendable {
        case reading
        case writing
    }

    /// The app that a caller is of; nil for the user's own programs, which costs one atomic load while there are no others.
    @inline(__always)
    func app(of caller: Caller) throws(Errno) -> AppIdentifier? {
        views.isEmpty ? nil : try views.app(of: caller.thread)
    }

    /// From now on the programs of a process's PID namespace are an app's.
    func enterView(of app: AppIdentifier, process: Int32) throws(Errno) { try views.enter(app, process: process) }

    /// True for a folder of the root that is a container's, whatever its name is at the moment.
    func isContainer(_ top: EntryRow) -> Bool { !names.isEmpty && containerFolder(of: top) != nil }

    /// What people call the container that a path is in; nil for one in none.
    func containerName(of path: RemotePath) throws(Errno) -> String? {
        guard !names.isEmpty, let name = path.names.first else { return nil }
        let top = try catalog.read { database throws(Errno) in try database.entry(.root, name.bytes) }
        guard let folder = top.flatMap({ containerFolder(of: $0) }) else { return nil }
        return AppIdentifier(folder.description).flatMap { registry.containers[$0]?.name }
    }

    /// Refuses another name for what the caller's app was only given: it would outlive that.
    func admitLink(_ caller: Caller, _ id: ItemID) throws(Errno) {
        guard let app = try app(of: caller) else { return }
        try catalog.read { database throws(Errno) in try self.admitLink(to: id, by: app, database) }
    }

    /// Refuses to take a folder with references out of its container.
    func requireStaying(_ parent: ItemID, _ name: [UInt8], _ newParent: ItemID) throws(Errno) {
        if hasNoReferences || parent == newParent { return }
        let leaves = try catalog.glance { database throws(Errno) -> Bool in
            guard let entry = try database.entry(parent, name),
                try database.item(entry.item)?.kind == .directory
            else { return false }
            let from = try self.container(of: parent, database)?.record.identifier
            if try self.container(of: newParent, database)?.record.identifier == from { return false }
            for row in try database.references() {
                if let folder = row.parent, try database.directory(folder, isInside: entry.item) { return true }
            }
            return false
        }
        if leaves { throw .crossDevice }
    }

    /// Everything is to be deleted, or that is over: containers and what listings hide go like all else meanwhile.
    func noteErasing(_ isErasing: Bool) throws(Errno) {
        self.isErasing.store(isErasing, ordering: .releasing)
        try tellRoot()
    }

    /// RENAME_EXCHANGE of renameat2(2).
    static let exchange = UInt32(RENAME_EXCHANGE)
    /// RENAME_WHITEOUT of the same.
    static let whiteout = UInt32(RENAME_WHITEOUT)

    /// True where a listing of the root may leave something out.
    var changesRoot: Bool { !folders.isEmpty }

    /// Refuses what the caller's app may not do with an item; `EACCES`.
    @inline(__always)
    func admit(_ caller: Caller, _ id: ItemID, _ use: Use = .reading) throws(Errno) {
        if views.isEmpty { return }
        guard let app = try views.app(of: caller.thread) else { return }
        guard try isAdmitted(app, id, use) else {
            // Who finds the item by a name that has another one by now walks the path again.
            let isNamed = try catalog.glance { database throws(Errno) in try !database.entries(of: id).isEmpty }
            throw isNamed || id == .root || HiddenNode.contains(id) ? .accessDenied : .stale
        }
    }

    /// Whether an app may do something with an item: its containers are its own, the root's documents everybody's.
    func isAdmitted(_ app: AppIdentifier, _ id: ItemID, _ use: Use) throws(Errno) -> Bool {
        if id == .root { return true }
        if HiddenNode.contains(id) { return false }
        return try catalog.read { database throws(Errno) in
            // One without a name is nobody's: who has it open needs to ask nothing.
            for entry in try database.entries(of: id) where try self.isAdmitted(app, entry, use, database) {
                return true
            }
            return try self.isAdmitted(app, unnamed: id, use, database)
        }
    }

    /// Whether an app may do something with a file that has no name yet: where it was made that counts.
    func isAdmitted(
        _ app: AppIdentifier,
        unnamed id: ItemID,
        _ use: Use,
        _ database: Database
    ) throws(Errno) -> Bool {
        guard let directory = try database.unnamed(id) else { return false }
        if directory == .root { return true }
        guard let entry = try database.entry(ofDirectory: directory) else { return false }
        return try isAdmitted(app, entry, use, database)
    }

    /// Whether an app may do something with an entry: it was given it, or something above it, or may use it without.
    func isAdmitted(
        _ app: AppIdentifier,
        _ entry: EntryRow,
        _ use: Use,
        _ database: Database
    ) throws(Errno) -> Bool {
        if try isGranted(app, entry.document, use, database) { return true }
        var current = entry
        var steps = 0
        while current.parent != .root {
            guard steps < 4096, let above = try database.entry(ofDirectory: current.parent) else { return false }
            current = above
            steps += 1
            // What is given with a folder is all that is in it.
            if try isGranted(app, current.document, use, database) { return true }
        }
        return try isOpen(top: current, to: app, database)
    }

    /// Whether an app may use an entry without having been given it.
    func isOpen(_ entry: EntryRow, to app: AppIdentifier, _ database: Database) throws(Errno) -> Bool {
        var current = entry
        var steps = 0
        while current.parent != .root {
            guard steps < 4096, let above = try database.entry(ofDirectory: current.parent) else { return false }
            current = above
            steps += 1
        }
        return try isOpen(top: current, to: app, database)
    }

    /// Whether an app may see what is below an entry of the root.
    func isOpen(top: EntryRow, to app: AppIdentifier, _ database: Database) throws(Errno) -> Bool {
        switch folders[top.item] {
        case .records: return false
        case .container(let identifier, _): return registry.containers[identifier]?.app == app
        case nil: break
        }
        if top.name == DriveFolder.name.bytes { return false }
        guard let folder = containerFolder(of: top) else { return try !isUnjudged(top, database) }
        // Who owns one that was just heard of is not known yet.
        return registry.owner(ofFolder: folder) == app
    }

    /// True for a folder that another device may have made for an app: it has the form of a container's name, and what the documents
    /// say of it was not read yet, or can't be.
    func isUnjudged(_ top: EntryRow, _ database: Database) throws(Errno) -> Bool {
        let identifiers = [top.remoteName, top.name].compactMap { $0.flatMap { identifier(ofFolder: $0) } }
        guard !identifiers.isEmpty else { return false }
        let (isPlain, isUnread) = state.withLock { state in
            (state.plain.contains(top.item), identifiers.contains { state.unread.contains($0) })
        }
        if isUnread { return true }
        // One of this device is an app's from the start, and without the documents' folder there are no containers.
        guard !isPlain, top.isUploaded, context.generation.heedsApps,
            try database.item(top.item)?.kind == .directory
        else { return false }
        return try database.entry(.root, DriveFolder.name.bytes) != nil
    }

    /// Refuses to change what everybody has in common, and what the caller's app may not change; `EACCES`.
    @inline(__always)
    func admitAttributes(_ caller: Caller, _ id: ItemID) throws(Errno) {
        if views.isEmpty { return }
        // All apps make names in the root: that does not make it any one's.
        if id == .root, try app(of: caller) != nil { throw .accessDenied }
        try admit(caller, id, .writing)
    }

    /// Whether an app may use what is at a path, or make something there.
    func isAdmitted(_ app: AppIdentifier, at path: RemotePath, _ use: Use) throws(Errno) -> Bool {
        guard let top = path.names.first else { return use == .reading }
        guard try isShown(top.bytes, to: app), try isBelowNoLink(path) else { return false }
        guard let document = try original(named: path, use) else { return true }
        return try catalog.read { database throws(Errno) in try self.isAdmitted(app, document.entry, use, database) }
    }

    /// A symbolic link may lead anywhere: who follows it is to name where.
    private func isBelowNoLink(_ path: RemotePath) throws(Errno) -> Bool {
        try catalog.read { database throws(Errno) in
            var current = ItemID.root
            for name in path.names {
                guard let entry = try database.entry(current, name.bytes) else { return true }
                if try database.item(entry.item)?.kind == .symbolicLink { return false }
                current = entry.item
            }
            return true
        }
    }

    /// Whether a name of the root is there for an app.
    func isShown(_ name: [UInt8], to app: AppIdentifier) throws(Errno) -> Bool {
        if name == DriveFolder.name.bytes || name == HiddenNode.name { return false }
        let isOpen = try catalog.glance { database throws(Errno) in
            try database.entry(.root, name).map { entry throws(Errno) in try self.isOpen(top: entry, to: app, database)
            }
        }
        if let isOpen { return isOpen }
        let folder = names.there(FileName(unchecked: name))
        return !names.isContainer(there: folder) || registry.owner(ofFolder: folder) == app
    }

    /// Refuses what the caller's app may not do with the document of another place: to give it other bytes.
    func admit(_ caller: Caller, to place: Place) throws(Errno) {
        guard let app = try app(of: caller) else { return }
        let entry = try catalog.glance { database throws(Errno) in try database.entry(place.parent, place.name) }
        guard let entry, try isAdmitted(app, entry.item, .writing) else { throw .accessDenied }
    }

    /// Refuses to remove or replace a folder in which references are.
    func requireNoReferences(in parent: ItemID, _ name: [UInt8]) throws(Errno) {
        if hasNoReferences { return }
        let entry = try catalog.glance { database throws(Errno) in try database.entry(parent, name) }
        if let entry, try hasReferences(in: entry.item) { throw .notEmpty }
    }

    /// Refuses to take a container's folder out of the root, or to make something of the name of one.
    func requireFree(_ parent: ItemID, _ name: [UInt8]) throws(Errno) {
        if Self.isScoped(name) { throw .notPermitted }
        guard parent == .root, !names.isEmpty else { return }
        let name = FileName(unchecked: name)
        // An identifier is no name here: at the source it would be the container's.
        if names.isContainer(there: name), names.here(name) != name { throw .exists }
    }

    /// Refuses to move or remove a container's folder; renaming it in the root is how it gets another name.
    func requireMovable(_ parent: ItemID, _ name: [UInt8]) throws(Errno) {
        guard parent == .root, !folders.isEmpty, !isErasing.load(ordering: .acquiring) else { return }
        let entry = try catalog.glance { database throws(Errno) in try database.entry(.root, name) }
        if let entry, folders[entry.item] != nil { throw .busy }
    }
}
