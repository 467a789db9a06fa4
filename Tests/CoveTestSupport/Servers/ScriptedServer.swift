import CoveCore
import Foundation
import Synchronization

/// An HTTP server on loopback that answers as a test says, or hands on to a real one and remembers what went through.
public final class ScriptedServer: Sendable {
    /// What somebody asked.
    public struct Request: Sendable {
        /// The first line's parts.
        public let method: String
        /// The path with the query, as it was sent.
        public let target: String
        /// The other lines as they were sent.
        public let lines: [String]
        /// The body.
        public var body: [UInt8]
        /// It asked whether the body is wanted.
        public var expects = false

        /// The value of a header, by its lower-case name; nil where it is not there.
        public func value(_ name: String) -> String? {
            lines.first { $0.lowercased().hasPrefix("\(name):") }
                .map { String($0.dropFirst(name.count + 1).drop { $0 == " " }) }
        }
    }

    /// What becomes of a request.
    public enum Answer: Sendable {
        /// These bytes, from the status line on; then the connection ends.
        case bytes([UInt8])
        /// These bytes; then the connection is there for another request.
        case kept([UInt8])
        /// The first bytes, then more for as long as somebody takes them.
        case endless([UInt8], [UInt8])
        /// The first bytes, then the others a few at a time, with so many milliseconds between them.
        case slow([UInt8], [UInt8], step: Int, rest: Int32)
        /// What the server on another port answers.
        case handOn(UInt16)
        /// The same, changed.
        case changed(UInt16, @Sendable (inout Reply) -> Void)
        /// The connection ends without an answer.
        case hangUp
        /// Nothing, until who asked has gone.
        case silence
    }

    /// A request that is over, and the status of its answer.
    public struct Exchange: Sendable {
        /// What was asked, without a large body.
        public let request: Request
        /// The status that was sent back; 0 without an answer.
        public let status: Int
        /// How many exchanges were over when this one began.
        public let before: Int
    }

    /// Where it listens.
    public let port: UInt16
    private let listener: Int32
    private let log = Log()

    private final class Log: Sendable {
        let exchanges = Mutex<[Exchange]>([])
        let underway = Atomic(0)
    }

    /// Starts to listen; the body is called on a thread of each connection.
    ///
    /// Deaf, it says nothing to who asks whether a body is wanted.
    public init(isDeaf: Bool = false, _ answer: @escaping @Sendable (Request) -> Answer) throws {
        listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let listener = listener
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) == 0 && listen(listener, 128) == 0 && getsockname(listener, $0, &length) == 0
            }
        }
        guard isBound else { throw CommandFailure("no port to listen on") }
        port = UInt16(bigEndian: address.sin_port)
        let log = log
        try BlockingThread.start {
            while true {
                let connection = accept(listener, nil, nil)
                // Closed here alone: this thread may be about to use it.
                guard connection >= 0 else { return System.close(listener) }
                log.underway.add(1, ordering: .relaxed)
                try? BlockingThread.start {
                    defer {
                        // A process that another test starts just now may have it too.
                        shutdown(connection, Int32(SHUT_RDWR))
                        System.close(connection)
                        log.underway.subtract(1, ordering: .releasing)
                    }
                    var isKept: Bool
                    repeat {
                        let before = log.exchanges.withLock { $0.count }
                        guard let request = Self.read(connection, isDeaf) else { return }
                        var noted = request
                        if noted.body.count > 64 << 10 { noted.body = [] }
                        let answer = answer(request)
                        isKept = if case .kept = answer { true } else { false }
                        // Noted before anybody can know the answer.
                        Self.send(answer, to: connection, request) { [noted] status in
                            log.exchanges.withLock { exchanges in
                                exchanges.append(Exchange(request: noted, status: status, before: before))
                            }
                        }
                    } while isKept
                }
            }
        }
    }

    deinit { shutdown(listener, Int32(SHUT_RDWR)) }

    /// True while nothing is asked: also of what nobody waits for any more, the answers are known.
    public var isIdle: Bool { log.underway.load(ordering: .acquiring) == 0 }

    /// What has gone through so far.
    public var exchanges: [Exchange] { log.exchanges.withLock { $0 } }

    /// An answer of a status, headers and a body of that length.
    public static func answer(_ status: Int, _ headers: [String] = [], _ body: String = "") -> Answer {
        let head = ["HTTP/1.1 \(status) Told", "Content-Length: \(body.utf8.count)", "Connection: close"] + headers
        return .bytes(Array((head + ["", body]).joined(separator: "\r\n").utf8))
    }

    private static func read(_ connection: Int32, _ isDeaf: Bool) -> Request? {
        var bytes: [UInt8] = []
        var end: Int?
        while end == nil {
            guard bytes.count < 256 << 10, let more = receive(connection) else { return nil }
            let start = max(0, bytes.count - 3)
            bytes += more
            end = (start..<max(start, bytes.count - 3)).first { bytes[$0..<$0 + 4].elementsEqual([13, 10, 13, 10]) }
        }
        guard let end else { return nil }
        let lines = String(decoding: bytes[..<end], as: UTF8.self).components(separatedBy: "\r\n")
        let first = lines[0].split(separator: " ")
        guard first.count == 3 else { return nil }
        func value(_ name: String) -> String? {
            lines.first { $0.lowercased().hasPrefix("\(name): ") }.map { String($0.dropFirst(name.count + 2)) }
        }
        let expects = value("expect") != nil
        if expects, !isDeaf { _ = send(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8), to: connection) }
        let length = value("content-length").flatMap { Int($0) } ?? 0
        var body = Array(bytes[(end + 4)...])
        while body.count < length {
            guard let more = receive(connection) else { return nil }
            body += more
        }
        let kept = lines.dropFirst().filter { line in
            !["expect:", "connection:"].contains { line.lowercased().hasPrefix($0) }
        }
        return Request(
            method: String(first[0]),
            target: String(first[1]),
            lines: Array(kept),
            body: body,
            expects: expects
        )
    }

    private static func send(
        _ answer: Answer,
        to connection: Int32,
        _ request: Request,
        _ note: (_ status: Int) -> Void
    ) {
        switch answer {
        case .hangUp: note(0)
        case .silence:
            note(0)
            while receive(connection) != nil {}
        case .bytes(let bytes), .kept(let bytes):
            note(status(bytes))
            _ = send(bytes, to: connection)
        case .endless(let first, let more):
            note(status(first))
            guard send(first, to: connection) else { return }
            while send(more, to: connection) {}
        case .slow(let first, let rest, let step, let pause):
            note(status(first))
            guard send(first, to: connection) else { return }
            for start in stride(from: 0, to: rest.count, by: step) {
                guard poll(nil, 0, pause) == 0,
                    send(Array(rest[start..<min(rest.count, start + step)]), to: connection)
                else { return }
            }
        case .handOn(let port):
            guard let upstream = handOn(request, to: port) else { return note(0) }
            defer { System.close(upstream) }
            guard let first = receive(upstream) else { return note(0) }
            note(status(first))
            guard send(first, to: connection) else { return }
            while let bytes = receive(upstream), send(bytes, to: connection) {}
        case .changed(let port, let change):
            guard let upstream = handOn(request, to: port) else { return note(0) }
            defer { System.close(upstream) }
            var bytes: [UInt8] = []
            while let more = receive(upstream) { bytes += more }
            guard var reply = Reply(bytes) else { return note(0) }
            note(status(bytes))
            change(&reply)
            _ = send(reply.bytes, to: connection)
        }
    }

    /// Sends a request to the server on another port; nil when it does not take it.
    private static func handOn(_ request: Request, to port: UInt16) -> Int32? {
        let upstream = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        let head = ["\(request.method) \(request.target) HTTP/1.1"] + request.lines + ["Connection: close", "", ""]
        let isSent =
            TestServer.withLoopback(port, { connect(upstream, $0, $1) }) == 0
            && send(Array(head.joined(separator: "\r\n").utf8) + request.body, to: upstream)
        if !isSent { System.close(upstream) }
        return isSent ? upstream : nil
    }

    private static func status(_ bytes: [UInt8]) -> Int {
        Int(String(decoding: bytes.prefix(12).dropFirst(9), as: UTF8.self)) ?? 0
    }

    private static func receive(_ connection: Int32) -> [UInt8]? {
        let bytes = [UInt8](unsafeUninitializedCapacity: 256 << 10) { buffer, count in
            count = max(0, recv(connection, buffer.baseAddress, buffer.count, 0))
        }
        return bytes.isEmpty ? nil : bytes
    }

    private static func send(_ bytes: [UInt8], to connection: Int32) -> Bool {
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes {
                Glibc.send(connection, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            sent += count
        }
        return true
    }
}
