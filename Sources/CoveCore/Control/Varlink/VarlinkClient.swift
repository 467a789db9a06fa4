internal import Glibc

/// Calls methods on a Unix socket.
///
/// Blocks, so it is not for Swift's cooperative pool; one call at a time.
public final class VarlinkClient {
    /// Why a call did not get its reply.
    public enum Failure: Error, Sendable, Equatable, CustomStringConvertible {
        /// The service answered with an error.
        case error(VarlinkError)
        /// The service can't be reached, or has gone.
        case connection(Errno)
        /// A service of another user answers there.
        case stranger(UInt32)
        /// No reply in time.
        case timedOut
        /// `Interruption.interrupt` was called.
        case interrupted
        /// What came is no reply to the call.
        case protocolViolation(String)

        /// One line for a person.
        public var description: String {
            switch self {
            case .error(let error): error.description
            case .connection(let errno): "the daemon can't be reached (\(errno))"
            case .stranger(let user): "a service of user \(user) answers there"
            case .timedOut: "the daemon did not answer in time"
            case .interrupted: "the wait for the daemon's answer was given up"
            case .protocolViolation(let what): "the daemon answered something unexpected (\(what))"
            }
        }
    }

    /// Who has listened at the socket.
    public let peer: PeerCredentials
    private let socket: Int32
    private var framer = MessageFramer()
    private var isUsable = true

    /// Connects.
    ///
    /// Whoever has listened there must be one of the owners: root could be led to any service by a name alone.
    public init(_ address: DaemonAddress) throws(Failure) {
        do throws(Errno) {
            socket = try UnixSocket.connect(to: address.socket)
            peer = try UnixSocket.peer(of: socket)
        } catch {
            throw .connection(error)
        }
        guard address.owners.contains(peer.user) else { throw .stranger(peer.user) }
    }

    deinit { System.close(socket) }

    /// Calls a method that replies once.
    ///
    /// Without a timeout it waits as long as the service is there. A call that is interrupted leaves the connection unusable:
    /// its end tells the service that nobody waits for the reply.
    public func call<Reply: Decodable>(
        _ method: String,
        _ parameters: some Encodable = VarlinkNothing(),
        as type: Reply.Type = Reply.self,
        timeout: TimeSpan? = nil,
        interruption: Interruption? = nil
    ) throws(Failure) -> Reply {
        try call(method, parameters, as: type, more: false, timeout: timeout, interruption: interruption) { _ in }
    }

    /// Calls a method with `more`: each reply before the last goes to the body, the last one is returned.
    ///
    /// The timeout holds for the wait for each reply.
    public func stream<Reply: Decodable>(
        _ method: String,
        _ parameters: some Encodable = VarlinkNothing(),
        as type: Reply.Type = Reply.self,
        timeout: TimeSpan? = nil,
        interruption: Interruption? = nil,
        _ body: (Reply) -> Void
    ) throws(Failure) -> Reply {
        try call(method, parameters, as: type, more: true, timeout: timeout, interruption: interruption, body)
    }

    /// Waits until the service closes the connection.
    ///
    /// False when it did not in time.
    public func waitForEnd(timeout: TimeSpan) -> Bool {
        let deadline = System.monotonic() + timeout
        while true {
            let left = deadline - System.monotonic()
            guard left > .zero else { return false }
            let events = try? UnixSocket.wait(socket, for: Int32(POLLIN), limit: left)
            guard let events else { return true }
            if events == 0 { continue }
            guard let bytes = try? UnixSocket.receive(socket) else { continue }
            if bytes.isEmpty { return true }
        }
    }

    private func call<Reply: Decodable>(
        _ method: String,
        _ parameters: some Encodable,
        as type: Reply.Type,
        more: Bool,
        timeout: TimeSpan?,
        interruption: Interruption?,
        _ body: (Reply) -> Void
    ) throws(Failure) -> Reply {
        guard isUsable else { throw .connection(.notConnected) }
        let value: JSONValue
        do { value = try JSONValue(encoding: parameters) } catch { throw .protocolViolation(error.description) }
        // A call that ends early leaves replies behind that would be taken for the next call's.
        isUsable = false
        do throws(Errno) {
            let call = VarlinkCall(method: method, parameters: value, more: more)
            try UnixSocket.send(socket, call.message, stall: .seconds(30))
        } catch .timedOut {
            throw .timedOut
        } catch {
            // The service may have said why before it closed; if not, the failure itself is the answer.
            guard let refusal = try? reply(timeout: .seconds(1)), let name = refusal.error else {
                throw .connection(error)
            }
            throw .error(VarlinkError(name: name, parameters: refusal.parameters))
        }
        while true {
            let reply = try reply(timeout: timeout, interruption)
            if let name = reply.error {
                isUsable = true
                throw .error(VarlinkError(name: name, parameters: reply.parameters))
            }
            let decoded: Reply
            do { decoded = try reply.parameters.decode() } catch { throw .protocolViolation(error.description) }
            guard reply.continues else {
                isUsable = true
                return decoded
            }
            guard more else { throw .protocolViolation("several replies") }
            body(decoded)
        }
    }

    private func reply(timeout: TimeSpan?, _ interruption: Interruption? = nil) throws(Failure) -> VarlinkReply {
        let deadline = timeout.map { System.monotonic() + $0 }
        do {
            while true {
                if let message = try framer.next() { return try VarlinkReply(parsing: message) }
                let left = deadline.map { $0 - System.monotonic() }
                switch try wait(left, interruption) {
                case .over: throw Failure.timedOut
                case .interrupted: throw Failure.interrupted
                case .readable: break
                }
                guard let bytes = try UnixSocket.receive(socket) else { continue }
                if bytes.isEmpty { throw Failure.connection(Errno(ECONNRESET)) }
                framer.append(bytes)
            }
        } catch let failure as Failure {
            throw failure
        } catch let errno as Errno {
            throw .connection(errno)
        } catch let error as JSONError {
            throw .protocolViolation(error.description)
        } catch {
            throw .protocolViolation("\(error)")
        }
    }

    private enum WaitEnd {
        case readable
        case interrupted
        case over
    }

    private func wait(_ limit: TimeSpan?, _ interruption: Interruption?) throws(Errno) -> WaitEnd {
        guard let interruption else {
            return try UnixSocket.wait(socket, for: Int32(POLLIN), limit: limit) == 0 ? .over : .readable
        }
        var entries = [
            pollfd(fd: socket, events: Int16(POLLIN), revents: 0),
            pollfd(fd: interruption.descriptor, events: Int16(POLLIN), revents: 0),
        ]
        try System.retry { poll(&entries, 2, limit?.pollMilliseconds ?? -1) }
        // A reply that is here already counts.
        if entries[0].revents != 0 { return .readable }
        return entries[1].revents != 0 ? .interrupted : .over
    }
}
