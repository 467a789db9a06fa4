/// Which edits a document consists of, so that it is known to be as it was saved, and only then.
struct EditHistory {
    // A state is named by the edit that led to it: after another edit in its place a state never comes back.
    private var done = [0]
    private var undone: [Int] = []
    private var last = 0

    /// Names the document's state; no other state of it ever has that name.
    var state: Int { done[done.count - 1] }

    /// Notes what happened.
    mutating func note(_ change: Document.ChangeKind) {
        switch change {
        case .done:
            done.append(fresh())
            undone = []
        case .undone:
            undone.append(done.removeLast())
            // An edit of before the document was opened.
            if done.isEmpty { done = [fresh()] }
        case .redone: done.append(undone.popLast() ?? fresh())
        case .cleared: break
        }
    }

    private mutating func fresh() -> Int {
        last += 1
        return last
    }
}
