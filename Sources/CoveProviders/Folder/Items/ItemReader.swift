internal import CoveCore
internal import Glibc

/// Makes `RemoteItem`s of what is in a directory.
struct ItemReader: Sendable {
    /// The device of the source's root.
    let device: UInt64
    /// False where the file system has no `user.*` attributes.
    let readsAttributes: Bool

    /// Reads one entry; nil when it is of a kind that no provider holds.
    func item(_ place: borrowing Place) throws(Errno) -> RemoteItem? {
        try item(place.name, in: place.directory.raw, path: place.path)
    }

    /// Reads one entry; nil when it is of a kind that no provider holds.
    func item(_ name: [UInt8], in directory: Int32, path: RemotePath) throws(Errno) -> RemoteItem? {
        try item(System.status(directory, name), name, in: directory, path: path)
    }

    func item(
        _ status: FileStatus,
        _ name: [UInt8],
        in directory: Int32,
        path: RemotePath
    ) throws(Errno) -> RemoteItem? {
        guard status.kind.isSynced else { return nil }
        let target = status.kind == .symbolicLink ? try System.readlinkat(directory, name) : nil
        return RemoteItem(
            id: id(status, path: path),
            name: name,
            kind: status.kind,
            size: status.kind == .file ? status.size : 0,
            contentVersion: status.contentVersion(target: target),
            metadataVersion: status.metadataVersion,
            metadata: ItemMetadata(
                modificationTime: status.modificationTime,
                permissions: status.permissions,
                user: status.user,
                group: status.group,
                extendedAttributes: status.kind == .symbolicLink ? nil : attributes(name, in: directory)
            ),
            linkTarget: target,
            created: status.birthTime == .epoch ? nil : status.birthTime
        )
    }

    /// The version of what has a name, the same as `item` would find.
    func version(_ name: [UInt8], in directory: Int32) throws(Errno) -> ContentVersion {
        let status = try System.status(directory, name)
        let target = status.kind == .symbolicLink ? try System.readlinkat(directory, name) : nil
        return status.contentVersion(target: target)
    }

    func version(_ place: borrowing Place) throws(Errno) -> ContentVersion {
        try version(place.name, in: place.directory.raw)
    }

    /// Each name of a file or link with several is a document of its own; so is a file on another device inside the source.
    func id(_ status: FileStatus, path: RemotePath) -> RemoteID {
        var text = status.identity
        if status.kind != .directory, status.linkCount > 1 { text += ":" + stableHash(path.bytes) }
        if status.device != device { text += ":d" + String(status.device, radix: 16) }
        return RemoteID(text)
    }

    /// True when an id the engine knows may be the file's: hard links may have come and gone since.
    static func matches(_ id: RemoteID?, _ status: FileStatus) -> Bool {
        guard let id else { return true }
        let identity = Array(status.identity.utf8)
        guard id.bytes.starts(with: identity) else { return false }
        return id.bytes.count == identity.count || id.bytes[identity.count] == 0x3A
    }

    /// All `user.*` attributes; nil where they can't be read.
    func attributes(_ name: [UInt8], in directory: Int32) -> [[UInt8]: [UInt8]]? {
        guard readsAttributes else { return nil }
        return Self.attributes(Self.procPath(directory, name))
    }

    /// A path to an entry of an open directory, for the calls on attributes, which have no `at` form.
    static func procPath(_ directory: Int32, _ name: [UInt8]) -> [UInt8] {
        Array("/proc/self/fd/\(directory)/".utf8) + name
    }

    static func attributes(_ path: [UInt8]) -> [[UInt8]: [UInt8]]? {
        guard let names = try? System.attributeNames(path) else { return nil }
        return values(names) { name in try? System.attribute(path, name) }
    }

    static func attributes(_ descriptor: Int32) -> [[UInt8]: [UInt8]]? {
        guard let names = try? System.attributeNames(descriptor) else { return nil }
        return values(names) { name in try? System.attribute(descriptor, name) }
    }

    private static func values(_ names: [[UInt8]], _ value: ([UInt8]) -> [UInt8]?) -> [[UInt8]: [UInt8]] {
        var result: [[UInt8]: [UInt8]] = [:]
        for name in names where name.starts(with: Self.prefix) { result[name] = value(name) }
        return result
    }

    private static let prefix = Array("user.".utf8)
}
