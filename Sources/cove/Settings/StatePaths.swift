internal import CoveCore
internal import Glibc

/// Where accounts keep their state and their sockets (the XDG base directories).
enum StatePaths {
    /// Where an account's state is unless `--state` says otherwise.
    static func state(of account: String) -> String { states + "/" + account }

    private static var states: String { BaseDirectories.state + "/cove" }

    /// The directory of the sockets: below `$XDG_RUNTIME_DIR`, else `/run/cove` for root, else below `/run/user/UID`, else
    /// beside the accounts' state; never where others could have made it first.
    static var sockets: String {
        if let runtime = BaseDirectories.runtime, isOwn(runtime) { return runtime + "/cove" }
        let user = geteuid()
        if user == 0 { return "/run/cove" }
        return isOwn("/run/user/\(user)") ? "/run/user/\(user)/cove" : states + "/.sockets"
    }

    /// True for a directory in which nobody else can make anything.
    private static func isOwn(_ path: String) -> Bool {
        guard let status = try? System.statFollowing(path) else { return false }
        return status.st_mode & S_IFMT == S_IFDIR && status.st_uid == geteuid() && status.st_mode & 0o022 == 0
    }

    /// Makes the directory of the sockets.
    static func makeSockets() throws(Failure) {
        let remedy = "remove it, or set XDG_RUNTIME_DIR to a directory of your own"
        _ = try PrivateFolder.make(sockets, remedy: remedy)
    }

    /// One of an account's sockets; that for coordination is in a directory of its own, which a sandbox can be given.
    static func socket(of account: String, _ socket: ItemLocation.Socket) -> String {
        switch socket {
        case .account: "\(sockets)/\(account).sock"
        case .coordination: "\(sockets)/\(account).coordination/socket"
        }
    }

    /// One of the sockets below a state directory that was named with `--state`.
    static func socket(inState directory: String, _ socket: ItemLocation.Socket) -> String {
        switch socket {
        case .account: directory + "/cove.sock"
        case .coordination: directory + "/coordination/socket"
        }
    }

    /// The daemon of a state directory that was named with `--state`: it is its owner's.
    static func daemon(inState directory: String, _ socket: ItemLocation.Socket) -> DaemonAddress {
        let owner = (try? System.lstat(directory))?.st_uid ?? geteuid()
        return DaemonAddress(socket: self.socket(inState: directory, socket), owners: [owner])
    }

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
}
