internal import CLinux
internal import Glibc

/// Where a path is: the mount of Cove's that shows it and the path from the account's root.
public struct ItemLocation: Sendable {
    /// Why a path has no location.
    public enum Failure: Error, Sendable, Equatable {
        /// Another file system shows it.
        case outside
        /// A directory on the way can't be looked up.
        case way(Errno)
        /// The item can't be looked up.
        case item(Errno)
        /// The daemon of the mount at a path has died.
        case dead(mount: String)
        /// The mount at a path does not tell its daemon.
        case silent(mount: String, Errno)
        /// The mount table can't be read.
        case mountTable(Errno)
    }

    /// The path as it was given, for messages.
    public var shown: String
    /// The path without symbolic links on the way; the last name is not followed.
    public var absolute: [UInt8]
    /// The path from the account's root.
    public var path: RemotePath
    /// The mount that shows it.
    public var mount: Mount
    /// Where the mount's daemon answers.
    public var daemon: DaemonAddress

    /// One of a daemon's sockets, as the attribute of the mount's root that names it.
    public enum Socket: String, Sendable {
        /// That of the interfaces for the account and its items: whoever has it can do all that the account's owner can.
        case account = "user.cove.socket"
        /// That of claims and presenters alone.
        case coordination = "user.cove.coordination-socket"
    }

    /// Finds an item that is there; a symbolic link at the path's end is not followed.
    public static func existing(_ path: [UInt8]) throws(Failure) -> ItemLocation {
        try existing(path, socket: .account)
    }

    /// Finds an item that is there, and one of its daemon's sockets.
    public static func existing(_ path: [UInt8], socket: Socket) throws(Failure) -> ItemLocation {
        let location = try find(path, socket: socket)
        // In a directory never listed the daemon learns of the item by this.
        do throws(Errno) {
            try System.withCString(path) { path throws(Errno) in
                var status = stat()
                try System.retry { lstat(path, &status) }
            }
        } catch {
            throw .item(error)
        }
        return location
    }

    /// Finds the mount that shows a path, whether or not the item is there.
    public static func find(_ path: [UInt8]) throws(Failure) -> ItemLocation { try find(path, socket: .account) }

    /// Finds the mount that shows a path, and one of its daemon's sockets.
    public static func find(_ path: [UInt8], socket: Socket) throws(Failure) -> ItemLocation {
        let absolute: [UInt8]
        do throws(Errno) { absolute = try resolve(path) } catch { throw .way(error) }
        let mounts: [Mount]
        do throws(Errno) { mounts = try MountTable.read() } catch { throw .mountTable(error) }
        var holder: Mount?
        for mount in mounts where isInside(absolute, Array(mount.path.utf8)) {
            if mount.path.utf8.count >= holder?.path.utf8.count ?? 0 { holder = mount }
        }
        guard let holder, holder.isCove else { throw .outside }
        let inside = absolute.dropFirst(holder.path == "/" ? 0 : holder.path.utf8.count)
        let names = (Array(holder.root.utf8) + [0x2F] + inside).split(separator: 0x2F)
        return ItemLocation(
            shown: String(decoding: path, as: UTF8.self),
            absolute: absolute,
            path: RemotePath(names.map { FileName(unchecked: Array($0)) }),
            mount: holder,
            daemon: try daemon(of: holder, mounts, socket)
        )
    }

    /// The socket of the mount's daemon, which the root of the mount tells.
    private static func daemon(
        of mount: Mount,
        _ mounts: [Mount],
        _ socket: Socket
    ) throws(Failure) -> DaemonAddress {
        // A bind mount of a subfolder has the root's answer elsewhere.
        let whole = mounts.last {
            $0.root == "/" && $0.majorDevice == mount.majorDevice && $0.minorDevice == mount.minorDevice
        }
        var value = [CChar](repeating: 0, count: 4096)
        let path = (whole ?? mount).path
        let count = cove_getxattr(path, socket.rawValue, &value, value.count)
        guard count > 0 else {
            let error = Errno.current
            throw error == .notConnected ? .dead(mount: path) : .silent(mount: path, error)
        }
        let text = String(decoding: value.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return DaemonAddress(socket: text, owners: mount.owners)
    }

    /// Resolves all but the last name; a path that ends in `/`, `.` or `..` is resolved wholly.
    public static func resolve(_ path: [UInt8]) throws(Errno) -> [UInt8] {
        let names = path.split(separator: 0x2F)
        let isWhole = path.last == 0x2F || names.last.map { $0 == [0x2E] || $0 == [0x2E, 0x2E] } ?? true
        if isWhole { return try real(path) }
        let name = Array(names[names.count - 1])
        let slash = path.lastIndex(of: 0x2F)
        let directory = slash.map { $0 == 0 ? [0x2F] : Array(path[..<$0]) } ?? [0x2E]
        let parent = try real(directory)
        return parent == [0x2F] ? parent + name : parent + [0x2F] + name
    }

    private static func real(_ path: [UInt8]) throws(Errno) -> [UInt8] {
        try System.withCString(path) { path throws(Errno) in
            guard let resolved = realpath(path, nil) else { throw Errno.current }
            defer { free(resolved) }
            return Array(UnsafeRawBufferPointer(start: resolved, count: strlen(resolved)))
        }
    }

    private static func isInside(_ path: [UInt8], _ directory: [UInt8]) -> Bool {
        if directory == [0x2F] { return true }
        guard path.starts(with: directory) else { return false }
        return path.count == directory.count || path[directory.count] == 0x2F
    }
}
