import CoveCore
import CoveTestSupport

@testable import CoveEngine

/// A tree here, the tree at a source that can do nothing but create, move and delete one item, and the queue between them.
///
/// What is in a row's way is found here by looking at everything, where the catalog has indexes and triggers for it.
struct ScheduleWorld {
    struct Node {
        var document = DocumentID.random()
        var isFolder: Bool
        /// Where it is here; nil once it is deleted.
        var here: Place?
        /// Where the source has it.
        var there: Place?
        /// When it was changed last; nil while nothing is to be sent of it.
        var changed: Timestamp?
        var retry = Timestamp.epoch
        var isDeletion: Bool { here == nil && there != nil }
    }

    struct Fault: Error, CustomStringConvertible { let description: String }

    var nodes: [ItemID: Node] = [.root: Node(isFolder: true, here: nil, there: nil)]
    var nextID: UInt64 = 2
    var now = Timestamp(milliseconds: 1_000_000)
    let settle = TimeSpan.seconds(2)
    /// Commits a row cost that could not go.
    var idleCommits = 0

    func children(of folder: ItemID) -> [ItemID] { nodes.filter { $0.value.here?.parent == folder }.keys.sorted() }
    func occupant(here place: Place) -> ItemID? { nodes.first { $0.value.here == place }?.key }
    func occupant(there place: Place) -> ItemID? { nodes.first { $0.value.there == place }?.key }
    func isThere(_ folder: ItemID) -> Bool { folder == .root || nodes[folder]?.there != nil }
    func isFull(_ folder: ItemID) -> Bool { nodes.values.contains { $0.there?.parent == folder } }

    func ancestors(here folder: ItemID) -> [ItemID] {
        var found: [ItemID] = []
        var current = folder
        while current != .root, let place = nodes[current]?.here {
            found.append(current)
            current = place.parent
        }
        return found
    }

    /// A folder and those above it at the source, and the first that it does not have.
    func chain(there folder: ItemID) -> (ancestors: [ItemID], missing: ItemID?) {
        var found: [ItemID] = []
        var current = folder
        while current != .root {
            found.append(current)
            guard let place = nodes[current]?.there else { return (found, current) }
            current = place.parent
        }
        return (found, nil)
    }

    func differs(_ id: ItemID) -> Bool {
        guard let node = nodes[id], id != .root else { return false }
        return node.here != node.there || node.changed != nil
    }

    var isDone: Bool { nodes.keys.allSatisfy { !differs($0) } }

    func row(_ id: ItemID) -> QueueRow {
        let node = nodes[id]
        let number = Int64(id.rawValue)
        let isDeletion = node?.isDeletion ?? false
        return QueueRow(
            key: isDeletion ? .trash(number) : .entry(number),
            document: node?.document ?? .random(),
            stamp: node?.changed ?? .epoch
        )
    }

    static func id(_ row: QueueRow) -> ItemID {
        switch row.key {
        case .entry(let number), .trash(let number): ItemID(UInt64(number))
        }
    }

    /// True when a row may go by its own time.
    func isDue(_ id: ItemID) -> Bool {
        guard let node = nodes[id], let changed = node.changed else { return false }
        return node.retry > .epoch ? node.retry <= now : changed + settle <= now
    }

    /// Nil when nothing but what is under way is in the way of a row.
    func obstacle(of id: ItemID) -> ItemID? {
        guard let node = nodes[id] else { return nil }
        guard let target = node.here else { return nodes.first { $0.value.there?.parent == id }?.key }
        let (ancestors, missing) = chain(there: target.parent)
        if let missing { return missing }
        if node.there != target, let other = occupant(there: target), other != id { return other }
        if node.isFolder, node.there != target, let index = ancestors.firstIndex(of: id) {
            return ancestors[..<index].first { nodes[$0]?.there != nodes[$0]?.here }
        }
        return nil
    }

    func needs(of id: ItemID) -> QueueNeeds {
        guard let node = nodes[id] else { return QueueNeeds() }
        var needs = QueueNeeds()
        for place in [node.here, node.there].compactMap({ $0 }) {
            needs.path.formUnion(chain(there: place.parent).ancestors)
            if !needs.places.contains(place) { needs.places.append(place) }
        }
        needs.moving = node.isFolder && node.there != nil && node.here != node.there ? id : nil
        return needs
    }
}

extension ScheduleWorld: QueueView {
    func eachDue(_ stream: QueueStream, at now: Timestamp, _ body: (QueueRow) -> Bool) throws(Errno) {
        let due = nodes.filter { id, node in
            guard isDue(id) else { return false }
            let isAgain = node.retry > .epoch
            // As the catalog does: rows in folders that are not there and folders to delete that are not empty are not seen.
            if let parent = node.here?.parent, !isThere(parent) { return false }
            if node.isDeletion, isFull(id) { return false }
            return switch stream {
            case .folders: !isAgain && node.here != nil && node.isFolder
            case .changes: !isAgain && node.here != nil
            case .deletions: !isAgain && node.isDeletion
            case .changeRetries: isAgain && node.here != nil
            case .deletionRetries: isAgain && node.isDeletion
            }
        }
        let rows = due.sorted { ($0.value.changed ?? .epoch, $0.key) < ($1.value.changed ?? .epoch, $1.key) }
        for (id, _) in rows where !body(row(id)) { return }
    }

    func look(at row: QueueRow, now: Timestamp) throws(Errno) -> QueueFinding {
        let id = Self.id(row)
        guard let other = obstacle(of: id), let node = nodes[id], let blocker = nodes[other] else {
            return .ready(needs(of: id))
        }
        let way: QueueObstacle = node.here != nil && blocker.there == node.here ? .name : .folder
        if blocker.isDeletion {
            return .after(self.row(other), isDue(other) && !isFull(other) ? .now : .unknown, way)
        }
        guard let changed = blocker.changed else { return .after(self.row(other), .unknown, way) }
        return .after(self.row(other), isDue(other) ? .now : .at(max(blocker.retry, changed + settle)), way)
    }
}
