internal import CoveCore
internal import Glibc

/// A connection to one account's daemon, with its failures in words for people.
struct AccountConnection {
    private let client: VarlinkClient
    /// What messages call the account.
    let name: String

    /// Connects to the account that the options, the path or the working directory name.
    static func open(_ arguments: Arguments) throws(Failure) -> AccountConnection {
        if let directory = arguments.value("state") {
            let path = StatePaths.absolute(directory)
            return try AccountConnection(socket: StatePaths.socket(inState: path), state: path, name: directory)
        }
        if let account = arguments.value("account") {
            return try AccountConnection(account: account)
        }
        if let here = try? ItemLocation.find([0x2E]) {
            return try AccountConnection(socket: here.socket, name: ".")
        }
        let accounts = StatePaths.accounts()
        guard let only = accounts.first else {
            throw Failure(nil, "no account is mounted", "mount one with `cove mount`, or name one with --state")
        }
        guard accounts.count == 1 else {
            throw .usage("--account", "is needed", "choose one of \(accounts.joined(separator: ", "))")
        }
        return try AccountConnection(account: only)
    }

    private init(account: String) throws(Failure) {
        try self.init(socket: StatePaths.socket(of: account), state: StatePaths.state(of: account), name: account)
    }

    /// Connects to a socket; while the state directory's account has a keeper, its next daemon is waited for.
    init(socket: String, state: String? = nil, name: String) throws(Failure) {
        self.name = name
        do throws(VarlinkClient.Failure) {
            client = try Self.connect(socket, state)
        } catch .connection(let error) where error == .noSuchEntry || error == Errno(ECONNREFUSED) {
            throw Failure(name, "no daemon answers at \(socket)", "mount the account with `cove mount`")
        } catch .connection(let error) where error == .accessDenied {
            throw Failure(name, "the daemon at \(socket) belongs to another user", "ask them, or use sudo")
        } catch {
            throw Failure(name, "\(socket): \(error.description)", "see `cove doctor`")
        }
    }

    private static func connect(_ socket: String, _ state: String?) throws(VarlinkClient.Failure) -> VarlinkClient {
        let deadline = ContinuousClock().now + .seconds(5)
        while true {
            do throws(VarlinkClient.Failure) {
                return try VarlinkClient(path: socket)
            } catch .connection(let error) where error == .noSuchEntry || error == Errno(ECONNREFUSED) {
                guard let state, StateLock.isHeld(state), ContinuousClock().now < deadline else {
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
        timeout: Duration? = .seconds(60)
    ) throws(Failure) -> Reply {
        do throws(VarlinkClient.Failure) {
            return try client.call(method, parameters, as: type, timeout: timeout)
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
        timeout: Duration? = nil,
        _ body: (Reply) -> Void
    ) throws(Failure) -> Reply {
        do throws(VarlinkClient.Failure) {
            return try client.stream(method, parameters, as: type, timeout: timeout, body)
        } catch {
            throw failure(error, subject)
        }
    }

    /// Waits until the daemon has ended.
    func waitForEnd(timeout: Duration) -> Bool { client.waitForEnd(timeout: timeout) }

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
        case .timedOut: return Failure(subject ?? name, failure.description, "see `cove stats` and `cove doctor`")
        case .protocolViolation:
            return Failure(subject ?? name, failure.description, "use the same version of cove everywhere")
        }
    }
}
