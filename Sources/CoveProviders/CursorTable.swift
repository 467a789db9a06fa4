internal import CoveCore
internal import Synchronization

/// Listings under way, each with what it reads on from, by the token of the page that comes next.
///
/// A token is good for one page. The oldest listings go when there are too many or when they have been idle; whoever
/// comes back for one is told to list again.
final class CursorTable<Cursor: Sendable>: Sendable {
    private let maximum = 64
    private let idleLimit: Int64 = 60_000_000_000

    private let cursors = Mutex<[Page: (cursor: Cursor, used: Int64)]>([:])

    func put(_ cursor: Cursor) -> Page {
        let page = Page(Array(DocumentID.random().description.utf8))
        let now = System.monotonic()
        cursors.withLock { cursors in
            for (page, entry) in cursors where now - entry.used > idleLimit { cursors[page] = nil }
            if cursors.count >= maximum, let oldest = cursors.min(by: { $0.value.used < $1.value.used }) {
                cursors[oldest.key] = nil
            }
            cursors[page] = (cursor, now)
        }
        return page
    }

    func take(_ page: Page) -> Cursor? { cursors.withLock { $0.removeValue(forKey: page)?.cursor } }

    func removeAll() { cursors.withLock { $0.removeAll() } }
}
