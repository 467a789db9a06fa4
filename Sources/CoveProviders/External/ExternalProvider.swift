public import CoveCore
internal import Glibc
internal import Synchronization

/// A cloud that a program of its own serves, in any language, over its standard input and output.
///
/// The process is started when something is asked of it, and again after it has ended, later and later each time. What it
/// says is trusted in nothing: a message that breaks the protocol ends it, and what waited for it fails.
public final class ExternalProvider: Provider {
    /// A menu has no room for more.
    private static let mostActions = 50

    private struct State {
        var session: ProviderSession?
        /// The one that has not said hello yet.
        var greeted: ProviderSession?
        var hello: HelloResult?
        var capabilities = ProviderCapabilities()
        var identity: [UInt8]?
        /// How often it ended soon after its start, one after the other.
        var failures = 0
        var notBefore = MonotonicTime.distantPast
        var startedAt = MonotonicTime.distantPast
        /// What said who knows the names of hosts when it was started; nil for one that sees what there is now.
        var resolver: [UInt64]?
        var isStopped = false
        /// How many calls go on at a time.
        var gate = BufferGate(limit: 8)
    }

    private let program: ProviderProgram
    private let stateDirectory: String?
    private let isReadOnly: Bool
    private let limits: ProviderSession.Limits
    private let credentials: @Sendable () async -> Credentials?
    private let log: @Sendable (String) -> Void
    private let words: ProviderWords
    private let signal = ChangeSignal()
    private let uploads = WorkQueue(label: "cove.provider.uploads", width: 8)
    private let starting = WorkQueue(label: "cove.provider.start", width: 1)
    private let state = Mutex(State())

    /// Takes what is to be run; nothing is started before it is asked for something.
    init(
        _ program: ProviderProgram,
        state: String?,
        isReadOnly: Bool = false,
        limits: ProviderSession.Limits = ProviderSession.Limits(),
        credentials: @escaping @Sendable () async -> Credentials? = { nil },
        log: @escaping @Sendable (String) -> Void
    ) {
        self.program = program
        stateDirectory = state
        self.isReadOnly = isReadOnly
        self.limits = limits
        self.credentials = credentials
        self.log = log
        words = ProviderWords(file: state.map { "\($0)/provider.log" })
    }

    deinit { state.withLock { $0.session }?.end("it is not needed any more") }

    /// What it said that the source can do.
    public var capabilities: ProviderCapabilities { state.withLock { $0.capabilities } }

    /// Starts the process, or makes sure that it runs.
    public func start() async throws(ProviderError) {
        state.withLock { $0.isStopped = false }
        _ = try await running()
    }

    /// What it said that the source is.
    public func sourceIdentity() async -> [UInt8]? { state.withLock { $0.identity } }

    /// Asks the process to end, and ends it when it does not.
    public func stop() async {
        let sessions = state.withLock { state in
            state.isStopped = true
            return [state.session.take(), state.greeted.take()].compactMap(\.self)
        }
        for session in sessions where session.reason == nil {
            session.tell(.stop)
            await OffPool.run { _ = ChildProcess.hasEnded(session.process, within: .seconds(2)) }
            session.end("it was asked to end")
            await session.whenOver()
        }
    }

    /// Fires when the process says so.
    public var changeSignal: AsyncStream<Void>? { signal.stream() }

    /// True unless the process said that it tells of changes by itself.
    public var mustBePolled: Bool { state.withLock { $0.hello?.signals != true } }

    /// What the process said that it can be asked for; those that can't be are left out.
    public var actions: [ProviderAction] {
        (state.withLock { $0.hello?.actions } ?? []).prefix(Self.mostActions).compactMap { try? $0.action() }
    }

    /// What it said that its own claims are for.
    public var purpose: String? { state.withLock { $0.hello?.purpose } }

    /// Tells the process.
    public func networkChanged() {
        let (session, resolver) = state.withLock { ($0.session, $0.resolver) }
        session?.tell(.networkChanged)
        // What it sees of the system is of when it was started.
        if let resolver, resolver != ProviderManifest.resolverStamp { session?.end("the network is another one") }
    }

    /// Makes a call once there is a process, and room for one more.
    func call(
        _ name: WireCall,
        _ parameters: CallParameters = CallParameters(),
        content: (any ContentSource)? = nil
    ) async throws(ProviderError) -> CallResult {
        let (session, gate) = try await running()
        return try await gate.holding(1) { () throws(ProviderError) in
            try await session.call(name, parameters, content: content)
        }
    }

    /// Makes a call that gives bytes.
    func fetch(
        _ name: WireCall,
        _ parameters: CallParameters,
        _ range: Range<Int64>,
        _ sink: any ContentSink
    ) async throws(ProviderError) {
        let (session, gate) = try await running()
        try await gate.holding(1) { () throws(ProviderError) in
            try await session.fetch(name, parameters, range: range, into: sink)
        }
    }

    /// Makes something of what the process told.
    func understand<Value>(_ body: () throws(JSONError) -> Value) throws(ProviderError) -> Value {
        do throws(JSONError) { return try body() } catch {
            throw .failed("\(program.name): it told what can't be: \(error)", .inputOutput)
        }
    }

    // MARK: The process

    /// The process that runs, or a new one.
    private func running() async throws(ProviderError) -> (ProviderSession, BufferGate) {
        let (session, gate) = state.withLock { ($0.session, $0.gate) }
        if let session, session.reason == nil { return (session, gate) }
        // One starts it, and all others wait for that.
        return try await starting.run { _ throws(ProviderError) in
            let session = try self.startProcess()
            return (session, self.state.withLock { $0.gate })
        }
    }

    /// Starts the process and greets it; blocks until it has answered.
    private func startProcess() throws(ProviderError) -> ProviderSession {
        let (running, notBefore, isStopped) = state.withLock { ($0.session, $0.notBefore, $0.isStopped) }
        if let running, running.reason == nil { return running }
        if isStopped { throw .serverUnreachable("\(program.name): it was asked to end") }
        if let refusal = program.refusal { throw .serverUnreachable("\(program.name): \(refusal)") }
        let now = System.monotonic()
        if now < notBefore {
            let why = running?.reason ?? "it could not be started"
            throw .serverUnreachable("\(program.name): \(why); it is started again in \(notBefore - now)")
        }
        // A folder of its own: what else is in the account's state is none of its business.
        let own = stateDirectory.map { "\($0)/provider" }
        let resolver = ProviderManifest.resolverStamp
        let command: Confinement.Command
        do throws(SourceError) {
            command = try Confinement.command(program, state: own)
        } catch {
            noteFailure()
            throw .serverUnreachable("\(program.name): \(error)")
        }
        let session: ProviderSession
        do throws(Errno) {
            if let own { try System.makeDirectories(own) }
            session = try launch(command)
            state.withLock { $0.greeted = session }
        } catch {
            noteFailure()
            throw .serverUnreachable("\(program.path): it can't be started: \(error)")
        }
        let hello: Result<HelloResult, ProviderError> = BlockingThread.wait { [program, credentials, isReadOnly] in
            let login = program.manifest?.usesSecrets == true ? await credentials() : nil
            return await session.greet(
                HelloParameters(
                    versions: [WireCall.version],
                    options: program.options,
                    state: own,
                    credentials: login.map { WireLogin(user: $0.user, password: $0.password) },
                    readOnly: isReadOnly ? true : nil
                )
            )
        }
        do throws(ProviderError) {
            let hello = try hello.get()
            guard hello.version == WireCall.version else {
                throw .unsupported(
                    "\(program.name): it speaks version \(hello.version) of the protocol, Cove \(WireCall.version)"
                )
            }
            if let purpose = hello.purpose, !(1...HelloResult.longestPurpose).contains(purpose.utf8.count) {
                throw .unsupported("\(program.name): a purpose has 1 to \(HelloResult.longestPurpose) bytes")
            }
            let known = state.withLock { $0.identity }
            let identity = hello.identity?.bytes
            if let known, identity != known {
                throw .serverUnreachable("\(program.name): it serves another source than before")
            }
            let isWanted = state.withLock { state in
                guard !state.isStopped else { return false }
                state.greeted = nil
                state.session = session
                state.hello = hello
                state.identity = identity
                state.capabilities = hello.capabilities?.capabilities ?? WireCapabilities().capabilities
                state.startedAt = now
                let manifest = program.manifest
                state.resolver = manifest?.isConfined == true && manifest?.usesNetwork == true ? resolver : nil
                state.gate = BufferGate(limit: min(max(hello.parallelCalls ?? 8, 1), 256))
                return true
            }
            guard isWanted else { throw .serverUnreachable("\(program.name): it was asked to end") }
            // What changed while it did not run was told to nobody.
            signal.fire()
            return session
        } catch {
            // Its end counts it, unless it was asked to end.
            session.end("\(error)")
            BlockingThread.wait { await session.whenOver() }
            state.withLock { $0.greeted = nil }
            // Whoever started it hears what only it knows.
            if case .serverUnreachable(let why) = error, let line = words.lastLine {
                throw .serverUnreachable("\(why): \(line)")
            }
            throw error
        }
    }

    private func launch(_ command: Confinement.Command) throws(Errno) -> ProviderSession {
        words.begin()
        let process = try ProviderProcess.start(command)
        var limits = limits
        limits.process = program.limits
        limits.refusal = { [program] in program.refusal }
        limits.process.limit(process.number)
        let session = ProviderSession(
            name: program.name,
            process: process.number,
            channel: process.channel,
            uploads: uploads,
            limits: limits,
            onSignal: { [signal] in signal.fire() }
        )
        do throws(Errno) {
            try begin(session, process.number)
        } catch {
            _ = ProviderProcess.end(process.number)
            throw error
        }
        return session
    }

    private func begin(_ session: ProviderSession, _ process: pid_t) throws(Errno) {
        let name = program.name
        try session.begin(
            onWords: { [words] bytes in words.add(bytes) },
            onEnd: { [weak self, weak session, words, log] reason in
                let how = ProviderProcess.end(process)
                words.note("cove: \(reason), \(how)\n")
                log("\(name): \(reason), \(how); `cove provider log` shows what it said")
                if let session { self?.noteEnd(of: session) }
            }
        )
    }

    private func noteEnd(of session: ProviderSession) {
        let now = System.monotonic()
        let isOwn = state.withLock { state in
            if state.greeted === session { return true }
            guard state.session === session else { return false }
            if now - state.startedAt > .seconds(60) { state.failures = 0 }
            return true
        }
        guard isOwn else { return }
        noteFailure()
        // Whoever follows its changes has it started again.
        signal.fire()
    }

    /// The first time it is started again at once, then later and later.
    private func noteFailure() {
        let now = System.monotonic()
        state.withLock { state in
            let wait = state.failures == 0 ? TimeSpan.zero : .milliseconds(250).doubled(min(state.failures, 8))
            state.notBefore = now + min(wait, .seconds(60))
            state.failures += 1
        }
    }
}
