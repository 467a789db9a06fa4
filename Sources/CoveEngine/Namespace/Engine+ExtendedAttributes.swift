internal import CLinux
public import CoveCore
internal import Glibc

/// Extended attributes: `user.*` of programs are kept and sent, `user.cove.*` are answers.
extension Engine {
    private static let prefix = Array("user.cove.".utf8)
    private static let userPrefix = Array("user.".utf8)
    private static let trustedPrefix = Array("trusted.".utf8)
    /// Those of Cove's own that are set, and taken away, as a program's are.
    private static let kept: [[UInt8]] = [PackageTypes.attribute, Array("user.cove.tags".utf8)]
    /// XATTR_SIZE_MAX.
    private static let maximumValue = 65536

    /// One attribute's value; `ENODATA` when there is none.
    public func extendedAttribute(_ id: ItemID, _ name: [UInt8]) throws(Errno) -> [UInt8] {
        if name.starts(with: Engine.prefix) {
            return try answer(id, String(decoding: name.dropFirst(Engine.prefix.count), as: UTF8.self))
        }
        guard name.starts(with: Engine.userPrefix) || name.starts(with: Engine.trustedPrefix) else {
            throw .notSupported
        }
        let value = try catalog.read { database throws(Errno) in try database.extendedAttribute(name, of: id) }
        guard let value else { throw .noData }
        return value
    }

    /// The names of attributes set by programs, each with a NUL; Cove's own are not among them.
    public func extendedAttributeNames(_ id: ItemID) throws(Errno) -> [UInt8] {
        let names = try catalog.read { database throws(Errno) in
            try database.all("SELECT name FROM xattrs WHERE item = ? ORDER BY name", .item(id)) { $0.blob(0) }
        }
        return names.flatMap { $0 + [0] }
    }

    /// Sets an attribute; see setxattr(2).
    public func setExtendedAttribute(
        _ id: ItemID,
        _ name: [UInt8],
        _ value: [UInt8],
        flags: Int32,
        _ caller: Caller
    ) throws(Errno) {
        try requireWritable()
        if name.starts(with: Engine.prefix) { return try command(id, name, value, caller) }
        guard name.starts(with: Engine.userPrefix) || name.starts(with: Engine.trustedPrefix) else {
            throw .notSupported
        }
        guard name.count > Engine.userPrefix.count, name.count <= 255 else {
            throw name.count > 255 ? .range : .invalidArgument
        }
        guard value.count <= Engine.maximumValue else { throw .argumentListTooLong }
        if try earlierResult(caller) != nil { return }
        let now = System.now()
        try catalog.write(for: caller) { database throws(Errno) in
            let row = try database.existingItem(id)
            // user.* belongs to files and directories only; see xattr(7).
            if name.starts(with: Engine.userPrefix), row.kind != .file, row.kind != .directory { throw .notPermitted }
            let old = try database.extendedAttribute(name, of: id)
            // XATTR_CREATE is 1, XATTR_REPLACE is 2.
            if old != nil, flags & 1 != 0 { throw .exists }
            if old == nil, flags & 2 != 0 { throw .noData }
            try database.setExtendedAttribute(name, value, of: id)
            try database.touch(id, modified: false, at: now)
            try self.enqueueEntries(of: id, .attributes, database)
        }
        wakeSync()
    }

    /// Removes an attribute; see removexattr(2).
    public func removeExtendedAttribute(_ id: ItemID, _ name: [UInt8], _ caller: Caller) throws(Errno) {
        try requireWritable()
        guard !name.starts(with: Engine.prefix) || Engine.kept.contains(name) else { throw .notPermitted }
        guard name.starts(with: Engine.userPrefix) || name.starts(with: Engine.trustedPrefix) else {
            throw .notSupported
        }
        if try earlierResult(caller) != nil { return }
        let now = System.now()
        try catalog.write(for: caller) { database throws(Errno) in
            _ = try database.existingItem(id)
            guard try database.extendedAttribute(name, of: id) != nil else { throw .noData }
            try database.run("DELETE FROM xattrs WHERE item = ? AND name = ?", .item(id), .blob(name))
            try database.touch(id, modified: false, at: now)
            try self.enqueueEntries(of: id, .attributes, database)
        }
        wakeSync()
    }

    /// What the writable ones of `user.cove.*` do; the kernel has seen that the caller may write to the item.
    private func command(_ id: ItemID, _ name: [UInt8], _ value: [UInt8], _ caller: Caller) throws(Errno) {
        switch String(decoding: name.dropFirst(Engine.prefix.count), as: UTF8.self) {
        case "pinned":
            // It takes room on the disk of the account's owner, and of a directory for all that is in it.
            let row = try catalog.read { database throws(Errno) in try database.existingItem(id) }
            guard caller.user == 0 || caller.user == row.user || caller.user == configuration.user else {
                throw .notPermitted
            }
            let text = String(decoding: value, as: UTF8.self)
            guard text == "0" || text == "1" else { throw .invalidArgument }
            try setPinned(id, text == "1")
        case "package":
            let text = String(decoding: value, as: UTF8.self)
            guard text == "0" || text == "1" else { throw .invalidArgument }
            try catalog.write { database throws(Errno) in
                guard try database.existingItem(id).kind == .directory else { throw .notDirectory }
                try database.setExtendedAttribute(name, value, of: id)
                try self.enqueueEntries(of: id, .attributes, database)
            }
            wakeSync()
        case "tags":
            guard value.count <= Engine.maximumValue else { throw .argumentListTooLong }
            try catalog.write { database throws(Errno) in
                _ = try database.existingItem(id)
                try database.setExtendedAttribute(name, value, of: id)
                try self.enqueueEntries(of: id, .attributes, database)
            }
            wakeSync()
        default: throw .notPermitted
        }
    }

    /// What `user.cove.*` says; nothing is fetched for it.
    func answer(_ id: ItemID, _ key: String) throws(Errno) -> [UInt8] {
        switch key {
        case "item-id": return Array(id.description.utf8)
        case "socket" where id == .root: return Array(configuration.socketPath.utf8)
        case "coordination-socket" where id == .root: return Array(configuration.coordinationSocketPath.utf8)
        case "account" where id == .root: return Array(configuration.account.utf8)
        case "tags":
            let stored = try catalog.read { database throws(Errno) in
                try database.extendedAttribute(Array("user.cove.tags".utf8), of: id)
            }
            guard let stored else { throw .noData }
            return stored
        case "package":
            let stored = try catalog.read { database throws(Errno) in
                try database.extendedAttribute(PackageTypes.attribute, of: id)
            }
            guard let stored else { throw .noData }
            return stored
        case "conflicts": return Array("\(try conflictCount(of: id))".utf8)
        default: break
        }
        let status = try status(of: id)
        let text: String
        switch key {
        case "downloading-status":
            // Downloaded: a newer version is known and not here; it takes the name only when it is announced.
            text = status.state == "dataless" || status.state == "partial" ? "NotDownloaded" : "Current"
        case "is-downloading": text = status.isDownloading ? "1" : "0"
        case "percent-downloaded":
            let percent = status.size == 0 ? 100 : 100 * Double(status.localBytes) / Double(status.size)
            text = String(min(max(Int(saturating: percent), 0), 100))
        case "is-uploaded": text = status.remoteID != nil && !status.isDirty ? "1" : "0"
        case "is-uploading": text = status.isUploading ? "1" : "0"
        case "has-conflicts": text = status.hasConflict ? "1" : "0"
        case "is-ubiquitous": text = status.state == "local" ? "0" : "1"
        case "is-external": text = "0"
        case "docid": text = status.documentID
        case "pinned": text = status.isPinned ? "1" : "0"
        case "content-version":
            guard let version = status.contentVersion else { throw .noData }
            text = version
        case "uploading-error":
            guard status.isDirty, let error = status.error else { throw .noData }
            text = error
        case "downloading-error":
            guard !status.isDirty, let error = status.error else { throw .noData }
            text = error
        default: throw .noData
        }
        return Array(text.utf8)
    }
}
