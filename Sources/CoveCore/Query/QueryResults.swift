/// The results of a query that goes on, as the replies of one daemon after another make them.
public struct QueryResults: Sendable {
    /// What a reply has changed.
    public struct Changes: Sendable {
        /// Results that are new.
        public var added: [QueryResultMessage] = []
        /// Results that are others than before, with what they were.
        public var changed: [(former: QueryResultMessage, now: QueryResultMessage)] = []
        /// What is none any more, as it was last known.
        public var removed: [QueryResultMessage] = []

        /// No changes.
        public init() {}

        /// True where nothing has changed.
        public var isEmpty: Bool { added.isEmpty && changed.isEmpty && removed.isEmpty }
    }

    /// All of them by their ids.
    public private(set) var all: [Int: QueryResultMessage] = [:]
    /// What was known before the query began again, and has not been found since.
    private var unseen: Set<Int> = []

    /// No results.
    public init() {}

    /// The query is asked again, perhaps of another daemon: what is not found until all is gathered is none any more.
    public mutating func beginAgain() { unseen = Set(all.keys) }

    /// Takes what a reply tells.
    public mutating func take(_ reply: QueryInterface.FollowReply) -> Changes {
        var changes = Changes()
        for result in reply.results + (reply.changed ?? []) {
            unseen.remove(result.id)
            guard let former = all.updateValue(result, forKey: result.id) else {
                changes.added.append(result)
                continue
            }
            guard former != result else { continue }
            if former.documentID == result.documentID {
                changes.changed.append((former, result))
            } else {
                // The catalog was made anew, and its numbers stand for others.
                changes.removed.append(former)
                changes.added.append(result)
            }
        }
        for id in reply.removed ?? [] {
            unseen.remove(id)
            if let former = all.removeValue(forKey: id) { changes.removed.append(former) }
        }
        if reply.gathered == true {
            for id in unseen.sorted() { if let former = all.removeValue(forKey: id) { changes.removed.append(former) } }
            unseen = []
        }
        return changes
    }
}
