internal import CFuse
internal import CoveCore
internal import Glibc

/// Checks on a directory before something is mounted there.
public enum MountPoint {
    /// Makes sure that an account can be mounted at an absolute path.
    ///
    /// Throws with one line for a person when the path is missing, no directory, not empty, mounted already, dead, or
    /// when it and a source directory lie in one another. `source` is a local directory, nil for anything remote.
    public static func check(_ path: String, source: String?) throws(MountError) {
        if let mount = (try? MountTable.coveMount(holding: path)) ?? nil {
            guard mount.state() != .dead else {
                throw MountError(.dead, "\(mount.path): its daemon has died; run `cove unmount \(mount.path)` first")
            }
            if mount.path == path {
                let remedy = "run `cove unmount \(path)` first"
                throw MountError(.occupied, "\(path): \(mount.source) is mounted there; \(remedy)")
            }
        }
        try checkDirectory(path)
        if let source { try checkOverlap(path, source) }
        try checkEmpty(path)
    }

    private static func checkDirectory(_ path: String) throws(MountError) {
        let status: stat
        do throws(Errno) { status = try System.statFollowing(path) } catch { throw failure(path, error) }
        guard status.st_mode & S_IFMT == S_IFDIR else {
            throw MountError(.notDirectory, "\(path): not a directory; choose an empty directory")
        }
        guard Glibc.access(path, W_OK) == 0 else {
            throw MountError(.notPermitted, "\(path): not writable by you; choose a directory of your own")
        }
    }

    private static func checkOverlap(_ path: String, _ source: String) throws(MountError) {
        guard let mountpoint = canonical(path), let directory = canonical(source) else { return }
        if MountTable.contains(directory, mountpoint) {
            throw MountError(.overlapsSource, "\(path): lies in its source \(source); choose a directory outside of it")
        }
        if MountTable.contains(mountpoint, directory) {
            throw MountError(.overlapsSource, "\(path): would hide its source \(source); choose another directory")
        }
    }

    private static func checkEmpty(_ path: String) throws(MountError) {
        guard let directory = opendir(path) else { throw failure(path, .current) }
        defer { closedir(directory) }
        var names = 0
        while readdir(directory) != nil { names += 1 }
        guard names <= 2 else { throw MountError(.notEmpty, "\(path): not empty; choose an empty directory") }
    }

    private static func failure(_ path: String, _ error: Errno) -> MountError {
        switch error {
        case .noSuchEntry: MountError(.missing, "\(path): no such directory; make it with `mkdir -p \(path)`")
        case .notDirectory: MountError(.notDirectory, "\(path): not a directory; choose an empty directory")
        case .notConnected: MountError(.dead, "\(path): a dead mount is there; run `fusermount3 -u \(path)` first")
        case .accessDenied: MountError(.notPermitted, "\(path): \(error); choose a directory of your own")
        default: MountError(.system, "\(path): \(error)")
        }
    }

    private static func canonical(_ path: String) -> String? {
        guard let resolved = realpath(path, nil) else { return nil }
        defer { free(resolved) }
        return String(cString: resolved)
    }
}
