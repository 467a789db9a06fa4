import CoveCore
import CoveTestSupport
import Synchronization

/// How a provider answers in a random walk: at once, or late, so that much changes between what it has done and its word of it.
enum ProviderAnswers {
    case atOnce, late, lost

    /// Of four walks, one has late answers and one loses some.
    init(part: Int) {
        switch part % 4 {
        case 2: self = .late
        case 3: self = .lost
        default: self = .atOnce
        }
    }

    func wrap(seed: UInt64) -> @Sendable (any Provider) -> any Provider {
        if self == .atOnce { return { $0 } }
        let random = Mutex(SeededGenerator(seed: seed))
        return { base in
            MeddledProvider(
                base,
                beforeAnswer: { _ throws(ProviderError) in
                    let (pause, isLost, isCut) = random.withLock { random in
                        (Int.random(in: 0...100, using: &random), self == .lost && random.oneIn(25), random.oneIn(2))
                    }
                    do { try await Task.sleep(for: .milliseconds(pause)) } catch { throw .cancelled }
                    if isLost { throw isCut ? .serverUnreachable("the answer got lost") : .timedOut }
                }
            )
        }
    }
}
