internal import CoveCore
internal import CoveMount
internal import CoveProviders
internal import Glibc

/// Everything `cove mount` has worked out from its command line and the configuration before anything is touched.
struct MountPlan: Sendable {
    /// The source with absolute paths, as the provider gets it.
    let source: String
    /// Where it will be mounted, absolute.
    let mountpoint: String
    /// The account's name.
    let account: String
    /// The account's state directory, absolute.
    let stateDirectory: String
    /// Whether `--state` named it.
    let isStateNamed: Bool
    /// The control socket.
    let socket: String
    /// The socket of coordination alone.
    let coordinationSocket: String
    let options: AccountOptions
    let settings: ConfigFile.Section
    /// What is wrong with the configuration, in whose place that of the last daemon holds.
    let settingsFault: Failure?

    /// Reads the command line of `cove mount`.
    init(_ arguments: Arguments) throws(Failure) {
        try self.init(arguments, mountpoint: Self.resolved(arguments.operand(1) ?? ""), isMounted: false)
    }

    /// Reads the command line of `cove daemon`, without asking the mount point anything.
    ///
    /// `isMounted`: the mount lives on from an earlier daemon, and is not given up for a fault in the configuration.
    init(daemon arguments: Arguments, isMounted: Bool) throws(Failure) {
        try self.init(arguments, mountpoint: arguments.operand(1) ?? "", isMounted: isMounted)
    }

    private init(_ arguments: Arguments, mountpoint: String, isMounted: Bool) throws(Failure) {
        source = try Self.absoluteSource(arguments.operand(0) ?? "")
        self.mountpoint = mountpoint
        let certificates = arguments.value("cacert").map {
            "cacert="
                + LocalPath.absolute($0).split(separator: ",", omittingEmptySubsequences: false).joined(
                    separator: "\\,"
                )
        }
        options = try AccountOptions(
            arguments.values("o").map { String(decoding: $0, as: UTF8.self) }
                + (arguments.has("read-only") ? ["ro"] : []) + (certificates.map { [$0] } ?? [])
        )
        account = try Self.checked(arguments.value("account")) ?? Self.accountName(of: source)
        if let directory = arguments.value("state") {
            isStateNamed = true
            stateDirectory = LocalPath.absolute(directory)
            socket = StatePaths.socket(inState: stateDirectory, .account)
            coordinationSocket = StatePaths.socket(inState: stateDirectory, .coordination)
        } else {
            isStateNamed = false
            stateDirectory = StatePaths.state(of: account)
            socket = StatePaths.socket(of: account, .account)
            coordinationSocket = StatePaths.socket(of: account, .coordination)
        }
        do throws(Failure) {
            settings = try ConfigFile.read().section(for: account)
            settingsFault = nil
        } catch {
            guard isMounted, let kept = KeptSettings.read(inState: stateDirectory) else { throw error }
            (settings, settingsFault) = (kept, error)
        }
    }

    /// The source as it may be shown: without a password.
    var shownSource: String {
        guard let scheme = source.firstRange(of: "://"), let at = source.lastIndex(of: "@"),
            scheme.upperBound < at, !source[scheme.upperBound..<at].contains("/"),
            let colon = source[scheme.upperBound..<at].firstIndex(of: ":")
        else { return source }
        return String(source[..<colon] + source[at...])
    }

    /// How long the source may make no progress.
    var stallLimit: TimeSpan { options.stallLimit ?? .seconds(30) }

    /// The directory behind a `dir:` source; nil for a remote one.
    var sourceDirectory: String? {
        source.hasPrefix("dir://") ? String(source.dropFirst("dir://".count)) : nil
    }

    /// The words after `cove daemon` that lead to the same plan in another working directory.
    var daemonArguments: [String] {
        var words = ["--account", account]
        if isStateNamed { words += ["--state", stateDirectory] }
        for list in options.text { words += ["-o", list] }
        return words + ["--", source, mountpoint]
    }

    /// Makes sure, without changing anything, that source and mount point can be used.
    func check() throws(Failure) {
        let limit = FirstConnection.limit(self)
        let silence = Failure(shownSource, FirstConnection.silence(limit), "see whether it can be listed")
        let result: Result<Void, Failure> = Bounded.result(within: limit, or: .failure(silence)) {
            await OffPool.run { Result { () throws(Failure) in try checkNow() } }
        }
        try result.get()
    }

    /// Blocks for as long as a source that is a directory does.
    private func checkNow() throws(Failure) {
        _ = try provider()
        do throws(MountError) {
            try MountPoint.check(mountpoint, source: sourceDirectory)
        } catch {
            throw Failure(line: error.description)
        }
        try checkState()
    }

    /// A daemon that keeps its state in its mount waits for itself, and one in its source sends its own state for ever.
    private func checkState() throws(Failure) {
        let state = StatePaths.canonical(stateDirectory)
        let remedy = "choose another directory with --state"
        if LocalPath.isInside(state, StatePaths.canonical(mountpoint)) {
            throw Failure(stateDirectory, "the state would lie in the mount point \(mountpoint)", remedy)
        }
        if let directory = sourceDirectory, LocalPath.isInside(state, StatePaths.canonical(directory)) {
            throw Failure(stateDirectory, "the state would lie in the source \(directory)", remedy)
        }
    }

    /// The provider of the source, behind a simulated link where the options ask for one; nothing is started.
    ///
    /// With `isMounted` it is made though the source is not there: a mount that lives can be worked in without.
    func provider(log: Log = .none, isMounted: Bool = false) throws(Failure) -> any Provider {
        var provider: any Provider
        var access = access(log)
        access.mayBeMissing = isMounted
        access.isReadOnly = options.isReadOnly
        do throws(SourceError) {
            provider = try ProviderFactory.make(source: source, access: access) { log.notice($0) }
        } catch {
            throw Failure(line: error.description)
        }
        guard options.isSimulated else { return provider }
        provider = SimulatedLink(
            base: provider,
            latency: options.latency ?? .zero,
            bandwidth: options.bandwidth,
            stall: options.stalls.first
        )
        for stall in options.stalls.dropFirst() { provider = SimulatedLink(base: provider, stall: stall) }
        return provider
    }

    /// How a source over the network is reached.
    private func access(_ log: Log) -> ProviderFactory.Access {
        let network = NetworkSource(source)
        var access = ProviderFactory.Access(
            certificates: options.certificates,
            stallLimit: stallLimit,
            state: stateDirectory,
            credentials: { await OffPool.run { network.flatMap { LoginStore.find($0) } } }
        )
        access.device = Daemon.hostName
        access.trace = { log.debug($0()) }
        return access
    }

    /// Ends a mount at the mount point whose daemon has died.
    func recoverMountPoint() throws(Failure) {
        guard let mount = (try? MountTable.coveMount(holding: mountpoint)) ?? nil, mount.path == mountpoint,
            mount.standing() == .dead
        else { return }
        do throws(MountError) { try mount.end() } catch { throw Failure(line: error.description) }
    }

    /// A path is short for a `dir:` source; relative ones become absolute.
    private static func absoluteSource(_ text: String) throws(Failure) -> String {
        if text.hasPrefix("dir://") {
            let path = String(text.dropFirst("dir://".count))
            guard path.hasPrefix("/") else {
                throw .usage(text, "a dir: source needs an absolute path", "write dir:///PATH")
            }
            return "dir://" + LocalPath.absolute(path)
        }
        // A program is named by its path, or looked for in PATH.
        if text.hasPrefix("exec:") {
            let rest = text.dropFirst("exec:".count)
            let program = rest.prefix { $0 != "?" }
            guard program.contains("/"), !program.hasPrefix("/") else { return text }
            return "exec:" + LocalPath.absolute(String(program)) + rest.dropFirst(program.count)
        }
        // As for rsync and scp: a colon before the first slash belongs to a remote source.
        guard text.prefix(while: { $0 != "/" }).contains(":") else { return "dir://" + LocalPath.absolute(text) }
        return text
    }

    /// The mount point without symbolic links, as the kernel will show it.
    private static func resolved(_ text: String) -> String {
        let absolute = LocalPath.absolute(text)
        // The last name may be a dead mount, which nothing but its parent can be asked about.
        let slash = absolute.lastIndex(of: "/") ?? absolute.startIndex
        guard let parent = realpath(slash == absolute.startIndex ? "/" : String(absolute[..<slash]), nil) else {
            return absolute
        }
        defer { free(parent) }
        let directory = String(cString: parent)
        let path = (directory == "/" ? "" : directory) + absolute[slash...]
        guard let status = try? System.lstat(path), status.st_mode & S_IFMT == S_IFLNK,
            let target = realpath(path, nil)
        else { return path }
        defer { free(target) }
        return String(cString: target)
    }

    private static func checked(_ name: String?) throws(Failure) -> String? {
        guard let name else { return nil }
        guard name == accountName(of: name) else {
            throw .usage("--account \(name)", "is no account name", "use letters, digits, dots, dashes; at most 64")
        }
        return name
    }

    /// The last part of a source, with what has no place in a file name replaced.
    private static func accountName(of source: String) -> String {
        let path = source.prefix { $0 != "?" && $0 != "#" }
        let last = path.split { $0 == "/" || $0 == ":" || $0 == "@" }.last ?? "account"
        var name = String(
            last.prefix(64).map { character in
                character.isASCII && (character.isLetter || character.isNumber || "._-".contains(character))
                    ? character : "-"
            }
        )
        while let first = name.first, first == "." || first == "-" { name.removeFirst() }
        return name.isEmpty ? "account" : name
    }
}
