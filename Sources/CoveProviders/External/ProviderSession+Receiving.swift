internal import CoveCore
internal import Synchronization

/// What a process says, and what ends calls of which it says nothing.
extension ProviderSession {
    // MARK: What comes in

    func receive(_ frame: ProviderFrame) throws(FrameError) {
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
        // What was on its way when the answer was.
        if call == nil, number > 0, number <= state.withLock({ $0.lastNumber }),
            header["alive"] != nil || header["credit"] != nil
        {
            return
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
            noteTaken(credit, of: call)
        } else if header["alive"] != nil {
            switch header["sent"] {
            case nil: break
            case .integer(let bytes) where bytes >= 0: noteArrived(bytes, of: call)
            default: throw FrameError("call \(number) (\(call.name.rawValue)) has sent what is no number of bytes")
            }
        } else {
            throw FrameError("a message of call \(number) is none that there is")
        }
    }

    /// Passes on how much of a content the source has, to whoever waits for that.
    private func noteArrived(_ bytes: Int64, of call: Call) {
        state.withLock { _ in
            guard call.outcome == nil, let content = call.content else { return }
            call.tellsArrival = true
            content.note(arrived: min(bytes, content.size))
        }
    }

    /// Passes on what a process has taken, as long as it says nothing better.
    private func noteTaken(_ bytes: Int64, of call: Call) {
        state.withLock { _ in
            guard call.outcome == nil, !call.tellsArrival, let content = call.content else { return }
            // The gate has seen that it was sent.
            call.taken &+= bytes
            content.note(arrived: min(call.taken, content.size))
        }
    }

    private func finish(_ call: Call, _ number: Int, _ result: JSONValue) {
        let missing = state.withLock { _ in call.cancelledAt == nil ? call.delivery.map { $0.end - $0.next } ?? 0 : 0 }
        // An earlier content has all of its bytes, a file may have become shorter than was asked for, and nobody knows before
        // how long a picture is.
        let mayBeShort = call.name == .thumbnail || call.name == .fetch && result["atEnd"]?.truth == true
        guard missing == 0 || mayBeShort else {
            let words = "\(name): it gave \(missing) bytes less than it was asked for"
            return end(call, number, .failure(.failed(words, .inputOutput)), isAnswer: true)
        }
        guard state.withLock({ _ in call.isSent }) else {
            let words = "\(name): it is done with a content of which it did not have all"
            return end(call, number, .failure(.failed(words, .inputOutput)), isAnswer: true)
        }
        end(call, number, .success(result), isAnswer: true)
    }

    /// Gives bytes of a fetch to its sink.
    private func deliver(_ bytes: ArraySlice<UInt8>, at offset: Int64, to call: Call, _ number: Int) throws(FrameError)
    {
        let found: (sink: any ContentSink, isRight: Bool)? = state.withLock { _ in
            guard call.cancelledAt == nil, let delivery = call.delivery else { return nil }
            let isRight =
                offset == delivery.next && Int64(bytes.count) <= delivery.end - delivery.next && !bytes.isEmpty
            call.isInUse = isRight
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
            call.isInUse = false
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
    func look() {
        let now = System.monotonic()
        let (silent, deaf) = state.withLock { state in
            (
                state.calls.filter { _, call in
                    guard call.isAnnounced, call.cancelledAt == nil else { return false }
                    // Everybody waits for hello: signs of life make it no longer.
                    return now - (call.name == .hello ? call.began : call.lastSign) > limits.silence
                },
                state.calls.contains { call in
                    call.value.cancelledAt.map { now - $0 > limits.cancellation } ?? false
                }
            )
        }
        for (number, call) in silent { end(call, number, .failure(.timedOut), isAnswer: false) }
        if deaf { channel.end("it did not end a call that was called off") }
        if let refusal = limits.refusal() { return channel.end(refusal) }
        if let violation = limits.process.enforce(on: process) { channel.end(violation) }
    }
}
