internal import CoveCore
internal import Glibc

/// A connection to one account's daemon, with its failures in words for people.
struct AccountConnection {
    private let client: VarlinkClient
    private let address: DaemonAddress
    private let state: String?
    /// What messages call the account.
    let name: String

    /// Connects to the account that the options or the working directory name.
    static func open(
        _ arguments: Arguments,
        _ socket: ItemLocation.Socket = .account
    ) throws(Failure) -> AccountConnection {
        if let directory = arguments.value("state") {
            let path = LocalPath.absolute(directory)
            return try AccountConnection(StatePaths.daemon(inState: path, socket), state: path, name: directory)
        }
        if let account = arguments.value("account") {
            return try AccountConnection(account: account, socket)
        }
        if let here = try? ItemLocation.find([0x2E], socket: socket) {
            return try AccountConnection(here.daemon, name: ".")
        }
        let accounts = StatePaths.accounts()
        guard let only = accounts.first else {
            throw Failure(nil, "no account is mounted", "mount one with `cove mount`, or name one with --state")
        }
        guard accounts.count == 1 else {
            throw .usage("--account", "is needed", "choose one of \(accounts.joined(separator: ", "))")
        }
        return try AccountConnection(account: only, socket)
    }

    /// Connects to the account that shows the command's operand, where it has one, and tells where in it that is.
    static func openPath(
        _ arguments: Arguments,
        _ socket: ItemLocation.Socket = .account
    ) throws(Failure) -> (AccountConnection, ItemLocation?) {
        guard let operand = arguments.operands.first else { return (try open(arguments, socket), nil) }
        let location = try Failure.locating(operand) { path throws(ItemLocation.Failure) in
            try ItemLocation.existing(path, socket: socket)
        }
        return (try AccountConnection(location.daemon, name: location.shown), location)
    }

    private init(account: String, _ socket: ItemLocation.Socket) throws(Failure) {
        let address = DaemonAddress(socket: StatePaths.socket(of: account, socket))
        try self.init(address, state: StatePaths.state(of: account), name: account)
    }

    /// Connects to a daemon; while the state directory's account has a keeper, its next daemon is waited for.
    init(_ address: DaemonAddress, state: String? = nil, name: String) throws(Failure) {
        self.name = name
        self.address = address
        self.state = state
        let socket = address.socket
        do throws(VarlinkClient.Failure) {
            client = try Self.connect(address, state)
        } catch .connection(let error) where error == .noSuchEntry || error == Errno(ECONNREFUSED) {
            throw Failure(name, "no daemon answers at \(socket)", "mount the account with `cove mount`")
        } catch .connection(let error) where error == .accessDenied {
            throw Failure(name, "the daemon at \(socket) belongs to another user", "ask them, or use sudo")
        } catch .stranger(let user) {
            throw Failure(
                name,
                "a service of user \(user) answers at \(socket), who is not the mount's owner",
                "ask who made that mount"
            )
        } catch {
            throw Failure(name, "\(socket): \(error.description)", "see `cove doctor`")
        }
    }

    /// Connects to the daemon that follows this one, for which so many seconds are waited.
    func again(within patience: Int64) throws(Failure) -> AccountConnection {
        let deadline = System.monotonic() + .seconds(patience)
        while true {
            _ = poll(nil, 0, 50)
            do throws(Failure) { return try AccountConnection(address, state: state, name: name) } catch {
                guard System.monotonic() < deadline else { throw error }
            }
        }
    }

    private static func connect(
        _ address: DaemonAddress,
        _ state: String?
    ) throws(VarlinkClient.Failure) -> VarlinkClient {
        let deadline = System.monotonic() + .seconds(5)
        while true {
            do throws(VarlinkClient.Failure) {
                return try VarlinkClient(address)
            } catch .connection(let error) where error == .noSuchEntry || error == Errno(ECONNREFUSED) {
                guard let state, StateLock.isHeld(state), System.monotonic() < deadline else {
                    throw .connection(error)
                }
            }
            _ = poll(nil, 0, 20)
        }
    }

    /// Calls a method that replies once.
    func call<Reply: Decodable>(
        _ method: String,
        _ parameters: some Encodable = VarlinkNothing(),
        as type: Reply.Type = Reply.self,
        subject: String? = nil,
        timeout: TimeSpan? = .seconds(60),
        interruption: Interruption? = nil
    ) throws(Failure) -> Reply {
        do throws(VarlinkClient.Failure) {
            return try client.call(method, parameters, as: type, timeout: timeout, interruption: interruption)
        } catch {
            throw failure(error, subject)
        }
    }

    /// Calls a method with `more`: each reply before the last goes to the body.
    func stream<Reply: Decodable>(
        _ method: String,
        _ parameters: some Encodable = VarlinkNothing(),
        as type: Reply.Type = Reply.self,
        subject: String? = nil,
        timeout: TimeSpan? = nil,
        interruption: Interruption? = nil,
        _ body: (Reply) -> Void
    ) throws(Failure) -> Reply {
        do throws(VarlinkClient.Failure) {
            return try client.stream(
                method,
                parameters,
                as: type,
                timeout: timeout,
                interruption: interruption,
                body
            )
        } catch {
            throw failure(error, subject)
        }
    }

    /// Where the daemon answers.
    var socketPath: String? { address.socket }

    /// The daemon's process; 0 where it is out of sight.
    var process: pid_t { client.peer.process }

    /// Waits until the daemon has closed the connection.
    func waitForEnd(timeout: TimeSpan) -> Bool { client.waitForEnd(timeout: timeout) }

    private func failure(_ failure: VarlinkClient.Failure, _ subject: String?) -> Failure {
        switch failure {
        case .error(let error):
            if error.name.hasPrefix("io.cove."), let message = error.parameters["message"]?.text {
                var failure = Failure(subject ?? name, message)
                failure.errno = error.errno
                return failure
            }
            return Failure(subject ?? name, error.description, "use the same version of cove everywhere")
        case .connection(let error):
            var failure = Failure(subject ?? name, "the daemon ended the connection (\(error))", "see `cove doctor`")
            failure.isDaemonGone = true
            return failure
        case .stranger: return Failure(subject ?? name, failure.description, "ask who made that mount")
        case .timedOut, .interrupted:
            var failed = Failure(subject ?? name, failure.description, "see `cove stats` and `cove doctor`")
            if failure == .interrupted { failed.errno = .interrupted }
            return failed
        case .protocolViolation:
            return Failure(subject ?? name, failure.description, "use the same version of cove everywhere")
        }
    }
}
