internal import CoveCore
internal import Glibc

/// An account's state directory, judged before anything in it is used: the daemon opens its files by names that others know.
enum StateFolder {
    /// What a state directory has before its account was connected for the first time.
    private static let firstNames: Set<String> = [
        "lock", "log", "cove.sock", "coordination", "uploads", "lost+found", "provider", "provider.log",
        "provider.log.1", newRecord,
    ]
    private static let remedy = "choose another directory with --state"

    /// The file that makes a directory an account's.
    static let record = "account.json"
    /// The same while it is written.
    static let newRecord = "account.json.new"

    /// Makes the directory, or makes sure that an existing one is a state directory to which nobody else has added
    /// anything; closes it to others.
    static func make(_ path: String) throws(Failure) -> PrivateFolder {
        try Failure.explaining(path, "can't be made", remedy: remedy) { () throws(Errno) in
            try System.makeDirectories(path, 0o700)
        }
        return try open(path)
    }

    /// Opens and judges an existing state directory, and closes it to others.
    static func open(_ path: String) throws(Failure) -> PrivateFolder {
        let folder = try PrivateFolder.open(path, remedy: remedy)
        if let other = try names(folder).first(where: isOther), !isAccount(folder) {
            throw Failure(
                path,
                "holds \(other), and no account's state",
                "choose an empty or a new directory with --state"
            )
        }
        // First as it is, for nothing is changed of what is refused; then once nobody else can put anything in.
        let wasOpen = try folder.isWritableByOthers(remedy)
        try judge(folder, wasOpen: wasOpen)
        try folder.close(remedy)
        try judge(folder, wasOpen: wasOpen)
        return folder
    }

    private static func judge(_ folder: borrowing PrivateFolder, wasOpen: Bool) throws(Failure) {
        for name in try names(folder) {
            guard let fault = fault(of: name, in: folder, wasOpen: wasOpen) else { continue }
            let remedy = "look who made it, and remove it or choose another directory"
            throw Failure("\(folder.path)/\(name)", fault, remedy)
        }
    }

    private static func names(_ folder: borrowing PrivateFolder) throws(Failure) -> [String] {
        do throws(Errno) { return try folder.names() } catch {
            throw Failure(folder.path, "can't be read: \(error)", remedy)
        }
    }

    private static func isOther(_ name: String) -> Bool { !firstNames.contains(name) && !name.hasPrefix("log.") }

    private static func isAccount(_ folder: borrowing PrivateFolder) -> Bool {
        guard let file = try? folder.open(record, O_RDONLY) else { return false }
        defer { System.close(file) }
        // Before it was made at once, a power cut could leave it empty.
        if (try? folder.status(of: record))?.size == 0 { return (try? folder.status(of: "catalog.db")) != nil }
        guard let text = try? System.contents(file), let record = try? JSONValue(parsing: text) else { return false }
        return record["account"]?.text != nil && record["source"]?.text != nil
    }

    /// What is wrong with something in the directory; nil for what the daemon could have made.
    private static func fault(of name: String, in folder: borrowing PrivateFolder, wasOpen: Bool) -> String? {
        guard let status = try? folder.status(of: name) else { return nil }
        // A file system's own folder is root's.
        guard status.user == geteuid() || status.user == 0 else { return "belongs to another user" }
        switch status.kind {
        // Backups are made of links, and others could make them too.
        case .file: return wasOpen && status.linkCount > 1 ? "has another name elsewhere" : nil
        case .directory: return status.permissions & 0o022 != 0 ? "can be written to by others" : nil
        case .socket: return nil
        case .symbolicLink: return "is a symbolic link"
        case .fifo, .characterDevice, .blockDevice: return "is no plain file"
        }
    }
}
