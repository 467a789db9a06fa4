internal import Glibc

/// A copy of a file, a link or a directory, which knows what everything was like when it was copied.
public struct TreeCopy {
    typealias Failure = CrossingMove.Failure

    /// What tells whether somebody has changed something.
    private struct Stamp: Equatable {
        var inode: UInt64
        var kind: mode_t
        var size: Int64
        var modified: Timestamp

        init(_ status: stat) {
            inode = UInt64(status.st_ino)
            kind = status.st_mode & S_IFMT
            // Of a directory its names tell.
            size = kind == S_IFDIR ? 0 : Int64(status.st_size)
            modified = kind == S_IFDIR ? .epoch : Timestamp(status.st_mtim)
        }
    }

    /// Deeper folders would need too many descriptors at a time.
    private static let depthLimit = 200
    private static let bufferSize = 1 << 20
    /// Who may use an item, and what is made in a directory begins with; see acl(5).
    private static let accessLists = ["access", "default"].map { Array("system.posix_acl_\($0)".utf8) }
    /// Cove's own attributes, which no list of a mount names.
    private static let ownAttributes = [PackageTypes.attribute, Array("user.cove.tags".utf8)]

    private let source: [UInt8]
    private let target: [UInt8]
    private let progress: (CrossingMove.Amount) -> Void
    private let isCancelled: () -> Bool
    private var stamps: [[UInt8]: Stamp] = [:]
    /// What was copied.
    private(set) var amount = CrossingMove.Amount()

    init(
        source: [UInt8],
        target: [UInt8],
        progress: @escaping (CrossingMove.Amount) -> Void,
        isCancelled: @escaping () -> Bool
    ) {
        (self.source, self.target) = (source, target)
        (self.progress, self.isCancelled) = (progress, isCancelled)
    }

    /// What has a name; nil where nothing has.
    static func status(_ parent: Int32, _ name: [UInt8], _ path: [UInt8]) throws(Failure) -> stat? {
        do throws(Errno) {
            return try System.statat(parent, name)
        } catch {
            if error == .noSuchEntry { return nil }
            throw Failure(error, path)
        }
    }

    func isDirectory(_ parent: Int32, _ name: [UInt8]) -> Bool {
        (try? System.statat(parent, name)).map { $0.st_mode & S_IFMT == S_IFDIR } ?? false
    }

    // MARK: Copying

    /// Copies to a name that is there already, an empty file or directory of this move's own.
    mutating func make(
        _ from: Int32,
        _ name: [UInt8],
        _ to: Int32,
        _ newName: [UInt8]
    ) throws(Failure) {
        if let status = try Self.status(from, name, source), status.st_mode & S_IFMT == S_IFLNK {
            // A link can't be locked: the file that held its name goes.
            do throws(Errno) { try System.unlinkat(to, newName) } catch { throw Failure(error, target) }
        }
        try copy(from, name, to, newName, [], isTop: true)
    }

    private mutating func copy(
        _ from: Int32,
        _ name: [UInt8],
        _ to: Int32,
        _ newName: [UInt8],
        _ inside: [[UInt8]],
        isTop: Bool
    ) throws(Failure) {
        let path = place(inside)
        if isCancelled() { throw Failure(.interrupted, path, "called off; nothing was moved") }
        guard inside.count <= Self.depthLimit else { throw Failure(.nameTooLong, path, "folders too deep to be moved") }
        guard let status = try Self.status(from, name, path) else { throw Failure(.busy, path, "somebody removes it") }
        stamps[key(inside)] = Stamp(status)
        amount.items += 1
        do throws(Errno) {
            switch status.st_mode & S_IFMT {
            case S_IFREG: try copyFile(from, name, to, newName, status, isTop)
            case S_IFLNK:
                try System.symlinkat(try System.readlinkat(from, name), to, newName)
                try? System.chownat(to, newName, user: status.st_uid, group: status.st_gid)
                try? System.setModificationTime(to, newName, Timestamp(status.st_mtim))
            case S_IFDIR: break
            default: throw .notSupported
            }
        } catch {
            guard error == .notSupported else { throw Failure(error, path) }
            throw Failure(error, path, "only files, folders and links can be moved")
        }
        guard status.st_mode & S_IFMT == S_IFDIR else {
            progress(amount)
            return
        }
        let (old, new) = try openFolders(from, name, to, newName, path, isTop)
        defer {
            System.close(old)
            System.close(new)
        }
        for child in try Self.names(in: old, path) {
            try copy(old, child, new, child, inside + [child], isTop: false)
        }
        do throws(Errno) {
            try Self.describe(old, new, status)
            try System.fsync(new)
        } catch {
            throw Failure(error, path)
        }
    }

    private func openFolders(
        _ from: Int32,
        _ name: [UInt8],
        _ to: Int32,
        _ newName: [UInt8],
        _ path: [UInt8],
        _ isTop: Bool
    ) throws(Failure) -> (Int32, Int32) {
        do throws(Errno) {
            if !isTop { try System.mkdirat(to, newName, 0o700) }
            let old = try System.openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
            do throws(Errno) {
                return (old, try System.openat(to, newName, O_RDONLY | O_DIRECTORY | O_NOFOLLOW))
            } catch {
                System.close(old)
                throw error
            }
        } catch {
            throw Failure(error, path)
        }
    }

    private mutating func copyFile(
        _ from: Int32,
        _ name: [UInt8],
        _ to: Int32,
        _ newName: [UInt8],
        _ status: stat,
        _ isTop: Bool
    ) throws(Errno) {
        let old = try System.openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
        defer { System.close(old) }
        guard Stamp(try System.fstat(old)) == Stamp(status) else { throw .busy }
        let creation = isTop ? 0 : O_CREAT | O_EXCL
        let new = try System.openat(to, newName, O_WRONLY | O_NOFOLLOW | creation, 0o600)
        defer { System.close(new) }
        var buffer = [UInt8](repeating: 0, count: Self.bufferSize)
        var offset: Int64 = 0
        while true {
            if isCancelled() { throw .interrupted }
            let count = try System.pread(old, into: &buffer, count: buffer.count, offset)
            if count == 0 { break }
            let part: Result<Void, Errno> = buffer.withUnsafeBytes { bytes in
                Result { () throws(Errno) in
                    try System.pwriteAll(new, UnsafeRawBufferPointer(rebasing: bytes[..<count]), offset)
                }
            }
            try part.get()
            offset = offset.saturatingAdd(Int64(count))
            amount.bytes = amount.bytes.saturatingAdd(Int64(count))
            progress(amount)
        }
        // It was shorter or longer than it said: somebody writes to it.
        guard offset == Int64(status.st_size), Stamp(try System.fstat(old)) == Stamp(status) else { throw .busy }
        try Self.describe(old, new, status)
        try System.fsync(new)
    }

    /// Attributes, owner where that is allowed, mode and date go along.
    public static func describe(_ old: Int32, _ new: Int32) throws(Errno) {
        try describe(old, new, System.fstat(old))
    }

    private static func describe(_ old: Int32, _ new: Int32, _ status: stat) throws(Errno) {
        let names = (try? System.attributeNames(old)) ?? []
        for name in names.filter({ $0.starts(with: Array("user.".utf8)) }) + ownAttributes {
            guard let value = try? System.attribute(old, name) else { continue }
            // A file system without them has none to lose.
            try? System.setAttribute(new, name, value)
        }
        let isSameOwner = (try? System.fchown(new, user: status.st_uid, group: status.st_gid)) != nil
        var mode = UInt16(status.st_mode & (isSameOwner ? 0o7777 : 0o1777))
        for name in names where accessLists.contains(name) {
            let value = try System.attribute(old, name)
            let isKept = (try? System.setAttribute(new, name, value)) != nil
            // The bits of the group are then those of the most that anybody named may do, and not the group's own.
            if !isKept, name == accessLists[0] { mode &= ~0o070 }
        }
        try System.fchmod(new, mode)
        try System.setModificationTime(new, Timestamp(status.st_mtim))
    }

    // MARK: What it was copied from

    /// True while all is as it was copied.
    func isUnchanged(_ parent: Int32, _ name: [UInt8]) throws(Failure) -> Bool {
        var count = 0
        let isSame = try compare(parent, name, [], &count)
        return isSame && count == stamps.count
    }

    private func compare(
        _ parent: Int32,
        _ name: [UInt8],
        _ inside: [[UInt8]],
        _ count: inout Int
    ) throws(Failure) -> Bool {
        let path = place(inside)
        guard let status = try Self.status(parent, name, path), stamps[key(inside)] == Stamp(status) else {
            return false
        }
        count += 1
        guard status.st_mode & S_IFMT == S_IFDIR else { return true }
        let folder: Int32
        do throws(Errno) {
            folder = try System.openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
        } catch {
            throw Failure(error, path)
        }
        defer { System.close(folder) }
        for child in try Self.names(in: folder, path) {
            guard try compare(folder, child, inside + [child], &count) else { return false }
        }
        return true
    }

    /// Removes all that is as it was copied; false where something is not, which stays with the folders above it.
    func removeSource(_ parent: Int32, _ name: [UInt8]) throws(Failure) -> Bool { try removeSource(parent, name, []) }

    private func removeSource(_ parent: Int32, _ name: [UInt8], _ inside: [[UInt8]]) throws(Failure) -> Bool {
        let path = place(inside)
        guard let status = try Self.status(parent, name, path) else { return true }
        guard stamps[key(inside)] == Stamp(status) else { return false }
        var isEmpty = true
        let isFolder = status.st_mode & S_IFMT == S_IFDIR
        do throws(Errno) {
            if isFolder {
                let folder = try System.openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
                let outcome: Result<Bool, Failure> = Result { () throws(Failure) in
                    var isEmpty = true
                    for child in try Self.names(in: folder, path) {
                        let isGone = try removeSource(folder, child, inside + [child])
                        isEmpty = isEmpty && isGone
                    }
                    return isEmpty
                }
                System.close(folder)
                switch outcome {
                case .success(let value): isEmpty = value
                case .failure(let failure): throw failure.errno
                }
            }
            if isEmpty { try System.unlinkat(parent, name, directory: isFolder) }
        } catch {
            if error == .notEmpty { return false }
            let why = "it is at its new place, and could not be removed here: \(error)"
            throw Failure(error, path, why)
        }
        return isEmpty
    }

    private static func names(in folder: Int32, _ path: [UInt8]) throws(Failure) -> [[UInt8]] {
        do throws(Errno) {
            return try System.rawNames(in: Array("/proc/self/fd/\(folder)".utf8)).sorted {
                $0.lexicographicallyPrecedes($1)
            }
        } catch {
            throw Failure(error, path)
        }
    }

    private func place(_ inside: [[UInt8]]) -> [UInt8] { inside.reduce(source) { $0 + [0x2F] + $1 } }

    private func key(_ inside: [[UInt8]]) -> [UInt8] { Array(inside.joined(separator: [0x2F])) }
}
