internal import CLinux
internal import CoveCore
internal import Glibc

/// Extended attributes of programs, which are kept and sent.
extension Namespace {
    private static let userPrefix = Array("user.".utf8)
    /// What is kept as it is given; who may set which the kernel decides, and takes capabilities(7) away.
    private static let prefixes = [userPrefix, Array("trusted.".utf8), Array("security.".utf8)]
    /// The label that SELinux gives a file, where it has none for the whole mount.
    private static let label = Array("security.selinux".utf8)
    /// XATTR_SIZE_MAX.
    static let maximumValue = 65536
    /// XATTR_NAME_MAX.
    private static let maximumName = 255
    /// XATTR_LIST_MAX: the names of all attributes of an item together, each with a NUL.
    private static let maximumNames = 65536

    /// True for an attribute that sources keep too; every other one stays on this device, and none is taken from a source.
    static func isShared(_ name: [UInt8]) -> Bool {
        name.starts(with: userPrefix) && !CoveAttribute.told.contains(name)
    }

    /// What is kept of the attributes of a source: all whose names can be names.
    ///
    /// Programs are not shown each of them, but a push sends all: a source may take what it is sent for all there are.
    static func admissible(_ attributes: [[UInt8]: [UInt8]]) -> [[UInt8]: [UInt8]] {
        attributes.filter { name, _ in
            isShared(name) && name.count > userPrefix.count && name.count <= maximumName && !name.contains(0)
        }
    }

    private static func prefix(of name: [UInt8]) throws(Errno) -> [UInt8] {
        guard let prefix = prefixes.first(where: { name.starts(with: $0) }) else { throw .notSupported }
        return prefix
    }

    /// One attribute's value; `ENODATA` when there is none, or `EOPNOTSUPP` for a label of SELinux.
    func extendedAttribute(_ id: ItemID, _ name: [UInt8]) throws(Errno) -> [UInt8] {
        if let list = AccessList.Kind(name) { return try accessList(id, list) }
        _ = try Self.prefix(of: name)
        let value = try catalog.read { database throws(Errno) in try database.extendedAttribute(name, of: id) }
        // `ls -l` asks for the label of each name, one request for each, unless it hears that there are no labels here.
        guard let value else { throw name == Self.label ? .notSupported : .noData }
        return value
    }

    /// The names of attributes set by programs, each with a NUL; Cove's own are not among them.
    func extendedAttributeNames(_ id: ItemID) throws(Errno) -> [UInt8] {
        // What getxattr(2) can't tell is not there for it.
        let names = try catalog.read { database throws(Errno) in
            try database.all(
                "SELECT name FROM xattrs WHERE item = ? AND length(value) <= ? ORDER BY name",
                .item(id),
                .int(Int64(Self.maximumValue))
            ) { $0.blob(0) }
        }
        var told: [UInt8] = []
        for name in names where name != Self.flagsName {
            // Nobody can set it, as who copies a file with its attributes would.
            if CoveAttribute.isOne(name), !CoveAttribute.kept.contains(name) { continue }
            guard told.count + name.count + 1 <= Self.maximumNames else { break }
            told += name + [0]
        }
        return told
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
        if let list = AccessList.Kind(name) { return try setAccessList(id, list, AccessList(attribute: value), caller) }
        let prefix = try Self.prefix(of: name)
        guard name.count > prefix.count, name.count <= Self.maximumName else {
            throw name.count > Self.maximumName ? .range : .invalidArgument
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
            if Self.isShared(name) { try self.contents.enqueueEntries(of: id, .attributes, database) }
        }
        wakeSync()
    }

    /// Removes an attribute; see removexattr(2).
    func removeExtendedAttribute(_ id: ItemID, _ name: [UInt8], _ caller: Caller) throws(Errno) {
        try requireWritable()
        guard !CoveAttribute.isOne(name) || CoveAttribute.kept.contains(name) else { throw .notPermitted }
        if let list = AccessList.Kind(name) { return try setAccessList(id, list, nil, caller) }
        _ = try Self.prefix(of: name)
        if try contents.earlierResult(caller) != nil { return }
        let now = clock.now()
        try catalog.write(for: caller) { database throws(Errno) in
            _ = try database.existingItem(id)
            guard try database.extendedAttribute(name, of: id) != nil else { throw .noData }
            try database.removeExtendedAttribute(name, of: id)
            try database.touch(id, modified: false, at: now)
            if Self.isShared(name) { try self.contents.enqueueEntries(of: id, .attributes, database) }
        }
        wakeSync()
    }
}
