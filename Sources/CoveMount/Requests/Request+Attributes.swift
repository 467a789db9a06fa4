internal import CFuse
internal import CoveCore
internal import CoveEngine
internal import Glibc
internal import Synchronization

/// The operations on attributes, extended attributes and the file system as a whole.
extension Request {
    /// Answers STATX too, which comes as a GETATTR.
    consuming func getattr(_ id: ItemID) {
        let wantsBirth = Hooks.wantsBirth
        let engine = begin()
        do throws(Errno) {
            let attributes = try engine.attributes(of: id, caller)
            if wantsBirth { reply(allOf: attributes) } else { reply(attributes: attributes) }
        } catch {
            fail(error)
        }
    }

    consuming func setattr(_ id: ItemID, _ status: UnsafeMutablePointer<stat>?, valid: Int32, hasHandle: Bool) {
        let engine = connection.engine
        guard let status else { return fail(.invalidArgument) }
        let change = AttributeChange(status.pointee, valid: valid)
        let isFree = engine.isUncoordinated || engine.isWrittenBack(change, of: id, hasHandle: hasHandle)
        let use: PlainUse = change.size != nil && !hasHandle ? .cut(id) : .change(id)
        coordinated(isFree ? nil : use) { engine, caller throws(Errno) in
            try engine.setAttributes(of: id, change, hasHandle: hasHandle, caller)
        } reply: { request, attributes in
            request.reply(attributes: attributes)
        }
    }

    /// Permissions are the kernel's business (default_permissions), which then never asks.
    consuming func access() {
        _ = begin()
        succeed()
    }

    consuming func statfs() {
        let engine = begin()
        reply(status: engine.fileSystemStatus())
    }

    consuming func getxattr(_ id: ItemID, _ name: [UInt8], limit: Int) {
        let engine = begin()
        do throws(Errno) {
            let value = try engine.extendedAttribute(id, name, caller)
            reply(value: value, limit: limit)
        } catch {
            // `ls -l` asks for the list of each name, unless it hears that there are none. Where the kernel enforces lists, it
            // would refuse access on that.
            let isNone =
                error == .noData && name.starts(with: Self.system) && !engine.hasAccessLists
                && connection.accessLists.load(ordering: .relaxed) != .enforced
            fail(isNone ? .notSupported : error)
        }
    }

    private static let system = Array("system.".utf8)

    consuming func listxattr(_ id: ItemID, limit: Int) {
        let engine = begin()
        do throws(Errno) {
            let names = try engine.extendedAttributeNames(id, caller)
            reply(value: names, limit: limit)
        } catch {
            fail(error)
        }
    }

    consuming func setxattr(_ id: ItemID, _ name: [UInt8], _ value: UnsafeRawBufferPointer, flags: Int32) {
        // Where the kernel does not enforce a list, nobody is to believe that it does.
        let isList = name.starts(with: Self.system)
        if isList, connection.accessLists.load(ordering: .relaxed) == .refused { return fail(.notSupported) }
        let value = Array(value)
        coordinated(.change(id)) { engine, caller throws(Errno) in
            try engine.setExtendedAttribute(id, name, value, flags: flags, caller)
        } reply: { request, _ in
            if isList { request.tellMode(of: id) }
            request.succeed()
        }
    }

    consuming func removexattr(_ id: ItemID, _ name: [UInt8]) {
        perform(.change(id)) { engine, caller throws(Errno) in try engine.removeExtendedAttribute(id, name, caller) }
    }

    /// A list changes the mode, which the kernel knows only where it enforces lists.
    ///
    /// Of attributes alone it takes the word at once, waiting for nothing.
    private borrowing func tellMode(of id: ItemID) {
        guard connection.accessLists.load(ordering: .relaxed) == .kept else { return }
        // The item that the request is for is in the kernel's memory; a device that is closed has no caches.
        try? KernelNotice.attributes(id).write(to: fuse_session_fd(connection.session))
    }
}

extension AttributeChange {
    /// Reads a SETATTR, whose `valid` bits are FUSE_SET_ATTR_*.
    ///
    /// FUSE_HANDLE_KILLPRIV_V2 leaves set-user-id and set-group-id to the file system: bit 11 (FATTR_KILL_SUIDGID,
    /// which libfuse calls FUSE_SET_ATTR_KILL_SUID) comes with a truncation by a caller who may not keep them, and a
    /// change of owner always drops them, as chown(2) says. One with both ids -1 comes as a change time and nothing else,
    /// or without the writeback cache as nothing at all, as does a write that the kernel carries out by itself.
    init(_ status: stat, valid: Int32) {
        self.init()
        let isSet = { (bit: Int32) in valid & bit != 0 }
        if isSet(FUSE_SET_ATTR_MODE) { permissions = UInt16(status.st_mode & 0o7777) }
        if isSet(FUSE_SET_ATTR_UID) { user = status.st_uid }
        if isSet(FUSE_SET_ATTR_GID) { group = status.st_gid }
        if isSet(FUSE_SET_ATTR_SIZE) { size = Int64(status.st_size) }
        if isSet(FUSE_SET_ATTR_ATIME_NOW) {
            accessTime = .now
        } else if isSet(FUSE_SET_ATTR_ATIME) {
            accessTime = .at(Timestamp(status.st_atim))
        }
        if isSet(FUSE_SET_ATTR_MTIME_NOW) {
            modificationTime = .now
        } else if isSet(FUSE_SET_ATTR_MTIME) {
            modificationTime = .at(Timestamp(status.st_mtim))
        }
        if isSet(FUSE_SET_ATTR_CTIME) { changeTime = Timestamp(status.st_ctim) }
        clearsPrivileges =
            valid == FUSE_SET_ATTR_CTIME || valid == 0
            || valid & (FUSE_SET_ATTR_KILL_SUID | FUSE_SET_ATTR_KILL_SGID | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID) != 0
    }
}
