import Synchronization

/// Holds fetches up until it is opened.
final class FetchGate: Sendable {
    private let waiting = Mutex<[CheckedContinuation<Void, Never>]?>([])

    func pass() async {
        await withCheckedContinuation { continuation in
            let isOpen = waiting.withLock { waiting in
                waiting?.append(continuation)
                return waiting == nil
            }
            if isOpen { continuation.resume() }
        }
    }

    func open() {
        let passing = waiting.withLock { $0.take() }
        for continuation in passing ?? [] { continuation.resume() }
    }
}
