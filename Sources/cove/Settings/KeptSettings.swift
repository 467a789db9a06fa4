internal import CoveCore
internal import Glibc

/// What the configuration wanted of an account when it was last read, kept for a daemon that takes over a mount and finds
/// a fault in the file.
enum KeptSettings {
    private static let name = "settings.json"
    private static let remedy = "check its owner and the disk"

    /// Keeps settings; a disk that takes nothing is no reason to serve nothing.
    static func write(_ settings: ConfigFile.Section, inState directory: String) {
        guard read(inState: directory) != settings, let text = try? JSONValue(encoding: settings).bytes,
            let folder = try? PrivateFolder.open(directory, remedy: remedy),
            let file = try? folder.open(name + ".new", O_WRONLY | O_CREAT | O_TRUNC)
        else { return }
        defer { System.close(file) }
        guard (try? System.pwriteAll(file, text, 0)) != nil, (try? System.fsync(file)) != nil else { return }
        try? folder.rename(name + ".new", name)
    }

    /// What is kept; nil where nothing is.
    static func read(inState directory: String) -> ConfigFile.Section? {
        guard let folder = try? PrivateFolder.open(directory, remedy: remedy),
            let file = try? folder.open(name, O_RDONLY)
        else { return nil }
        defer { System.close(file) }
        guard let text = try? System.contents(file, atMost: 1 << 20) else { return nil }
        return try? JSONValue(parsing: text).decode()
    }
}
