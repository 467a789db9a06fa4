package import CoveCore

/// What presenters are told.
extension ClaimTable {
    private typealias Kind = CoordinationInterface.MessageKind

    /// Tells a presenter; the message's number, or nil where it does not want to know.
    @discardableResult
    mutating func tell(
        _ presenter: Presenter,
        _ kind: CoordinationInterface.MessageKind,
        _ path: RemotePath,
        to newPath: RemotePath? = nil,
        outside: String? = nil,
        claim: Int? = nil,
        version: VersionStatus? = nil,
        attributes: [String] = []
    ) -> Int? {
        guard let session = sessions[presenter.session] else { return nil }
        if kind != .reacquire { tellPendingMove(presenter) }
        var (kind, outside) = (kind, outside)
        if kind == .didMove, presenter.alias != nil {
            // The name by which its program has the item stays where it is, but for an item that is in no account any more.
            guard outside != nil else { return nil }
            (kind, outside) = (.didChange, nil)
        }
        var path = path
        if !presenter.implements.contains(kind) {
            // What a presenter of a package does not hear of its parts, it hears as a change of the whole.
            guard kind.isOfSubitem, let node = presenter.node, node.isPackage, presenter.implements.contains(.didChange)
            else { return nil }
            kind = .didChange
            path = node.path
        }
        var version = version
        if let alias = presenter.alias {
            path = alias.path
            version?.conflictPath = nil
        }
        return send(
            presenter,
            session,
            kind,
            path,
            to: newPath,
            outside: outside,
            claim: claim,
            version: version,
            attributes: attributes
        )
    }

    /// The name by which a presenter's program has its item is another one now.
    package mutating func moveAlias(of number: Int, to path: RemotePath) {
        guard let presenter = presenters[number], let alias = presenter.alias, alias.path != path else { return }
        presenter.alias?.path = path
        guard presenter.implements.contains(.didMove), let session = sessions[presenter.session] else { return }
        send(presenter, session, .didMove, alias.path, to: path)
    }

    @discardableResult
    private mutating func send(
        _ presenter: Presenter,
        _ session: ClaimSession,
        _ kind: CoordinationInterface.MessageKind,
        _ path: RemotePath,
        to newPath: RemotePath? = nil,
        outside: String? = nil,
        claim: Int? = nil,
        version: VersionStatus? = nil,
        attributes: [String] = []
    ) -> Int {
        lastMessage += 1
        let message = CoordinationInterface.Message(
            number: lastMessage,
            presenter: Token.presenter(presenter.number),
            kind: kind,
            path: PathParameter(path),
            newPath: newPath.map { PathParameter($0) },
            outside: outside,
            claim: claim.map { Token.claim($0) },
            version: version,
            attributes: attributes
        )
        effects.append(.tell(session: session.number, message))
        return message.number
    }

    /// Tells a session itself; the message's number.
    @discardableResult
    mutating func tell(
        _ session: ClaimSession,
        _ kind: CoordinationInterface.MessageKind,
        claim: Int? = nil
    ) -> Int {
        lastMessage += 1
        let message = CoordinationInterface.Message(
            number: lastMessage,
            presenter: nil,
            kind: kind,
            claim: claim.map { Token.claim($0) }
        )
        effects.append(.tell(session: session.number, message))
        return message.number
    }

    mutating func tellReacquire(_ number: Int, _ claim: Claim) {
        guard let presenter = presenters[number], let path = presenter.knownPath else { return }
        tell(presenter, .reacquire, path, claim: claim.askedAs[number] ?? claim.number)
    }

    // MARK: Changes

    /// Something happened to an item; the holder of a write claim on it is told at the claim's end, with everybody else.
    package mutating func changed(_ path: RemotePath, _ change: ItemChange) {
        guard !presenters.isEmpty else { return }
        if let claim = writer(of: path) {
            merge(change, at: path, into: claim)
        } else {
            tell(change, at: path, except: nil)
        }
    }

    /// The granted claim that keeps others from writing to an item.
    func writer(of path: RemotePath) -> Claim? {
        var node = root
        var found: Claim?
        func look(_ node: PathNode, isLast: Bool) {
            for intent in node.intents where intent.claim.isGranted && intent.claim.request.manner == .explicit {
                if isLast ? intent.use.isWrite : intent.use.takesAll || node.isPackage && intent.use.isWrite {
                    found = intent.claim
                }
            }
        }
        let names = path.names
        for (index, name) in names.enumerated() {
            guard let child = node.children[name] else {
                break
            }
            node = child
            look(node, isLast: index == names.count - 1)
        }
        return found
    }

    private func merge(_ change: ItemChange, at path: RemotePath, into claim: Claim) {
        // Beyond this the item itself stands for all that is inside.
        guard claim.changes.count < 1000 || claim.changes[path] != nil else { return }
        switch (claim.changes[path], change) {
        case (.appeared, .changed): break
        case (.removed, .appeared): claim.changes[path] = .changed
        default: claim.changes[path] = change
        }
    }

    /// The end of a writing is a change, whatever was seen of it.
    mutating func noteOwnChanges(_ claim: Claim, _ exists: [Bool]?) {
        for (index, intent) in claim.intents.enumerated() {
            guard case .write(let option) = intent.use else { continue }
            let exists = exists.map { index < $0.count && $0[index] } ?? true
            let path = intent.node.path
            let known = claim.changes[path]
            switch (intent.existed, exists) {
            case (true, true): if option != .forMoving, known == nil { claim.changes[path] = .changed }
            case (true, false): if option != .forMoving { claim.changes[path] = .removed }
            case (false, true): if !claim.targets.contains(path) { claim.changes[path] = .appeared }
            case (false, false): claim.changes[path] = nil
            }
        }
    }

    mutating func tellChanges(of claim: Claim) {
        for (path, change) in claim.changes.sorted(by: { $0.key < $1.key }) {
            tell(change, at: path, except: claim.request.presenter)
        }
        claim.changes = [:]
    }

    private mutating func tell(_ change: ItemChange, at path: RemotePath, except own: Int?) {
        let (item, above) = presenters(around: path)
        if change != .removed {
            for presenter in item where presenter.number != own { tell(presenter, .didChange, path) }
        }
        let kind: Kind = change == .appeared ? .subitemDidAppear : .subitemDidChange
        for presenter in above where presenter.number != own { tell(presenter, kind, path) }
    }

    /// The presenters of an item, and those of all that it is in.
    private func presenters(around path: RemotePath) -> (item: [Presenter], above: [Presenter]) {
        var node = root
        var above: [Presenter] = []
        for name in path.names {
            above += node.presenters
            guard let child = node.children[name] else { return ([], above) }
            node = child
        }
        return (node.presenters, above)
    }

    /// What the cloud knows of an item has changed.
    package mutating func attributesChanged(_ path: RemotePath, _ attributes: [String]) {
        guard let node = existingNode(at: path) else { return }
        for presenter in node.presenters {
            let observed = attributes.filter { presenter.observes.contains($0) }
            if !observed.isEmpty { tell(presenter, .didChangeAttributes, path, attributes: observed) }
        }
    }

    /// A version came, went or was resolved: the writer's own presenters hear of it too.
    package mutating func versionChanged(_ path: RemotePath, _ kind: VersionChange, _ version: VersionStatus?) {
        let (item, above) = presenters(around: path)
        for presenter in item { tell(presenter, kind.ofItem, path, version: version) }
        for presenter in above { tell(presenter, kind.ofSubitem, path, version: version) }
    }

    // MARK: Moves

    /// An item is elsewhere: its claims and presenters, and those of all inside, go with it.
    ///
    /// One that is to replace whatever is at the path stays there. `claim` is the mover's.
    package mutating func moved(_ path: RemotePath, to target: [PathStep], by claim: Int? = nil, now: MonotonicTime) {
        relocate(path, to: target, by: claim)
        findWaitsAgain(of: pending, now: now)
    }

    /// An item has gone to another file system: who presents it, or something in it, is told where it is now.
    ///
    /// They stay here until they go there themselves. Without a place they hear of a change, and find it gone.
    package mutating func movedOut(_ path: RemotePath, to place: String?, by claim: Int) {
        guard !path.isRoot, let mover = claims[claim] else { return }
        mover.changes[path] = .removed
        var told: [(Presenter, RemotePath)] = []
        existingNode(at: path)?.eachNode { node in
            for presenter in node.presenters { told.append((presenter, node.path)) }
        }
        for (presenter, old) in told where presenter.number != mover.request.presenter {
            guard let place else {
                tell(presenter, .didChange, old)
                continue
            }
            let inside = RemotePath(Array(old.names.dropFirst(path.names.count)))
            tell(presenter, .didMove, old, outside: inside.isRoot ? place : "\(place)/\(inside)")
        }
    }

    /// Moves claims and presenters; whoever calls has the waits found again.
    mutating func relocate(_ path: RemotePath, to target: [PathStep], by claim: Int? = nil) {
        let newPath = RemotePath(target.map(\.name))
        guard let last = target.last, path != newPath, !newPath.isInside(path), !path.isRoot else { return }
        let named = claim.flatMap { claims[$0] }
        if let named, named.intents.contains(where: { $0.node.path == newPath }) { named.targets.insert(newPath) }
        guard let node = existingNode(at: path) else {
            tellSubitemMoved(path, newPath, except: named?.request.presenter)
            return
        }
        let mover = named ?? writer(of: path)
        let own = mover?.request.presenter
        tellSubitemMoved(path, newPath, except: own)
        var told: [(Presenter, RemotePath)] = []
        node.eachNode { node in for presenter in node.presenters { told.append((presenter, node.path)) } }
        let staying = node.intents.filter { $0.use == .write(.forReplacing) && !$0.claim.isGranted }
        for intent in staying {
            unplace(intent)
        }
        let former = node.parent
        var rows: [(names: ArraySlice<FileName>, entry: Int64)] = []
        node.eachNode { node in
            if let entry = node.entry { rows.append((node.path.names[path.names.count...], entry)) }
        }
        for row in rows { if let node = entries[row.entry] { setEntry(nil, of: node) } }
        node.detach()
        let moved = self.node(at: target.dropLast()).adopt(node, as: last.name)
        moved.isPackage = last.isPackage
        for row in rows {
            if let node = existingNode(at: RemotePath(newPath.names + row.names)) { setEntry(row.entry, of: node) }
        }
        if let former { prune(former) }
        moved.eachNode { node in
            for intent in node.intents { markWide(intent) }
            for presenter in node.presenters where node.isPackage { setWide(presenter, true) }
        }
        for intent in staying {
            let steps = path.names.map { PathStep(name: $0) }
            intent.node = self.node(at: steps)
            place(intent)
        }
        prune(moved)
        for (presenter, old) in told where presenter.number != own && presenter.pendingMove == nil {
            guard let new = presenter.node?.path else { continue }
            tell(presenter, .didMove, old, to: new)
        }
    }

    private mutating func tellSubitemMoved(_ path: RemotePath, _ newPath: RemotePath, except own: Int?) {
        var told: Set<Int> = []
        for presenter in presenters(around: path).above + presenters(around: newPath).above
        where presenter.number != own && told.insert(presenter.number).inserted {
            tell(presenter, .subitemDidMove, path, to: newPath)
        }
    }
}

extension CoordinationInterface.MessageKind {
    /// True for what is told of an item inside the presented one.
    var isOfSubitem: Bool {
        switch self {
        case .accommodateSubitemDeletion, .subitemDidAppear, .subitemDidMove, .subitemDidChange,
            .subitemDidGainVersion, .subitemDidLoseVersion, .subitemDidResolveVersion:
            true
        case .relinquishToReader, .relinquishToWriter, .reacquire, .saveChanges, .accommodateDeletion,
            .accommodateEviction, .didMove, .didChange, .didChangeAttributes, .didGainVersion, .didLoseVersion,
            .didResolveVersion, .ping, .claimLost:
            false
        }
    }
}

/// The names of claims and presenters on the wire.
package enum Token {
    package static func claim(_ number: Int) -> String { "c\(number)" }
    package static func presenter(_ number: Int) -> String { "p\(number)" }

    /// The number in a token; nil for one of another kind.
    package static func number(_ token: String, _ kind: Character) -> Int? {
        token.first == kind ? Int(token.dropFirst()) : nil
    }
}
