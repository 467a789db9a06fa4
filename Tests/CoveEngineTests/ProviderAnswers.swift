import CoveCore
import CoveTestSupport
import Synchronization

/// How a provider answers in a random walk: at once, or late, so that much changes between what it has done and its word of it.
enum ProviderAnswers {
    case atOnce, late
    /// One answer in so many is lost.
    case lost(oneIn: Int)

    /// Of four walks, one has late answers and one loses some; of eight, one loses many.
    init(part: Int) {
        switch part % 8 {
        case 2, 6: self = .late
        case 3: self = .lost(oneIn: 25)
        case 7: self = .lost(oneIn: 5)
        default: self = .atOnce
        }
    }

    func wrap(seed: UInt64) -> @Sendable (any Provider) -> any Provider {
        let rate: Int
        switch self {
        case .atOnce: return { $0 }
        case .late: rate = 0
        case .lost(let number): rate = number
        }
        let random = Mutex(SeededGenerator(seed: seed))
        return { base in
            MeddledProvider(
                base,
                beforeAnswer: { _ throws(ProviderError) in
                    let (pause, isLost, isCut) = random.withLock { random in
                        (Int.random(in: 0...100, using: &random), rate > 0 && random.oneIn(rate), random.oneIn(2))
                    }
                    do { try await Task.sleep(for: .milliseconds(pause)) } catch { throw .cancelled }
                    if isLost { throw isCut ? .serverUnreachable("the answer got lost") : .timedOut }
                }
            )
        }
    }
}
