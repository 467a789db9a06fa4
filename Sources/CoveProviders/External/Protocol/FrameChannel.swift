internal import CoveCore
internal import Glibc
internal import Synchronization

/// Frames to and from another process, over two descriptors with a thread each.
final class FrameChannel: Sendable {
    private struct State {
        var waiting: [(head: [UInt8], body: ArraySlice<UInt8>)] = []
        var reason: String?
        /// How many threads are at work: the two, and those that send by themselves.
        var threads = 0
        var onEnd: (@Sendable (String) -> Void)?
        var hasClosed = false
    }

    private let input: Int32
    private let output: Int32
    /// What the process says beside: its standard error; -1 where nobody reads it.
    private let words: Int32
    /// Readable while something waits to be sent.
    private let hasWork: Int32
    /// Readable once the channel has ended.
    private let hasEnded: Int32
    private let state = Mutex(State())
    /// Held by the thread that writes a frame, which may wait for the other side meanwhile.
    private let turn = Turn()

    /// Takes the descriptors, which it closes at its end.
    init(input: Int32, output: Int32, words: Int32 = -1) throws(Errno) {
        self.input = input
        self.output = output
        self.words = words
        hasWork = try System.eventDescriptor()
        do throws(Errno) { hasEnded = try System.eventDescriptor() } catch {
            System.close(hasWork)
            throw error
        }
        for descriptor in [input, output] { _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK) }
    }

    deinit { close() }

    /// Begins to read and to write.
    ///
    /// `onFrame` gets each frame on the reading thread, and ends the channel by a throw; `onWords` what came over the third
    /// descriptor; `onEnd` is called once, with why.
    func start(
        onFrame: @escaping @Sendable (ProviderFrame) throws(FrameError) -> Void,
        onWords: @escaping @Sendable (UnsafeRawBufferPointer) -> Void = { _ in },
        onEnd: @escaping @Sendable (String) -> Void
    ) throws(Errno) {
        state.withLock { state in
            state.threads = 2
            state.onEnd = onEnd
        }
        do throws(Errno) {
            try BlockingThread.start {
                self.read(onFrame, onWords)
                self.leave()
            }
        } catch {
            state.withLock { ($0.threads, $0.onEnd) = (0, nil) }
            throw error
        }
        do throws(Errno) {
            try BlockingThread.start {
                self.write()
                self.leave()
            }
        } catch {
            end("no thread can be had: \(error)")
            leave()
        }
    }

    /// Has a frame sent after those before; nothing once the channel has ended.
    func send(_ frame: ProviderFrame) {
        let head = frame.head
        state.withLock { state in
            guard state.reason == nil, !state.hasClosed else { return }
            state.waiting.append((head, frame.body))
            Self.raise(hasWork)
        }
    }

    /// Sends a frame from the calling thread, past those that wait, without a copy of its body; false once the channel has ended.
    ///
    /// The thread waits until the other side takes it. The process has to ignore SIGPIPE.
    func sendNow(_ header: JSONValue, _ body: UnsafeRawBufferPointer) -> Bool {
        let mayGo = state.withLock { state in
            guard state.reason == nil, state.threads > 0 else { return false }
            state.threads += 1
            return true
        }
        guard mayGo else { return false }
        defer { leave() }
        do throws(Errno) {
            return try send(ProviderFrame.head(header.bytes, body.count), body)
        } catch {
            end(Self.words(error))
            return false
        }
    }

    /// Ends the channel; the first reason counts.
    func end(_ reason: String) {
        state.withLock { state in
            guard state.reason == nil, !state.hasClosed else { return }
            state.reason = reason
            Self.raise(hasEnded)
        }
    }

    private static func raise(_ event: Int32) {
        var one: UInt64 = 1
        _ = Glibc.write(event, &one, 8)
    }

    /// The last of the threads tells of the end.
    private func leave() {
        let end: (reason: String, tell: (String) -> Void)? = state.withLock { state in
            state.threads -= 1
            guard state.threads == 0, let onEnd = state.onEnd else { return nil }
            state.onEnd = nil
            return (state.reason ?? "it has ended", onEnd)
        }
        guard let end else { return }
        close()
        end.tell(end.reason)
    }

    private func close() {
        let mustClose = state.withLock { state in
            defer { state.hasClosed = true }
            return !state.hasClosed
        }
        guard mustClose else { return }
        for descriptor in Set([input, output, words, hasWork, hasEnded]) where descriptor >= 0 {
            System.close(descriptor)
        }
    }

    private func read(
        _ onFrame: (ProviderFrame) throws(FrameError) -> Void,
        _ onWords: (UnsafeRawBufferPointer) -> Void
    ) {
        var decoder = FrameDecoder()
        let spoken = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)
        defer { spoken.deallocate() }
        var hasWords = words >= 0
        do {
            while true {
                var entries = [
                    pollfd(fd: hasEnded, events: Int16(POLLIN), revents: 0),
                    pollfd(fd: input, events: Int16(POLLIN), revents: 0),
                    pollfd(fd: hasWords ? words : -1, events: Int16(POLLIN), revents: 0),
                ]
                try System.retry { poll(&entries, 3, -1) }
                if entries[0].revents != 0 { return }
                if entries[2].revents != 0 {
                    let count = try System.retry { Glibc.read(words, spoken.baseAddress, spoken.count) }
                    hasWords = count > 0
                    onWords(UnsafeRawBufferPointer(rebasing: spoken[..<max(0, count)]))
                }
                if entries[1].revents == 0 { continue }
                let count: Int? = try decoder.fill { room throws(Errno) in
                    let count = try Self.attempt { Glibc.read(input, room.baseAddress, room.count) }
                    return (count ?? 0, count)
                }
                if count == 0 { return end(decoder.isInsideFrame ? "it has ended within a frame" : "it has ended") }
                while let frame = try decoder.next() { try onFrame(frame) }
            }
        } catch {
            end("\(error)")
        }
    }

    private func write() {
        // A process that is gone is found out by what write(2) returns.
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        do {
            while true {
                let waiting = state.withLock { state in
                    defer { state.waiting = [] }
                    return state.waiting
                }
                if waiting.isEmpty {
                    if try isOver(waitingFor: hasWork, Int16(POLLIN)) { return }
                    var count: UInt64 = 0
                    _ = Glibc.read(hasWork, &count, 8)
                    continue
                }
                for (head, body) in waiting {
                    let isSent = body.withUnsafeBytes { body in
                        Result { () throws(Errno) in try send(head, body) }
                    }
                    guard try isSent.get() else { return }
                }
            }
        } catch {
            end(Self.words(error))
        }
    }

    /// Who has ended says why on the other descriptor.
    private static func words(_ error: any Error) -> String { "it takes nothing any more: \(error)" }

    /// Writes all bytes; false when the channel has ended meanwhile.
    private func send(_ head: [UInt8], _ body: UnsafeRawBufferPointer) throws(Errno) -> Bool {
        try turn.holding { () throws(Errno) in try write(head, body) }
    }

    private func write(_ head: [UInt8], _ body: UnsafeRawBufferPointer) throws(Errno) -> Bool {
        let whole = head.count + body.count
        var sent = 0
        while sent < whole {
            let start = sent
            let count = try Self.attempt {
                head.withUnsafeBytes { head in
                    // Where nothing is left of the head its place is behind the last byte.
                    var parts = [head, body].map {
                        iovec(iov_base: UnsafeMutableRawBufferPointer(mutating: $0).baseAddress, iov_len: $0.count)
                    }
                    let ofHead = min(start, head.count)
                    parts[0].iov_base = parts[0].iov_base.map { $0 + ofHead }
                    parts[0].iov_len -= ofHead
                    parts[1].iov_base = parts[1].iov_base.map { $0 + (start - ofHead) }
                    parts[1].iov_len -= start - ofHead
                    return writev(output, &parts, 2)
                }
            }
            if let count { sent += count } else if try isOver(waitingFor: output, Int16(POLLOUT)) { return false }
        }
        return true
    }

    /// A system call on a descriptor that does not block; nil when it would.
    private static func attempt(_ body: () -> Int) throws(Errno) -> Int? {
        do throws(Errno) { return try System.retry(body) } catch {
            if error == .wouldBlock { return nil }
            throw error
        }
    }

    /// Waits until a descriptor is ready; true when the channel has ended.
    private func isOver(waitingFor descriptor: Int32, _ events: Int16) throws(Errno) -> Bool {
        var entries = [
            pollfd(fd: hasEnded, events: Int16(POLLIN), revents: 0),
            pollfd(fd: descriptor, events: events, revents: 0),
        ]
        try System.retry { poll(&entries, 2, -1) }
        return entries[0].revents != 0
    }
}

/// Lets one thread after the other write, each for as long as the other side needs.
private final class Turn: @unchecked Sendable {
    private var mutex = pthread_mutex_t()

    init() { pthread_mutex_init(&mutex, nil) }

    deinit { pthread_mutex_destroy(&mutex) }

    func holding<R>(_ body: () throws(Errno) -> R) throws(Errno) -> R {
        pthread_mutex_lock(&mutex)
        defer { pthread_mutex_unlock(&mutex) }
        return try body()
    }
}
