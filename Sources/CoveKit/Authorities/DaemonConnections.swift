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
            keep()
            throw .error(error)
        }
    }

    private func take() throws(VarlinkClient.Failure) -> Connection {
        if let rested = idle.withLock({ $0.popLast() }) { return rested }
        let client = try VarlinkClient(address)
        do throws(Errno) {
            return Connection(client: client, interruption: try Interruption())
        } catch {
            throw .connection(error)
        }
    }

    /// Drops all connections: the daemon was replaced, or ended them after a rest.
    func forget() { idle.withLock { $0 = [] } }

    private func keep(_ connection: Connection) {
        idle.withLock { idle in
            if idle.count < 8 { idle.append(connection) }
        }
    }
}
