internal import CoveCore
internal import Dispatch
internal import Glibc
internal import Synchronization

/// One run of a provider's process: its calls under way, and what keeps them from waiting for ever.
final class ProviderSession: Sendable {
    /// How long a process may take to heed what ends it.
    struct Limits: Sendable {
        /// A call of which nothing is heard for so long has failed.
        var silence = TimeSpan.seconds(60)
        /// A call that was called off is answered within this time, or the process is ended.
        var cancellation = TimeSpan.seconds(10)
    }

    /// A call under way; everything in it is under the session's lock, but for the gate.
    private final class Call: @unchecked Sendable {
        let name: WireCall
        var continuation: CheckedContinuation<Result<JSONValue, ProviderError>, Never>?
        var delivery: Delivery?
        var gate: CreditGate?
        var lastSign: MonotonicTime
        var cancelledAt: MonotonicTime?
        /// The reading thread gives bytes to the sink; the call ends after that.
        var isDelivering = false
        var outcome: Result<JSONValue, ProviderError>?

        init(_ name: WireCall, _ delivery: Delivery?, now: MonotonicTime) {
            self.name = name
            self.delivery = delivery
            lastSign = now
        }
    }

    /// Where the bytes of a fetch go, and which come next.
    private struct Delivery {
        let sink: any ContentSink
        var next: Int64
        let end: Int64
        /// Taken, and not yet told to the process.
        var taken = 0
    }

    private struct State {
        var calls: [Int: Call] = [:]
        var lastNumber = 0
        var reason: String?
    }

    /// What the process is called in messages.
    let name: String
    let process: pid_t
    private let channel: FrameChannel
    private let limits: Limits
    private let uploads: WorkQueue
    private let state = Mutex(State())
    private let timer = Mutex<(any DispatchSourceTimer)?>(nil)
    private let onSignal: @Sendable () -> Void

    init(
        name: String,
        process: pid_t,
        channel: FrameChannel,
        uploads: WorkQueue,
        limits: Limits,
        onSignal: @escaping @Sendable () -> Void
    ) {
        self.name = name
        self.process = process
        self.channel = channel
        self.uploads = uploads
        self.limits = limits
        self.onSignal = onSignal
    }

    /// Begins to read what the process says.
    ///
    /// `onEnd` is called once, with why it has ended.
    func begin(
        onWords: @escaping @Sendable (UnsafeRawBufferPointer) -> Void,
        onEnd: @escaping @Sendable (String) -> Void
    ) throws(Errno) {
        try channel.start(
            onFrame: { [weak self] frame throws(FrameError) in try self?.receive(frame) },
            onWords: onWords,
            onEnd: { [weak self] reason in
                let why = self?.fail(reason) ?? reason
                onEnd(why)
            }
        )
        timer.withLock { timer in
            let new = DispatchSource.makeTimerSource(queue: DispatchQueue(label: "cove.provider.watch"))
            new.schedule(deadline: .now() + 1, repeating: 1)
            new.setEventHandler { [weak self] in self?.look() }
            new.activate()
            timer = new
        }
    }

    deinit { timer.withLock { $0?.cancel() } }

    /// Why the session is over; nil while it is not.
    var reason: String? { state.withLock { $0.reason } }

    /// Ends the session; the process is ended with it.
    func end(_ reason: String) { channel.end(reason) }

    // MARK: Calls

    /// Makes a call and waits for its answer; cancelling the task calls it off.
    func call(
        _ name: WireCall,
        _ parameters: CallParameters = CallParameters(),
        content: (any ContentSource)? = nil
    ) async throws(ProviderError) -> CallResult {
        let result = try await run(name, try encode(parameters), content: content, delivery: nil)
        do throws(JSONError) { return try result.decode(as: CallResult.self) } catch {
            throw .failed("\(self.name): the result of \(name.rawValue) can't be read: \(error)", .inputOutput)
        }
    }

    /// Makes a call whose bytes go into a sink.
    func fetch(
        _ name: WireCall,
        _ parameters: CallParameters,
        range: Range<Int64>,
        into sink: any ContentSink
    ) async throws(ProviderError) {
        _ = try await run(
            name,
            try encode(parameters),
            content: nil,
            delivery: Delivery(sink: sink, next: range.lowerBound, end: range.upperBound)
        )
    }

    /// Tells something that is not answered.
    func tell(_ name: WireCall) { channel.send(ProviderFrame(header: .object(["call": .string(name.rawValue)]))) }

    /// Tells the process what Cove speaks and what it is to serve, and waits for what it says of itself.
    func greet(_ parameters: HelloParameters) async -> Result<HelloResult, ProviderError> {
        let result: Result<JSONValue, ProviderError>
        do throws(ProviderError) {
            result = .success(try await run(.hello, try encode(parameters), content: nil, delivery: nil))
        } catch {
            result = .failure(error)
        }
        return result.flatMap { value in
            do throws(JSONError) { return .success(try value.decode(as: HelloResult.self)) } catch {
                return .failure(.unsupported("\(name): its hello can't be read: \(error)"))
            }
        }
    }

    private func encode(_ parameters: some Encodable) throws(ProviderError) -> JSONValue {
        do throws(JSONError) { return try JSONValue(encoding: parameters) } catch { throw .failed("\(error)", nil) }
    }

    private func run(
        _ name: WireCall,
        _ parameters: JSONValue,
        content: (any ContentSource)?,
        delivery: Delivery?
    ) async throws(ProviderError) -> JSONValue {
        let call = Call(name, delivery, now: System.monotonic())
        let (number, reason): (Int, String?) = state.withLock { state in
            state.lastNumber += 1
            return (state.lastNumber, state.reason)
        }
        if let reason { throw gone(reason) }
        let outcome: Result<JSONValue, ProviderError> = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                begin(call, number, parameters, content, continuation)
            }
        } onCancel: {
            end(call, number, .failure(.cancelled), isAnswer: false)
        }
        return try outcome.get()
    }

    private func begin(
        _ call: Call,
        _ number: Int,
        _ parameters: JSONValue,
        _ content: (any ContentSource)?,
        _ continuation: CheckedContinuation<Result<JSONValue, ProviderError>, Never>
    ) {
        let gate = content.map { _ in CreditGate(room: WireCall.window) }
        let failure: ProviderError? = state.withLock { state in
            // Called off before it began, or nobody is there any more.
            if call.outcome != nil { return .cancelled }
            if let reason = state.reason { return gone(reason) }
            call.continuation = continuation
            call.gate = gate
            state.calls[number] = call
            channel.send(
                ProviderFrame(
                    header: .object([
                        "id": .integer(Int64(number)), "call": .string(call.name.rawValue), "parameters": parameters,
                    ])
                )
            )
            return nil
        }
        if let failure { return continuation.resume(returning: .failure(failure)) }
        if let content, let gate {
            uploads.submit { self.send(content, through: gate, call, number) }
        }
    }

    /// Sends the bytes of a content as the process takes them, on a thread that may block.
    private func send(_ content: any ContentSource, through gate: CreditGate, _ call: Call, _ number: Int) {
        let size = content.size
        var offset: Int64 = 0
        while offset < size {
            guard let room = gate.take(Int(min(Int64(256 << 10), size - offset))) else { return }
            let piece: [UInt8]
            do throws(ProviderError) { piece = try content.bytes(at: offset, count: room) } catch {
                return end(call, number, .failure(error), isAnswer: false)
            }
            channel.send(
                ProviderFrame(
                    header: .object(["id": .integer(Int64(number)), "offset": .integer(offset)]),
                    body: piece
                )
            )
            offset += Int64(room)
        }
        channel.send(ProviderFrame(header: .object(["id": .integer(Int64(number)), "end": .bool(true)])))
    }

    /// Gives a call its outcome, once the sink has nothing in hand.
    ///
    /// Without an answer the process is told that nobody waits any more.
    private func end(_ call: Call, _ number: Int, _ outcome: Result<JSONValue, ProviderError>, isAnswer: Bool) {
        let (continuation, gate) = state.withLock { state in
            let isThere = state.calls[number] === call
            if isAnswer {
                state.calls[number] = nil
            } else if isThere, call.cancelledAt == nil {
                call.cancelledAt = System.monotonic()
                channel.send(ProviderFrame(header: .object(["cancel": .integer(Int64(number))])))
            }
            if call.outcome == nil { call.outcome = outcome }
            defer { call.gate = nil }
            return (call.isDelivering ? nil : take(call), call.gate)
        }
        gate?.close()
        continuation?()
    }

    /// What resumes a caller with the outcome; only the first time.
    private func take(_ call: Call) -> (() -> Void)? {
        guard let outcome = call.outcome, let continuation = call.continuation.take() else { return nil }
        call.delivery = nil
        return { continuation.resume(returning: outcome) }
    }

    // MARK: What comes in

    private func receive(_ frame: ProviderFrame) throws(FrameError) {
        guard case .object(let header) = frame.header else { throw FrameError("a header is no object") }
        if case .string("changes")? = header["signal"] { return onSignal() }
        guard case .integer(let wide)? = header["id"], let number = Int(exactly: wide) else {
            throw FrameError("a message names no call")
        }
        let call: Call? = state.withLock { state in
            let call = state.calls[number]
            call?.lastSign = System.monotonic()
            return call
        }
        guard let call else { throw FrameError("it answers call \(number), which is none of those it was asked") }
        if let result = header["result"] {
            finish(call, number, result)
        } else if let error = header["error"] {
            do throws(JSONError) {
                end(call, number, .failure(try error.decode(as: WireError.self).error(of: name)), isAnswer: true)
            } catch {
                throw FrameError("the error of call \(number) (\(call.name.rawValue)) can't be read: \(error)")
            }
        } else if case .integer(let offset)? = header["offset"] {
            try deliver(frame.body, at: offset, to: call, number)
        } else if case .integer(let credit)? = header["credit"] {
            let gate = state.withLock { _ in call.gate }
            guard let gate else { return }
            guard gate.add(Int(clamping: credit)) else {
                throw FrameError("call \(number) (\(call.name.rawValue)) takes \(credit) bytes, which were not sent")
            }
        } else if header["alive"] == nil {
            throw FrameError("a message of call \(number) is none that there is")
        }
    }

    private func finish(_ call: Call, _ number: Int, _ result: JSONValue) {
        let missing = state.withLock { _ in call.cancelledAt == nil ? call.delivery.map { $0.end - $0.next } ?? 0 : 0 }
        guard missing == 0 || result["atEnd"]?.truth == true else {
            let words = "\(name): it gave \(missing) bytes less than it was asked for"
            return end(call, number, .failure(.failed(words, .inputOutput)), isAnswer: true)
        }
        end(call, number, .success(result), isAnswer: true)
    }

    /// Gives bytes of a fetch to its sink.
    private func deliver(_ bytes: [UInt8], at offset: Int64, to call: Call, _ number: Int) throws(FrameError) {
        let found: (sink: any ContentSink, isRight: Bool)? = state.withLock { _ in
            guard call.cancelledAt == nil, let delivery = call.delivery else { return nil }
            let isRight =
                offset == delivery.next && Int64(bytes.count) <= delivery.end - delivery.next && !bytes.isEmpty
            call.isDelivering = isRight
            return (delivery.sink, isRight)
        }
        guard let found else {
            // What nobody waits for any more is dropped; what was never asked for is not taken.
            if state.withLock({ _ in call.cancelledAt != nil }) { return }
            throw FrameError("call \(number) (\(call.name.rawValue)) has no bytes to give")
        }
        guard found.isRight else {
            let words = "\(name): it gave \(bytes.count) bytes at \(offset), which it was not asked for"
            return end(call, number, .failure(.failed(words, .inputOutput)), isAnswer: false)
        }
        let failure: ProviderError? = bytes.withUnsafeBytes { buffer in
            do throws(ProviderError) { try found.sink.write(buffer, at: offset) } catch { return error }
            return nil
        }
        let (credit, resume): (Int, (() -> Void)?) = state.withLock { _ in
            call.isDelivering = false
            call.lastSign = System.monotonic()
            guard var delivery = call.delivery else { return (0, take(call)) }
            delivery.next += Int64(bytes.count)
            delivery.taken += bytes.count
            var credit = 0
            if delivery.taken >= WireCall.window / 4 { (credit, delivery.taken) = (delivery.taken, 0) }
            call.delivery = delivery
            return (credit, take(call))
        }
        resume?()
        if let failure { return end(call, number, .failure(failure), isAnswer: false) }
        if credit > 0, resume == nil {
            channel.send(
                ProviderFrame(
                    header: .object([
                        "id": .integer(Int64(number)), "credit": .integer(Int64(credit)),
                    ])
                )
            )
        }
    }

    // MARK: What ends calls

    /// Calls that nothing is heard of are called off; a process that does not heed that is ended.
    private func look() {
        let now = System.monotonic()
        let (silent, deaf) = state.withLock { state in
            (
                state.calls.filter { $0.value.cancelledAt == nil && now - $0.value.lastSign > limits.silence },
                state.calls.contains { call in
                    call.value.cancelledAt.map { now - $0 > limits.cancellation } ?? false
                }
            )
        }
        for (number, call) in silent { end(call, number, .failure(.timedOut), isAnswer: false) }
        if deaf { channel.end("it did not end a call that was called off") }
    }

    private func gone(_ reason: String) -> ProviderError { .serverUnreachable("\(name): \(reason)") }

    /// The session is over: all that wait hear of it; why, as it is told.
    private func fail(_ reason: String) -> String {
        timer.withLock { $0?.cancel() }
        let calls = state.withLock { state in
            state.reason = reason
            defer { state.calls = [:] }
            return state.calls
        }
        for (number, call) in calls { end(call, number, .failure(gone(reason)), isAnswer: true) }
        return reason
    }
}

extension ContentSource {
    /// A piece of the content.
    ///
    /// Throws when it ends before.
    func bytes(at offset: Int64, count: Int) throws(ProviderError) -> [UInt8] {
        var failure: ProviderError?
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            do throws(ProviderError) {
                while filled < count {
                    let part = UnsafeMutableRawBufferPointer(buffer).suffix(from: filled)
                    let read = try read(at: offset + Int64(filled), into: UnsafeMutableRawBufferPointer(rebasing: part))
                    if read == 0 { throw .failed("the content ends at \(offset + Int64(filled)) of \(size)", nil) }
                    filled += read
                }
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
        return bytes
    }
}
