internal import CoveCore
internal import Glibc

/// The files of a catalog, and how one takes the place of another.
enum CatalogFiles {
    /// A catalog that a repair is making.
    static func unfinished(in directory: String) -> String { directory + "/catalog.new" }

    /// One that is complete, and is to be used.
    private static func finished(in directory: String) -> String { directory + "/catalog.mended" }

    /// Moves the files of a catalog into a folder, where they are called `catalog.db`.
    static func move(from path: String, to folder: String) throws(Errno) {
        for suffix in ["", "-wal", "-shm"] {
            do throws(Errno) {
                try System.rename(path + suffix, folder + "/catalog.db" + suffix)
            } catch {
                if error != .noSuchEntry { throw error }
            }
        }
    }

    /// The folder that has the content of a corrupt catalog, which was to be moved there too when the start was ended.
    static func halfKept(in directory: String) -> String? {
        let names = (try? System.names(in: directory)) ?? []
        return names.filter { $0.hasPrefix("corrupt-") }.sorted().map { "\(directory)/\($0)" }.last { folder in
            (try? System.lstat(folder + "/content")) != nil && (try? System.lstat(folder + "/catalog.db")) == nil
        }
    }

    /// Removes what a repair that was ended has left of a catalog that is not complete.
    static func removeUnfinished(in directory: String) {
        for suffix in ["", "-wal", "-shm"] { try? System.unlink(unfinished(in: directory) + suffix) }
    }

    /// Says that the new catalog, which nothing has open any more, is complete.
    static func finish(in directory: String) throws(Errno) {
        let file = try System.open(unfinished(in: directory), O_RDONLY)
        defer { System.close(file) }
        try System.fsync(file)
        try System.rename(unfinished(in: directory), finished(in: directory))
        try System.syncDirectory(directory)
    }

    /// True when a complete new catalog has not taken the place of the damaged one yet.
    static func isHalfRepaired(in directory: String) -> Bool {
        (try? System.lstat(finished(in: directory))) != nil
    }

    /// Puts a complete new catalog in the place of the damaged one; the folder that has that one, nil where there is none.
    ///
    /// A repair that was ended in the middle of this is finished by the next one.
    static func finishRepair(in directory: String) throws(Errno) -> String? {
        guard isHalfRepaired(in: directory) else { return nil }
        let folder = "\(directory)/corrupt-\(time(nil))"
        try System.makeDirectories(folder)
        try move(from: directory + "/catalog.db", to: folder)
        try System.rename(finished(in: directory), directory + "/catalog.db")
        try System.syncDirectory(directory)
        return folder
    }
}
