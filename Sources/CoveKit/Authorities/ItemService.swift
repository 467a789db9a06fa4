internal import CoveCore
internal import Foundation
internal import Synchronization

/// What a mount's daemon does for single items: a service of the account, of which claims are no part.
final class ItemService: Sendable {
    private static let services = Mutex<[DaemonAddress: ItemService]>([:])

    private let connections: DaemonConnections

    /// The socket that the daemon answers at.
    var socket: String { connections.address.socket }

    private init(_ address: DaemonAddress) { connections = DaemonConnections(address) }

    /// The service for a file, and the file's place; nil outside of Cove's mounts.
    ///
    /// Blocks, as all calls.
    static func find(_ url: URL) throws(CoveError) -> (ItemService, Location)? {
        guard let (address, location) = try Authorities.locate(url, .account) else { return nil }
        let service = services.withLock { services in
            let service = services[address] ?? ItemService(address)
            services[address] = service
            return service
        }
        return (service, location)
    }

    /// Calls a method of `io.cove.Access` that replies once.
    func access<Reply: Decodable>(
        _ method: String,
        _ request: some Encodable,
        as type: Reply.Type = Reply.self,
        for url: URL
    ) throws(CoveError) -> Reply {
        let name = "\(AccessInterface.name).\(method)"
        return try use(for: url) { client throws(VarlinkClient.Failure) in try client.call(name, request, as: type) }
    }

    /// Calls a method that replies once.
    func call<Reply: Decodable>(
        _ method: String,
        _ request: some Encodable,
        as type: Reply.Type = Reply.self,
        for url: URL
    ) throws(CoveError) -> Reply {
        let name = "\(ItemInterface.name).\(method)"
        return try use(for: url) { client throws(VarlinkClient.Failure) in try client.call(name, request, as: type) }
    }

    /// Calls a method that replies often; all its replies.
    func stream<Reply: Decodable>(
        _ method: String,
        _ request: some Encodable,
        as type: Reply.Type,
        for url: URL
    ) throws(CoveError) -> [Reply] {
        let name = "\(ItemInterface.name).\(method)"
        return try use(for: url) { client throws(VarlinkClient.Failure) in
            var replies: [Reply] = []
            let last = try client.stream(name, request, as: type) { (reply: Reply) in replies.append(reply) }
            return replies + [last]
        }
    }

    /// Lends a connection to the body; a second time when the first one had been closed at the other end.
    private func use<Value>(
        for url: URL,
        _ body: (VarlinkClient) throws(VarlinkClient.Failure) -> Value
    ) throws(CoveError) -> Value {
        do throws(VarlinkClient.Failure) {
            do throws(VarlinkClient.Failure) {
                return try connections.use(body)
            } catch .connection {
                connections.forget()
                return try connections.use(body)
            }
        } catch {
            throw CoveError(error, url: url)
        }
    }
}
