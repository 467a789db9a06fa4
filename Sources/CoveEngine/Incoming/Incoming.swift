internal import CoveCore
internal import Glibc
internal import Synchronization

/// One change, remote but for the last kind, that is to become visible in the tree.
struct Transition: Sendable {
    enum Kind: Sendable {
        /// A document the catalog does not know takes a name.
        case insert(parent: ItemID, name: [UInt8])
        /// A known document has new bytes.
        case replace(entry: Int64)
        /// A known document is gone.
        case remove(entry: Int64)
        /// A known document has another place.
        case move(entry: Int64, parent: ItemID, name: [UInt8])
        /// A known document has other dates, permissions or attributes.
        case metadata(entry: Int64)
        /// A person puts an earlier content back: the item that has its bytes.
        case restore(entry: Int64, item: ItemID)
        /// A directory here leaves its place to a document of the provider's.
        case giveWay(entry: Int64, from: Place, to: [UInt8], for: DocumentID)

        /// The entry of the document that is known.
        var entry: Int64? {
            switch self {
            case .insert: nil
            case .replace(let id), .remove(let id), .move(let id, _, _), .metadata(let id), .restore(let id, _),
                .giveWay(let id, _, _, _):
                id
            }
        }
    }

    let kind: Kind
    /// What the provider has now; nil when it is gone, or has no part in it.
    let remote: RemoteItem?
    /// When the look at the provider began; nil when the push that holds the document shows it.
    var seen: MonotonicTime?
    /// The document whose push shows it: an entry that has become another document's meanwhile is not meant.
    var sent: DocumentID?
    /// The entry whose tree a removal is part of: what has left that tree meanwhile is not gone.
    var top: Int64?
    /// What a document is called that the catalog does not know.
    var newDocument = DocumentID.random()
}

/// A transition on its way through the mount: committed by the handler of the announcer's system call.
final class Announced: Sendable {
    /// What the announcer calls the incoming item, nil where there is none.
    let token: [UInt8]?
    let transition: Transition
    /// The directory and name the system call is about.
    let parent: ItemID
    let name: [UInt8]
    /// Where a move goes.
    let target: (parent: ItemID, name: [UInt8])?
    /// The row made for the incoming item.
    let staged: ItemID?
    private let committed = Atomic<Bool>(false)

    init(
        transition: Transition,
        parent: ItemID,
        name: [UInt8],
        target: (parent: ItemID, name: [UInt8])? = nil,
        token: [UInt8]? = nil,
        staged: ItemID? = nil
    ) {
        self.transition = transition
        self.parent = parent
        self.name = name
        self.target = target
        self.token = token
        self.staged = staged
    }

    var isCommitted: Bool { committed.load(ordering: .acquiring) }
    func setCommitted() { committed.store(true, ordering: .releasing) }
}

/// The one transition that is being announced now.
final class IncomingTable: Sendable {
    /// What names of incoming items begin with.
    static let prefix = Array(".cove-incoming-".utf8)

    private let slot = Mutex<Announced?>(nil)
    private let counter = Atomic<Int>(0)

    var current: Announced? { slot.withLock { $0 } }

    func set(_ announced: Announced?) { slot.withLock { $0 = announced } }

    /// A token no earlier announcement of this daemon had.
    func nextToken() -> [UInt8] {
        let number = counter.add(1, ordering: .relaxed).newValue
        return IncomingTable.prefix + Array("\(getpid())-\(number)".utf8)
    }
}

/// Recognizing the announcer's system calls.
extension Engine {
    /// The attributes of the item that is coming in under a token.
    func incomingAttributes(_ parent: ItemID, _ name: [UInt8]) throws(Errno) -> ItemAttributes? {
        guard let announced = incoming.current, announced.token == name, announced.parent == parent,
            let staged = announced.staged
        else { return nil }
        var attributes = try attributes(of: staged)
        attributes.linkCount = max(1, attributes.linkCount)
        return attributes
    }

    private func announcedCall(_ caller: Caller) -> Announced? {
        guard let announced = incoming.current, !announced.isCommitted, isAnnouncer(caller) else { return nil }
        return announced
    }

    /// True for the announcing process; nobody knows a caller without a thread, as one of another PID namespace.
    func isAnnouncer(_ caller: Caller) -> Bool {
        caller.thread > 0 && announcer.withLock { $0 }?.isAnnouncer(caller.thread) == true
    }

    /// The transition that a rename of the announcer stands for.
    func takeAnnounced(
        _ caller: Caller,
        moving parent: ItemID,
        _ name: [UInt8],
        to newParent: ItemID,
        _ newName: [UInt8]
    ) -> Announced? {
        guard let announced = announcedCall(caller) else { return nil }
        if let token = announced.token {
            return token == name && newParent == announced.parent && newName == announced.name ? announced : nil
        }
        guard let target = announced.target, announced.parent == parent, announced.name == name,
            target.parent == newParent, target.name == newName
        else { return nil }
        return announced
    }

    /// The transition that an unlink or rmdir of the announcer stands for.
    func takeAnnounced(_ caller: Caller, removing parent: ItemID, _ name: [UInt8]) -> Announced? {
        guard let announced = announcedCall(caller), announced.token == nil, announced.target == nil,
            announced.parent == parent, announced.name == name
        else { return nil }
        return announced
    }

    /// True when a setattr is the announcer's: its transition is committed.
    func takeAnnouncedAttributes(_ caller: Caller, _ id: ItemID) -> Bool {
        guard let announced = incoming.current, isAnnouncer(caller), case .metadata = announced.transition.kind else {
            return false
        }
        if !announced.isCommitted { _ = try? commit(announced, for: caller) }
        return true
    }

    /// Commits an announced transition; `EBUSY` when the tree has changed since it was decided.
    ///
    /// True when what was to be removed stays; then the announcer's call fails, as the kernel would take a removed
    /// directory for dead and show nothing in it any more.
    @discardableResult
    func commit(_ announced: Announced, for caller: Caller? = nil) throws(Errno) -> Bool {
        let isKept = try commit(announced.transition, staged: announced.staged, for: caller)
        announced.setCommitted()
        return isKept
    }

    /// Makes a transition visible: through the mount where the kernel may know the directory, else directly.
    ///
    /// Throws `EBUSY` when the tree has changed since the transition was decided.
    func show(_ transition: Transition) throws(Errno) {
        let place = try catalog.read { database throws(Errno) in try self.place(of: transition, database) }
        guard let place else { return }
        // Programs that are in a directory stay in it.
        if place.isMerge {
            try commit(transition, staged: nil)
            return
        }
        // A directory that another one is moved over is dead to the kernel, which shows nothing in it any more.
        if let occupant = place.occupant {
            try show(Transition(kind: occupant, remote: nil, seen: transition.seen))
        }
        let announcer = self.announcer.withLock { $0 }
        guard let announcer, touched.contains(place.parent), place.isListed else {
            try commit(transition, staged: nil)
            invalidate(place)
            return
        }
        let announced = try prepare(transition, place)
        if case .replace = transition.kind { awaitWalkers() }
        incoming.set(announced)
        defer { incoming.set(nil) }
        counters.announcements.add(1, ordering: .relaxed)
        do throws(Errno) {
            try announcer.perform(place.announcement(announced.token))
        } catch {
            if announced.isCommitted { return }
            if error == .busy {
                discardStaged(announced)
                throw .busy
            }
            // The mount refuses, as a read-only directory does: the kernel is told to ask again instead.
            log.debug("announcing \(place.path) failed: \(error)")
            do throws(Errno) { try commit(announced) } catch {
                discardStaged(announced)
                throw error
            }
            invalidate(place)
            return
        }
        if !announced.isCommitted {
            try commit(announced)
            invalidate(place)
        } else if case .metadata = transition.kind {
            kernel.withLock { $0 }?.invalidateAttributes(of: place.item)
        }
    }

    private func discardStaged(_ announced: Announced) {
        guard let staged = announced.staged else { return }
        dropOrphan(staged)
    }

    private func invalidate(_ place: TransitionPlace) {
        guard let kernel = kernel.withLock({ $0 }) else { return }
        if case .metadata = place.change {} else { kernel.invalidateEntry(place.parent, place.name) }
        if let target = place.target { kernel.invalidateEntry(target.parent, target.name) }
        kernel.invalidateAttributes(of: place.item)
    }

    private func prepare(_ transition: Transition, _ place: TransitionPlace) throws(Errno) -> Announced {
        switch transition.kind {
        case .insert, .replace:
            guard let remote = transition.remote else { throw .invalidArgument }
            let staged = try catalog.write { database throws(Errno) -> ItemID in
                var row = self.itemRow(for: remote)
                row.linkCount = 0
                let id = try database.insert(row)
                try self.storeRemoteAttributes(remote, of: id, database)
                return id
            }
            return Announced(
                transition: transition,
                parent: place.parent,
                name: place.name,
                token: incoming.nextToken(),
                staged: staged
            )
        case .restore(_, let item):
            return Announced(
                transition: transition,
                parent: place.parent,
                name: place.name,
                token: incoming.nextToken(),
                staged: item
            )
        case .remove, .metadata:
            return Announced(transition: transition, parent: place.parent, name: place.name)
        case .move, .giveWay:
            return Announced(transition: transition, parent: place.parent, name: place.name, target: place.target)
        }
    }
}

/// Where a transition happens in the tree as it is here.
struct TransitionPlace {
    var parent: ItemID
    var name: [UInt8]
    var path: RemotePath
    var item: ItemID
    var isListed: Bool
    var isDirectory: Bool
    /// True for a directory that was made on both sides: it stays, and becomes the provider's too.
    var isMerge = false
    var target: (parent: ItemID, name: [UInt8])?
    var targetPath: RemotePath?
    var modificationTime: Timestamp?
    /// How a directory that is in the way leaves the place.
    var occupant: Transition.Kind?
    var change: Transition.Kind

    func announcement(_ token: [UInt8]?) -> Announcement {
        switch change {
        case .insert, .replace, .restore:
            .rename(from: path.parent.appending(FileName(unchecked: token ?? [])), to: path)
        case .remove: isDirectory ? .removeDirectory(path) : .unlink(path)
        case .move, .giveWay: .rename(from: path, to: targetPath ?? path)
        case .metadata: .setTimes(path, modificationTime ?? Timestamp(0))
        }
    }
}

extension Engine {
    /// True when what the provider has at a place and what was made there here are one directory.
    func merges(_ remote: RemoteItem?, _ occupant: EntryRow, _ database: Database) throws(Errno) -> Bool {
        guard remote?.kind == .directory, !occupant.isUploaded else { return false }
        return try database.existingItem(occupant.item).kind == .directory
    }

    /// Finds out where a transition happens; nil when there is nothing to do any more.
    private func place(of transition: Transition, _ database: Database) throws(Errno) -> TransitionPlace? {
        func listed(_ directory: ItemID) throws(Errno) -> Bool {
            try database.item(directory)?.residency == .whole
        }
        switch transition.kind {
        case .insert(let parent, let name):
            guard let directory = try database.path(ofDirectory: parent) else { return nil }
            var isMerge = false
            var givesWay: Transition.Kind?
            if let occupant = try database.entry(parent, name) {
                isMerge = try merges(transition.remote, occupant, database)
                givesWay = try giveWay(occupant, for: transition.newDocument, database)
            }
            return TransitionPlace(
                parent: parent,
                name: name,
                path: directory.appending(FileName(unchecked: name)),
                item: parent,
                isListed: try listed(parent),
                isDirectory: transition.remote?.kind == .directory,
                isMerge: isMerge,
                occupant: givesWay,
                change: transition.kind
            )
        case .replace(let id), .remove(let id), .metadata(let id), .move(let id, _, _), .restore(let id, _),
            .giveWay(let id, _, _, _):
            guard let entry = try database.entry(id: id), let row = try database.item(entry.item),
                let directory = try database.path(ofDirectory: entry.parent)
            else { return nil }
            var place = TransitionPlace(
                parent: entry.parent,
                name: entry.name,
                path: directory.appending(FileName(unchecked: entry.name)),
                item: row.id,
                isListed: try listed(entry.parent),
                isDirectory: row.kind == .directory,
                modificationTime: transition.remote?.metadata.modificationTime ?? row.modificationTime,
                change: transition.kind
            )
            let target: Place
            switch transition.kind {
            case .move(_, let parent, let name):
                target = Place(parent, name)
                if let occupant = try database.entry(parent, name), occupant.id != id,
                    !isSuperseded(occupant, by: transition.remote, row)
                {
                    place.occupant = try giveWay(occupant, for: entry.document, database)
                }
            case .giveWay(_, let from, let name, _): target = Place(from.parent, name)
            default: return place
            }
            guard let directory = try database.path(ofDirectory: target.parent) else { return nil }
            place.target = (target.parent, target.name)
            place.targetPath = directory.appending(FileName(unchecked: target.name))
            return place
        }
    }

    /// How what has a name leaves it to a document; nil unless it is a directory.
    private func giveWay(
        _ occupant: EntryRow,
        for document: DocumentID,
        _ database: Database
    ) throws(Errno) -> Transition.Kind? {
        guard try database.existingItem(occupant.item).kind == .directory else { return nil }
        let name = try conflictName(occupant.parent, occupant.name, database)
        return .giveWay(entry: occupant.id, from: occupant.place, to: name, for: document)
    }
}
