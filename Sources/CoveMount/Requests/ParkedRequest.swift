internal import CFuse
internal import CoveCore
internal import CoveEngine
internal import Dispatch
internal import Synchronization

/// A request that waits for the network or a claim on no thread, until its value comes or its caller is killed.
///
/// libfuse calls the interrupt function with the request's own lock held, perhaps already while it is being registered.
/// An answer from inside it would free that lock. So the function only enqueues the cancellation, and `take` first
/// unregisters the function, which waits for one that is just running.
private final class ParkedRequest: Sendable {
    private let slot: Mutex<Request?>
    private let connection: Connection
    private let cancel: @Sendable () -> Void

    init(_ request: consuming Request, cancel: @escaping @Sendable () -> Void) {
        connection = request.connection
        self.cancel = cancel
        let raw = request.raw
        slot = Mutex(consume request)
        // Released by `take`.
        fuse_req_interrupt_func(raw, ParkedRequest.interrupted, Unmanaged.passRetained(self).toOpaque())
    }

    /// Gives the request to whoever answers it, once.
    func take() -> Request? {
        guard let request = slot.withLock({ $0.take() }) else { return nil }
        fuse_req_interrupt_func(request.raw, nil, nil)
        Unmanaged.passUnretained(self).release()
        return request
    }

    private static let interrupted: fuse_interrupt_func_t = { _, context in
        guard let context else { return }
        let parked = Unmanaged<ParkedRequest>.fromOpaque(context).takeUnretainedValue()
        parked.connection.interrupts.async { parked.cancel() }
    }
}

extension Request {
    /// Frees the thread and answers when the value is there; an interrupted caller ends the wait by EINTR.
    consuming func park<Value>(
        on pending: Pending<Value>,
        answer: @escaping @Sendable (consuming Request, Result<Value, Errno>) -> Void
    ) {
        let engine = connection.engine
        engine.parkedDelta(1)
        let parked = ParkedRequest(self) { pending.cancel() }
        pending.whenDone { result in
            guard let request = parked.take() else { return }
            engine.parkedDelta(-1)
            answer(request, result)
        }
    }

    /// Carries a call out once no claim is in its way, at once where none is or nothing is used, and answers it.
    consuming func coordinated<Value>(
        _ use: PlainUse?,
        _ body: @escaping @Sendable (Engine, Caller) throws(Errno) -> Value,
        reply: @escaping @Sendable (consuming Request, Value) -> Void
    ) {
        let engine = begin()
        let caller = caller
        engine.noteBegin(use, caller)
        guard let use, !engine.isUncoordinated else { return carryOut(use, body, reply) }
        do throws(Errno) {
            guard let pending = try engine.plainClaim(use, caller) else { return carryOut(use, body, reply) }
            if try engine.defersTruncation(pending, use, caller) { return fail(.stale, use) }
            park(on: pending) { request, result in
                switch result {
                case .success(let claim):
                    if engine.isOutOfDate(use, claim, caller) { return request.fail(.stale, use) }
                    request.carryOut(use, body, reply)
                    engine.end(claim)
                case .failure(let error): request.fail(error, use)
                }
            }
        } catch {
            fail(error, use)
        }
    }

    private consuming func carryOut<Value>(
        _ use: PlainUse?,
        _ body: (Engine, Caller) throws(Errno) -> Value,
        _ reply: (consuming Request, Value) -> Void
    ) {
        let value: Value
        do throws(Errno) {
            value = try body(connection.engine, caller)
        } catch {
            return fail(error, use)
        }
        reply(self, value)
    }

    /// Answers that something can't be done.
    consuming func fail(_ error: Errno, _ use: PlainUse?) {
        connection.engine.noteRefusal(use, caller, error)
        fail(error)
    }

    /// Carries out a call that answers nothing but whether it worked, once no claim is in its way.
    consuming func perform(
        _ use: PlainUse,
        _ body: @escaping @Sendable (Engine, Caller) throws(Errno) -> Void
    ) {
        coordinated(use, body) { request, _ in request.succeed() }
    }

    /// Carries out a call that makes a name and answers what that stands for, once no claim is in its way.
    consuming func make(
        _ name: [UInt8],
        _ use: PlainUse,
        _ body: @escaping @Sendable (Engine, Caller) throws(Errno) -> ItemAttributes
    ) {
        coordinated(use, body) { request, made in request.reply(new: made, named: name) }
    }
}
