internal import CLinux
internal import CoveCore
internal import Glibc
internal import Synchronization

/// Content that comes in with a call, kept in a file without a name until it is whole.
final class Spool: Sendable {
    private struct State {
        var descriptor: Int32 = -1
        var next: Int64 = 0
        var taken = 0
        var outcome: Result<Void, ProviderError>?
        var waiter: CheckedContinuation<Result<Void, ProviderError>, Never>?
    }

    let size: Int64
    private let state = Mutex(State())

    init(size: Int64) {
        self.size = size
        do throws(Errno) {
            let place = ProcessEnvironment.value("TMPDIR") ?? "/tmp"
            let descriptor = try System.open(place, Int32(COVE_O_TMPFILE) | O_RDWR)
            state.withLock { $0.descriptor = descriptor }
        } catch {
            end(with: .failure(.failed("no file for what comes in: \(error)", error)))
        }
    }

    deinit { state.withLock { if $0.descriptor >= 0 { System.close($0.descriptor) } } }

    /// Takes the next bytes; how many more the other side may send for them, 0 for not yet.
    func add(_ bytes: ArraySlice<UInt8>, at offset: Int64) -> Int {
        let (credit, waiter): (Int, (() -> Void)?) = state.withLock { state in
            guard state.outcome == nil else { return (0, nil) }
            guard offset == state.next, Int64(bytes.count) <= size - offset else {
                return (0, Self.settle(&state, .failure(.failed("the content came in a wrong order", nil))))
            }
            let written: Result<Void, Errno> = bytes.withUnsafeBytes { memory in
                Result { () throws(Errno) in try System.pwriteAll(state.descriptor, memory, offset) }
            }
            if case .failure(let error) = written {
                return (0, Self.settle(&state, .failure(.failed("what comes in can't be kept: \(error)", error))))
            }
            state.next += Int64(bytes.count)
            state.taken += bytes.count
            guard state.taken >= WireCall.window / 4 else { return (0, nil) }
            defer { state.taken = 0 }
            return (state.taken, nil)
        }
        waiter?()
        return credit
    }

    /// All has come.
    func finish() {
        let isWhole = state.withLock { $0.next == size }
        end(with: isWhole ? .success(()) : .failure(.failed("the content ended before its size", nil)))
    }

    /// The first outcome counts.
    func end(with outcome: Result<Void, ProviderError>) { state.withLock { Self.settle(&$0, outcome) }?() }

    private static func settle(_ state: inout State, _ outcome: Result<Void, ProviderError>) -> (() -> Void)? {
        guard state.outcome == nil else { return nil }
        state.outcome = outcome
        guard let waiter = state.waiter.take() else { return nil }
        return { waiter.resume(returning: outcome) }
    }

    /// Waits until all has come.
    ///
    /// `onProgress` hears how much of it was passed on, a mebibyte at a time.
    func whole(
        identity: [UInt8]?,
        onProgress: @escaping @Sendable (Int64) -> Void
    ) async throws(ProviderError) -> any ContentSource {
        let outcome = await withCheckedContinuation { continuation in
            let outcome: Result<Void, ProviderError>? = state.withLock { state in
                if state.outcome == nil { state.waiter = continuation }
                return state.outcome
            }
            if let outcome { continuation.resume(returning: outcome) }
        }
        try outcome.get()
        return SpooledContent(spool: self, identity: identity, steps: ProgressSteps(onProgress))
    }

    fileprivate var descriptor: Int32 { state.withLock { $0.descriptor } }
}

/// Tells how far a content was passed on, not of every step.
final class ProgressSteps: Sendable {
    private struct State {
        var told: Int64 = 0
        /// The one to whom it is passed on says by itself how far it is.
        var isTold = false
    }

    /// As much as is worth a message, in bytes.
    static let step: Int64 = 1 << 20
    private let state = Mutex(State())
    private let tell: @Sendable (Int64) -> Void

    init(_ tell: @escaping @Sendable (Int64) -> Void) { self.tell = tell }

    func note(read end: Int64) { note(end, isTold: false) }

    func note(arrived bytes: Int64) { note(bytes, isTold: true) }

    private func note(_ bytes: Int64, isTold: Bool) {
        state.withLock { state in
            if state.isTold, !isTold { return }
            if isTold, !state.isTold { (state.isTold, state.told) = (true, 0) }
            guard bytes - state.told >= Self.step else { return }
            state.told = bytes
            tell(bytes)
        }
    }
}

/// A spool that is whole, as a content.
private struct SpooledContent: ContentSource {
    let spool: Spool
    let identity: [UInt8]?
    let steps: ProgressSteps

    var size: Int64 { spool.size }

    func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ProviderError) -> Int {
        let count = try attempt("what came in") { () throws(Errno) in
            try System.pread(spool.descriptor, buffer, offset)
        }
        steps.note(read: offset + Int64(count))
        return count
    }

    func note(arrived bytes: Int64) { steps.note(arrived: bytes) }

    func copy(to descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: min(count, 1 << 20), alignment: 16)
        defer { buffer.deallocate() }
        let length = try read(at: offset, into: buffer)
        try attempt("the target") { () throws(Errno) in
            try System.pwriteAll(descriptor, UnsafeRawBufferPointer(rebasing: buffer[..<length]), offset)
        }
        return length
    }
}

/// Sends what a fetch delivers, as the other side takes it.
final class ServedSink: ContentSink {
    private let server: ProviderServer
    private let call: ProviderServer.Call
    private let number: Int
    private let next: Mutex<Int64>

    init(_ server: ProviderServer, _ call: ProviderServer.Call, _ number: Int, at start: Int64) {
        self.server = server
        self.call = call
        self.number = number
        next = Mutex(start)
    }

    /// Where the next bytes belong.
    var position: Int64 { next.withLock { $0 } }

    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(ProviderError) {
        let isNext = next.withLock { next in
            defer { next += Int64(bytes.count) }
            return offset == next
        }
        guard isNext else { throw .failed("bytes came in another order than they are sent in", nil) }
        var sent = 0
        while sent < bytes.count {
            guard let count = call.gate.take(min(ProviderFrame.longestBody, bytes.count - sent)) else {
                throw .cancelled
            }
            let header: [String: JSONValue] = [
                "id": .integer(Int64(number)), "offset": .integer(offset + Int64(sent)),
            ]
            let part = UnsafeRawBufferPointer(rebasing: bytes[sent..<(sent + count)])
            guard server.channel.sendNow(.object(header), part) else { throw .cancelled }
            sent += count
        }
    }

    func copy(from descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: min(count, 1 << 20), alignment: 16)
        defer { buffer.deallocate() }
        let length = try attempt("the source") { () throws(Errno) in
            try System.pread(descriptor, buffer, offset)
        }
        if length > 0 { try write(UnsafeRawBufferPointer(rebasing: buffer[..<length]), at: offset) }
        return length
    }
}
