internal import Glibc

/// The XDG base directories, and the home of whoever runs this.
public enum BaseDirectories {
    /// The home directory: `$HOME`, else what the system has for the user.
    public static var home: String {
        if let home = directory("HOME") { return home }
        return getpwuid(geteuid()).flatMap { String(validatingCString: $0.pointee.pw_dir) } ?? "/"
    }

    /// `$XDG_CONFIG_HOME`, else `~/.config`.
    public static var configuration: String { directory("XDG_CONFIG_HOME") ?? home + "/.config" }

    /// `$XDG_STATE_HOME`, else `~/.local/state`.
    public static var state: String { directory("XDG_STATE_HOME") ?? home + "/.local/state" }

    /// `$XDG_CACHE_HOME`, else `~/.cache`.
    public static var cache: String { directory("XDG_CACHE_HOME") ?? home + "/.cache" }

    /// `$XDG_RUNTIME_DIR`; nil where the session has none.
    public static var runtime: String? { directory("XDG_RUNTIME_DIR") }

    /// Where data are looked for: `$XDG_DATA_HOME`, else `~/.local/share`, and then those of `$XDG_DATA_DIRS`.
    public static var data: [String] {
        let shared = getenv("XDG_DATA_DIRS").flatMap { String(validatingCString: $0) } ?? ""
        let named = shared.split(separator: ":").compactMap { plain(String($0)) }
        return [directory("XDG_DATA_HOME") ?? home + "/.local/share"]
            + (named.isEmpty ? ["/usr/local/share", "/usr/share"] : named)
    }

    private static func directory(_ variable: String) -> String? {
        getenv(variable).flatMap { String(validatingCString: $0) }.flatMap { plain($0) }
    }

    /// The specification ignores relative paths.
    private static func plain(_ path: String) -> String? {
        guard path.hasPrefix("/") else { return nil }
        return path.count > 1 && path.hasSuffix("/") ? String(path.dropLast()) : path
    }
}
