internal import CoveCore
internal import Glibc

/// A new file beside the place it is meant for, removed again unless it gets there.
struct Scratch: ~Copyable {
    let file: Descriptor
    let inode: UInt64
    private(set) var name: [UInt8]
    private let directory: Int32
    private let original: [UInt8]
    private var isDone = false

    /// Makes an empty file that only its owner can open.
    ///
    /// The place's directory must stay open as long.
    init(for place: borrowing Place) throws(ProviderError) {
        let scratch = ScratchName(.upload, for: place.name)
        directory = place.directory.raw
        original = place.name
        name = scratch.bytes
        let directory = directory
        file = try attempt("\(place.path)") { () throws(Errno) in
            Descriptor(try System.openat(directory, scratch.bytes, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600))
        }
        inode = (try? System.status(file.raw))?.inode ?? 0
    }

    deinit {
        // After an exchange the name may hold another file: that one is not removed here.
        if !isDone, (try? System.status(directory, name))?.inode == inode { try? System.unlinkat(directory, name) }
    }

    /// Writes all of the content and makes it durable.
    func fill(_ content: any ContentSource, _ flag: CancellationFlag) throws(ProviderError) {
        var offset: Int64 = 0
        while offset < content.size {
            try flag.check()
            let room = Int(min(content.size - offset, 4 << 20))
            let count = try content.copy(to: file.raw, at: offset, count: room)
            guard count > 0 else { throw .failed("the content ended early", .inputOutput) }
            offset += Int64(count)
        }
    }

    /// Makes bytes and attributes durable; returns the version they have.
    func synchronize() throws(Errno) -> ContentVersion {
        try System.fsync(file.raw)
        return try System.status(file.raw).contentVersion(target: nil)
    }

    /// Takes the free name.
    ///
    /// Throws EEXIST when it is not free.
    mutating func publish(as newName: [UInt8]) throws(Errno) {
        try FolderTree.renameExclusively(directory, name, directory, newName)
        isDone = true
    }

    /// Puts the version to be replaced into the name, for whoever finds it after a crash.
    mutating func announceExchange(base: ContentVersion) throws(Errno) {
        let next = ScratchName(.exchange, inode: inode, base: base, for: original).bytes
        try System.renameat(directory, name, directory, next, .replace)
        name = next
    }

    /// Tells that the name is gone or is no longer this file's to remove.
    mutating func finish() { isDone = true }
}

extension FolderTree {
    /// Renames to a name that must be free; where renameat2(2) can't, by link(2), which also fails with EEXIST.
    static func renameExclusively(
        _ from: Int32,
        _ name: [UInt8],
        _ to: Int32,
        _ newName: [UInt8]
    ) throws(Errno) {
        do throws(Errno) {
            try System.renameat(from, name, to, newName, .exclusive)
        } catch {
            guard error == .invalidArgument || error == .notImplemented else { throw error }
            if try System.status(from, name).kind == .directory {
                // A directory can't be linked: here the check and the rename are two steps.
                if (try? System.status(to, newName)) != nil { throw .exists }
                return try System.renameat(from, name, to, newName, .replace)
            }
            try System.linkat(from, name, to, newName)
            try System.unlinkat(from, name)
        }
    }

    /// True while any program has the file open for writing, or mapped so; false where that can't be told.
    ///
    /// A process that is being started has its parent's descriptors until it runs its own program: such a moment is waited
    /// out.
    static func isOpenForWriting(_ directory: Int32, _ name: [UInt8]) -> Bool {
        let flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY
        guard let descriptor = try? System.openat(directory, name, flags) else { return false }
        defer { System.close(descriptor) }
        for attempt in 0..<8 {
            do throws(Errno) {
                try System.takeReadLease(descriptor)
                System.releaseLease(descriptor)
                return false
            } catch {
                guard error == .wouldBlock else { return false }
            }
            _ = poll(nil, 0, 1 << min(attempt, 3))
        }
        return true
    }
}
