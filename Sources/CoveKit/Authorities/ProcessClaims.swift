internal import Foundation

/// The queue of claims within this process: who waits for whom.
///
/// Plain values: nothing in it waits. A directory outside of Cove's mounts is never a package.
struct ProcessClaims {
    struct Entry {
        var id: String
        var coordinator: CoordinatorIdentity
        var purpose: String
        var presenter: PresenterMailbox?
        var intents: [Intent]
        /// Claims in whose accessors it was asked for.
        var within: [String] = []
        /// False while it waits for earlier claims; then presenters are asked.
        var isAdmitted = false
        /// True while its accessor runs.
        var isGranted = false
        /// Presenters that were asked for it and have not answered.
        var asked: [ObjectIdentifier: Int] = [:]
        /// What a presenter said went wrong.
        var failure: CoveError?
        /// Items that were there when it was granted.
        var existed: Set<String> = []
        /// Items that its holder moved, whose presenters know already.
        var moved: Set<String> = []
    }

    /// In the order of their coming.
    private(set) var entries: [Entry] = []

    subscript(id: String) -> Entry? {
        get { entries.first { $0.id == id } }
        set {
            let index = entries.firstIndex { $0.id == id }
            switch (index, newValue) {
            case (let index?, let value?): entries[index] = value
            case (let index?, nil): entries.remove(at: index)
            case (nil, let value?): entries.append(value)
            case (nil, nil): break
            }
        }
    }

    /// The claims that a claim waits for: earlier ones, and all that have overtaken it; those that are granted in the end.
    func blockers(of entry: Entry) -> [Entry] {
        guard let place = entries.firstIndex(where: { $0.id == entry.id }) else { return [] }
        return entries.indices.filter { index in
            let other = entries[index]
            guard index != place, !isOneParty(entry, other) else { return false }
            let (earlier, later) = index < place ? (other, entry) : (entry, other)
            if entry.isAdmitted { return other.isGranted && conflict(earlier, later) }
            return index < place ? isHeldUp(entry, by: other) : other.isAdmitted && conflict(earlier, later)
        }.map { entries[$0] }
    }

    private func isHeldUp(_ later: Entry, by earlier: Entry) -> Bool {
        guard !isOneParty(earlier, later), conflict(earlier, later) else { return false }
        guard let presenter = later.presenter else { return true }
        // What a presenter does before it answers must not wait for the one who asked, nor for who waits behind that one.
        var seen: Set<String> = []
        return !awaits(earlier, ObjectIdentifier(presenter), &seen)
    }

    /// True when a claim can't be granted before a presenter has answered.
    private func awaits(_ entry: Entry, _ presenter: ObjectIdentifier, _ seen: inout Set<String>) -> Bool {
        guard !entry.isGranted, seen.insert(entry.id).inserted else { return false }
        if entry.isAdmitted {
            if entry.asked[presenter] != nil { return true }
            // Another presenter that was asked may want a claim of its own before it answers.
            return entries.contains { other in
                guard let own = other.presenter, entry.asked[ObjectIdentifier(own)] != nil else { return false }
                return awaits(other, presenter, &seen)
            }
        }
        guard let place = entries.firstIndex(where: { $0.id == entry.id }) else { return false }
        return entries[..<place].contains { earlier in
            !isOneParty(earlier, entry) && conflict(earlier, entry) && awaits(earlier, presenter, &seen)
        }
    }

    private func conflict(_ earlier: Entry, _ later: Entry) -> Bool {
        earlier.intents.contains { first in later.intents.contains { Self.conflict(first, $0) } }
    }

    private func isOneParty(_ one: Entry, _ other: Entry) -> Bool {
        one.coordinator === other.coordinator || one.purpose == other.purpose
    }

    /// True when an entry waits for a claim whose holder waits, over any number of others, for one of the entry's party.
    func isCircle(from entry: Entry) -> Bool {
        var seen: Set<String> = []
        var next = blockers(of: entry)
        while let blocker = next.popLast() {
            guard seen.insert(blocker.id).inserted else { continue }
            if isOneParty(blocker, entry) || entry.within.contains(blocker.id) { return true }
            // All that the blocker's party waits for holds the blocker up too, and so does what is asked for inside.
            for waiting in entries
            where !waiting.isAdmitted && (isOneParty(waiting, blocker) || waiting.within.contains(blocker.id)) {
                for further in blockers(of: waiting) {
                    if isOneParty(further, entry) || entry.within.contains(further.id) { return true }
                    next.append(further)
                }
            }
        }
        return false
    }

    private static func conflict(_ earlier: Intent, _ later: Intent) -> Bool {
        let (old, new) = (earlier.location.path, later.location.path)
        if old == new { return earlier.isWriting || later.isWriting }
        if isInside(new, old) { return earlier.isExclusive }
        if isInside(old, new) { return later.isExclusive }
        return false
    }

    /// True when a path is below a directory.
    static func isInside(_ path: String, _ directory: String) -> Bool {
        directory == "/" ? path != "/" : path.hasPrefix(directory + "/")
    }

    /// A moved item's path: waiting claims follow, but for those that mean whatever is at the path.
    mutating func follow(_ old: String, _ new: String) {
        for index in entries.indices where !entries[index].isAdmitted {
            for item in entries[index].intents.indices {
                let intent = entries[index].intents[item]
                if intent.writing.contains(.forReplacing) { continue }
                if let path = Self.moved(intent.location.path, old, new) {
                    entries[index].intents[item].location.path = path
                }
            }
        }
    }

    /// Where a path is once a directory or file was moved; nil when that does not concern it.
    static func moved(_ path: String, _ old: String, _ new: String) -> String? {
        if path == old { return new }
        return isInside(path, old) ? new + path.dropFirst(old.count) : nil
    }
}

extension Intent {
    /// True for a writer that shuts out all who use what is inside.
    var isExclusive: Bool { !writing.isDisjoint(with: [.forDeleting, .forMoving, .forReplacing]) }
}
