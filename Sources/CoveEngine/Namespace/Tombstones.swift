internal import CoveCore

/// Names that a document has just left by rename or unlink: who takes one over soon takes over the document's identity.
///
/// Kept in memory only: a save that a crash cuts in two gets a new identity, and loses nothing.
struct Tombstones: Sendable {
    /// Who left the name.
    enum Departed: Sendable {
        case moved(entry: Int64)
        case deleted(trash: Int64)
    }

    private struct Stone: Sendable {
        let departed: Departed
        let expires: MonotonicTime
    }

    private let stones = RareTable<Place, Stone>()

    var isEmpty: Bool { stones.isEmpty }

    func leave(_ parent: ItemID, _ name: [UInt8], _ departed: Departed, until expires: MonotonicTime) {
        stones.insert(Stone(departed: departed, expires: expires), for: Place(parent, name))
    }

    /// Takes the stone of a name away and tells who left it.
    func take(_ parent: ItemID, _ name: [UInt8], now: MonotonicTime) -> Departed? {
        guard !isEmpty, let stone = stones.remove(Place(parent, name)), stone.expires > now else { return nil }
        return stone.departed
    }

    /// The names whose document may still be taken over, by entry or trash row.
    func waiting() -> (entries: [Int64: Place], trash: [Int64: Place]) {
        var entries: [Int64: Place] = [:]
        var trash: [Int64: Place] = [:]
        for (key, stone) in stones.contents() {
            switch stone.departed {
            case .moved(let entry): entries[entry] = key
            case .deleted(let row): trash[row] = key
            }
        }
        return (entries, trash)
    }

    func expire(before now: MonotonicTime) {
        guard !isEmpty else { return }
        stones.update { $0 = $0.filter { $0.value.expires > now } }
    }
}
