internal import Glibc
internal import Synchronization

/// Serves one peer on a thread of its own: reads a call, has it answered, writes its replies, and again.
final class VarlinkConnection: Sendable {
    private let socket: Int32
    private let peer: PeerCredentials
    private let service: VarlinkService
    private let limits: VarlinkServer.Limits
    private let standing: @Sendable (PeerCredentials) -> PeerStanding
    private let outbox: ReplyOutbox
    private let scope = ConnectionScope()
    /// False once the socket's number may be another file's; held while the socket is ended from outside.
    private let isOpen = Mutex(true)
    /// True during a call that may last as long as others like.
    private let isLasting = Atomic(false)

    init(
        socket: Int32,
        peer: PeerCredentials,
        service: VarlinkService,
        limits: VarlinkServer.Limits,
        standing: @escaping @Sendable (PeerCredentials) -> PeerStanding
    ) throws(Errno) {
        self.socket = socket
        self.peer = peer
        self.service = service
        self.limits = limits
        self.standing = standing
        outbox = try ReplyOutbox()
    }

    /// Serves until the peer closes, breaks the protocol or is silent for too long; then closes the socket.
    func run() {
        var isUnread = false
        defer {
            outbox.close()
            scope.end(isUnread: isUnread)
            isOpen.withLock { isOpen in
                isOpen = false
                System.close(socket)
            }
        }
        let peer = identified()
        var framer = MessageFramer()
        while let message = nextMessage(&framer, &isUnread) {
            scope.noteRead()
            do throws(JSONError) {
                guard answer(try VarlinkCall(parsing: message), from: peer) else {
                    isUnread = true
                    return
                }
            } catch {
                return refuse("this is no call: \(error); see varlink.org")
            }
        }
    }

    /// The peer, and on whose behalf it calls.
    ///
    /// That is found out by its number, which is another process's once it has ended and somebody has waited for it.
    private func identified() -> PeerCredentials {
        var peer = peer
        let ended = PeerStanding.unknown("the program that connected has ended; connect from one that goes on")
        do throws(Errno) {
            let handle = try UnixSocket.process(of: socket)
            defer { if let handle { System.close(handle) } }
            peer.standing = standing(peer)
            if let handle, UnixSocket.hasEnded(handle) { peer.standing = ended }
        } catch {
            peer.standing = ended
        }
        return peer
    }

    /// Says why the connection ends.
    private func refuse(_ words: String) {
        let error = VarlinkError.io("InvalidMessage", words)
        let reply = VarlinkReply(parameters: error.parameters, error: error.name)
        try? UnixSocket.send(socket, reply.message, stall: .zero)
    }

    /// Ends reading, and with it the connection once the call being answered is done; at once if that may last.
    func endReading() {
        end(isLasting.load(ordering: .sequentiallyConsistent) ? Int32(SHUT_RDWR) : Int32(SHUT_RD))
    }

    /// Ends the connection.
    func end() { end(Int32(SHUT_RDWR)) }

    private func end(_ how: Int32) {
        isOpen.withLock { isOpen in
            if isOpen { _ = shutdown(socket, how) }
        }
    }

    /// The next whole message; nil when the connection is to end.
    private func nextMessage(_ framer: inout MessageFramer, _ isUnread: inout Bool) -> [UInt8]? {
        let started = System.monotonic()
        var messageStarted: MonotonicTime?
        do {
            while true {
                if let message = try framer.next() { return message }
                let now = System.monotonic()
                var deadline = started + limits.idle
                if framer.isInsideMessage {
                    deadline = (messageStarted ?? now) + limits.halfMessage
                    messageStarted = messageStarted ?? now
                }
                if !framer.isInsideMessage, scope.isHeld { deadline = .distantFuture }
                guard now < deadline else { return nil }
                let events = try UnixSocket.wait(socket, for: Int32(POLLIN), limit: deadline - now)
                if events == 0 { return nil }
                guard let bytes = try UnixSocket.receive(socket) else { continue }
                if bytes.isEmpty { return nil }
                framer.append(bytes)
            }
        } catch is MessageFramer.TooLong {
            refuse("a message is longer than \(MessageFramer.maximumLength) bytes; make it several calls")
            return nil
        } catch {
            // What the kernel says when the peer closes and leaves something behind.
            isUnread = error as? Errno == Errno(ECONNRESET)
            return nil
        }
    }

    /// Has one call answered and writes what it replies.
    ///
    /// False when the connection is to end.
    private func answer(_ call: VarlinkCall, from peer: PeerCredentials) -> Bool {
        isLasting.store(service.lasts(call.method), ordering: .sequentiallyConsistent)
        defer { isLasting.store(false, ordering: .sequentiallyConsistent) }
        // A call that need not wait is answered on this thread; one that waits goes on in Swift's pool.
        let task = Task.immediate { [service, scope, outbox] in
            let reply = await service.answer(call, peer: peer, scope: scope, outbox: outbox)
            outbox.finish(call.oneway ? nil : Self.checked(reply))
        }
        do {
            while true {
                let (messages, isFinished) = outbox.take()
                if !messages.isEmpty {
                    try UnixSocket.send(socket, messages.reduce(into: [], +=), stall: limits.sendStall)
                }
                if isFinished { return true }
                if !messages.isEmpty { continue }
                var entries = [
                    pollfd(fd: socket, events: 0, revents: 0),
                    pollfd(fd: outbox.wakeDescriptor, events: Int16(POLLIN), revents: 0),
                ]
                try System.retry { poll(&entries, 2, -1) }
                if entries[1].revents != 0 {
                    outbox.rest()
                } else if entries[0].revents != 0 {
                    throw Errno.notConnected
                }
            }
        } catch {
            task.cancel()
            return false
        }
    }

    /// A reply beyond the longest message would end the peer's connection: it becomes an error that says so.
    private static func checked(_ reply: VarlinkReply) -> [UInt8] {
        let message = reply.message
        guard message.count > MessageFramer.maximumLength else { return message }
        let error = VarlinkError.expectedMore
        return VarlinkReply(parameters: error.parameters, error: error.name).message
    }
}
