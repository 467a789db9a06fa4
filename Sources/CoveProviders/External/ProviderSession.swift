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
        /// A process that uses more than this is ended.
        var process = ProcessLimits(memory: ProviderManifest.usualMemory)
        /// Says why a process may not go on; nil while it may.
        var refusal: @Sendable () -> String? = { nil }
    }

    struct State {
        var calls: [Int: Call] = [:]
        var lastNumber = 0
        var reason: String?
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    /// What the process is called in messages.
    let name: String
    let process: pid_t
    let channel: FrameChannel
    let limits: Limits
    private let uploads: WorkQueue
    let state = Mutex(State())
    private let timer = Mutex<(any DispatchSourceTimer)?>(nil)
    let onSignal: @Sendable () -> Void

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
    /// `onEnd` is called once, with why it has ended: before those that wait for an answer hear of it.
    func begin(
        onWords: @escaping @Sendable (UnsafeRawBufferPointer) -> Void,
        onEnd: @escaping @Sendable (String) -> Void
    ) throws(Errno) {
        try channel.start(
            onFrame: { [weak self] frame throws(FrameError) in try self?.receive(frame) },
            onWords: onWords,
            onEnd: { [weak self] reason in
                onEnd(reason)
                self?.fail(reason)
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

    /// Waits until the process has ended.
    func whenOver() async {
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                if state.reason == nil { state.waiters.append(continuation) }
                return state.reason != nil
            }
            if isOver { continuation.resume() }
        }
    }

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
        let call = Call(name, delivery, content: content, now: System.monotonic())
        let (number, reason): (Int, String?) = state.withLock { state in
            state.lastNumber += 1
            return (state.lastNumber, state.reason)
        }
        if let reason { throw gone(reason) }
        let outcome: Result<JSONValue, ProviderError> = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                begin(call, number, parameters, continuation)
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
        _ continuation: CheckedContinuation<Result<JSONValue, ProviderError>, Never>
    ) {
        let gate = call.content.map { _ in CreditGate(room: WireCall.window) }
        let failure: ProviderError? = state.withLock { state in
            // Called off before it began, or nobody is there any more.
            if call.outcome != nil { return .cancelled }
            if let reason = state.reason { return gone(reason) }
            call.continuation = continuation
            call.gate = gate
            state.calls[number] = call
            if gate == nil { announce(call, number, parameters) }
            return nil
        }
        if let failure { return continuation.resume(returning: .failure(failure)) }
        guard let content = call.content, let gate else { return }
        uploads.submit {
            let mustSend = self.state.withLock { _ in
                guard call.outcome == nil else { return false }
                self.announce(call, number, parameters)
                // What waits to be taken has not arrived.
                content.note(arrived: 0)
                return true
            }
            if mustSend { self.send(content, through: gate, call, number) }
            // Whoever waits may do away with the content now.
            let resume = self.state.withLock { _ in
                call.isInUse = false
                return self.take(call)
            }
            resume?()
        }
    }

    /// Tells the process of a call; under the lock.
    private func announce(_ call: Call, _ number: Int, _ parameters: JSONValue) {
        call.isAnnounced = true
        call.lastSign = System.monotonic()
        channel.send(
            ProviderFrame(
                header: .object([
                    "id": .integer(Int64(number)), "call": .string(call.name.rawValue), "parameters": parameters,
                ])
            )
        )
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
            guard send(["offset": .integer(offset)], piece, of: call, number) else { return }
            offset += Int64(room)
        }
        _ = send(["end": .bool(true)], [], of: call, number)
    }

    /// Sends what belongs to a call; false when the call has ended.
    private func send(_ header: [String: JSONValue], _ body: [UInt8], of call: Call, _ number: Int) -> Bool {
        let header = header.merging(["id": .integer(Int64(number))]) { first, _ in first }
        return state.withLock { _ in
            guard call.outcome == nil else { return false }
            call.lastSign = System.monotonic()
            if header["end"] != nil { call.isSent = true }
            channel.send(ProviderFrame(header: .object(header), body: body[...]))
            return true
        }
    }

    /// Gives a call its outcome, once sink or content are in nobody's hands.
    ///
    /// Without an answer the process is told that nobody waits any more.
    func end(_ call: Call, _ number: Int, _ outcome: Result<JSONValue, ProviderError>, isAnswer: Bool) {
        let (continuation, gate) = state.withLock { state in
            let isThere = state.calls[number] === call
            if isAnswer {
                state.calls[number] = nil
            } else if isThere, !call.isAnnounced {
                state.calls[number] = nil
            } else if isThere, call.cancelledAt == nil {
                call.cancelledAt = System.monotonic()
                channel.send(ProviderFrame(header: .object(["cancel": .integer(Int64(number))])))
            }
            if call.outcome == nil { call.outcome = outcome }
            defer { call.gate = nil }
            return (take(call), call.gate)
        }
        gate?.close()
        continuation?()
    }

    /// What resumes a caller with the outcome; only once, and when nothing of its own is in use.
    func take(_ call: Call) -> (() -> Void)? {
        guard !call.isInUse, let outcome = call.outcome, let continuation = call.continuation.take() else { return nil }
        call.delivery = nil
        return { continuation.resume(returning: outcome) }
    }

    func gone(_ reason: String) -> ProviderError { .serverUnreachable("\(name): \(reason)") }

    /// The session is over: all that wait hear of it.
    private func fail(_ reason: String) {
        timer.withLock { $0?.cancel() }
        let (calls, waiters) = state.withLock { state in
            state.reason = reason
            defer { (state.calls, state.waiters) = ([:], []) }
            return (state.calls, state.waiters)
        }
        for (number, call) in calls { end(call, number, .failure(gone(reason)), isAnswer: true) }
        for waiter in waiters { waiter.resume() }
    }
}
