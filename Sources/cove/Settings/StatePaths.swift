internal import CoveCore
internal import Glibc

/// Where accounts keep their state and their sockets (the XDG base directories).
enum StatePaths {
    /// `$XDG_CONFIG_HOME`, else `~/.config`.
    static var configHome: String { directory("XDG_CONFIG_HOME") ?? home + "/.config" }

    /// Where an account's state is unless `--state` says otherwise.
    static func state(of account: String) -> String {
        (directory("XDG_STATE_HOME") ?? home + "/.local/state") + "/cove/" + account
    }

    /// The directory of the sockets: below `$XDG_RUNTIME_DIR`, else `/run/user/UID`, else `/tmp/cove-UID`.
    static var sockets: String {
        if let runtime = directory("XDG_RUNTIME_DIR") { return runtime + "/cove" }
        let user = geteuid()
        let session = "/run/user/\(user)"
        if let status = try? System.lstat(session), status.st_uid == user { return session + "/cove" }
        return "/tmp/cove-\(user)"
    }

    /// An account's socket.
    static func socket(of account: String) -> String { "\(sockets)/\(account).sock" }

    /// The socket below a state directory that was named with `--state`.
    static func socket(inState directory: String) -> String { directory + "/cove.sock" }

    /// The accounts that have a socket.
    static func accounts() -> [String] {
        guard let folder = opendir(sockets) else { return [] }
        defer { closedir(folder) }
        var names: [String] = []
        while let entry = readdir(folder) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) {
                String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name.hasSuffix(".sock"), name.count > 5 { names.append(String(name.dropLast(5))) }
        }
        return names.sorted()
    }

    /// Makes a directory that only its owner may enter, or makes sure that an existing one is such.
    static func makePrivate(_ path: String) throws(Failure) {
        let remedy = "choose another directory with --state"
        let status = try Failure.explaining(path, "can't be made", remedy: remedy) { () throws(Errno) in
            try System.makeDirectories(path, 0o700)
            let status = try System.statFollowing(path)
            guard status.st_mode & S_IFMT == S_IFDIR else { throw .notDirectory }
            return status
        }
        guard status.st_uid == geteuid() else { throw Failure(path, "belongs to another user", remedy) }
        guard status.st_mode & 0o077 != 0 else { return }
        try Failure.explaining(path, "can't be closed to others", remedy: remedy) { () throws(Errno) in
            try System.retry { chmod(path, 0o700) }
        }
    }

    /// An absolute path without `.`, `..` and doubled slashes; symbolic links stay as they are.
    static func absolute(_ path: String) -> String {
        var names: [Substring] = []
        let whole = path.hasPrefix("/") ? path : workingDirectory + "/" + path
        for name in whole.split(separator: "/") where name != "." {
            if name == ".." { _ = names.popLast() } else { names.append(name) }
        }
        return "/" + names.joined(separator: "/")
    }

    /// An absolute path without symbolic links, as far as it is there.
    static func canonical(_ path: String) -> String {
        var there = path[...]
        while there.count > 1, let slash = there.lastIndex(of: "/") {
            if let resolved = realpath(String(there), nil) {
                defer { free(resolved) }
                return String(cString: resolved) + path[there.endIndex...]
            }
            there = there[..<slash]
        }
        return path
    }

    /// True when a path is a directory or below it.
    static func isInside(_ path: String, _ directory: String) -> Bool {
        directory == "/" || path == directory || path.hasPrefix(directory + "/")
    }

    private static var workingDirectory: String {
        guard let directory = getcwd(nil, 0) else { return "" }
        defer { free(directory) }
        return String(cString: directory)
    }

    private static var home: String {
        if let home = directory("HOME") { return home }
        return getpwuid(geteuid()).flatMap { String(validatingCString: $0.pointee.pw_dir) } ?? "/"
    }

    /// The XDG specification ignores relative paths.
    private static func directory(_ variable: String) -> String? {
        guard let value = getenv(variable).flatMap({ String(validatingCString: $0) }), value.hasPrefix("/") else {
            return nil
        }
        return value.count > 1 && value.hasSuffix("/") ? String(value.dropLast()) : value
    }
}
