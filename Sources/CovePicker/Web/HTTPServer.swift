internal import CoveCore
internal import Glibc
internal import Synchronization

/// Serves one machine's own browsers: a few connections at a time, each of one request, on threads of their own.
final class HTTPServer: Sendable {
    /// How much is served at once, and for how long somebody may take to ask or to listen.
    struct Limits: Sendable {
        var connections = 16
        var request = TimeSpan.seconds(10)
        var response = TimeSpan.seconds(30)
    }

    /// The port, on 127.0.0.1.
    let port: UInt16
    private let listener: Int32
    private let stopping: Interruption
    private let limits: Limits
    private let open = Atomic<Int>(0)

    /// Who answers: `answer` may block, and `sent` is called once a response is out.
    struct Handler: Sendable {
        var answer: @Sendable (HTTPRequest) -> HTTPResponse
        var sent: @Sendable (HTTPResponse) -> Void = { _ in }
    }

    /// Takes a free port of 127.0.0.1.
    init(limits: Limits = Limits()) throws(Errno) {
        self.limits = limits
        stopping = try Interruption()
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        let socket = try System.retry { Glibc.socket(AF_INET, type, 0) }
        do throws(Errno) {
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            try System.retry {
                withUnsafePointer(to: &address) { address in
                    address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                        bind(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                    }
                }
            }
            try System.retry { listen(socket, 32) }
            port = try Self.address(of: socket) { getsockname($0, $1, $2) }.port
        } catch {
            System.close(socket)
            throw error
        }
        listener = socket
    }

    deinit { System.close(listener) }

    /// Serves, on a thread of its own, until it is stopped.
    func start(_ handler: Handler) throws(Errno) {
        try BlockingThread.start { [self] in
            while !stopping.isInterrupted {
                var entries = [pollfd(fd: listener, events: Int16(POLLIN), revents: 0)]
                // Looks up now and then whether it is to stop.
                guard let count = try? System.retry({ poll(&entries, 1, 200) }), count > 0 else { continue }
                guard let connection = try? System.retry({ accept(listener, nil, nil) }) else {
                    // Without descriptors the next try would fail at once, too.
                    _ = stopping.wait(limit: .milliseconds(50))
                    continue
                }
                _ = fcntl(connection, F_SETFD, FD_CLOEXEC)
                take(connection, handler)
            }
        }
    }

    /// Takes no more connections.
    func stop() { stopping.interrupt() }

    private func take(_ connection: Int32, _ handler: Handler) {
        guard open.add(1, ordering: .sequentiallyConsistent).newValue <= limits.connections else {
            return close(connection)
        }
        do throws(Errno) {
            try BlockingThread.start { [self] in
                serve(connection, handler)
                close(connection)
            }
        } catch {
            close(connection)
        }
    }

    private func close(_ connection: Int32) {
        System.close(connection)
        open.subtract(1, ordering: .sequentiallyConsistent)
    }

    private func serve(_ connection: Int32, _ handler: Handler) {
        guard isOwn(connection) else { return send(.text(403, "This page is another user's"), on: connection) }
        let response: HTTPResponse
        do throws(HTTPRequest.Problem) {
            guard let request = try receive(connection) else { return }
            response = handler.answer(request)
        } catch {
            response = .text(error.status, error.what)
        }
        send(response, on: connection)
        handler.sent(response)
    }

    private func receive(_ connection: Int32) throws(HTTPRequest.Problem) -> HTTPRequest? {
        let deadline = System.monotonic() + limits.request
        var bytes: [UInt8] = []
        var block = [UInt8](repeating: 0, count: 16 << 10)
        while true {
            if let request = try HTTPRequest.parse(bytes) { return request }
            let left = deadline - System.monotonic()
            guard left > .zero, wait(connection, Int16(POLLIN), left) else {
                if bytes.isEmpty { return nil }
                throw HTTPRequest.Problem(status: 408, what: "the request takes too long")
            }
            guard let count = try? System.retry({ recv(connection, &block, block.count, Int32(MSG_DONTWAIT)) }) else {
                return nil
            }
            guard count > 0 else {
                if bytes.isEmpty { return nil }
                throw .malformed("the request ends in the middle")
            }
            bytes += block.prefix(count)
        }
    }

    private func send(_ response: HTTPResponse, on connection: Int32) {
        let bytes = response.bytes
        let deadline = System.monotonic() + limits.response
        var done = 0
        while done < bytes.count {
            let left = deadline - System.monotonic()
            guard left > .zero, wait(connection, Int16(POLLOUT), left) else { return }
            let count = try? System.retry {
                bytes[done...].withUnsafeBytes {
                    Glibc.send(connection, $0.baseAddress, $0.count, Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL))
                }
            }
            guard let count else { return }
            done += count
        }
        shutdown(connection, Int32(SHUT_WR))
        // A connection that is closed with bytes unread is reset, and the response lost: some are let come.
        var rest = [UInt8](repeating: 0, count: 4096)
        for _ in 0..<64 {
            guard wait(connection, Int16(POLLIN), .milliseconds(200)),
                recv(connection, &rest, rest.count, Int32(MSG_DONTWAIT)) > 0
            else { return }
        }
    }

    private func wait(_ connection: Int32, _ events: Int16, _ limit: TimeSpan) -> Bool {
        var entry = pollfd(fd: connection, events: events, revents: 0)
        return ((try? System.retry { poll(&entry, 1, limit.pollMilliseconds) }) ?? 0) > 0
    }

    /// True where this process's user has the other end.
    ///
    /// The address stands in the browser's command line for a moment, where others may read it. Where the kernel does not tell
    /// whose a connection is, the secrets of the page have to do alone.
    private func isOwn(_ connection: Int32) -> Bool {
        guard let peer = try? Self.address(of: connection, { getpeername($0, $1, $2) }),
            let file = try? System.open("/proc/net/tcp", O_RDONLY)
        else { return true }
        defer { System.close(file) }
        var table: [UInt8] = []
        var block = [UInt8](repeating: 0, count: 64 << 10)
        while let count = try? System.retry({ read(file, &block, block.count) }), count > 0, table.count < 16 << 20 {
            table += block.prefix(count)
        }
        return ConnectionOwner.user(of: peer, to: port, in: table) == geteuid()
    }

    private static func address(
        of socket: Int32,
        _ call: (Int32, UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32
    ) throws(Errno) -> SocketAddress {
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        try System.retry {
            withUnsafeMutablePointer(to: &address) { address in
                address.withMemoryRebound(to: sockaddr.self, capacity: 1) { call(socket, $0, &length) }
            }
        }
        return SocketAddress(host: address.sin_addr.s_addr, port: UInt16(bigEndian: address.sin_port))
    }
}

/// One end of a connection.
struct SocketAddress: Sendable, Equatable {
    /// As it lies in memory, in network byte order.
    var host: UInt32
    var port: UInt16
}

/// Whose a connection is that comes from this machine.
enum ConnectionOwner {
    /// The user who has the other end, by proc_net_tcp(5); nil where it is not among these.
    static func user(of peer: SocketAddress, to port: UInt16, in table: [UInt8]) -> UInt32? {
        for line in table.split(separator: 0x0A).dropFirst() {
            let columns = line.split(separator: 0x20).map { String(decoding: $0, as: UTF8.self) }
            guard columns.count > 7, address(columns[1]) == peer, address(columns[2])?.port == port else { continue }
            return UInt32(columns[7])
        }
        return nil
    }

    /// The host as a number in this machine's byte order, and the port, both hexadecimal.
    private static func address(_ text: String) -> SocketAddress? {
        let parts = text.split(separator: ":")
        guard parts.count == 2, let host = UInt32(parts[0], radix: 16), let port = UInt16(parts[1], radix: 16) else {
            return nil
        }
        return SocketAddress(host: host, port: port)
    }
}
