internal import CoveCore
internal import Foundation

/// Coordinates the coordinators and presenters of this process, for items that no mount of Cove's shows.
final class ProcessAuthority: Authority {
    /// How long a presenter may take to answer.
    private static let presenterPatience: TimeInterval = 30

    private struct State {
        var claims = ProcessClaims()
        var presenters: [PresenterMailbox] = []
        var snapshots: [String: [String]] = [:]
    }

    // Asked last: every other authority's name is a path.
    let name = "~process"
    private let state = Monitor(State())

    /// True while a claim of the coordinator waits for others.
    func isWaiting(_ coordinator: CoordinatorIdentity) -> Bool {
        state.withLock { $0.claims.entries.contains { $0.coordinator === coordinator && !$0.isAdmitted } }
    }

    /// True while somebody has a claim on an item.
    func isHeld(_ path: String) -> Bool {
        state.withLock { state in
            state.claims.entries.contains { $0.isGranted && $0.intents.contains { $0.location.path == path } }
        }
    }

    func claim(_ request: ClaimRequest) throws(CoveError) -> Grant {
        try request.cancellation.whileWaking(by: { [state] in state.withLock { _ in } }) { () throws(CoveError) in
            try claimWaking(request)
        }
    }

    private func claimWaking(_ request: ClaimRequest) throws(CoveError) -> Grant {
        let id = UUID().uuidString
        let deadline = request.timeout.map { Date() + $0 / .seconds(1) }
        // A claim without any time takes what presenters take, where nobody holds it up.
        let patience = request.timeout == .zero ? nil : deadline
        try state.withLock { state throws(CoveError) in
            let entry = ProcessClaims.Entry(
                id: id,
                coordinator: request.coordinator,
                purpose: request.purpose,
                presenter: request.presenter,
                intents: request.intents,
                within: request.within
            )
            state.claims[id] = entry
            guard state.claims.isCircle(from: entry) else { return }
            state.claims[id] = nil
            throw CoveError(.deadlock, "claims wait for each other")
        }
        do throws(CoveError) {
            let intents = try state.wait(until: deadline) { state throws(CoveError) -> [Intent]? in
                try request.cancellation.check()
                guard let entry = state.claims[id], state.claims.blockers(of: entry).isEmpty else { return nil }
                state.claims[id]?.isAdmitted = true
                return entry.intents
            }
            try ask(id, intents, request, patience)
            // A claim that a presenter made before its answer may have overtaken this one.
            try state.wait(until: deadline) { state throws(CoveError) -> Bool? in
                try request.cancellation.check()
                guard let entry = state.claims[id], state.claims.blockers(of: entry).isEmpty else { return nil }
                state.claims[id]?.isGranted = true
                return true
            }
            let paths = try supply(intents, id)
            state.withLock { state in
                state.claims[id]?.existed = Set(intents.map(\.location.path).filter(Self.isThere))
            }
            return Grant(claim: id, paths: paths)
        } catch {
            giveBack(id, request.presenter)
            withdraw(id)
            throw error
        }
    }

    func blockers(of coordinator: CoordinatorIdentity) -> Set<String> {
        state.withLock { state in
            var next = state.claims.entries.filter { $0.coordinator === coordinator && !$0.isGranted }
            var found: Set<String> = []
            while let entry = next.popLast() {
                for blocker in state.claims.blockers(of: entry) where found.insert(blocker.id).inserted {
                    if !blocker.isGranted { next.append(blocker) }
                }
            }
            return found
        }
    }

    func prepare(_ request: ClaimRequest) throws(CoveError) {
        let id = UUID().uuidString
        state.withLock { state in
            var entry = ProcessClaims.Entry(
                id: id,
                coordinator: request.coordinator,
                purpose: request.purpose,
                intents: []
            )
            entry.isAdmitted = true
            state.claims[id] = entry
        }
        defer {
            giveBack(id, request.presenter)
            withdraw(id)
        }
        let deadline = request.timeout.map { Date() + $0 / .seconds(1) }
        try request.cancellation.whileWaking(by: { [state] in state.withLock { _ in } }) { () throws(CoveError) in
            try ask(id, request.intents, request, deadline, isBatch: true)
        }
    }

    func release(_ claim: String) throws(CoveError) {
        guard let entry = state.withLock({ $0.claims[claim] }) else { return }
        let others = state.withLock { $0.presenters.filter { $0 !== entry.presenter } }
        // Before whoever waits can ask them: a presenter saves nothing before it knows what has changed.
        for mailbox in others { tellEnd(of: entry, to: mailbox) }
        withdraw(claim)
    }

    func moved(_ claim: String, from: Location, to: Location) throws(CoveError) {
        let (presenters, own) = state.withLock { state in
            state.claims.follow(from.path, to.path)
            state.claims[claim]?.moved.formUnion([from.path, to.path])
            return (state.presenters, state.claims[claim]?.presenter)
        }
        for mailbox in presenters {
            guard let place = mailbox.location else { continue }
            if let path = ProcessClaims.moved(place.path, from.path, to.path) {
                let new = Location(path: path)
                if mailbox === own { mailbox.location = new; continue }
                mailbox.post(.init(kind: .didMove, location: place, newLocation: new))
            } else if mailbox !== own,
                [from, to].contains(where: { ProcessClaims.isInside($0.path, place.path) })
            {
                mailbox.post(.init(kind: .subitemDidMove, location: from, newLocation: to))
            }
        }
    }

    func add(_ presenter: PresenterMailbox) throws(CoveError) { state.withLock { $0.presenters.append(presenter) } }

    func move(_ presenter: PresenterMailbox) throws(CoveError) {}

    func remove(_ presenter: PresenterMailbox) {
        state.withLock { state in
            state.presenters.removeAll { $0 === presenter }
            // What it was asked counts as answered.
            for entry in state.claims.entries { state.claims[entry.id]?.asked[ObjectIdentifier(presenter)] = nil }
        }
    }

    // MARK: Presenters

    /// Asks all presenters that an entry's items concern, and waits for their answers.
    private func ask(
        _ id: String,
        _ intents: [Intent],
        _ request: ClaimRequest,
        _ deadline: Date?,
        isBatch: Bool = false
    ) throws(CoveError) {
        let own = request.presenter
        let asked: [(mailbox: PresenterMailbox, questions: [PresenterMailbox.Delivery])] = state.withLock { state in
            let asked = state.presenters.filter { $0 !== own }.map { mailbox in
                (mailbox, intents.flatMap { Self.questions($0, to: mailbox, isBatch: isBatch) })
            }.filter { !$0.1.isEmpty }
            for (mailbox, questions) in asked { state.claims[id]?.asked[ObjectIdentifier(mailbox)] = questions.count }
            return asked
        }
        guard !asked.isEmpty else { return }
        for (mailbox, questions) in asked { put(questions[...], to: mailbox, for: id) }
        let patience = Date() + Self.presenterPatience
        do throws(CoveError) {
            try state.wait(until: deadline.map { min($0, patience) } ?? patience) { state throws(CoveError) -> Bool? in
                if let failure = state.claims[id]?.failure { throw failure }
                try request.cancellation.check()
                return state.claims[id]?.asked.isEmpty ?? true ? true : nil
            }
        } catch {
            // Who says nothing agrees, but has not saved.
            let mustSave = asked.contains { $0.questions.contains { $0.kind == .saveChanges } }
            guard error.code == .timedOut, Date() >= patience, !mustSave else { throw error }
            state.withLock { $0.claims[id]?.asked = [:] }
        }
    }

    /// Asks a presenter one question after the other.
    private func put(_ questions: ArraySlice<PresenterMailbox.Delivery>, to mailbox: PresenterMailbox, for id: String) {
        guard var question = questions.first else { return }
        question.claim = id
        mailbox.post(question) { [self] error in
            let mayGoOn = state.withLock { state in
                let key = ObjectIdentifier(mailbox)
                guard let left = state.claims[id]?.asked[key] else { return false }
                if let error, state.claims[id]?.failure == nil { state.claims[id]?.failure = error }
                state.claims[id]?.asked[key] = left > 1 && error == nil ? left - 1 : nil
                return error == nil
            }
            if mayGoOn { put(questions.dropFirst(), to: mailbox, for: id) }
        }
    }

    private static func questions(
        _ intent: Intent,
        to mailbox: PresenterMailbox,
        isBatch: Bool
    ) -> [PresenterMailbox.Delivery] {
        guard let place = mailbox.location?.path else { return [] }
        let path = intent.location.path
        let isOn = place == path
        let isBelow = ProcessClaims.isInside(place, path) && (intent.isExclusive || isBatch)
        let takesPlace = !intent.writing.isDisjoint(with: [.forDeleting, .forReplacing])
        var kinds: [CoordinationInterface.MessageKind] = []
        if isOn || isBelow {
            kinds.append(intent.isWriting ? .relinquishToWriter : .relinquishToReader)
            let isQuiet =
                intent.isWriting ? !intent.writing.contains(.forMerging) : intent.reading.contains(.withoutChanges)
            if !isQuiet { kinds.append(.saveChanges) }
            if takesPlace, isThere(path) { kinds.append(.accommodateDeletion) }
        } else if takesPlace, ProcessClaims.isInside(path, place), isThere(path) {
            kinds.append(.accommodateSubitemDeletion)
        }
        return kinds.filter { kind in
            FilePresenterMessage(rawValue: kind.rawValue).map { mailbox.messages.contains($0) } ?? false
        }.map { .init(kind: $0, location: isOn || isBelow ? Location(path: place) : intent.location) }
    }

    /// Presenters have their items again after a claim that was not granted; those that were not asked make nothing of it.
    private func giveBack(_ id: String, _ own: PresenterMailbox?) {
        for mailbox in state.withLock({ $0.presenters }) where mailbox !== own {
            mailbox.post(.init(kind: .reacquire, location: Location(path: ""), claim: id))
        }
    }

    /// What a presenter hears when a claim has ended: first that it has the item again, then what has changed.
    private func tellEnd(of entry: ProcessClaims.Entry, to mailbox: PresenterMailbox) {
        mailbox.post(.init(kind: .reacquire, location: Location(path: ""), claim: entry.id))
        guard let place = mailbox.location?.path else { return }
        for intent in entry.intents where intent.isWriting {
            let path = intent.location.path
            guard !entry.moved.contains(path), Self.isThere(path) else { continue }
            if path == place {
                mailbox.post(.init(kind: .didChange, location: intent.location))
            } else if ProcessClaims.isInside(path, place) {
                let isNew = !entry.existed.contains(path)
                mailbox.post(.init(kind: isNew ? .subitemDidAppear : .subitemDidChange, location: intent.location))
            }
        }
    }

    // MARK: Contents

    /// Makes the snapshots that readers want; the paths to be used.
    private func supply(_ intents: [Intent], _ id: String) throws(CoveError) -> [String] {
        var paths: [String] = []
        for intent in intents {
            guard intent.reading.contains(.forUploading) else {
                paths.append(intent.location.path)
                continue
            }
            let snapshot = try Self.snapshot(of: intent.location)
            state.withLock { $0.snapshots[id, default: []].append(snapshot.folder) }
            paths.append(snapshot.path)
        }
        // Those who read snapshots alone hold up nobody.
        if intents.allSatisfy({ $0.reading.contains(.forUploading) }) {
            state.withLock { $0.claims[id]?.intents = [] }
        }
        return paths
    }

    private static func snapshot(of location: Location) throws(CoveError) -> (folder: String, path: String) {
        try explaining(location.url) {
            let status = try System.statFollowing(location.path)
            guard status.st_mode & S_IFMT != S_IFDIR else {
                throw CoveError(
                    .notSupported,
                    "only a mount of Cove's makes a snapshot of a directory",
                    url: location.url
                )
            }
            let folder = FileManager.default.temporaryDirectory.appendingPathComponent("cove-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
            let copy = folder.appendingPathComponent(location.url.lastPathComponent)
            do { try FileManager.default.copyItem(at: location.url, to: copy) } catch {
                try? FileManager.default.removeItem(at: folder)
                throw error
            }
            return (folder.path, copy.path)
        }
    }

    /// Takes a claim out of the queue.
    private func withdraw(_ id: String) {
        let snapshots = state.withLock { state in
            state.claims[id] = nil
            return state.snapshots.removeValue(forKey: id) ?? []
        }
        for folder in snapshots { try? FileManager.default.removeItem(atPath: folder) }
    }

    private static func isThere(_ path: String) -> Bool { (try? System.lstat(path)) != nil }
}
