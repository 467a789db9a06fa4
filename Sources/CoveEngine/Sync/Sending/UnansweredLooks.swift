internal import CoveCore

/// Documents of which it could not be found out what became of what was sent: when they are looked at again, and for how long
/// what can't be read is waited for.
struct UnansweredLooks {
    private struct Looks {
        /// How many have failed, for whatever reason.
        var failed = 0
        /// How often what is there could not be read.
        var unreadable = 0
        /// True until the next look begins.
        var isWaiting = false
    }

    private var looks: [DocumentID: Looks] = [:]

    /// After so many, what can't be read is taken for another device's: nobody waits for it for ever.
    static let most = 6
    /// Of so many documents each is looked at again; more have to wait for the next connection.
    static let limit = 10_000

    /// How long to wait before the next look; nil where one is waited for already, or of too many.
    mutating func pause(of document: DocumentID, after error: ProviderError) -> TimeSpan? {
        guard looks[document] != nil || looks.count < Self.limit else { return nil }
        var found = looks[document] ?? Looks()
        defer { looks[document] = found }
        if found.isWaiting { return nil }
        found.isWaiting = true
        found.failed += 1
        let pause = TimeSpan.seconds(1).doubled(min(found.failed, 9))
        // The server says when.
        if case .throttled(let told?) = error { return max(pause, told) }
        return pause
    }

    /// A look that was waited for begins.
    mutating func begin(_ document: DocumentID) { looks[document]?.isWaiting = false }

    /// What is there can't be read; true when that was so often enough.
    mutating func isUnreadable(_ document: DocumentID, after error: ProviderError) -> Bool {
        switch error {
        // These say nothing of the item.
        case .throttled, .busy, .cancelled, .failed(_, .wouldBlock): return false
        default: if error.parksAccount { return false }
        }
        guard looks[document] != nil || looks.count < Self.limit else { return false }
        looks[document, default: Looks()].unreadable += 1
        return looks[document]?.unreadable ?? 0 > Self.most
    }

    /// It was found out.
    mutating func forget(_ document: DocumentID) { looks[document] = nil }
}
