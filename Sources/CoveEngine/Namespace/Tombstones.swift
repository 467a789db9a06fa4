internal import CoveCore
internal import Synchronization

/// Names that a document has just left by rename or unlink: who takes one over soon takes over the document's identity.
///
/// Kept in memory only: a save that a crash cuts in two gets a new identity, and loses nothing.
final class Tombstones: Sendable {
    /// Who left the name.
    enum Departed {
        case moved(entry: Int64)
        case deleted(trash: Int64)
    }

    private struct Stone {
        let departed: Departed
        let expires: Int64
    }

    private let stones = Mutex<[Place: Stone]>([:])
    private let count = Atomic<Int>(0)

    var isEmpty: Bool { count.load(ordering: .acquiring) == 0 }

    func leave(_ parent: ItemID, _ name: [UInt8], _ departed: Departed, until expires: Int64) {
        stones.withLock { stones in
            stones[Place(parent, name)] = Stone(departed: departed, expires: expires)
            count.store(stones.count, ordering: .releasing)
        }
    }

    /// Takes the stone of a name away and tells who left it.
    func take(_ parent: ItemID, _ name: [UInt8], now: Int64) -> Departed? {
        guard !isEmpty else { return nil }
        return stones.withLock { stones in
            let stone = stones.removeValue(forKey: Place(parent, name))
            count.store(stones.count, ordering: .releasing)
            guard let stone, stone.expires > now else { return nil }
            return stone.departed
        }
    }

    /// The names whose document may still be taken over, by entry or trash row.
    func waiting() -> (entries: [Int64: Place], trash: [Int64: Place]) {
        guard !isEmpty else { return ([:], [:]) }
        return stones.withLock { stones in
            var entries: [Int64: Place] = [:]
            var trash: [Int64: Place] = [:]
            for (key, stone) in stones {
                switch stone.departed {
                case .moved(let entry): entries[entry] = key
                case .deleted(let row): trash[row] = key
                }
            }
            return (entries, trash)
        }
    }

    func expire(before now: Int64) {
        guard !isEmpty else { return }
        stones.withLock { stones in
            stones = stones.filter { $0.value.expires > now }
            count.store(stones.count, ordering: .releasing)
        }
    }
}
