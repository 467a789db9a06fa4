internal import CoveCore
internal import Synchronization

/// Connections to one daemon, each used by one call at a time.
final class DaemonConnections: Sendable {
    // A client travels from thread to thread, and is never used by two.
    private struct Connection: @unchecked Sendable {
        let client: VarlinkClient
        // Ends the client's waits; a connection on which it was used is not used again.
        let interruption: Interruption
    }

    let address: DaemonAddress
    private let idle = Mutex<[Connection]>([])
    /// One that is open beside them, and when it was used last.
    private let reserve = Monitor<(connection: Connection, used: ContinuousClock.Instant)?>(nil)
    /// A daemon ends what rests for ten minutes.
    private static let longestRest = Duration.seconds(300)

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

    /// Opens a connection for `callAtOnce`, unless a fresh one is there.
    func keepReserve() {
        reserve.withLock { reserve in
            if let reserve, .now - reserve.used < Self.longestRest { return }
            if let connection = try? connect() { reserve = (connection, .now) }
        }
    }

    /// Calls a method that waits for nobody, over a connection that is open already: others may have taken all the daemon's
    /// connections and this process's descriptors, and wait for just this call.
    func callAtOnce<Reply: Decodable>(
        _ method: String,
        _ parameters: some Encodable,
        as type: Reply.Type = Reply.self
    ) throws(VarlinkClient.Failure) -> Reply {
        if let rested = idle.withLock({ $0.popLast() }) {
            do throws(VarlinkClient.Failure) {
                let reply = try rested.client.call(method, parameters, as: type)
                keep(rested)
                return reply
            } catch .connection {
                // It may have rested for too long.
            } catch .error(let error) {
                keep(rested)
                throw .error(error)
            }
        }
        return try reserve.withLock { reserve throws(VarlinkClient.Failure) in
            let known = reserve?.connection
            // What fails may be of no use any more.
            reserve = nil
            if let known {
                do throws(VarlinkClient.Failure) {
                    let reply = try known.client.call(method, parameters, as: type)
                    reserve = (known, .now)
                    return reply
                } catch .connection {
                    // As above.
                } catch .error(let error) {
                    reserve = (known, .now)
                    throw .error(error)
                }
            }
            let made = try connect()
            do throws(VarlinkClient.Failure) {
                let reply = try made.client.call(method, parameters, as: type)
                reserve = (made, .now)
                return reply
            } catch .error(let error) {
                if error.name != VarlinkError.tooManyConnections { reserve = (made, .now) }
                throw .error(error)
            }
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
        reserve.withLock { $0 = nil }
    }

    private func keep(_ connection: Connection) {
        idle.withLock { idle in
            if idle.count < 8 { idle.append(connection) }
        }
    }
}
