internal import CoveCore
internal import Synchronization

/// Listings under way, each with what it reads on from, by the token of the page that comes next.
///
/// A token is good for one page. Listings that nobody goes on with end after a minute, and the oldest when there are too
/// many; whoever comes back for one is told to list again.
final class CursorTable<Cursor: Sendable>: Sendable {
    private struct State {
        var cursors: [Page: (cursor: Cursor, used: MonotonicTime)] = [:]
        /// Somebody is going to look for those that are idle.
        var isWatched = false
    }

    private let maximum = 64
    private let idleLimit: TimeSpan
    private let state = Mutex(State())

    init(idleLimit: TimeSpan = .seconds(60)) { self.idleLimit = idleLimit }

    func put(_ cursor: Cursor) -> Page {
        let page = Page(Array(DocumentID.random().description.utf8))
        let now = System.monotonic()
        let isWatched = state.withLock { state in
            if state.cursors.count >= maximum, let oldest = state.cursors.min(by: { $0.value.used < $1.value.used }) {
                state.cursors[oldest.key] = nil
            }
            state.cursors[page] = (cursor, now)
            defer { state.isWatched = true }
            return state.isWatched
        }
        if !isWatched { watch() }
        return page
    }

    private func watch() {
        Task { [weak self, idleLimit] in
            repeat { try? await Task.sleep(for: idleLimit) } while self?.dropIdle() == true
        }
    }

    /// Ends what nobody has gone on with; false when nothing is left to watch.
    private func dropIdle() -> Bool {
        let now = System.monotonic()
        let (idle, isLeft) = state.withLock { state in
            let idle = state.cursors.filter { now - $0.value.used >= idleLimit }
            for page in idle.keys { state.cursors[page] = nil }
            state.isWatched = !state.cursors.isEmpty
            return (idle.map(\.value.cursor), state.isWatched)
        }
        // They end here, not under the lock.
        _ = idle
        return isLeft
    }

    func take(_ page: Page) -> Cursor? { state.withLock { $0.cursors.removeValue(forKey: page)?.cursor } }

    func removeAll() {
        let all = state.withLock { state in
            defer { state.cursors = [:] }
            return state.cursors
        }
        _ = all
    }
}
