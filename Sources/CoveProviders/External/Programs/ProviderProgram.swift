internal import CoveCore
internal import Glibc

/// What is run as a provider: a program, and what a person typed behind its name.
struct ProviderProgram: Sendable, Equatable {
    /// What messages call it.
    var name: String
    /// The executable's absolute path.
    var path: String
    var arguments: [String] = []
    /// `KEY=VALUE` of the source, for the program to make sense of.
    var options: [String: String] = [:]
    /// What it may have; nil for a program that is not installed as a provider, and has what its user has.
    var manifest: ProviderManifest?
    /// What it may use of the machine.
    var limits: ProcessLimits {
        manifest.map { ProcessLimits(memory: $0.memory, processors: $0.processors) }
            ?? ProcessLimits(memory: ProviderManifest.usualMemory)
    }

    /// Why it can't be used until the source is mounted again.
    private var fault: String?

    /// Why it may not run; nil where it may.
    var refusal: String? {
        if let fault { return fault }
        guard let manifest, manifest.isInstalled, !InstalledProviders.isEnabled(manifest.name) else { return nil }
        return "it is turned off; cove provider enable \(manifest.name) turns it on"
    }

    /// Stands for a source that can't be used; nothing of it ever runs.
    init(missing source: String, why: SourceError) {
        (name, path) = (source, "/nonexistent")
        fault = "\(why), then unmount and mount again"
    }

    /// An installed provider.
    init(_ manifest: ProviderManifest, name: String, options: [String: String]) throws(SourceError) {
        self.manifest = manifest
        self.name = name
        self.options = options
        path = manifest.program
        arguments = manifest.arguments
        try checkExecutable()
    }

    /// Reads `exec:PROGRAM`, and `exec:PROGRAM?KEY=VALUE&…` with percent-encoded values; nil for what is no such source.
    ///
    /// A program without a slash is one of the installed providers, or else is looked for in `PATH`. One with a slash has the
    /// manifest beside it, where there is one.
    init?(source: String) throws(SourceError) {
        guard source.hasPrefix("exec:") else { return nil }
        let rest = source.dropFirst("exec:".count)
        let mark = rest.firstIndex(of: "?")
        let program = String(rest[..<(mark ?? rest.endIndex)])
        guard !program.isEmpty else { throw .badAddress(source) }
        for pair in mark.map({ rest[rest.index(after: $0)...] })?.split(separator: "&") ?? [] {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, let key = PercentEncoding.decode(parts[0].utf8), !key.isEmpty,
                let value = PercentEncoding.decode(parts[1].utf8)
            else { throw .badAddress(source) }
            options[String(decoding: key, as: UTF8.self)] = String(decoding: value, as: UTF8.self)
        }
        name = program.split(separator: "/").last.map(String.init) ?? program
        if let manifest = try InstalledProviders.named(program) {
            self = try ProviderProgram(manifest, name: program, options: options)
            return
        }
        if program.contains("/") {
            // Under the name that was typed: some programs go by it.
            path = LocalPath.absolute(program)
            if let manifest = try InstalledProviders.beside(LocalPath.resolved(path)) {
                self = try ProviderProgram(manifest, name: name, options: options)
                return
            }
        } else {
            let places = (ProcessEnvironment.value("PATH") ?? "/usr/bin:/bin").split(separator: ":")
            guard let found = places.map({ "\($0)/\(program)" }).first(where: { access($0 as String, X_OK) == 0 })
            else {
                throw .failed("\(program): there is no such program; write exec:/PATH/TO/PROGRAM")
            }
            path = found
        }
        try checkExecutable()
    }

    private func checkExecutable() throws(SourceError) {
        guard access(path, X_OK) != 0 else { return }
        let why = Errno.current
        let remedy = why == .accessDenied ? "make it executable with chmod +x" : "see whether the path is right"
        throw .failed("\(path): it can't be run: \(why); \(remedy)")
    }
}

/// A provider's process: how it begins and how it ends.
enum ProviderProcess {
    /// Starts a command with its standard input, output and error connected to a channel.
    static func start(_ command: Confinement.Command) throws(Errno) -> (number: pid_t, channel: FrameChannel) {
        var open: [Int32] = []
        let channel: FrameChannel
        do throws(Errno) {
            for _ in 0..<3 {
                let (read, write) = try System.pipe()
                open += [read, write]
                // Fewer turns for large contents; what the system does not give is not needed. F_SETPIPE_SZ.
                _ = fcntl(write, 1031, 1 << 20)
            }
            channel = try FrameChannel(input: open[2], output: open[1], words: open[4])
        } catch {
            open.forEach { System.close($0) }
            throw error
        }
        // From here on the channel closes its own.
        let theirs = [open[0], open[3], open[5]]
        defer { for descriptor in theirs { System.close(descriptor) } }
        return (try onOwnThread { () throws(Errno) in try spawn(command, theirs) }, channel)
    }

    /// Starts a process from a thread that lives as long as it does: bubblewrap's child dies with the thread that started it.
    private static func onOwnThread(
        _ start: @escaping @Sendable () throws(Errno) -> pid_t
    ) throws(Errno) -> pid_t {
        let started: Result<pid_t, Errno> = BlockingThread.wait {
            await withCheckedContinuation { continuation in
                do throws(Errno) {
                    try BlockingThread.start(stackSize: 128 << 10) {
                        let result = Result { () throws(Errno) in try start() }
                        continuation.resume(returning: result)
                        guard case .success(let process) = result else { return }
                        // Where no descriptor can be had, that says nothing.
                        while !ChildProcess.hasEnded(process, within: .seconds(3600)) || kill(process, 0) == 0 {
                            TimeSpan.milliseconds(200).block()
                        }
                    }
                } catch {
                    continuation.resume(returning: .failure(error))
                }
            }
        }
        return try started.get()
    }

    private static func spawn(_ command: Confinement.Command, _ descriptors: [Int32]) throws(Errno) -> pid_t {
        let deadline = System.monotonic() + .seconds(1)
        while true {
            do throws(Errno) {
                return try ChildProcess.start(
                    command.words[0],
                    Array(command.words.dropFirst()),
                    environment: command.environment,
                    input: descriptors[0],
                    output: descriptors[1],
                    errors: descriptors[2]
                )
            } catch {
                // Whoever writes the program is about to close it.
                guard error == Errno(ETXTBSY), System.monotonic() < deadline else { throw error }
                TimeSpan.milliseconds(10).block()
            }
        }
    }

    /// Ends a process and all that it has started in its group; how it ended.
    static func end(_ process: pid_t) -> String {
        // Whoever has closed its output may be about to end by itself.
        let isOver = ChildProcess.hasEnded(process, within: .milliseconds(200))
        kill(-process, SIGKILL)
        let how = ChildProcess.status(of: process, within: .seconds(5)) ?? "it can't be ended"
        return isOver ? how : "it was ended"
    }
}
