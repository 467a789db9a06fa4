internal import CSQLite
internal import Glibc

/// SQLite's way to the catalog's files, as to any other's but for what a new file would cost there.
///
/// A commit reaches the log in one system call (`LogFile`).
enum CatalogFileSystem {
    /// The name by which sqlite3_open_v2 finds it; nil, which means SQLite's own, where that has another interface.
    static let name: String? = register()

    /// SQLite's own, which does the work, and ours, whose address SQLite keeps.
    nonisolated(unsafe) private static var base: UnsafeMutablePointer<sqlite3_vfs>?
    nonisolated(unsafe) private static let own = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)

    private static func register() -> String? {
        // Where the process has used SQLite before, it goes on counting.
        _ = cove_sqlite_skip_memory_statistics()
        guard let found = sqlite3_vfs_find("unix"), found.pointee.iVersion == 3 else { return nil }
        base = found
        own.initialize(to: found.pointee)
        own.pointee.zName = UnsafePointer(strdup("cove"))
        own.pointee.pNext = nil
        own.pointee.szOsFile = Int32(offset(in: found) + MemoryLayout<LogFile>.size)
        own.pointee.xOpen = { _, path, file, flags, taken in
            guard let base = CatalogFileSystem.base else { return SQLITE_CANTOPEN }
            let code = base.pointee.xOpen(base, path, file, flags, taken)
            guard code == SQLITE_OK, let file else { return code }
            if flags & SQLITE_OPEN_WAL != 0 { LogFile.attach(to: file, at: CatalogFileSystem.offset(in: base)) }
            return SQLITE_OK
        }
        return sqlite3_vfs_register(own, 0) == SQLITE_OK ? "cove" : nil
    }

    /// Where our part of an open file begins: behind SQLite's.
    private static func offset(in system: UnsafeMutablePointer<sqlite3_vfs>) -> Int {
        (Int(system.pointee.szOsFile) + 15) & ~15
    }
}
