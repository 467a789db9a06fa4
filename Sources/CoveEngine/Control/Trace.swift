public import CoveCore
internal import Synchronization

/// Tells those who follow what happens to files; costs one look while nobody does.
final class Trace: Sendable {
    /// How many events wait for one that is slow to take them.
    private static let most = 10_000

    private struct State {
        var followers: [Int: AsyncStream<TraceEvent>.Continuation] = [:]
        var lost: [Int: Int] = [:]
        var number = 0
    }

    private let isFollowed = Atomic<Bool>(false)
    private let state = EngineMutex(.trace, State())

    /// Events from now on, until whoever takes them ends.
    func follow() -> AsyncStream<TraceEvent> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: TraceEvent.self,
            bufferingPolicy: .bufferingOldest(Self.most)
        )
        let number = state.withLock { state in
            state.number += 1
            state.followers[state.number] = continuation
            isFollowed.store(true, ordering: .releasing)
            return state.number
        }
        continuation.onTermination = { [weak self] _ in self?.forget(number) }
        return stream
    }

    private func forget(_ number: Int) {
        state.withLock { state in
            state.followers[number] = nil
            state.lost[number] = nil
            isFollowed.store(!state.followers.isEmpty, ordering: .releasing)
        }
    }

    /// Ends all that follow.
    func end() {
        let followers = state.withLock { Array($0.followers.values) }
        for follower in followers { follower.finish() }
    }

    /// Tells of a step; the body, which finds out the rest, is called only where somebody follows.
    @inline(__always)
    func note(_ step: TraceEvent.Step, _ describe: () -> TraceEvent.Subject) {
        guard isFollowed.load(ordering: .relaxed) else { return }
        tell(step, describe())
    }

    private func tell(_ step: TraceEvent.Step, _ subject: TraceEvent.Subject) {
        // Under the lock, so that all hear of it in the order of its times.
        state.withLock { state in
            let time = System.now().secondsSinceEpoch
            for (number, follower) in state.followers {
                let lost = state.lost[number] ?? 0
                let event = TraceEvent(step, of: subject, at: time, lost: lost)
                let isLost = if case .dropped = follower.yield(event) { true } else { false }
                state.lost[number] = isLost ? lost + 1 : nil
            }
        }
    }
}

extension EngineContext {
    /// Tells those who follow of a step in the life of an item; no lock but an item's may be held.
    @inline(__always)
    func note(
        _ step: TraceEvent.Step,
        _ id: ItemID,
        _ caller: Caller? = nil,
        _ detail: @autoclosure () -> String? = nil
    ) {
        trace.note(step) { subject(id, caller, detail()) }
    }

    private func subject(_ id: ItemID, _ caller: Caller?, _ detail: String?) -> TraceEvent.Subject {
        let path = try? catalog.read { database throws(Errno) -> RemotePath? in
            guard let entry = try database.entries(of: id).first else { return nil }
            return try database.path(of: entry)
        }
        var subject = TraceEvent.Subject(item: id, path: path ?? nil, detail: detail)
        if let caller, caller.thread > 0 {
            let process = ProcessTree.process(of: caller.thread)
            subject.process = Int(process)
            let name = ProcessTree.name(of: process)
            if !name.isEmpty { subject.program = name }
        }
        return subject
    }
}

extension Engine {
    /// What happens to files from now on: each step of an open, a fetch and an upload, in order.
    public func trace() -> AsyncStream<TraceEvent> { context.trace.follow() }

    /// A program is about to do something; only opens are told of.
    public func noteBegin(_ use: PlainUse?, _ caller: Caller) {
        if case .open(let id, _)? = use { context.note(.open, id, caller) }
    }

    /// It can't.
    public func noteRefusal(_ use: PlainUse?, _ caller: Caller, _ error: Errno) {
        if case .open(let id, _)? = use { context.note(.refuse, id, caller, "\(error)") }
    }

    /// An open is about to be answered.
    public func noteGrant(_ id: ItemID, _ caller: Caller) { context.note(.grant, id, caller) }
}
