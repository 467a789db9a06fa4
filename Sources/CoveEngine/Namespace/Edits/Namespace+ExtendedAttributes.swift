internal import CLinux
internal import CoveCore
internal import Glibc

/// Extended attributes of programs, which are kept and sent.
extension Namespace {
    private static let userPrefix = Array("user.".utf8)
    private static let trustedPrefix = Array("trusted.".utf8)
    /// XATTR_SIZE_MAX.
    static let maximumValue = 65536

    /// One attribute's value; `ENODATA` when there is none.
    func extendedAttribute(_ id: ItemID, _ name: [UInt8]) throws(Errno) -> [UInt8] {
        guard name.starts(with: Self.userPrefix) || name.starts(with: Self.trustedPrefix) else {
            throw .notSupported
        }
        let value = try catalog.read { database throws(Errno) in try database.extendedAttribute(name, of: id) }
        guard let value else { throw .noData }
        return value
    }

    /// The names of attributes set by programs, each with a NUL; Cove's own are not among them.
    func extendedAttributeNames(_ id: ItemID) throws(Errno) -> [UInt8] {
        let names = try catalog.read { database throws(Errno) in
            try database.all("SELECT name FROM xattrs WHERE item = ? ORDER BY name", .item(id)) { $0.blob(0) }
        }
        // Nobody can set it, as who copies a file with its attributes would.
        return names.filter { !CoveAttribute.told.contains($0) }.flatMap { $0 + [0] }
    }

    /// Sets an attribute; see setxattr(2).
    func setExtendedAttribute(
        _ id: ItemID,
        _ name: [UInt8],
        _ value: [UInt8],
        flags: Int32,
        _ caller: Caller
    ) throws(Errno) {
        try requireWritable()
        guard name.starts(with: Self.userPrefix) || name.starts(with: Self.trustedPrefix) else {
            throw .notSupported
        }
        guard name.count > Self.userPrefix.count, name.count <= 255 else {
            throw name.count > 255 ? .range : .invalidArgument
        }
        guard value.count <= Self.maximumValue else { throw .argumentListTooLong }
        if try contents.earlierResult(caller) != nil { return }
        let now = clock.now()
        try catalog.write(for: caller) { database throws(Errno) in
            let row = try database.existingItem(id)
            // user.* belongs to files and directories only; see xattr(7).
            if name.starts(with: Self.userPrefix), row.kind != .file, row.kind != .directory { throw .notPermitted }
            let old = try database.extendedAttribute(name, of: id)
            // XATTR_CREATE is 1, XATTR_REPLACE is 2.
            if old != nil, flags & 1 != 0 { throw .exists }
            if old == nil, flags & 2 != 0 { throw .noData }
            try database.setExtendedAttribute(name, value, of: id)
            try database.touch(id, modified: false, at: now)
            try self.contents.enqueueEntries(of: id, .attributes, database)
        }
        wakeSync()
    }

    /// Removes an attribute; see removexattr(2).
    func removeExtendedAttribute(_ id: ItemID, _ name: [UInt8], _ caller: Caller) throws(Errno) {
        try requireWritable()
        guard !CoveAttribute.isOne(name) || CoveAttribute.kept.contains(name) else { throw .notPermitted }
        guard name.starts(with: Self.userPrefix) || name.starts(with: Self.trustedPrefix) else {
            throw .notSupported
        }
        if try contents.earlierResult(caller) != nil { return }
        let now = clock.now()
        try catalog.write(for: caller) { database throws(Errno) in
            _ = try database.existingItem(id)
            guard try database.extendedAttribute(name, of: id) != nil else { throw .noData }
            try database.run("DELETE FROM xattrs WHERE item = ? AND name = ?", .item(id), .blob(name))
            try database.touch(id, modified: false, at: now)
            try self.contents.enqueueEntries(of: id, .attributes, database)
        }
        wakeSync()
    }
}
