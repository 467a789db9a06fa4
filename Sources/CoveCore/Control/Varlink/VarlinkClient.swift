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
        /// No reply in time.
        case timedOut
        /// What came is no reply to the call.
        case protocolViolation(String)

        /// One line for a person.
        public var description: String {
            switch self {
            case .error(let error): error.description
            case .connection(let errno): "the daemon can't be reached (\(errno))"
            case .timedOut: "the daemon did not answer in time"
            case .protocolViolation(let what): "the daemon answered something unexpected (\(what))"
            }
        }
    }

    private let socket: Int32
    private var framer = MessageFramer()
    private var isUsable = true

    /// Connects.
    ///
    /// The service must run as the same user or as root, unless the caller is root.
    public init(path: String) throws(Failure) {
        do throws(Errno) {
            socket = try UnixSocket.connect(to: path)
        } catch {
            throw .connection(error)
        }
        if let peer = try? UnixSocket.peer(of: socket), peer.user == geteuid() || peer.user == 0 || geteuid() == 0 {
            return
        }
        isUsable = false
        throw .connection(.accessDenied)
    }

    deinit { System.close(socket) }

    /// Calls a method that replies once.
    ///
    /// Without a timeout it waits as long as the service is there.
    public func call<Reply: Decodable>(
        _ method: String,
        _ parameters: some Encodable = VarlinkNothing(),
        as type: Reply.Type = Reply.self,
        timeout: Duration? = nil
    ) throws(Failure) -> Reply {
        try call(method, parameters, as: type, more: false, timeout: timeout) { _ in }
    }

    /// Calls a method with `more`: each reply before the last goes to the body, the last one is returned.
    ///
    /// The timeout holds for the wait for each reply.
    public func stream<Reply: Decodable>(
        _ method: String,
        _ parameters: some Encodable = VarlinkNothing(),
        as type: Reply.Type = Reply.self,
        timeout: Duration? = nil,
        _ body: (Reply) -> Void
    ) throws(Failure) -> Reply {
        try call(method, parameters, as: type, more: true, timeout: timeout, body)
    }

    /// Waits until the service closes the connection.
    ///
    /// False when it did not in time.
    public func waitForEnd(timeout: Duration) -> Bool {
        let deadline = System.monotonic() + timeout.nanoseconds
        while true {
            let left = (deadline - System.monotonic()) / 1_000_000
            guard left > 0 else { return false }
            let events = try? UnixSocket.wait(socket, for: Int32(POLLIN), milliseconds: Int32(clamping: left))
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
        timeout: Duration?,
        _ body: (Reply) -> Void
    ) throws(Failure) -> Reply {
        guard isUsable else { throw .connection(.notConnected) }
        let value: JSONValue
        do { value = try JSONValue(encoding: parameters) } catch { throw .protocolViolation(error.description) }
        // A call that ends early leaves replies behind that would be taken for the next call's.
        isUsable = false
        do throws(Errno) {
            let call = VarlinkCall(method: method, parameters: value, more: more)
            try UnixSocket.send(socket, call.message, stallMilliseconds: 30_000)
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
            let reply = try reply(timeout: timeout)
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

    private func reply(timeout: Duration?) throws(Failure) -> VarlinkReply {
        let deadline = timeout.map { System.monotonic() + $0.nanoseconds }
        do {
            while true {
                if let message = try framer.next() { return try VarlinkReply(parsing: message) }
                var milliseconds: Int32 = -1
                if let deadline {
                    milliseconds = Int32(clamping: max(0, (deadline - System.monotonic() + 999_999) / 1_000_000))
                }
                if try UnixSocket.wait(socket, for: Int32(POLLIN), milliseconds: milliseconds) == 0 {
                    throw Failure.timedOut
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
}
