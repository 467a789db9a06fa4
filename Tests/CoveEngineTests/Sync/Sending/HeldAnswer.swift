import CoveCore
import Synchronization

/// Has the next change of one document arrive at the provider, whose answer waits; refuses another document until then.
final class HeldAnswer: Sendable {
    private enum State { case passing, armed, arrived }
    private struct Held {
        var state = State.passing
        var answer: CheckedContinuation<Bool, Never>?
    }
    private let held = Mutex(Held())
    private let missed = Mutex(0)
    private let path: String
    private let refused: String?

    init(of path: String, refusing refused: String? = nil) { (self.path, self.refused) = (path, refused) }

    /// How often something was looked for that is not there.
    var misses: Int { missed.withLock { $0 } }

    func arm() { held.withLock { $0.state = .armed } }
    var hasArrived: Bool { held.withLock { $0.state == .arrived } }

    /// Answers, or has the answer get lost.
    func answer(isLost: Bool = false) {
        let answer = held.withLock { held in
            held.state = .passing
            return held.answer.take()
        }
        answer?.resume(returning: isLost)
    }

    func wrap(_ base: any Provider) -> any Provider {
        MeddledProvider(
            base,
            { [self] moment, _ in if moment == .afterMiss { missed.withLock { $0 += 1 } } },
            refuse: { [self] path in
                path.description == refused && held.withLock { $0.state != .passing } ? .busy : nil
            },
            beforeAnswer: { [self] path throws(ProviderError) in
                guard path.description == self.path else { return }
                let isLost = await withCheckedContinuation { continuation in
                    let isHeld = held.withLock { held in
                        guard held.state == .armed else { return false }
                        held = Held(state: .arrived, answer: continuation)
                        return true
                    }
                    if !isHeld { continuation.resume(returning: false) }
                }
                if isLost { throw .serverUnreachable("the answer got lost") }
            }
        )
    }
}
