internal import Glibc
internal import Synchronization

/// Serves interfaces on a Unix socket to processes of the same user and of root.
///
/// One thread accepts, each connection has its own: a slow or silent peer holds up nobody else, and calls that are
/// answered without waiting take nothing from Swift's cooperative pool.
public final class VarlinkServer: Sendable {
    /// How much a server takes, and how long it waits.
    public struct Limits: Sendable {
        /// Connections at one time; one more is answered `io.cove.TooManyConnections` and closed.
        public var connections = 1024
        /// How long a connection may rest between two calls.
        public var idle = TimeSpan.seconds(600)
        /// How long a message may take from its first byte to its last.
        public var halfMessage = TimeSpan.seconds(10)
        /// How long a peer may take nothing of a reply.
        public var sendStall = TimeSpan.seconds(30)

        /// The usual limits.
        public init() {}
    }

    private struct State {
        var listener: Int32?
        var inode: UInt64 = 0
        var path = ""
        var isStopping = false
        var connections: [Int: VarlinkConnection] = [:]
        var nextNumber = 0
    }

    private let service: VarlinkService
    private let limits: Limits
    private let standing: @Sendable (PeerCredentials) -> PeerStanding
    private let state = Mutex(State())

    /// Makes a server that does not listen yet; `standing` tells, when a peer has connected, on whose behalf it calls.
    public init(
        product: String,
        version: String,
        interfaces: [VarlinkInterface],
        limits: Limits = Limits(),
        standing: @escaping @Sendable (PeerCredentials) -> PeerStanding = { _ in .user }
    ) {
        self.standing = standing
        service = VarlinkService(product: product, version: version, interfaces: interfaces)
        self.limits = limits
    }

    /// Listens at a path whose directory exists.
    ///
    /// A socket nobody answers at is replaced; throws EADDRINUSE when somebody does.
    public func start(at path: String) throws(Errno) {
        if let descriptor = try? UnixSocket.connect(to: path) {
            System.close(descriptor)
            throw Errno(EADDRINUSE)
        }
        if let existing = try? System.lstat(path), existing.st_mode & S_IFMT == S_IFSOCK { try System.unlink(path) }
        let listener = try UnixSocket.listen(at: path)
        let inode = (try? System.lstat(path))?.st_ino ?? 0
        state.withLock { state in
            state.listener = listener
            state.inode = UInt64(inode)
            state.path = path
        }
        do throws(Errno) {
            try BlockingThread.start { self.accept(listener) }
        } catch {
            System.close(listener)
            throw error
        }
    }

    /// Stops listening, lets calls being answered finish within the grace, and ends every connection.
    ///
    /// Blocks; not for Swift's cooperative pool.
    public func stop(grace: TimeSpan = .seconds(2)) {
        let (listener, path, inode) = state.withLock { state in
            defer { state.listener = nil }
            state.isStopping = true
            return (state.listener, state.path, state.inode)
        }
        guard let listener else { return }
        if let found = try? System.lstat(path), UInt64(found.st_ino) == inode { try? System.unlink(path) }
        _ = shutdown(listener, Int32(SHUT_RDWR))
        for connection in state.withLock({ Array($0.connections.values) }) { connection.endReading() }
        let deadline = System.monotonic() + grace
        while state.withLock({ !$0.connections.isEmpty }), System.monotonic() < deadline { _ = poll(nil, 0, 5) }
        for connection in state.withLock({ Array($0.connections.values) }) { connection.end() }
    }

    private func accept(_ listener: Int32) {
        defer { System.close(listener) }
        while !state.withLock({ $0.isStopping }) {
            do throws(Errno) {
                admit(try UnixSocket.accept(listener))
            } catch .invalidArgument {
                return
            } catch {
                // EMFILE and the like pass; a short wait keeps the thread from spinning meanwhile.
                _ = poll(nil, 0, 100)
            }
        }
    }

    /// Checks who connected, and starts a thread for it.
    private func admit(_ socket: Int32) {
        do throws(Errno) {
            let peer = try UnixSocket.peer(of: socket)
            guard peer.user == geteuid() || peer.user == 0 else {
                return refuse(socket, .permissionDenied)
            }
            let connection = try VarlinkConnection(
                socket: socket,
                peer: peer,
                service: service,
                limits: limits,
                standing: standing
            )
            if state.withLock({ $0.isStopping }) { return System.close(socket) }
            let number: Int? = state.withLock { state in
                guard !state.isStopping, state.connections.count < limits.connections else { return nil }
                state.nextNumber += 1
                state.connections[state.nextNumber] = connection
                return state.nextNumber
            }
            guard let number else {
                let words = "\(limits.connections) connections are open; end some, or use one for many calls"
                return refuse(socket, .io("TooManyConnections", words))
            }
            do throws(Errno) {
                try BlockingThread.start { self.serve(connection, number) }
            } catch {
                state.withLock { _ = $0.connections.removeValue(forKey: number) }
                throw error
            }
        } catch {
            System.close(socket)
        }
    }

    private func serve(_ connection: VarlinkConnection, _ number: Int) {
        connection.run()
        state.withLock { _ = $0.connections.removeValue(forKey: number) }
    }

    private func refuse(_ socket: Int32, _ error: VarlinkError) {
        let reply = VarlinkReply(parameters: error.parameters, error: error.name)
        try? UnixSocket.send(socket, reply.message, stall: .zero)
        System.close(socket)
    }
}
