public import CoveCore

/// What is asked of names and attributes.
///
/// The calls by which the announcer shows a change of the provider commit that change.
extension Engine {
    /// Starts to download a document, or all below a directory; returns when all is asked for.
    public func download(_ path: RemotePath) async throws(Errno) { try await namespace.download(path) }

    /// Downloads a document, or all below a directory, and waits for all of it.
    public func waitForDownload(
        _ path: RemotePath,
        progress: @escaping @Sendable (TransferStatus) -> Void
    ) async throws(Errno) { try await namespace.waitForDownload(path, progress: progress) }

    /// True for dates that the kernel writes back of its own, which hold nobody up.
    public func isWrittenBack(_ change: AttributeChange, of id: ItemID, hasHandle: Bool) -> Bool {
        namespace.isWrittenBack(change, of: id, hasHandle: hasHandle)
    }

    /// Changes attributes; a path-based change of a replaced item is `ESTALE`, and the kernel walks the path again.
    public func setAttributes(
        of id: ItemID,
        _ change: AttributeChange,
        hasHandle: Bool,
        _ caller: Caller
    ) throws(Errno) -> ItemAttributes {
        if try remoteChanges.takeAnnouncedAttributes(caller, id, change, hasHandle: hasHandle) {
            return try attributes(of: id)
        }
        // Who has it open was admitted. The kernel writes dates back in whichever program's name: an error would be told to
        // another one.
        if id == .root || !hasHandle && !change.isHeldBack { try access.admitAttributes(caller, id) }
        return access.counted(try namespace.setAttributes(of: id, change, hasHandle: hasHandle, caller))
    }

    /// Makes and opens a file; counts a handle.
    public func create(
        _ parent: ItemID,
        _ name: [UInt8],
        mode: UInt32,
        flags: Int32,
        _ caller: Caller
    ) throws(Errno) -> ItemAttributes {
        try admitNew(parent, name, caller)
        let made = try namespace.create(parent, name, mode: mode, flags: flags, caller)
        access.noteMade(made.id, parent, name)
        return made
    }

    /// Makes and opens a file that has no name yet, `O_TMPFILE` of open(2); counts a handle.
    public func createUnnamed(
        in directory: ItemID,
        mode: UInt32,
        flags: Int32,
        _ caller: Caller
    ) throws(Errno) -> ItemAttributes {
        try access.admit(caller, directory, .writing)
        return try namespace.create(directory, nil, mode: mode, flags: flags, caller)
    }

    /// Makes a file, fifo, socket or device node; see mknod(2).
    public func makeNode(
        _ parent: ItemID,
        _ name: [UInt8],
        mode: UInt32,
        device: UInt64,
        _ caller: Caller
    ) throws(Errno) -> ItemAttributes {
        try admitNew(parent, name, caller)
        return try namespace.makeNode(parent, name, mode: mode, device: device, caller)
    }

    /// Makes an empty directory, already listed.
    public func makeDirectory(
        _ parent: ItemID,
        _ name: [UInt8],
        mode: UInt32,
        _ caller: Caller
    ) throws(Errno) -> ItemAttributes {
        try admitNew(parent, name, caller)
        return try namespace.makeDirectory(parent, name, mode: mode, caller)
    }

    /// Makes a symbolic link.
    public func makeSymbolicLink(
        _ parent: ItemID,
        _ name: [UInt8],
        target: [UInt8],
        _ caller: Caller
    ) throws(Errno) -> ItemAttributes {
        try admitNew(parent, name, caller)
        return try namespace.makeSymbolicLink(parent, name, target: target, caller)
    }

    /// Another entry of an item; see link(2).
    public func link(
        _ id: ItemID,
        _ parent: ItemID,
        _ name: [UInt8],
        _ caller: Caller
    ) throws(Errno) -> ItemAttributes {
        // Of what was done already nothing is asked again.
        if try contents.earlierResult(caller) == nil { try admitNew(parent, name, caller) }
        let app = try access.actor(caller)
        let linked = try namespace.link(id, parent, name, caller) { database throws(Errno) in
            try access.admitLink(to: id, by: app, database)
        }
        // It had no name before.
        if linked.linkCount == 1 { access.noteMade(id, parent, name) }
        return linked
    }

    /// Whether the caller may make something of a name.
    private func admitNew(_ parent: ItemID, _ name: [UInt8], _ caller: Caller) throws(Errno) {
        try access.requireFree(parent, name)
        try access.requireNoReference(parent, name)
        try access.admit(caller, parent, .writing)
        guard parent == .root, let app = try access.app(of: caller) else { return }
        guard try access.isShown(name, to: app) else { throw .accessDenied }
    }

    /// Whether the caller may take a name away, or give it to something else.
    private func admitChange(_ parent: ItemID, _ name: [UInt8], _ caller: Caller) throws(Errno) {
        try access.admit(caller, parent, .writing)
        guard parent == .root, let app = try access.app(of: caller) else { return }
        guard try access.isShown(name, to: app) else { throw .noSuchEntry }
    }

    /// Opens a directory; one that was never listed is listed by the provider first.
    public func openDirectory(_ id: ItemID, _ caller: Caller) throws(Errno) -> Outcome<Void> {
        try access.admit(caller, id)
        let outcome = try namespace.openDirectory(id, caller)
        guard caller.isProgram(of: configuration.fileManagers) else { return outcome }
        return withPictures(outcome, of: id)
    }

    /// Calls the body for each name after a cookie until it returns false; cookies 1 and 2 are `.` and `..`.
    ///
    /// Of the root, those that are hidden, and those that are nothing for the caller, are left out.
    public func readDirectory(
        _ id: ItemID,
        after cookie: UInt64,
        plus: Bool,
        _ caller: Caller = .unknown,
        _ body: (borrowing DirectoryEntry) -> Bool
    ) throws(Errno) {
        let app = try access.app(of: caller)
        guard id == .root, app != nil || access.changesRoot else {
            return try readWithReferences(id, after: cookie, plus: plus, body)
        }
        try namespace.readDirectory(id, after: cookie, plus: plus) { entry in
            if access.isHidden(entry.attributes.id) { return true }
            if let app, entry.cookie > 2, (try? access.isShown(entry.name, to: app)) != true { return true }
            return body(entry)
        }
    }

    /// The entries of a directory, and behind them the references in it.
    private func readWithReferences(
        _ id: ItemID,
        after cookie: UInt64,
        plus: Bool,
        _ body: (borrowing DirectoryEntry) -> Bool
    ) throws(Errno) {
        if access.hasNoReferences { return try namespace.readDirectory(id, after: cookie, plus: plus, body) }
        var goesOn = true
        if !Access.isReference(cookie: cookie) {
            let shared = plus ? try access.sharedNames(in: id) : []
            try namespace.readDirectory(id, after: cookie, plus: plus) { entry in
                goesOn =
                    shared.contains(entry.name)
                    ? body(
                        DirectoryEntry(
                            name: entry.name,
                            cookie: entry.cookie,
                            attributes: access.counted(entry.attributes),
                            isUncached: true
                        )
                    ) : body(entry)
                return goesOn
            }
        }
        if goesOn { try access.readReferences(in: id, after: cookie, plus: plus, body) }
    }

    /// Nothing is kept for an open directory.
    public func releaseDirectory(_ id: ItemID) { namespace.releaseDirectory(id) }

    /// Makes every name change so far durable.
    public func syncDirectory(_ id: ItemID) throws(Errno) { try namespace.syncDirectory(id) }

    /// One attribute's value, of a program's or of Cove's own; `ENODATA` when there is none.
    public func extendedAttribute(
        _ id: ItemID,
        _ name: [UInt8],
        _ caller: Caller = .unknown
    ) throws(Errno) -> [UInt8] {
        try access.admit(caller, id)
        if CoveAttribute.isOne(name) { return try answer(id, CoveAttribute.key(name), to: access.app(of: caller)) }
        return try namespace.extendedAttribute(id, name)
    }

    /// False as long as no item had an access control list.
    public var hasAccessLists: Bool { namespace.hasAccessLists() }

    /// The names of attributes set by programs, each with a NUL; Cove's own are not among them.
    public func extendedAttributeNames(_ id: ItemID, _ caller: Caller = .unknown) throws(Errno) -> [UInt8] {
        try access.admit(caller, id)
        return try namespace.extendedAttributeNames(id)
    }

    /// Sets an attribute; see setxattr(2).
    public func setExtendedAttribute(
        _ id: ItemID,
        _ name: [UInt8],
        _ value: [UInt8],
        flags: Int32,
        _ caller: Caller
    ) throws(Errno) {
        try access.admitAttributes(caller, id)
        if CoveAttribute.isOne(name) { return try command(id, name, value, caller) }
        try namespace.setExtendedAttribute(id, name, value, flags: flags, caller)
    }

    /// Removes an attribute; see removexattr(2).
    public func removeExtendedAttribute(_ id: ItemID, _ name: [UInt8], _ caller: Caller) throws(Errno) {
        try access.admitAttributes(caller, id)
        try namespace.removeExtendedAttribute(id, name, caller)
    }

    /// The flags of an item, of chattr(1).
    public func fileFlags(_ id: ItemID, _ caller: Caller) throws(Errno) -> FileFlags {
        try access.admit(caller, id)
        return try namespace.fileFlags(id)
    }

    /// Sets the flags of an item; `EOPNOTSUPP` for one that can't be kept.
    public func setFileFlags(_ id: ItemID, _ flags: FileFlags, _ caller: Caller) throws(Errno) {
        try access.admitAttributes(caller, id)
        try namespace.setFileFlags(id, flags, caller)
    }

    /// Finds a name in a directory; nil is an answer the kernel may keep.
    public func lookup(
        _ parent: ItemID,
        _ name: [UInt8],
        _ caller: Caller
    ) throws(Errno) -> Outcome<ItemAttributes?> {
        guard name.count <= FileName.maximumLength else { throw .nameTooLong }
        if isUncachedName(name) { return .now(try remoteChanges.incomingAttributes(parent, name)) }
        // An answer that the kernel does not keep.
        if remoteChanges.isYetToCome(parent, name, caller) { throw .noSuchEntry }
        if let app = try access.app(of: caller) {
            guard try access.isAdmitted(app, parent, .reading) else { throw .noSuchEntry }
            if parent == .root, try !access.isShown(name, to: app) { throw .noSuchEntry }
        }
        if let scoped = try access.scopedAttributes(parent, name) { return .now(access.counted(scoped)) }
        if let reference = try access.reference(parent, name) {
            return .now(access.counted(try access.attributes(of: reference)))
        }
        let outcome = try namespace.lookup(parent, name, caller)
        if case .now(let found?) = outcome { return .now(access.counted(found)) }
        return outcome
    }

    /// True for names of changes on their way in: the kernel is not to keep them.
    public func isUncachedName(_ name: [UInt8]) -> Bool { name.starts(with: IncomingTable.prefix) }

    /// True for names that the kernel is to ask for each time: of references too, whose documents get other items.
    public func isUncached(_ parent: ItemID, _ name: [UInt8]) -> Bool {
        isUncachedName(name) || Access.isScoped(name) || ((try? access.isShared(parent, name)) ?? true)
    }

    /// What stat(2) says of an item now.
    public func attributes(of id: ItemID) throws(Errno) -> ItemAttributes { try namespace.attributes(of: id) }

    /// What stat(2) says to a program, whose kernel may walk the path again.
    public func attributes(of id: ItemID, _ caller: Caller) throws(Errno) -> ItemAttributes {
        // Who knows the item has looked it up, or has it open.
        access.counted(try namespace.attributes(of: id, caller))
    }

    /// What stat(2) says of an item of which only the number is known, as a file handle has it.
    ///
    /// Throws `ESTALE` for one that has no name any more: what was deleted is not there, though the trash may have it.
    public func attributes(ofNumber id: ItemID, _ caller: Caller) throws(Errno) -> ItemAttributes {
        if let app = try access.app(of: caller), try !access.isAdmitted(app, id, .reading) { throw .stale }
        let attributes = try attributes(of: id, caller)
        guard attributes.linkCount > 0 else { throw .stale }
        return attributes
    }

    /// The directory that a directory is in; the root's is the root.
    ///
    /// Throws `ESTALE` for one that is gone.
    public func directory(of id: ItemID) throws(Errno) -> ItemID {
        if id == .root { return .root }
        let entry = try catalog.read { database throws(Errno) in try database.entry(ofDirectory: id) }
        guard let entry else { throw .stale }
        return entry.parent
    }

    /// True for an open file that had no bytes when last heard of.
    public func isEmpty(_ id: ItemID) -> Bool { namespace.isEmpty(id) }

    /// The kernel knows an item no more.
    public func forget(_ id: ItemID) { namespace.forget(id) }

    /// Where a symbolic link points.
    public func readLink(_ id: ItemID, _ caller: Caller = .unknown) throws(Errno) -> [UInt8] {
        try access.admit(caller, id)
        return try namespace.readLink(id)
    }

    /// Removes a name; an uploaded document goes to the trash.
    public func unlink(_ parent: ItemID, _ name: [UInt8], _ caller: Caller) throws(Errno) {
        if let announced = remoteChanges.takeAnnounced(caller, removing: parent, name) {
            if try remoteChanges.commit(announced, for: caller) { throw .busy }
            return
        }
        try admitChange(parent, name, caller)
        if try access.unlinkReference(parent, name, caller) { return }
        try namespace.unlink(parent, name, caller)
    }

    /// Removes an empty directory.
    public func removeDirectory(_ parent: ItemID, _ name: [UInt8], _ caller: Caller) throws(Errno) {
        if let announced = remoteChanges.takeAnnounced(caller, removing: parent, name) {
            return try remoteChanges.removeDirectory(announced, parent, name, caller)
        }
        try access.requireMovable(parent, name)
        try admitChange(parent, name, caller)
        try access.requireNoReferences(in: parent, name)
        try namespace.removeDirectory(parent, name, caller)
    }

    /// The listing of a directory that is to be removed, or replaced, where nobody has opened it yet; nil nearly always.
    public func listingBeforeRemoval(_ parent: ItemID, _ name: [UInt8], _ caller: Caller) -> Pending<Void>? {
        namespace.listingBeforeRemoval(parent, name, caller)
    }

    /// True for a name that is known to be a directory's.
    public func isDirectory(_ parent: ItemID, _ name: [UInt8]) -> Bool { namespace.isDirectory(parent, name) }

    /// Renames; `RENAME_NOREPLACE`, `RENAME_EXCHANGE` and `RENAME_WHITEOUT` as in renameat2(2).
    public func rename(
        _ parent: ItemID,
        _ name: [UInt8],
        _ newParent: ItemID,
        _ newName: [UInt8],
        flags: UInt32,
        _ caller: Caller
    ) throws(Errno) {
        if let announced = remoteChanges.takeAnnounced(caller, moving: parent, name, to: newParent, newName) {
            return _ = try remoteChanges.commit(announced, for: caller)
        }
        if !Access.isScoped(newName) { try access.requireFree(newParent, newName) }
        if newParent != .root || parent != .root || flags & (Access.exchange | Access.whiteout) != 0 {
            try access.requireMovable(parent, name)
        }
        if parent != newParent || name != newName { try access.requireMovable(newParent, newName) }
        try access.requireStaying(parent, name, newParent)
        try admitChange(parent, name, caller)
        try admitChange(newParent, newName, caller)
        // Whatever has become of it.
        defer { access.notePlacesChanged() }
        switch try access.renaming(parent, name, newParent, newName, flags: flags, caller) {
        case .done: return
        case .ordinary:
            try access.requireNoReferences(in: newParent, newName)
            let isShared = try access.isShared(newParent, newName)
            let replaced = try access.given(Place(newParent, newName), movedFrom: Place(parent, name))
            let app = try access.actor(caller)
            try namespace.rename(parent, name, newParent, newName, flags: flags, caller) {
                entry,
                place,
                database throws(Errno) in
                try access.admitMove(of: entry, to: place, flags, by: app, database)
            }
            if let replaced { access.passOn(replaced, to: Place(newParent, newName)) }
            if isShared { access.tellWatchers(of: Place(newParent, newName), savedAt: Place(newParent, newName)) }
        case .onto(let original):
            let replaced = try access.given(original)
            try namespace.rename(
                parent,
                name,
                original.parent,
                original.name,
                flags: 0,
                caller,
                admitting: access.admitSave
            )
            if let replaced { access.passOn(replaced, to: original) }
            access.tell(of: [original, Place(newParent, newName)])
            access.tellWatchers(of: original, savedAt: Place(newParent, newName))
        }
        if newParent == .root, parent == .root { access.noteRenamed(name, to: newName) }
    }
}
