internal import CoveCore
internal import Dispatch
internal import Synchronization

/// Connections to one daemon, each used by one call at a time.
final class DaemonConnections: Sendable {
    // A client travels from thread to thread, and is never used by two.
    private struct Connection: @unchecked Sendable {
        let client: VarlinkClient
        // Ends the client's waits; a connection on which it was used is not used again.
        let interruption: Interruption
    }

    private struct Reserve: @unchecked Sendable {
        var connection: Connection?
        var renewal: (any DispatchSourceTimer)?
        var isRenewing = false
    }

    let address: DaemonAddress
    private let idle = Mutex<[Connection]>([])
    /// One that is open beside them, and what keeps it so; it is in nobody's hands while it rests here.
    private let reserve = Mutex(Reserve())
    /// One call at a time uses it, and others wait for that: there may be no other connection for them.
    private let turn = Monitor<Void>(())
    /// A daemon ends what rests for ten minutes.
    private static let longestRest = DispatchTimeInterval.seconds(240)

    init(_ address: DaemonAddress) { self.address = address }

    /// Calls a method that replies once; a cancellation ends the wait, and the connection tells the daemon by its end.
    func call<Reply: Decodable>(
        _ method: String,
        _ parameters: some Encodable,
        as type: Reply.Type = Reply.self,
        _ cancellation: Cancellation? = nil
    ) throws(VarlinkClient.Failure) -> Reply {
        try lend(until: cancellation) { connection throws(VarlinkClient.Failure) in
            let (client, interruption) = (connection.client, connection.interruption)
            guard let cancellation else { return try client.call(method, parameters, as: type) }
            return try cancellation.whileWaking(by: { interruption.interrupt() }) {
                () throws(VarlinkClient.Failure) in
                try client.call(method, parameters, as: type, interruption: interruption)
            }
        }
    }

    /// Lends a connection to the body; one at which the body failed for another reason than an answer is dropped.
    func use<Value>(
        _ body: (VarlinkClient) throws(VarlinkClient.Failure) -> Value
    ) throws(VarlinkClient.Failure) -> Value {
        try lend { connection throws(VarlinkClient.Failure) in try body(connection.client) }
    }

    /// Opens a connection for `callAtOnce`, unless one is there, and keeps it open for as long as the daemon lives.
    ///
    /// With `waits` it is there when this returns, if the daemon answers.
    func keepReserve(waits: Bool = false) {
        let isMissing = reserve.withLock { reserve in
            if reserve.renewal == nil {
                let timer = DispatchSource.makeTimerSource(queue: .global(qos: .utility))
                timer.schedule(deadline: .now() + Self.longestRest, repeating: Self.longestRest)
                timer.setEventHandler { [weak self] in self?.renewReserve() }
                timer.activate()
                reserve.renewal = timer
            }
            return reserve.connection == nil && !reserve.isRenewing
        }
        guard isMissing else { return }
        if waits { renewReserve() } else { FileThreads.start { [weak self] in self?.renewReserve() } }
    }

    /// Uses the connection, which the daemon would end else, or makes a new one; what it has no room for is none.
    private func renewReserve() {
        let mayRenew = reserve.withLock { reserve in
            defer { reserve.isRenewing = true }
            return !reserve.isRenewing
        }
        guard mayRenew else { return }
        defer { reserve.withLock { $0.isRenewing = false } }
        turn.withLock { _ in
            let known = reserve.withLock { $0.connection.take() }
            for attempt in 0..<2 {
                guard let connection = attempt == 0 ? known : try? connect() else { continue }
                let answer = try? connection.client.call(
                    "org.varlink.service.GetInfo",
                    VarlinkNothing(),
                    as: VarlinkNothing.self,
                    timeout: .seconds(5)
                )
                if answer != nil { return keepInReserve(connection) }
            }
        }
    }

    private func keepInReserve(_ connection: Connection) {
        reserve.withLock { if $0.connection == nil { $0.connection = connection } }
    }

    /// Calls a method that waits for nobody, over a connection that is open already: others may have taken all the daemon's
    /// connections and this process's descriptors, and wait for just this call.
    func callAtOnce<Reply: Decodable>(
        _ method: String,
        _ parameters: some Encodable,
        as type: Reply.Type = Reply.self
    ) throws(VarlinkClient.Failure) -> Reply {
        if let rested = idle.withLock({ $0.popLast() }) {
            // It may have rested for too long.
            if let reply = try reply(method, parameters, type, over: rested, keep) { return reply }
        }
        return try turn.withLock { _ throws(VarlinkClient.Failure) in
            if let known = reserve.withLock({ $0.connection.take() }) {
                if let reply = try reply(method, parameters, type, over: known, keepInReserve) { return reply }
            }
            let made = try connect()
            if let reply = try reply(method, parameters, type, over: made, keepInReserve) { return reply }
            throw .connection(.connectionReset)
        }
    }

    /// What is answered over a connection, which is kept then; nil over one that is of no use any more.
    private func reply<Reply: Decodable>(
        _ method: String,
        _ parameters: some Encodable,
        _ type: Reply.Type,
        over connection: Connection,
        _ keep: (Connection) -> Void
    ) throws(VarlinkClient.Failure) -> Reply? {
        do throws(VarlinkClient.Failure) {
            let reply = try connection.client.call(method, parameters, as: type)
            keep(connection)
            return reply
        } catch .connection {
            return nil
        } catch .error(let error) {
            // One that the daemon has no room for is closed.
            if error.name != VarlinkError.tooManyConnections { keep(connection) }
            throw .error(error)
        }
    }

    private func lend<Value>(
        until cancellation: Cancellation? = nil,
        _ body: (Connection) throws(VarlinkClient.Failure) -> Value
    ) throws(VarlinkClient.Failure) -> Value {
        let connection = try take()
        func keep() {
            if cancellation?.isCancelled != true { self.keep(connection) }
        }
        do throws(VarlinkClient.Failure) {
            let value = try body(connection)
            keep()
            return value
        } catch .error(let error) {
            // One that the daemon has no room for is closed.
            if error.name != VarlinkError.tooManyConnections { keep() }
            throw .error(error)
        }
    }

    private func take() throws(VarlinkClient.Failure) -> Connection {
        if let rested = idle.withLock({ $0.popLast() }) { return rested }
        return try connect()
    }

    private func connect() throws(VarlinkClient.Failure) -> Connection {
        let client = try VarlinkClient(address)
        do throws(Errno) {
            return Connection(client: client, interruption: try Interruption())
        } catch {
            throw .connection(error)
        }
    }

    /// Drops the connections that rest: the daemon may have ended them after a while.
    func forget() { idle.withLock { $0 = [] } }

    /// Drops all connections: the daemon has gone.
    func forgetAll() {
        forget()
        reserve.withLock { reserve in
            reserve.renewal?.cancel()
            (reserve.connection, reserve.renewal) = (nil, nil)
        }
    }

    deinit { reserve.withLock { $0.renewal?.cancel() } }

    private func keep(_ connection: Connection) {
        idle.withLock { idle in
            if idle.count < 8 { idle.append(connection) }
        }
    }
}
