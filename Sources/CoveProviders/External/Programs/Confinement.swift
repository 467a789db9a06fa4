internal import CoveCore
internal import Glibc

/// The command that starts a provider with no more than its manifest asks for.
///
/// bubblewrap(1) makes it a world of its own: the system's programs to be read, its folder of state, and the paths, the
/// network and the variables of the manifest.
struct Confinement {
    private static let programs = ["/usr/bin", "/bin", "/usr/local/bin"]
    /// What programs read of the system, besides those of `/usr`.
    private static let systemFiles = [
        "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime",
        "/etc/timezone",
        "/etc/mime.types", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf",
    ]
    private static let networkFiles = [
        "/etc/resolv.conf", "/etc/hosts", "/etc/services", "/etc/protocols", "/etc/gai.conf", "/etc/ssl", "/etc/pki",
        "/etc/ca-certificates", "/run/systemd/resolve",
    ]
    private static let usualVariables = ["LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LANGUAGE", "TZ"]
    /// Room for its temporary files, which are memory.
    private static let temporarySpace = 256 << 20

    private let program: ProviderProgram
    /// Its folder of state; nil where it has none.
    private let state: String?

    /// The executable and its arguments.
    static func command(_ program: ProviderProgram, state: String?) throws(SourceError) -> [String] {
        try Confinement(program: program, state: state).command()
    }

    private func command() throws(SourceError) -> [String] {
        let world =
            if let manifest = program.manifest, manifest.isConfined { try world(of: manifest) } else { [String]() }
        return world + [program.path] + program.arguments
    }

    private func world(of manifest: ProviderManifest) throws(SourceError) -> [String] {
        var words =
            try limits() + [
                try Self.tool("bwrap", "bubblewrap"), "--unshare-all", "--die-with-parent", "--new-session",
            ]
        if manifest.usesNetwork { words.append("--share-net") }
        words += ["--ro-bind", "/usr", "/usr"]
        for name in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] { words += Self.systemFolder("/" + name) }
        for file in Self.systemFiles + (manifest.usesNetwork ? Self.networkFiles : []) {
            words += ["--ro-bind-try", file, file]
        }
        words += ["--proc", "/proc", "--dev", "/dev", "--size", "\(Self.temporarySpace)", "--tmpfs", "/tmp"]
        // The program, and what lies beside it.
        words += ["--ro-bind", try folder(of: manifest), try folder(of: manifest)]
        for path in try manifest.paths(manifest.readPaths, options: program.options) {
            words += ["--ro-bind-try", path, path]
        }
        for path in try manifest.paths(manifest.writePaths, options: program.options) {
            words += ["--bind-try", path, path]
        }
        if let state { words += ["--bind", state, state] }
        words += [
            "--clearenv", "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin", "--setenv", "HOME", state ?? "/tmp",
        ]
        for name in Self.usualVariables + manifest.environment {
            if let value = getenv(name).map({ String(cString: $0) }) { words += ["--setenv", name, value] }
        }
        return words + ["--chdir", "/", "--"]
    }

    /// Limits that hold before bubblewrap starts a process of its own, which `ProcessLimits` could come too late for.
    private func limits() throws(SourceError) -> [String] {
        var words = [try Self.tool("prlimit", "util-linux"), "--data=\(program.limits.memory)", "--core=0"]
        let processors = program.limits.processorNumbers
        if !processors.isEmpty {
            let list = processors.map(String.init).joined(separator: ",")
            words += [try Self.tool("taskset", "util-linux"), "-c", list]
        }
        return words + [try Self.tool("nice", "coreutils"), "-n", "\(ProcessLimits.niceness)"]
    }

    /// The folder that has the program; not one that has much else.
    private func folder(of manifest: ProviderManifest) throws(SourceError) -> String {
        let folder = LocalPath.parent(of: program.path) ?? ""
        guard !folder.isEmpty, !LocalPath.isInside(BaseDirectories.home, folder) else {
            throw .failed(
                "\(manifest.file): \(program.path) must be in a folder of its own, which the provider can read"
            )
        }
        return folder
    }

    /// A folder of the system's programs, or the link into `/usr` that stands for it.
    private static func systemFolder(_ path: String) -> [String] {
        guard let status = try? System.lstat(path) else { return [] }
        guard status.st_mode & S_IFMT == S_IFLNK else { return ["--ro-bind", path, path] }
        guard let target = try? System.readlinkat(AT_FDCWD, Array(path.utf8)) else { return [] }
        return ["--symlink", String(decoding: target, as: UTF8.self), path]
    }

    private static func tool(_ name: String, _ package: String) throws(SourceError) -> String {
        if let path = programs.map({ $0 + "/" + name }).first(where: { access($0, X_OK) == 0 }) { return path }
        throw .failed("\(name) is not there, without which no provider is confined; install the package \(package)")
    }
}
