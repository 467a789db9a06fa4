internal import CoveCore
internal import Synchronization

/// Connections to one daemon, each used by one call at a time.
final class DaemonConnections: Sendable {
    /// A client travels from thread to thread, and is never used by two.
    private struct Idle: @unchecked Sendable {
        let client: VarlinkClient
    }

    let socket: String
    private let idle = Mutex<[Idle]>([])

    init(socket: String) { self.socket = socket }

    /// Calls a method that replies once.
    func call<Reply: Decodable>(
        _ method: String,
        _ parameters: some Encodable,
        as type: Reply.Type = Reply.self
    ) throws(VarlinkClient.Failure) -> Reply {
        try use { client throws(VarlinkClient.Failure) in try client.call(method, parameters, as: type) }
    }

    /// Lends a connection to the body; one at which the body failed for another reason than an answer is dropped.
    func use<Value>(
        _ body: (VarlinkClient) throws(VarlinkClient.Failure) -> Value
    ) throws(VarlinkClient.Failure) -> Value {
        let client = try take()
        do throws(VarlinkClient.Failure) {
            let value = try body(client)
            keep(client)
            return value
        } catch .error(let error) {
            keep(client)
            throw .error(error)
        }
    }

    private func take() throws(VarlinkClient.Failure) -> VarlinkClient {
        if let rested = idle.withLock({ $0.popLast() }) { return rested.client }
        return try VarlinkClient(path: socket)
    }

    /// Drops all connections: the daemon was replaced, or ended them after a rest.
    func forget() { idle.withLock { $0 = [] } }

    private func keep(_ client: VarlinkClient) {
        let box = Idle(client: client)
        idle.withLock { idle in
            if idle.count < 8 { idle.append(box) }
        }
    }
}
