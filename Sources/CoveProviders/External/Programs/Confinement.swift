internal import CoveCore
internal import Glibc

/// How a provider is started with no more than its manifest asks for.
///
/// bubblewrap(1) makes it a world of its own: the system's programs to be read, its folder of state, and the paths, the
/// network and the variables of the manifest.
struct Confinement {
    private static let networkFiles = [
        ProviderManifest.resolver, "/etc/hosts", "/etc/services", "/etc/protocols", "/etc/gai.conf", "/etc/ssl",
        "/etc/pki",
        "/etc/ca-certificates", "/run/systemd/resolve",
    ]
    private static let usualVariables = ["LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LANGUAGE", "TZ"]
    /// Room for its temporary files and its shared memory, which are memory, in bytes.
    private static let temporarySpace = 256 << 20
    private static let sharedSpace = 64 << 20

    /// A command, and the whole environment that it gets; nil for that of this process.
    struct Command {
        var words: [String]
        var environment: [String]?
    }

    /// What starts a program; its folder of state is nil where it has none.
    static func command(_ program: ProviderProgram, state: String?) throws(SourceError) -> Command {
        let own = [program.path] + program.arguments
        guard let manifest = program.manifest, manifest.isConfined else { return Command(words: own) }
        return Command(
            words: try limits(program.limits) + world(of: manifest, program, state) + own,
            environment: environment(manifest, state)
        )
    }

    private static func world(
        of manifest: ProviderManifest,
        _ program: ProviderProgram,
        _ state: String?
    ) throws(SourceError) -> [String] {
        var words = [try tool("bwrap", "bubblewrap")] + Sandbox.own
        if manifest.usesNetwork { words.append("--share-net") }
        words += Sandbox.system()
        for file in manifest.usesNetwork ? networkFiles : [] { words += ["--ro-bind-try", file, file] }
        words += Sandbox.devices(shared: sharedSpace, temporary: temporarySpace)
        // The program, and what lies beside it.
        let folder = try folder(of: program, manifest)
        words += ["--ro-bind", folder, folder]
        for path in try manifest.paths(manifest.readPaths, options: program.options) {
            words += ["--ro-bind-try", path, path]
        }
        for path in try manifest.paths(manifest.writePaths, options: program.options) {
            words += ["--bind", try made(path, manifest), path]
        }
        if let state { words += ["--bind", state, state] }
        return words + Sandbox.end
    }

    /// Not on a command line, which others can read, nor left to bubblewrap, whose own environment its child can read.
    private static func environment(_ manifest: ProviderManifest, _ state: String?) -> [String] {
        let own = ["PATH=/usr/local/bin:/usr/bin:/bin", "HOME=\(state ?? "/tmp")"]
        let names = (usualVariables + manifest.environment).filter { !["PATH", "HOME"].contains($0) }
        return own + names.compactMap { name in ProcessEnvironment.value(name).map { "\(name)=\($0)" } }
    }

    /// Limits that hold before bubblewrap starts a process of its own, which `ProcessLimits` could come too late for.
    private static func limits(_ limits: ProcessLimits) throws(SourceError) -> [String] {
        var words = [try tool("prlimit", "util-linux"), "--data=\(limits.possibleMemory)", "--core=0"]
        let processors = limits.processorNumbers
        if !processors.isEmpty {
            let list = processors.map(String.init).joined(separator: ",")
            words += [try tool("taskset", "util-linux"), "-c", list]
        }
        return words
    }

    /// A folder that may be written to is there from the beginning: what is made in its place would be gone with the process.
    private static func made(_ path: String, _ manifest: ProviderManifest) throws(SourceError) -> String {
        if access(path, F_OK) != 0 {
            do throws(Errno) { try System.makeDirectories(path) } catch {
                throw .failed("\(manifest.file): \(path) can't be made: \(error)")
            }
        }
        return path
    }

    /// The folder that has the program; not one that has much else.
    private static func folder(of program: ProviderProgram, _ manifest: ProviderManifest) throws(SourceError) -> String
    {
        let folder = LocalPath.parent(of: program.path) ?? ""
        guard !ProviderManifest.isBroad(folder) else {
            throw .failed(
                "\(manifest.file): \(program.path) must be in a folder of its own, which the provider can read"
            )
        }
        return folder
    }

    private static func tool(_ name: String, _ package: String) throws(SourceError) -> String {
        if let path = Sandbox.find(name) { return path }
        throw .failed("\(name) is not there, without which no provider is confined; install the package \(package)")
    }
}
