internal import CoveCore
internal import Foundation
internal import Glibc

/// Replaces a document in one step: whatever happens, the old one or the new one is there, and whole.
///
/// The new one is written to a hidden sibling, `.NAME.cove-save-N`, which is locked as long as its writer lives; one that a
/// crash left behind is not, and the next save takes its place.
struct SafeSave {
    private let target: String
    private let folder: String
    private let name: String

    /// A save of the item at a URL; of what it points at, for a symbolic link.
    init(_ url: URL) {
        var path = url.path
        if let resolved = realpath(path, nil) {
            path = String(cString: resolved)
            free(resolved)
        }
        target = path
        let url = URL(fileURLWithPath: path)
        folder = url.deletingLastPathComponent().path
        name = url.lastPathComponent
    }

    /// What is saved: what a symbolic link points at, not the link.
    var targetURL: URL { URL(fileURLWithPath: target) }

    /// Has the body write the new contents, and puts them in place with the attributes.
    ///
    /// The body gets the URL of an empty file, or of an empty directory for a package; writing may take long. `replacing` is
    /// called when all is written, to have the old one replaced or to throw. Returns once all is on the disk.
    func run(
        isPackage: Bool,
        _ attributes: DocumentAttributes,
        replacing: (_ replace: () throws -> Void) throws -> Void = { try $0() },
        _ body: (_ temporary: URL) throws -> Void
    ) throws {
        let (temporary, lock) = try makeTemporary(isPackage)
        defer { System.close(lock) }
        do {
            try body(URL(fileURLWithPath: temporary))
            try takeOver(attributes, isPackage: isPackage, to: temporary)
            try Self.sync(temporary)
            var isExchanged = false
            try replacing { isExchanged = try replace(by: temporary) }
            if isExchanged { try FileManager.default.removeItem(atPath: temporary) }
            try System.syncDirectory(folder)
        } catch {
            try? FileManager.default.removeItem(atPath: temporary)
            throw error
        }
    }

    /// Removes what a save that was killed left behind.
    func removeLeftovers() {
        for number in 0..<Self.attempts {
            let path = temporary(number)
            guard let lock = try? System.open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK) else { continue }
            defer { System.close(lock) }
            if flock(lock, LOCK_EX | LOCK_NB) == 0 { try? FileManager.default.removeItem(atPath: path) }
        }
    }

    private static let attempts = 8

    private func temporary(_ number: Int) -> String {
        let suffix = ".cove-save-\(number)"
        var stem = name[...]
        while stem.utf8.count + suffix.utf8.count + 1 > FileName.maximumLength { stem.removeLast() }
        return "\(folder)/.\(stem)\(suffix)"
    }

    /// Makes an empty file or directory that only this save uses.
    private func makeTemporary(_ isPackage: Bool) throws(Errno) -> (path: String, lock: Int32) {
        removeLeftovers()
        for number in 0..<Self.attempts {
            let path = temporary(number)
            do throws(Errno) {
                // What replaces a file of its owner's alone is nobody else's to read meanwhile.
                let mode: mode_t = (try? System.lstat(target)) == nil ? 0o777 : 0o700
                if isPackage { try System.mkdir(path, mode) }
                let flags = isPackage ? O_RDONLY | O_DIRECTORY : O_RDWR | O_CREAT | O_EXCL
                let file = try System.open(path, flags, mode & 0o666)
                if flock(file, LOCK_EX | LOCK_NB) == 0 { return (path, file) }
                System.close(file)
            } catch {
                guard error == .exists else { throw error }
            }
        }
        throw .busy
    }

    /// Mode, owner and extended attributes of the old file go over to the new one; those given go before.
    private func takeOver(_ attributes: DocumentAttributes, isPackage: Bool, to temporary: String) throws {
        try Self.takeOver(from: target, to: temporary)
        let file = try System.open(temporary, O_RDONLY)
        defer { System.close(file) }
        if isPackage, !PackageTypes.contains(URL(fileURLWithPath: target).pathExtension) {
            // Where the file system has no attributes, nobody else would ask for this one.
            try? System.setAttribute(file, PackageTypes.attribute, [0x31])
        }
        if let permissions = attributes.permissions { try System.fchmod(file, permissions) }
        for (name, value) in attributes.extendedAttributes {
            try System.setAttribute(file, Array("user.\(name)".utf8), Array(value))
        }
        if let date = attributes.modificationDate {
            let seconds = date.timeIntervalSince1970.rounded(.down)
            let rest = (date.timeIntervalSince1970 - seconds) * 1e9
            try System.setModificationTime(
                file,
                Timestamp(seconds: Int64(saturating: seconds), nanoseconds: Int64(saturating: rest))
            )
        }
    }

    /// The same for what is of one name in two packages.
    private static func takeOver(from old: String, to new: String) throws {
        let after = try System.lstat(new)
        guard let before = try? System.lstat(old),
            after.st_mode & S_IFMT != S_IFLNK, before.st_mode & S_IFMT != S_IFLNK,
            // What was taken over as it is has all of its own.
            after.st_ino != before.st_ino
        else { return }
        let file = try System.open(new, O_RDONLY | O_NOFOLLOW)
        defer { System.close(file) }
        let path = Array(old.utf8)
        let (wasDirectory, isDirectory) = (before.st_mode & S_IFMT == S_IFDIR, after.st_mode & S_IFMT == S_IFDIR)
        for name in (try? System.attributeNames(path)) ?? []
        where name.starts(with: Array("user.".utf8)) || name == Array("system.posix_acl_access".utf8) {
            if name == PackageTypes.attribute, !isDirectory { continue }
            guard let value = try? System.attribute(path, name) else { continue }
            // A file system without them has none to lose.
            try? System.setAttribute(file, name, value)
        }
        if wasDirectory, isDirectory {
            for name in try System.names(in: new) { try takeOver(from: "\(old)/\(name)", to: "\(new)/\(name)") }
        }
        // Another owner's file does not run as that one's.
        let isSameOwner = (try? System.fchown(file, user: before.st_uid, group: before.st_gid)) != nil
        var mode = UInt16(before.st_mode & (isSameOwner ? 0o7777 : 0o1777))
        if isDirectory, !wasDirectory { mode |= (mode & 0o444) >> 2 }
        if wasDirectory, !isDirectory { mode &= 0o666 }
        try System.fchmod(file, mode)
    }

    /// Makes all of a file or a package durable.
    private static func sync(_ path: String) throws {
        let file = try System.open(path, O_RDONLY | O_NOFOLLOW)
        defer { System.close(file) }
        if try System.fstat(file).st_mode & S_IFMT == S_IFDIR {
            for name in try System.names(in: path)
            where try System.lstat("\(path)/\(name)").st_mode & S_IFMT != S_IFLNK { try sync("\(path)/\(name)") }
        }
        try System.fsync(file)
    }

    /// True where the old one has the temporary name now.
    private func replace(by temporary: String) throws -> Bool {
        let isDirectory = { (path: String) in try System.lstat(path).st_mode & S_IFMT == S_IFDIR }
        guard let wasDirectory = try? isDirectory(target), try wasDirectory || isDirectory(temporary) else {
            try System.rename(temporary, target)
            return false
        }
        // A directory that is not empty can't be replaced, but it can be exchanged.
        try System.renameat(AT_FDCWD, Array(temporary.utf8), AT_FDCWD, Array(target.utf8), .exchange)
        return true
    }
}
