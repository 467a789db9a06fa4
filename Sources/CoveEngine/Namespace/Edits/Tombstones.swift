internal import CoveCore

/// Names that a document has just left by rename or unlink: who takes one over soon takes over the document's identity.
///
/// Kept in memory only: a save that a crash cuts in two gets a new identity, and loses nothing.
struct Tombstones: Sendable {
    /// Who left the name.
    enum Departed: Sendable {
        case moved(entry: Int64)
        /// The trash does not keep its policy.
        case deleted(trash: Int64, policy: ContentPolicy)
    }

    /// What stands at a name.
    struct Stone: Sendable {
        let departed: Departed
        let expires: MonotonicTime
    }

    private let stones = RareTable<Place, Stone>()

    var isEmpty: Bool { stones.isEmpty }

    /// Puts a stone at a name.
    func leave(_ parent: ItemID, _ name: [UInt8], _ departed: Departed, until expires: MonotonicTime) {
        stones.insert(Stone(departed: departed, expires: expires), for: Place(parent, name))
    }

    /// The same within the transaction in which the document leaves.
    func leave(_ place: Place, _ stone: Stone, _ database: Database) {
        let former = stones[place]
        stones.insert(stone, for: place)
        database.whenRolledBack { [self] in set(former, at: place) }
    }

    /// Takes the stone of a name away, in the transaction in which an heir comes there, and tells who left it.
    func take(_ place: Place, now: MonotonicTime, _ database: Database) -> Departed? {
        guard !isEmpty, let stone = stones.remove(place) else { return nil }
        database.whenRolledBack { [self] in set(stone, at: place) }
        return stone.expires > now ? stone.departed : nil
    }

    private func set(_ stone: Stone?, at place: Place) {
        if let stone { stones.insert(stone, for: place) } else { stones.remove(place) }
    }

    /// The names whose document may still be taken over, by entry or trash row.
    func waiting() -> (entries: [Int64: Place], trash: [Int64: Place]) {
        var entries: [Int64: Place] = [:]
        var trash: [Int64: Place] = [:]
        for (key, stone) in stones.contents() {
            switch stone.departed {
            case .moved(let entry): entries[entry] = key
            case .deleted(let row, _): trash[row] = key
            }
        }
        return (entries, trash)
    }

    func expire(before now: MonotonicTime) {
        guard !isEmpty else { return }
        stones.update { $0 = $0.filter { $0.value.expires > now } }
    }
}
