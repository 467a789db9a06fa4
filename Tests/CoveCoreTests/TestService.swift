import CoveTestSupport
import Glibc
import Synchronization

@testable import CoveCore

/// A server with a few methods to try the protocol on.
final class TestService: Sendable {
    struct Number: Codable, Sendable { var value: Int }

    let folder: TemporaryDirectory
    let server: VarlinkServer
    /// Calls of `Wait` going on, and what `Many` has sent.
    let waiting: Atomic<Int>
    var path: String { folder.appending("test.sock") }

    init(_ limits: VarlinkServer.Limits = .init()) throws {
        folder = try TemporaryDirectory()
        let counter = Waiting()
        waiting = Atomic(0)
        server = Self.server(limits, counter)
        counter.service.withLock { $0.value = self }
        try server.start(at: folder.appending("test.sock"))
    }

    deinit { server.stop(grace: .milliseconds(50)) }

    func client() throws -> VarlinkClient { try VarlinkClient(DaemonAddress(socket: path)) }

    /// A call of `Double` and its reply, as they travel.
    static func double(_ value: Int) -> [UInt8] {
        VarlinkCall(method: "test.Service.Double", parameters: .object(["value": .integer(Int64(value))])).message
    }
    static func doubled(_ value: Int) -> [UInt8] {
        VarlinkReply(parameters: .object(["value": .integer(Int64(value * 2))])).message.dropLast()
    }

    /// Returns when the call is called off.
    private static func untilCancelled() async {
        let (never, continuation) = AsyncStream<Never>.makeStream()
        for await _ in never {}
        continuation.finish()
    }

    final class Waiting: Sendable {
        let service = Mutex<Weak>(Weak())
        struct Weak {
            weak var value: TestService?
        }
        func add(_ count: Int) {
            service.withLock { _ = $0.value?.waiting.add(count, ordering: .relaxed) }
        }
    }

    static func server(
        _ limits: VarlinkServer.Limits = .init(),
        _ waiting: Waiting = Waiting()
    ) -> VarlinkServer {
        let interface = VarlinkInterface(
            name: "test.Service",
            definition: "interface test.Service\nmethod Double(value: int) -> (value: int)\n",
            methods: [
                "Double": VarlinkMethod { (number: Number, _) async throws(VarlinkError) in
                    Number(value: number.value * 2)
                },
                "Many": VarlinkMethod { (number: Number, call) async throws(VarlinkError) in
                    for value in 0..<number.value {
                        try await call.send(Number(value: value))
                        waiting.add(1)
                    }
                    return number
                },
                "Fail": VarlinkMethod { (_: VarlinkNothing, _) async throws(VarlinkError) -> VarlinkNothing in
                    throw VarlinkError(name: "test.Service.Broken")
                },
                "Giant": VarlinkMethod { (_: VarlinkNothing, _) async throws(VarlinkError) in
                    ["text": String(repeating: "x", count: MessageFramer.maximumLength)]
                },
                "Attend": VarlinkMethod(lasts: true) { (_: VarlinkNothing, _) async throws(VarlinkError) in
                    waiting.add(1)
                    defer { waiting.add(-1) }
                    await untilCancelled()
                    return VarlinkNothing()
                },
                // Counts one for a call that holds, ten for a connection that has ended.
                "Grant": VarlinkMethod { (_: VarlinkNothing, call) async throws(VarlinkError) in
                    waiting.add(1)
                    call.scope.whenUnread { waiting.add(-1) }
                    call.scope.whenEnded { waiting.add(10) }
                    return VarlinkNothing()
                },
                "Wait": VarlinkMethod { (_: VarlinkNothing, _) async throws(VarlinkError) in
                    waiting.add(1)
                    defer { waiting.add(-1) }
                    await untilCancelled()
                    return VarlinkNothing()
                },
            ]
        )
        return VarlinkServer(product: "Test", version: "1", interfaces: [interface], limits: limits)
    }
}

/// A connection that sends what it is told, right or wrong.
final class RawConnection {
    private let socket: Int32
    private var framer = MessageFramer()

    init(_ path: String) throws { socket = try UnixSocket.connect(to: path) }
    deinit { System.close(socket) }

    /// Sends; the other side may have closed.
    func send(_ bytes: [UInt8]) { try? UnixSocket.send(socket, bytes, stall: .seconds(5)) }

    /// What the service says before it ends the connection.
    func refusal() -> String? {
        guard let message = receive(), let reply = try? VarlinkReply(parsing: message),
            reply.error == "io.cove.InvalidMessage"
        else { return nil }
        return reply.parameters["message"]?.text
    }

    func endSending() { _ = shutdown(socket, Int32(SHUT_WR)) }

    /// Waits until there is something to read.
    func awaitReply() throws { _ = try UnixSocket.wait(socket, for: Int32(POLLIN), limit: .seconds(10)) }

    /// The next message; nil when the other side has closed, or after ten seconds.
    func receive() -> [UInt8]? {
        while true {
            if let message = try? framer.next() { return message }
            guard let events = try? UnixSocket.wait(socket, for: Int32(POLLIN), limit: .seconds(10)), events != 0,
                let bytes = try? UnixSocket.receive(socket), !bytes.isEmpty
            else { return nil }
            framer.append(bytes)
        }
    }
}

/// Any members at all.
struct AnyMessage: Codable, Sendable {
    var members: [String: Text]
    enum Text: Codable, Sendable {
        case number(Int), text(String)
        init(from decoder: any Decoder) throws {
            let value = try decoder.singleValueContainer()
            if let number = try? value.decode(Int.self) {
                self = .number(number)
            } else {
                self = .text(try value.decode(String.self))
            }
        }
        func encode(to encoder: any Encoder) throws {
            var value = encoder.singleValueContainer()
            switch self {
            case .number(let number): try value.encode(number)
            case .text(let text): try value.encode(text)
            }
        }
    }
    init(from decoder: any Decoder) throws { members = try .init(from: decoder) }
    func encode(to encoder: any Encoder) throws { try members.encode(to: encoder) }
}

/// Runs a test's body on a thread of its own: it blocks, and Dispatch's threads are those Swift's own tasks need.
func onThread(_ body: @escaping @Sendable () throws -> Void) async throws {
    try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
        do {
            try BlockingThread.start { continuation.resume(with: Result(catching: body)) }
        } catch {
            continuation.resume(throwing: error)
        }
    }
}
