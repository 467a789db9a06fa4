internal import CLinux
internal import CoveCore
internal import Glibc
internal import Synchronization

/// The content files: one sparse file an item, named by its id.
struct ContentStore: Sendable {
    /// How many names came into a part of the folder, and how many of them are durable; what was there counts as one.
    private final class Part: Sendable {
        let made = Atomic<Int>(1)
        let durable = EngineMutex(.contentDurable, 0)
    }

    let directory: String
    private let parts = (0..<256).map { _ in Part() }

    /// Makes the folder; its 256 parts are made when first needed.
    init(directory: String) throws(Errno) {
        self.directory = directory
        try System.makeDirectories(directory)
        try System.syncDirectory(directory + "/..")
    }

    private func part(_ id: ItemID) -> String { "\(directory)/\(String(id.rawValue & 0xFF, radix: 16))" }

    func path(_ id: ItemID) -> String { "\(part(id))/\(id.rawValue)" }

    /// Opens an item's content file for reading and writing; it is made when missing.
    ///
    /// With `empty`, whatever an earlier life of the file left in it goes: nothing of it is known to be here. Who still has
    /// that mapped goes on to read it.
    func open(_ id: ItemID, empty: Bool = false) throws(Errno) -> Int32 {
        let flags = O_RDWR
        if empty { remove(id) }
        do {
            return try existing(id)
        } catch .noSuchEntry {
            // Also counted when another thread makes it just now: one more sync than needed.
            defer { parts[Int(id.rawValue & 0xFF)].made.add(1, ordering: .releasing) }
            do {
                return try System.open(path(id), flags | O_CREAT, 0o600)
            } catch .noSuchEntry {
                try System.makeDirectories(part(id))
                return try System.open(path(id), flags | O_CREAT, 0o600)
            }
        }
    }

    /// Opens a content file that is to hold so many bytes; nil where it is not there, or ends before.
    func open(_ id: ItemID, holding size: Int64) throws(Errno) -> Int32? {
        let descriptor: Int32
        do throws(Errno) { descriptor = try existing(id) } catch {
            if error == .noSuchEntry { return nil }
            throw error
        }
        let status = Result { () throws(Errno) in try System.fstat(descriptor) }
        if case .success(let status) = status, Int64(status.st_size) >= size { return descriptor }
        System.close(descriptor)
        _ = try status.get()
        return nil
    }

    private func existing(_ id: ItemID) throws(Errno) -> Int32 {
        do { return try System.open(path(id), O_RDWR) } catch .readOnly { return try System.open(path(id), O_RDONLY) }
    }

    /// Makes an item's bytes durable, and the name of its content file.
    func sync(_ id: ItemID, _ descriptor: Int32) throws(Errno) {
        try System.fdatasync(descriptor)
        let part = parts[Int(id.rawValue & 0xFF)]
        let needed = part.made.load(ordering: .acquiring)
        try part.durable.withLock { durable throws(Errno) in
            guard durable < needed else { return }
            let made = part.made.load(ordering: .acquiring)
            try System.syncDirectory(self.part(id))
            // Its part may be new too.
            if durable == 0 { try System.syncDirectory(directory) }
            durable = made
        }
    }

    /// True while anything has a content file open for writing, or mapped so.
    func isOpenForWriting(_ id: ItemID) -> Bool {
        guard let descriptor = try? System.open(path(id), O_RDONLY) else { return false }
        defer { System.close(descriptor) }
        do throws(Errno) {
            try System.takeReadLease(descriptor)
            System.releaseLease(descriptor)
            return false
        } catch {
            return error == .wouldBlock
        }
    }

    /// True where `isOpenForWriting` is told the truth.
    func canTellWriters() -> Bool {
        guard let writer = try? System.open(directory, Int32(COVE_O_TMPFILE) | O_RDWR, 0o600) else { return false }
        defer { System.close(writer) }
        guard let reader = try? System.open("/proc/self/fd/\(writer)", O_RDONLY) else { return false }
        defer { System.close(reader) }
        do throws(Errno) {
            try System.takeReadLease(reader)
            return false
        } catch {
            return error == .wouldBlock
        }
    }

    /// Cuts a file that nothing has open.
    func cut(_ id: ItemID, to size: Int64) throws(Errno) {
        let descriptor = try System.open(path(id), O_WRONLY)
        defer { System.close(descriptor) }
        try System.ftruncate(descriptor, size)
        try System.fsync(descriptor)
    }

    /// True when a file holds anything but holes.
    func hasBytes(_ id: ItemID) -> Bool {
        guard let descriptor = try? System.open(path(id), O_RDONLY) else { return false }
        defer { System.close(descriptor) }
        let seekData: Int32 = 3  // SEEK_DATA
        return lseek(descriptor, 0, seekData) >= 0
    }

    /// Gives a file without a name, as `copy` makes it, the name of an item's content file.
    func name(_ copy: Int32, _ id: ItemID) throws(Errno) {
        defer { parts[Int(id.rawValue & 0xFF)].made.add(1, ordering: .releasing) }
        try System.makeDirectories(part(id))
        try System.link(copy, path(id))
    }

    func remove(_ id: ItemID) { try? System.unlink(path(id)) }

    /// Visits the ids of all content files.
    func forEach(_ body: (ItemID) throws(Errno) -> Void) throws(Errno) {
        for part in try System.names(in: directory) {
            for name in try System.names(in: "\(directory)/\(part)") {
                guard let number = UInt64(name), path(ItemID(number)) == "\(directory)/\(part)/\(name)" else {
                    continue
                }
                try body(ItemID(number))
            }
        }
    }

    /// True when there is any content file.
    func holdsAny() throws(Errno) -> Bool {
        for part in try System.names(in: directory) {
            let names: [String]
            do throws(Errno) { names = try System.names(in: "\(directory)/\(part)") } catch .notDirectory { continue }
            if !names.isEmpty { return true }
        }
        return false
    }

    /// Keeps a content file that no item knows in the folder of found files; it is never deleted by the program.
    func setAside(_ id: ItemID) throws(Errno) -> String {
        let folder = directory + "/../" + ContentStore.foundFolder
        try System.makeDirectories(folder)
        var name = "\(id.rawValue)"
        var count = 1
        while (try? System.lstat("\(folder)/\(name)")) != nil {
            count += 1
            name = "\(id.rawValue)-\(count)"
        }
        try System.rename(path(id), "\(folder)/\(name)")
        return name
    }

    /// Where content that no item knows is kept, in the state directory.
    static let foundFolder = "lost+found"

    /// A new file without a name.
    func unnamed() throws(Errno) -> Int32 { try System.open(directory, Int32(COVE_O_TMPFILE) | O_RDWR, 0o600) }

    /// Copies a file that later writes must not change, into one without a name: a reflink where the disk can.
    ///
    /// Where it can't, `EFBIG` for what is larger than the limit.
    func copy(_ source: Int32, size: Int64, limit: Int64 = .max) throws(Errno) -> Int32 {
        let copy = try unnamed()
        do throws(Errno) {
            if cove_clone(copy, source) == 0 { return copy }
            guard size <= limit else { throw .fileTooLarge }
            var offset: Int64 = 0
            while offset < size {
                let count = try System.copyFileRange(
                    from: source,
                    at: offset,
                    to: copy,
                    at: offset,
                    count: Int(min(size - offset, 64 << 20))
                )
                if count == 0 { break }
                offset += Int64(count)
            }
            try System.ftruncate(copy, size)
            return copy
        } catch {
            System.close(copy)
            throw error
        }
    }

    /// Bytes free on the disk for the daemon's user.
    func freeSpace() -> DiskRoom? { DiskRoom(directory) }
}
