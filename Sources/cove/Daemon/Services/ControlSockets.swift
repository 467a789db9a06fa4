internal import CoveCore
internal import CoveEngine
internal import Glibc

/// The sockets of a daemon: one with everything that the account's owner may do, and one for claims and presenters alone,
/// which a sandbox can be given.
struct ControlSockets: Sendable {
    private let account: VarlinkServer
    private let coordination: VarlinkServer

    /// Makes servers that do not listen yet.
    init(engine: Engine, account interface: VarlinkInterface) {
        let apps = AppGuard(engine: engine)
        account = VarlinkServer(
            product: "Cove",
            version: Tool.version,
            interfaces: [
                apps.guarding(interface), apps.guarding(ItemService.interface(engine: engine)),
                apps.guarding(QueryService.interface(engine: engine)), AccessService.interface(engine: engine),
            ],
            standing: apps.standing
        )
        coordination = VarlinkServer(
            product: "Cove",
            version: Tool.version,
            interfaces: [
                apps.guarding(CoordinationService.interface(engine: engine)),
                apps.forAppsAlone(AccessService.interface(engine: engine)),
            ],
            standing: apps.standing
        )
    }

    /// Listens where the plan says.
    func start(_ plan: MountPlan) throws(Failure) {
        try startAccount(plan)
        try startCoordination(plan)
    }

    /// The same for a mount that is used already: what can't be made now is tried again until it can.
    func startPatiently(_ plan: MountPlan, _ log: Log) throws(Failure) {
        let account = fault { () throws(Failure) in try startAccount(plan) }
        let coordination = fault { () throws(Failure) in try startCoordination(plan) }
        guard let first = account ?? coordination else { return }
        log.error("\(first.line); it is tried again each second")
        try Failure.explaining(nil, "no thread can be started", remedy: "check the limit of processes") {
            () throws(Errno) in
            try BlockingThread.start {
                var missing = (account, coordination)
                while missing.0 != nil || missing.1 != nil {
                    TimeSpan.seconds(1).block()
                    if missing.0 != nil { missing.0 = fault { () throws(Failure) in try startAccount(plan) } }
                    if missing.1 != nil { missing.1 = fault { () throws(Failure) in try startCoordination(plan) } }
                }
                log.notice("the control sockets are there again")
            }
        }
    }

    private func fault(_ body: () throws(Failure) -> Void) -> Failure? {
        do throws(Failure) { try body() } catch { return error }
        return nil
    }

    private func startAccount(_ plan: MountPlan) throws(Failure) {
        if !plan.isStateNamed { try StatePaths.makeSockets() }
        try Self.start(account, plan.socket)
    }

    private func startCoordination(_ plan: MountPlan) throws(Failure) {
        if let folder = LocalPath.parent(of: plan.coordinationSocket) {
            try PrivateFolder.make(folder, remedy: "remove it")
        }
        try Self.start(coordination, plan.coordinationSocket)
    }

    /// Stops listening, lets calls being answered finish within the grace, and ends every connection.
    func stop(grace: TimeSpan = .seconds(2)) {
        coordination.stop(grace: grace)
        account.stop(grace: grace)
    }

    private static func start(_ server: VarlinkServer, _ path: String) throws(Failure) {
        do throws(Errno) {
            try server.start(at: path)
        } catch {
            let isTaken = error == Errno(EADDRINUSE)
            let remedy = isTaken ? "another daemon answers there: choose a name with --account" : "check the path"
            throw Failure(path, "\(error)", remedy)
        }
    }
}
