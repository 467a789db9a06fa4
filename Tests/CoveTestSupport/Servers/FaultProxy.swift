import Foundation
import Synchronization

/// A line to a server on loopback that fails as it is told to.
public final class FaultProxy: Sendable {
    /// What is wrong with the line.
    public struct Faults: Sendable {
        /// Every byte arrives so many milliseconds later, each way.
        public var latency: Int32 = 0
        /// New connections are closed at once.
        public var refuses = false
        /// New connections are accepted and never served.
        public var isSilent = false
        /// New connections get this answer, whatever they ask.
        public var answer: String?
        /// A connection breaks after so many bytes of answers.
        public var cutAfter: Int?
        /// A connection falls silent after so many bytes of answers.
        public var stallAfter: Int?
        /// Only each so-manieth new connection is hit.
        public var every = 1

        /// A line without faults.
        public init() {}
    }

    /// Where it listens.
    public let port: UInt16
    private let target: UInt16
    private let listener: Int32
    private let state = Mutex((faults: Faults(), open: Set<Int32>(), count: 0))

    /// Listens on a free port.
    public init(to target: UInt16) throws {
        self.target = target
        port = try TestServer.freePort()
        listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var on: Int32 = 1
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, 4)
        guard TestServer.withLoopback(port, { bind(listener, $0, $1) }) == 0, listen(listener, 512) == 0 else {
            throw CommandFailure("no port for a proxy")
        }
        let door = listener
        Thread.detachNewThread { [weak self] in
            while true {
                let client = accept(door, nil, nil)
                guard client >= 0, let self else { return }
                self.serve(client)
            }
        }
    }

    deinit {
        shutdown(listener, Int32(SHUT_RDWR))
        close(listener)
        dropAll()
    }

    /// Changes what is wrong with connections made from now on.
    public func set(_ change: (inout Faults) -> Void) { state.withLock { change(&$0.faults) } }

    /// Breaks all connections.
    public func dropAll() {
        state.withLock { state in
            for descriptor in state.open { Self.reset(descriptor) }
        }
    }

    private static func reset(_ descriptor: Int32) {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        shutdown(descriptor, Int32(SHUT_RDWR))
    }

    private func serve(_ client: Int32) {
        let (faults, isHit) = state.withLock { state in
            state.count += 1
            state.open.insert(client)
            return (state.faults, state.count % state.faults.every == 0)
        }
        if isHit, faults.refuses { return forget([client]) }
        if isHit, faults.isSilent { return }
        if isHit, let answer = faults.answer {
            Thread.detachNewThread { [self] in
                var buffer = [UInt8](repeating: 0, count: 1 << 16)
                _ = read(client, &buffer, buffer.count)
                _ = Array(answer.utf8).withUnsafeBytes { send(client, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
                forget([client])
            }
            return
        }
        let server = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard TestServer.withLoopback(target, { connect(server, $0, $1) }) == 0 else {
            close(server)
            return forget([client])
        }
        var on: Int32 = 1
        for descriptor in [client, server] { setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &on, 4) }
        state.withLock { _ = $0.open.insert(server) }
        let done = DispatchGroup()
        for (from, to, limits) in [(client, server, false), (server, client, isHit)] {
            done.enter()
            Thread.detachNewThread { [self] in
                copy(from, to, faults, limits: limits)
                shutdown(to, Int32(SHUT_WR))
                done.leave()
            }
        }
        done.notify(queue: .global()) { [weak self] in self?.forget([client, server]) }
    }

    private func copy(_ from: Int32, _ to: Int32, _ faults: Faults, limits: Bool) {
        var seen = 0
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            var count = read(from, &buffer, buffer.count)
            guard count > 0 else { return }
            if faults.latency > 0 { _ = poll(nil, 0, faults.latency) }
            let limit = limits ? faults.cutAfter ?? faults.stallAfter : nil
            if let limit, seen + count > limit { count = max(0, limit - seen) }
            seen += count
            guard buffer.withUnsafeBytes({ send(to, $0.baseAddress, count, Int32(MSG_NOSIGNAL)) }) == count
            else { return }
            guard let limit, seen >= limit else { continue }
            if faults.cutAfter != nil {
                Self.reset(to)
                Self.reset(from)
                return
            }
            // Silent for ever; it ends when somebody breaks all connections.
            _ = read(from, &buffer, 0)
            var entry = pollfd(fd: to, events: Int16(POLLHUP), revents: 0)
            _ = poll(&entry, 1, -1)
            return
        }
    }

    private func forget(_ descriptors: [Int32]) {
        state.withLock { state in
            for descriptor in descriptors where state.open.remove(descriptor) != nil { close(descriptor) }
        }
    }
}
