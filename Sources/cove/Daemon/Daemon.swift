internal import CoveCore
internal import CoveEngine
internal import CoveMount
internal import Glibc
internal import Synchronization

/// One account's daemon: engine, mount, announcer and control socket, from their start to their end.
final class Daemon: Sendable {
    private let plan: MountPlan
    private let keeper: KeeperLink
    private let lock: StateLock
    private let log: Log
    private let engine: Engine
    private let session: MountSession
    private let announcer: AnnouncerProcess
    private let notifier: NotifierProcess
    /// How long what nobody is seen to use may be in use.
    private static let momentaryUse = TimeSpan.seconds(2)
    /// How long umount(8) may take, which waits for what the kernel writes back.
    private static let unmounting = TimeSpan.seconds(30)
    /// True once another daemon is to take the mount over.
    private let isReplaced = Atomic(false)
    /// When the daemon was first told to end.
    private let firstEnd = Atomic(MonotonicTime.distantPast)

    /// Runs a daemon on the calling thread, which is the process's first, until it is unmounted; the exit code.
    ///
    /// `whenReady` is called once the mount can be used, with what a person is to know. Throws when it can't start.
    static func run(
        _ plan: MountPlan,
        _ keeper: KeeperLink,
        echoesLog: Bool,
        whenReady: @escaping @Sendable (String?) -> Void
    ) throws(Failure) -> Int32 {
        ProcessSettings.blockEndingSignals()
        ProcessSettings.raiseLimits()
        ProcessSettings.closeToOthers()
        ProcessSettings.hide()
        try keeper.passSecretsOn()
        let lock: StateLock
        if keeper.isTakeover, let inherited = keeper[.lock] {
            // Nothing here may ask the mount point anything: it answers when this process does.
            lock = StateLock(inherited: inherited, plan)
        } else {
            try plan.recoverMountPoint()
            try plan.check()
            lock = try StateLock(plan)
            try keeper.keep(.lock, lock.descriptor)
        }
        let log = Log(
            path: plan.stateDirectory + "/log",
            echoToStandardError: echoesLog,
            minimum: plan.options.logLevel
        )
        if log.descriptor >= 0 { try keeper.keep(.log, log.descriptor) }
        let provider = try plan.provider(log: log, isMounted: keeper.isTakeover)
        if !keeper.isTakeover, !lock.hasRecord() {
            if !plan.options.isOffline { try FirstConnection.make(provider, plan) }
            // It may have taken long, and Ctrl-C ends the command only.
            if !echoesLog, ReadyPipe.isAbandoned {
                throw Failure(plan.account, "who asked for the mount has gone", "mount it again")
            }
            try lock.record(plan)
        }
        if let fault = plan.settingsFault {
            log.error("\(fault.line); what was wanted before holds on")
        } else {
            KeptSettings.write(plan.settings, inState: plan.stateDirectory)
        }
        let daemon = try Daemon(plan, keeper, lock, provider, log)
        try daemon.serve(whenReady)
        if daemon.isReplaced.load(ordering: .acquiring) { return DaemonExit.replaced }
        lock.release()
        return DaemonExit.over
    }

    /// Opens the account and mounts it, or takes its mount over; nothing is served yet.
    private init(
        _ plan: MountPlan,
        _ keeper: KeeperLink,
        _ lock: StateLock,
        _ provider: any Provider,
        _ log: Log
    ) throws(Failure) {
        self.plan = plan
        self.keeper = keeper
        self.lock = lock
        self.log = log
        let (ledger, negotiation, work) = try Self.memory(keeper)
        var configuration = Self.configuration(plan)
        configuration.whenMigrating = { keeper.tellSettled() }
        do throws(EngineError) {
            engine = try Engine(
                configuration: configuration,
                provider: provider,
                log: log,
                ledger: ledger,
                work: work
            )
        } catch {
            throw Failure(line: error.description)
        }
        let device: Int32
        do throws(MountError) {
            session = try MountSession(
                engine: engine,
                mountpoint: plan.mountpoint,
                options: Self.mountOptions(plan),
                negotiation: negotiation,
                log: log
            )
            if let inherited = keeper[.device] {
                device = inherited
                try session.resume(device: device)
            } else {
                device = try session.mount()
            }
        } catch {
            let engine = engine
            BlockingThread.wait { await engine.stop() }
            throw Failure(line: error.description)
        }
        if !keeper.isTakeover {
            try keeper.keep(.device, device)
            try Self.keepAbort(keeper, plan)
        }
        announcer = AnnouncerProcess(mountpoint: plan.mountpoint, device: Self.device(of: plan), log: log) {
            ledger.announcer = $0
        }
        notifier = NotifierProcess(device: device, log: log)
    }

    /// Hands the keeper what ends the connection to the kernel, where fusectl is mounted.
    private static func keepAbort(_ keeper: KeeperLink, _ plan: MountPlan) throws(Failure) {
        let mount = (try? MountTable.read())?.last { $0.isCove && $0.path == plan.mountpoint }
        let folder = "/sys/fs/fuse/connections"
        guard let mount, let file = try? System.open("\(folder)/\(mount.minorDevice)/abort", O_WRONLY) else { return }
        defer { System.close(file) }
        try keeper.keep(.abort, file)
    }

    /// The memory that outlives this daemon.
    private static func memory(_ keeper: KeeperLink) throws(Failure) -> (HandleLedger, Negotiation, WorkLedger) {
        let remedy = keeper.isTakeover ? "unmount and mount again" : "check the limits of memory"
        let memory = try Failure.explaining(nil, "the mount's memory can't be had", remedy: remedy) {
            () throws(Errno) in
            (
                try HandleLedger(inherited: keeper.isTakeover ? keeper[.handles] : nil),
                try Negotiation(inherited: keeper.isTakeover ? keeper[.negotiation] : nil),
                try WorkLedger(inherited: keeper[.work], isCareful: keeper.isCareful)
            )
        }
        if !keeper.isTakeover {
            try keeper.keep(.handles, memory.0.descriptor)
            try keeper.keep(.negotiation, memory.1.descriptor)
        }
        if keeper[.work] == nil { try keeper.keep(.work, memory.2.descriptor) }
        return memory
    }

    private func serve(_ whenReady: @escaping @Sendable (String?) -> Void) throws(Failure) {
        let sockets = ControlSockets(
            engine: engine,
            account: AccountService.interface(
                engine: engine,
                keeper: keeper.process,
                unmount: { [self] isLazy async throws(VarlinkError) in try await unmount(isLazy: isLazy) },
                upgrade: { [self] program async throws(VarlinkError) in try await upgrade(to: program) },
                goOn: { [self] in if engine.work.isCareful { keeper.tellReady() } }
            )
        )
        do throws(Failure) {
            try start(sockets)
        } catch {
            // The mount that it has not made lives on for the next daemon.
            guard keeper.isTakeover else {
                end(sockets)
                throw error
            }
            announcer.stop()
            notifier.stop()
            sockets.stop(grace: .zero)
            throw error
        }
        try? lock.noteServing(plan)
        session.run { [self] in
            // A daemon that dies before this leaves nothing that another one could take over.
            keeper.tellReady()
            guard keeper.generation == 0 else { return }
            log.notice("\(plan.account): \(plan.shownSource) mounted at \(plan.mountpoint)")
            Task { [self] in
                let notice = await engine.startNotice(limit: .seconds(2))
                await OffPool.run {
                    whenReady(notice)
                    SystemdNotice.ready()
                }
            }
        }
        if isReplaced.load(ordering: .acquiring) { return handOver(sockets) }
        SystemdNotice.stopping()
        end(sockets)
        log.notice("\(plan.account): ended")
    }

    private func start(_ sockets: ControlSockets) throws(Failure) {
        do throws(Errno) {
            try notifier.start()
            try session.startNotifications(notifier)
            try announcer.start()
        } catch {
            throw Failure(nil, "a helper process can't be started: \(error)", "check the limit of processes")
        }
        if keeper.isTakeover { try sockets.startPatiently(plan, log) } else { try sockets.start(plan) }
        PrivateCopies.watchSessions()
        engine.start(kernel: session.notifier, announcer: announcer)
        do throws(Errno) {
            try BlockingThread.start { [self] in endOnSignal() }
            try BlockingThread.start { [self] in followKeeper() }
            if plan.sourceDirectory == nil { try NetworkWatch.start { [engine] in engine.networkChanged() } }
        } catch {
            throw Failure(nil, "no thread can be started: \(error)", "check the limit of processes")
        }
    }

    /// The way out, whichever way the mount ended.
    private func end(_ sockets: ControlSockets) {
        lock.noteEnding()
        session.stop()
        let engine = engine
        BlockingThread.wait { await engine.stop() }
        announcer.stop()
        notifier.stop()
        // The call that unmounted is still being answered.
        sockets.stop(grace: .seconds(5))
    }

    /// Leaves everything to the next daemon: what programs did is in the catalog, what they ask now is sent again.
    private func handOver(_ sockets: ControlSockets) {
        log.notice("\(plan.account): another daemon takes over")
        engine.handOver()
        announcer.stop()
        sockets.stop()
    }

    /// The signal thread.
    private func endOnSignal() {
        while true {
            let signal = ProcessSettings.waitForEndingSignal()
            log.notice("signal \(signal): unmounting")
            beginEnd()
        }
    }

    /// The thread that hears what the keeper says.
    private func followKeeper() {
        while keeper.waitForEnd() {
            log.notice("unmounting")
            beginEnd()
        }
        log.error("the keeper has ended: this mount does not survive its daemon any more; unmount and mount again")
    }

    /// Unmounts the first time, and leaves at once the second time, unless one signal has come on two ways.
    private func beginEnd() {
        let now = System.monotonic()
        let first = firstEnd.compareExchange(expected: .distantPast, desired: now, ordering: .acquiringAndReleasing)
        if first.exchanged {
            try? BlockingThread.start { [self] in
                flush(limit: .seconds(10))
                session.stop()
            }
        } else if now - first.original > .milliseconds(500) {
            log.notice("a second signal: leaving at once; what was not written back is lost")
            _exit(DaemonExit.left)
        }
    }

    /// Has the kernel write back what programs wrote; through the announcer, for this process would wait for itself.
    private func flush(limit: TimeSpan) {
        do throws(Errno) {
            try announcer.syncFileSystem(limit: limit)
        } catch {
            log.error("the mount could not be flushed: \(error)")
        }
    }

    /// What came of unmounting.
    private enum UnmountOutcome {
        case done, busy, endless

        /// Why the mount is still there, and what to do.
        var reason: String? {
            switch self {
            case .done: nil
            case .busy: "something uses the mount; end it"
            case .endless:
                "what programs wrote was not written back in \(Units.duration(unmounting.seconds)); see the account's log"
            }
        }
    }

    /// What `Unmount` does; how many changes are left for the next mount.
    private func unmount(isLazy: Bool) async throws(VarlinkError) -> Int {
        let outcome: UnmountOutcome = await OffPool.run { [self] in
            flush(limit: .seconds(30))
            if isLazy {
                session.stop()
                return .done
            }
            let path = plan.mountpoint
            return announcer.whileIdle {
                // A program that is just making a mount namespace, as each sandbox does, uses all mounts for a moment.
                let deadline = System.monotonic() + Self.momentaryUse
                while true {
                    let (program, arguments) =
                        geteuid() == 0 ? ("umount", ["-i", "--", path]) : ("fusermount3", ["-u", "-q", "--", path])
                    let status = try? ChildProcess.run(program, arguments, limit: Self.unmounting)
                    if status == 0 { return .done }
                    guard status != nil else { return .endless }
                    guard System.monotonic() < deadline, MountUsers.find(path).isEmpty else { return .busy }
                    usleep(50_000)
                }
            }
        }
        if let reason = outcome.reason {
            throw .failed("\(reason), or use --lazy", errno: .busy, interface: AccountInterface.name)
        }
        return engine.accountStatus().queuedOperations
    }

    /// What `Upgrade` does: this daemon ends, and the keeper starts the program in its place.
    private func upgrade(to path: String) async throws(VarlinkError) {
        guard Negotiation.canResend() else {
            throw .failed(
                "Linux before 6.9 can't hand requests to another daemon; unmount and mount again",
                errno: .notSupported,
                interface: AccountInterface.name
            )
        }
        let isStarted: Result<Void, Errno> = await OffPool.run { [self] in
            Result { () throws(Errno) in
                let program = try System.open(path, System.pathOnly)
                defer { System.close(program) }
                try keeper.replace(with: program)
            }
        }
        if case .failure(let error) = isStarted {
            throw .failed("\(path): \(error)", errno: error, interface: AccountInterface.name)
        }
        let hasBegun = await OffPool.run { [self] in
            session.leave {
                self.isReplaced.store(true, ordering: .releasing)
            } whenStuck: {
                // The next daemon is asked that request again, as after any other death.
                _exit(DaemonExit.replaced)
            }
        }
        guard hasBegun else {
            throw .failed("the mount is being unmounted", errno: .busy, interface: AccountInterface.name)
        }
    }
}
