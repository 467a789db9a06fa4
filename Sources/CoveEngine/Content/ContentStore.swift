internal import CLinux
internal import CoveCore
internal import Glibc

/// The content files: one sparse file an item, named by its id.
struct ContentStore: Sendable {
    let directory: String

    /// Makes the folder; its 256 parts are made when first needed.
    init(directory: String) throws(Errno) {
        self.directory = directory
        try System.makeDirectories(directory)
    }

    private func part(_ id: ItemID) -> String { "\(directory)/\(String(id.rawValue & 0xFF, radix: 16))" }

    func path(_ id: ItemID) -> String { "\(part(id))/\(id.rawValue)" }

    /// Opens an item's content file for reading and writing; it is made when missing.
    func open(_ id: ItemID) throws(Errno) -> Int32 {
        do {
            return try System.open(path(id), O_RDWR | O_CREAT, 0o600)
        } catch .noSuchEntry {
            try System.makeDirectories(part(id))
            return try System.open(path(id), O_RDWR | O_CREAT, 0o600)
        }
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

    /// Copies a file for an upload that must not be ended by later writes: a reflink where the disk can, a copy else.
    func copy(_ source: Int32, size: Int64) throws(Errno) -> Int32 {
        let copy = try System.open(directory, Int32(COVE_O_TMPFILE) | O_RDWR, 0o600)
        do throws(Errno) {
            if cove_clone(copy, source) == 0 { return copy }
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
    func freeSpace() -> (total: Int64, available: Int64)? {
        var status = statvfs()
        guard statvfs(directory, &status) == 0 else { return nil }
        let unit = Int64(status.f_frsize)
        return (Int64(status.f_blocks) * unit, Int64(status.f_bavail) * unit)
    }
}
