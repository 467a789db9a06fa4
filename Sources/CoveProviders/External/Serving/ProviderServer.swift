public import CoveCore
internal import Dispatch
internal import Glibc
internal import Synchronization

/// Serves a `Provider` to another process over two descriptors: the other side of `ExternalProvider`.
///
/// A program of one line in Swift is a provider of its own with it.
public final class ProviderServer: Sendable {
    /// A call that is being answered.
    final class Call: Sendable {
        let number: Int
        let task = Mutex<Task<Void, Never>?>(nil)
        /// Where the content that comes with the call is kept until it is whole.
        let spool: Spool?
        let gate = CreditGate(room: WireCall.window)
        private let isOff = Atomic(false)

        init(_ number: Int, spool: Spool?) { (self.number, self.spool) = (number, spool) }

        /// True once nobody waits for its answer.
        var isCancelled: Bool { isOff.load(ordering: .acquiring) }

        func cancel() {
            isOff.store(true, ordering: .releasing)
            task.withLock { $0 }?.cancel()
            spool?.end(with: .failure(.cancelled))
            gate.close()
        }
    }

    let provider: any Provider
    let channel: FrameChannel
    private let name: String
    private let calls = Mutex<[Int: Call]>([:])
    private let signals = Mutex<Task<Void, Never>?>(nil)

    /// Takes what is to be served, and the descriptors, which it closes at its end.
    public init(_ provider: any Provider, name: String, input: Int32, output: Int32) throws(Errno) {
        self.provider = provider
        self.name = name
        channel = try FrameChannel(input: input, output: output)
    }

    /// Answers calls until the other side has ended; why it did.
    ///
    /// The process ignores SIGPIPE from then on: that the other side has gone is found out by what write(2) returns.
    public func run() async -> String {
        signal(SIGPIPE, SIG_IGN)
        let timer = DispatchSource.makeTimerSource(queue: DispatchQueue(label: "cove.server.alive"))
        // Each provider ends by itself what makes no progress: as long as it does not, there is some.
        timer.schedule(deadline: .now() + 10, repeating: 10)
        timer.setEventHandler { [weak self] in self?.tellOfLife() }
        timer.activate()
        defer { timer.cancel() }
        let reason = await withCheckedContinuation { continuation in
            do throws(Errno) {
                try channel.start(
                    onFrame: { frame throws(FrameError) in try self.receive(frame) },
                    onEnd: { continuation.resume(returning: $0) }
                )
            } catch {
                continuation.resume(returning: "no thread can be had: \(error)")
            }
        }
        signals.withLock { $0 }?.cancel()
        for call in calls.withLock({ Array($0.values) }) { call.cancel() }
        await provider.stop()
        return reason
    }

    private func tellOfLife() {
        calls.withLock { calls in
            for number in calls.keys { send(["id": .integer(Int64(number)), "alive": .bool(true)]) }
        }
    }

    func send(_ header: [String: JSONValue]) {
        channel.send(ProviderFrame(header: .object(header)))
    }

    private func receive(_ frame: ProviderFrame) throws(FrameError) {
        guard case .object(let header) = frame.header else { throw FrameError("a header is no object") }
        if case .integer(let number)? = header["cancel"] {
            // It may have been answered meanwhile.
            calls.withLock { $0[Int(clamping: number)] }?.cancel()
            return
        }
        if case .string(let word)? = header["call"] {
            guard let call = WireCall(rawValue: word) else { throw FrameError("there is no call \(word)") }
            guard case .integer(let wide)? = header["id"] else { return heed(call) }
            return try begin(call, Int(clamping: wide), header["parameters"] ?? .empty)
        }
        guard case .integer(let wide)? = header["id"] else { throw FrameError("a message names no call") }
        let number = Int(clamping: wide)
        guard let call = calls.withLock({ $0[number] }) else { return }
        if case .integer(let offset)? = header["offset"], let spool = call.spool {
            let credit = spool.add(frame.body, at: offset)
            if credit > 0 { send(["id": .integer(wide), "credit": .integer(Int64(credit))]) }
        } else if header["end"] != nil {
            call.spool?.finish()
        } else if case .integer(let credit)? = header["credit"] {
            guard call.gate.add(Int(clamping: credit)) else { throw FrameError("more bytes are taken than were sent") }
        }
    }

    private func heed(_ call: WireCall) {
        switch call {
        case .networkChanged: provider.networkChanged()
        case .stop: channel.end("it was asked to end")
        default: break
        }
    }

    private func begin(_ name: WireCall, _ number: Int, _ parameters: JSONValue) throws(FrameError) {
        let decoded: CallParameters
        do throws(JSONError) { decoded = try parameters.decode() } catch {
            throw FrameError("the parameters of call \(number) (\(name.rawValue)) can't be read: \(error)")
        }
        let spool = decoded.size.map { Spool(size: $0) }
        let call = Call(number, spool: spool)
        let isNew = calls.withLock { calls in
            guard calls[number] == nil else { return false }
            calls[number] = call
            return true
        }
        guard isNew else { throw FrameError("call \(number) was made twice") }
        let task = Task {
            let outcome = await outcome(of: name, decoded, call, number)
            let reply = Self.reply(outcome)
            // Nothing is said of a call after its answer.
            calls.withLock { calls in
                calls[number] = nil
                send(["id": .integer(Int64(number)), reply.name: reply.value])
            }
        }
        call.task.withLock { $0 = task }
        // It may have been called off in between.
        if call.isCancelled { task.cancel() }
    }

    /// What is sent for an outcome; an answer that is longer than a header may be is none.
    private static func reply(_ outcome: Result<JSONValue, ProviderError>) -> (name: String, value: JSONValue) {
        var failure = ProviderError.failed("the answer is too long", nil)
        switch outcome {
        case .success(let value):
            if value.bytes.count < ProviderFrame.longestHeader - 100 { return ("result", value) }
        case .failure(let error): failure = error
        }
        return ("error", (try? JSONValue(encoding: WireError(failure))) ?? .empty)
    }

    private func outcome(
        of name: WireCall,
        _ parameters: CallParameters,
        _ call: Call,
        _ number: Int
    ) async -> Result<JSONValue, ProviderError> {
        do {
            if name == .hello { return .success(try JSONValue(encoding: try await hello())) }
            return .success(try JSONValue(encoding: try await answer(name, parameters, call, number)))
        } catch {
            return .failure(error as? ProviderError ?? .failed("\(error)", nil))
        }
    }

    private func hello() async throws -> HelloResult {
        try await provider.start()
        signals.withLock { signals in
            guard signals == nil, let changes = provider.changeSignal else { return }
            signals = Task { for await _ in changes { send(["signal": .string("changes")]) } }
        }
        return HelloResult(
            version: WireCall.version,
            name: name,
            identity: await provider.sourceIdentity().map { WireBytes($0) },
            signals: !provider.mustBePolled,
            parallelCalls: 64,
            capabilities: WireCapabilities(provider.capabilities),
            actions: provider.actions.map { WireAction($0) },
            purpose: provider.purpose
        )
    }
}
