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

        /// The entry of the document that is known.
        var entry: Int64? {
            switch self {
            case .insert: nil
            case .replace(let id), .remove(let id), .move(let id, _, _), .metadata(let id), .restore(let id, _): id
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
    /// The directory that leaves its name to this.
    var aside: Aside?
    /// Other attributes are shown with this date, of this item: the kernel keeps that for itself.
    var dated: (item: ItemID, time: Timestamp)?
}

/// A directory here that is in the way of what comes from the provider, and the name that it goes on under.
///
/// It is renamed before anything takes its name: a directory that another one is moved over is dead to the kernel, which
/// shows nothing in it any more.
struct Aside: Sendable {
    var entry: Int64
    var place: Place
    var name: [UInt8]
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
    private let asked = Atomic<Bool>(false)
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

    /// The system call has come here; else the kernel has refused it.
    var isAsked: Bool { asked.load(ordering: .acquiring) }
    func setAsked() { asked.store(true, ordering: .releasing) }
    var isCommitted: Bool { committed.load(ordering: .acquiring) }
    func setCommitted() { committed.store(true, ordering: .releasing) }
}

/// The one transition that is being announced now.
final class IncomingTable: Sendable {
    /// What names of incoming items begin with.
    static let prefix = Array(".cove-incoming-".utf8)

    private let slot = EngineMutex<Announced?>(.announcedSlot, nil)
    private let counter = Atomic<Int>(0)
    private let committed = Atomic<Bool>(false)

    var current: Announced? { slot.withLock { $0 } }

    /// The current one if it was committed before it was announced; every look-up asks, and mostly without taking a lock.
    var committedBefore: Announced? { committed.load(ordering: .acquiring) ? current : nil }

    func set(_ announced: Announced?) {
        slot.withLock { $0 = announced }
        committed.store(announced?.isCommitted == true, ordering: .releasing)
    }

    /// A token no earlier announcement of this daemon had.
    func nextToken() -> [UInt8] {
        let number = counter.add(1, ordering: .relaxed).newValue
        return IncomingTable.prefix + Array("\(getpid())-\(number)".utf8)
    }
}

/// Recognizing the announcer's system calls.
extension RemoteChanges {
    /// The attributes of the item that is coming in under a token.
    func incomingAttributes(_ parent: ItemID, _ name: [UInt8]) throws(Errno) -> ItemAttributes? {
        guard let announced = incoming.current, announced.token == name, announced.parent == parent,
            let staged = announced.staged
        else { return nil }
        var attributes = try namespace.attributes(of: staged)
        attributes.linkCount = max(1, attributes.linkCount)
        return attributes
    }

    private func announcedCall(_ caller: Caller) -> Announced? {
        guard let announced = incoming.current, isAnnouncer(caller) else { return nil }
        // One is committed already where a directory left its name to it.
        return announced.isCommitted && announced.transition.aside == nil ? nil : announced
    }

    /// True for a name that a committed transition has taken, as long as the announcer is to move something to it.
    func isYetToCome(_ parent: ItemID, _ name: [UInt8], _ caller: Caller) -> Bool {
        guard let announced = incoming.committedBefore, isAnnouncer(caller) else { return false }
        return announced.target.map { $0 == (parent, name) } ?? (announced.parent == parent && announced.name == name)
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
    ///
    /// The kernel writes its own dates back in the announcer's name before that: those are the writer's. `EBUSY` keeps a wrong
    /// date from the kernel.
    func takeAnnouncedAttributes(
        _ caller: Caller,
        _ id: ItemID,
        _ change: AttributeChange,
        hasHandle: Bool
    ) throws(Errno) -> Bool {
        guard let announced = incoming.current, isAnnouncer(caller), case .metadata = announced.transition.kind,
            let dated = announced.transition.dated, !hasHandle, change.onlyTimes,
            case .at(dated.time) = change.modificationTime
        else { return false }
        announced.setAsked()
        guard dated.item == id else { throw .busy }
        if !announced.isCommitted { try commit(announced, for: caller) }
        return true
    }

    /// Commits an announced transition; `EBUSY` when the tree has changed since it was decided.
    ///
    /// True when what was to be removed stays; then the announcer's call fails, as the kernel would take a removed
    /// directory for dead and show nothing in it any more.
    @discardableResult
    func commit(_ announced: Announced, for caller: Caller? = nil) throws(Errno) -> Bool {
        announced.setAsked()
        if announced.isCommitted {
            guard try isInPlace(announced) else { throw .busy }
            return false
        }
        let isKept = try commit(announced.transition, staged: announced.staged, for: caller)
        announced.setCommitted()
        return isKept
    }

    /// Commits the removal of a directory; `ENOTEMPTY` where it stays.
    func removeDirectory(
        _ announced: Announced,
        _ parent: ItemID,
        _ name: [UInt8],
        _ caller: Caller
    ) throws(Errno) {
        let row = try catalog.read { database throws(Errno) -> ItemRow? in
            guard let entry = try database.entry(parent, name) else { return nil }
            return try database.item(entry.item)
        }
        if let row, row.kind == .directory { namespace.noteRemoved(row, at: clock.now()) }
        do throws(Errno) {
            if try commit(announced, for: caller) { throw .notEmpty }
        } catch {
            if let row { namespace.noteKept(row.id) }
            throw error
        }
    }

    /// True while what a transition has brought is where it was put, and nothing is where it was.
    private func isInPlace(_ announced: Announced) throws(Errno) -> Bool {
        try catalog.read { database throws(Errno) in
            let place = announced.target ?? (announced.parent, announced.name)
            guard let entry = try database.entry(place.parent, place.name) else { return false }
            if announced.target == nil { return entry.item == announced.staged }
            let former = try database.entry(announced.parent, announced.name)
            return former == nil && entry.id == announced.transition.kind.entry
        }
    }

    /// Makes a transition visible: through the mount where the kernel may know the directory, else directly.
    ///
    /// Throws `EBUSY` when the tree has changed since the transition was decided.
    func show(_ decided: Transition) throws(Errno) {
        var transition = decided
        let place = try catalog.read { database throws(Errno) in try self.place(of: transition, database) }
        guard let place else { return }
        // Programs that are in a directory stay in it.
        if place.isMerge {
            try commit(transition, staged: nil)
            return
        }
        transition.aside = place.aside
        transition.dated = place.time.map { (place.item, $0) }
        let announcer = self.announcer
        guard let announcer, namespace.mayBeKnown(place.parent), place.isListed else {
            try commit(transition, staged: nil)
            invalidate(place)
            return
        }
        let announced = try prepare(transition, place)
        guard let call = place.announcement(announced.token) else {
            try commitUnseen(announced, at: place)
            return
        }
        if case .replace = transition.kind { contents.awaitWalkers() }
        guard let aside = place.aside else {
            try announce(announced, call, at: place, announcer)
            return
        }
        let step = Announced(
            transition: transition,
            parent: aside.place.parent,
            name: aside.place.name,
            target: (aside.place.parent, aside.name),
            staged: announced.staged
        )
        let path = place.targetPath ?? place.path
        let free = path.parent.appending(FileName(unchecked: aside.name))
        guard try announce(step, .rename(from: path, to: free), at: place, announcer) else { return invalidate(place) }
        // What has come is shown to those who watch the name.
        announced.setCommitted()
        do throws(Errno) {
            incoming.set(announced)
            defer { incoming.set(nil) }
            try announcer.perform(call)
            // A program was quicker to look the name up: the kernel had nothing to ask.
            if !announced.isAsked { invalidate(place) }
        } catch {
            log.debug("announcing \(path) failed: \(error)")
            invalidate(place)
        }
    }

    /// Has the announcer make a system call, whose handler commits; false when it failed, and it is committed all the same.
    @discardableResult
    private func announce(
        _ announced: Announced,
        _ call: Announcement,
        at place: TransitionPlace,
        _ announcer: any Announcer
    ) throws(Errno) -> Bool {
        incoming.set(announced)
        defer { incoming.set(nil) }
        counters.announcements.add(1, ordering: .relaxed)
        do throws(Errno) {
            try announcer.perform(call)
        } catch {
            if announced.isCommitted { return false }
            // The kernel alone says so of a directory that something is mounted on.
            if error == .busy, announced.isAsked || announced.transition.aside == nil {
                discardStaged(announced)
                throw .busy
            }
            // The mount refuses, as a read-only directory does: the kernel is told to ask again instead.
            log.debug("announcing \(place.path) failed: \(error)")
            try commitUnseen(announced, at: place)
            return false
        }
        if !announced.isCommitted {
            try commitUnseen(announced, at: place)
            return false
        }
        if case .metadata = announced.transition.kind {
            kernel?.invalidateAttributes(of: place.item)
        }
        return true
    }

    /// Commits what the kernel was not to be shown, and tells it to ask again.
    private func commitUnseen(_ announced: Announced, at place: TransitionPlace) throws(Errno) {
        do throws(Errno) { try commit(announced) } catch {
            discardStaged(announced)
            throw error
        }
        invalidate(place)
    }

    private func discardStaged(_ announced: Announced) {
        guard let staged = announced.staged else { return }
        contents.dropOrphan(staged)
    }

    private func invalidate(_ place: TransitionPlace) {
        guard let kernel = kernel else { return }
        if case .metadata = place.change {} else { kernel.invalidateEntry(place.parent, place.name) }
        if let target = place.target { kernel.invalidateEntry(target.parent, target.name) }
        if let aside = place.aside { kernel.invalidateEntry(aside.place.parent, aside.name) }
        kernel.invalidateAttributes(of: place.item)
    }

    private func prepare(_ transition: Transition, _ place: TransitionPlace) throws(Errno) -> Announced {
        switch transition.kind {
        case .insert, .replace:
            guard let remote = transition.remote else { throw .invalidArgument }
            let staged = try catalog.write { database throws(Errno) -> ItemID in
                var row = self.namespace.itemRow(for: remote)
                row.linkCount = 0
                let id = try database.insert(row)
                try self.namespace.storeRemoteAttributes(remote, of: id, database)
                row.id = id
                if case .replace(let entry) = transition.kind, let entry = try database.entry(id: entry),
                    let old = try database.item(entry.item)
                {
                    try self.namespace.carry(old, of: entry, to: &row, remote, database)
                }
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
        case .move:
            return Announced(transition: transition, parent: place.parent, name: place.name, target: place.target)
        }
    }
}
