internal import CoveCore
internal import CoveEngine
internal import CoveMount
internal import Glibc

/// One account's daemon: engine, mount, announcer and control socket, from their start to their end.
final class Daemon: Sendable {
    private let plan: MountPlan
    private let log: Log
    private let engine: Engine
    private let session: MountSession
    private let announcer: AnnouncerProcess

    /// Runs a daemon on the calling thread, which is the process's first, until it is unmounted; the exit code.
    ///
    /// `whenReady` is called once the mount can be used, with what a person is to know. Throws when it can't start.
    static func run(_ plan: MountPlan, echoesLog: Bool, whenReady: (String?) -> Void) throws(Failure) -> Int32 {
        ProcessSettings.blockEndingSignals()
        ProcessSettings.raiseLimits()
        ProcessSettings.closeToOthers()
        try plan.recoverMountPoint()
        try plan.check()
        let lock = try StateLock(plan)
        return try withExtendedLifetime(lock) { () throws(Failure) in
            let log = Log(
                path: plan.stateDirectory + "/log",
                echoToStandardError: echoesLog,
                minimum: plan.options.logLevel
            )
            let daemon = try Daemon(plan, log)
            try daemon.serve(whenReady)
            return 0
        }
    }

    /// Opens the account and mounts it; nothing is served yet.
    private init(_ plan: MountPlan, _ log: Log) throws(Failure) {
        self.plan = plan
        self.log = log
        let provider = try plan.provider(log: log)
        do throws(EngineError) {
            engine = try Engine(configuration: Self.configuration(plan), provider: provider, log: log)
        } catch {
            throw Failure(line: error.description)
        }
        do throws(MountError) {
            session = try MountSession(
                engine: engine,
                mountpoint: plan.mountpoint,
                options: Self.mountOptions(plan),
                log: log
            )
            try session.mount()
        } catch {
            let engine = engine
            BlockingThread.wait { await engine.stop() }
            throw Failure(line: error.description)
        }
        announcer = AnnouncerProcess(mountpoint: plan.mountpoint, device: Self.device(of: plan), log: log)
    }

    private func serve(_ whenReady: (String?) -> Void) throws(Failure) {
        let server = VarlinkServer(
            product: "Cove",
            version: Tool.version,
            interfaces: [
                AccountService.interface(engine: engine) { [self] isLazy async throws(VarlinkError) in
                    try await unmount(isLazy: isLazy)
                },
                ItemService.interface(engine: engine),
            ]
        )
        do throws(Failure) {
            try start(server)
        } catch {
            end(server)
            throw error
        }
        log.notice("\(plan.account): \(plan.shownSource) mounted at \(plan.mountpoint)")
        whenReady(engine.rebuildNotice())
        SystemdNotice.ready()
        session.run()
        SystemdNotice.stopping()
        end(server)
        log.notice("\(plan.account): ended")
    }

    private func start(_ server: VarlinkServer) throws(Failure) {
        do throws(Errno) {
            try announcer.start()
        } catch {
            throw Failure(nil, "the announcer process can't be started: \(error)", "check the limit of processes")
        }
        if !plan.isStateNamed { try StatePaths.makePrivate(StatePaths.sockets) }
        do throws(Errno) {
            try server.start(at: plan.socket)
        } catch {
            let isTaken = error == Errno(EADDRINUSE)
            let remedy = isTaken ? "another daemon answers there: choose a name with --account" : "check the path"
            throw Failure(plan.socket, "\(error)", remedy)
        }
        engine.start(kernel: session.notifier, announcer: announcer)
        do throws(Errno) {
            try BlockingThread.start { [self] in endOnSignal() }
        } catch {
            throw Failure(nil, "no thread can be started: \(error)", "check the limit of processes")
        }
    }

    /// The way out, whichever way the mount ended.
    private func end(_ server: VarlinkServer) {
        session.stop()
        let engine = engine
        BlockingThread.wait { await engine.stop() }
        announcer.stop()
        server.stop()
    }

    /// The signal thread: a first signal unmounts, a second one leaves at once.
    private func endOnSignal() {
        let signal = ProcessSettings.waitForEndingSignal()
        log.notice("signal \(signal): unmounting")
        try? BlockingThread.start { [self] in
            flush(limit: .seconds(10))
            session.stop()
        }
        _ = ProcessSettings.waitForEndingSignal()
        log.notice("a second signal: leaving at once; what was not written back is lost")
        _exit(1)
    }

    /// Has the kernel write back what programs wrote; through the announcer, for this process would wait for itself.
    private func flush(limit: Duration) {
        do throws(Errno) {
            try announcer.syncFileSystem(limit: limit)
        } catch {
            log.error("the mount could not be flushed: \(error)")
        }
    }

    /// What `Unmount` does; how many changes are left for the next mount.
    private func unmount(isLazy: Bool) async throws(VarlinkError) -> Int {
        let isUnmounted: Bool = await OffPool.run { [self] in
            flush(limit: .seconds(30))
            if isLazy {
                session.stop()
                return true
            }
            let path = plan.mountpoint
            let status =
                geteuid() == 0
                ? try? ChildProcess.run("umount", ["-i", "--", path], limit: .seconds(30))
                : try? ChildProcess.run("fusermount3", ["-u", "-q", "--", path], limit: .seconds(30))
            return status == 0
        }
        guard isUnmounted else {
            throw .failed(
                "something uses the mount; end it, or use --lazy",
                errno: .busy,
                interface: AccountInterface.name
            )
        }
        return engine.accountStatus().queuedOperations
    }
}
