internal import CoveClaims
internal import CoveCore
internal import Foundation

/// Coordinates the coordinators and presenters of this process, for items that no mount of Cove's shows.
///
/// Claims are decided by the same table as in a daemon, with the paths of the whole system in it and one session for all of
/// this process. Nobody but those who wait sees to what is due.
final class ProcessAuthority: Authority {
    typealias Message = CoordinationInterface.Message

    /// Touched only under the monitor.
    private struct State: ~Copyable {
        var table: ClaimTable
        let session: Int
        var presenters: [Int: PresenterMailbox] = [:]
        /// What became of claims, until those who asked for them see it.
        var outcomes: [Int: Result<Void, CoveError>] = [:]
        /// Claims whose items are to be looked at by those who asked for them.
        var settling: Set<Int> = []
        /// What presenters said went wrong: the table keeps no more of it than a daemon's clients are told.
        var refusals: [Int: CoveError] = [:]
        var snapshots: [Int: [String]] = [:]

        init() {
            var table = ClaimTable()
            session = table.beginSession(.isTrusted)
            self.table = table
        }

        func number(of mailbox: PresenterMailbox?) -> Int? {
            mailbox.flatMap { mailbox in presenters.first { $0.value === mailbox }?.key }
        }
    }

    // Asked last: every other authority's name is a path.
    let name = "~process"
    private let state = Monitor(State())

    /// True while a claim of the coordinator waits for others.
    func isWaiting(_ coordinator: CoordinatorIdentity) -> Bool {
        state.withLock { state in
            state.table.claims.values.contains { $0.request.coordinator == coordinator.name && $0.state == .waiting }
        }
    }

    /// True while somebody has a claim on an item.
    func isHeld(_ path: String) -> Bool {
        let path = Location(outside: path).remote
        return state.withLock { state in
            state.table.claims.values.contains { $0.isGranted && $0.intents.contains { $0.node.path == path } }
        }
    }

    // MARK: Claims

    func claim(_ request: ClaimRequest) throws(CoveError) -> Grant {
        let number = try begin(request, .explicit)
        do throws(CoveError) {
            try wait(for: number, request.cancellation)
            return Grant(claim: Self.name(number), paths: try supply(request.intents, number))
        } catch {
            giveBack(number)
            throw error
        }
    }

    func prepare(_ request: ClaimRequest) throws(CoveError) -> String {
        let number = try begin(request, .preparing)
        do throws(CoveError) {
            try wait(for: number, request.cancellation)
            return Self.name(number)
        } catch {
            giveBack(number)
            throw error
        }
    }

    /// Asks the table; what becomes of it comes to `outcomes`.
    private func begin(_ request: ClaimRequest, _ manner: ClaimManner) throws(CoveError) -> Int {
        let items: [WantedItem]
        do {
            items = try request.intents.map { intent in
                WantedItem(path: intent.location.steps, use: try ItemUse(intent.wire))
            }
        } catch {
            throw CoveError(error)
        }
        return act { state, now in
            var asked = CoveClaims.ClaimRequest(
                session: state.session,
                coordinator: request.coordinator.name,
                purpose: request.purpose,
                presenter: state.number(of: request.presenter),
                manner: manner,
                items: items,
                deadline: request.timeout.map { now + .seconds($0 / .seconds(1)) }
            )
            asked.within = request.within.compactMap(Self.number).filter { state.table.claims[$0]?.isGranted == true }
            return state.table.request(asked, now: now)
        }
    }

    /// Waits until a claim is granted, and does what is due meanwhile.
    private func wait(for number: Int, _ cancellation: Cancellation) throws(CoveError) {
        enum Look {
            case over(Result<Void, CoveError>)
            /// What its items are is to be looked at.
            case settle
            /// Something else is due first now.
            case again
        }
        try cancellation.whileWaking(by: { [state] in state.withLock { _ in } }) { () throws(CoveError) in
            while true {
                let due = act { state, now in
                    state.table.tick(now: now)
                    return state.table.nextDeadline
                }
                let date = due.map { Date() + ($0 - System.monotonic()).seconds }
                // It throws when the time has come.
                let look = try? state.wait(until: date) { state -> Look? in
                    if cancellation.isCancelled { return .over(.failure(cancellation.reason ?? CoveError(.cancelled))) }
                    if let outcome = state.outcomes[number] { return .over(outcome) }
                    if state.settling.remove(number) != nil { return .settle }
                    return state.table.nextDeadline == due ? nil : .again
                }
                switch look {
                case .over(let outcome): return try outcome.get()
                case .settle:
                    let existed = isThere(number)
                    act { state, now in state.table.settled(number, existed: existed, now: now) }
                case .again, nil: break
                }
            }
        }
    }

    func release(_ claim: String) throws(CoveError) {
        guard let number = Self.number(claim) else { return }
        let exists = isThere(number)
        act { state, now in state.table.release(number, exists: exists, now: now) }
        forget(number)
    }

    /// Ends a claim whose accessor has not run, whatever became of it.
    private func giveBack(_ number: Int) {
        act { state, now in state.table.giveBack(number, now: now) }
        forget(number)
    }

    private func forget(_ number: Int) {
        let snapshots = state.withLock { state in
            state.outcomes[number] = nil
            state.refusals[number] = nil
            state.settling.remove(number)
            return state.snapshots.removeValue(forKey: number) ?? []
        }
        for folder in snapshots { try? FileManager.default.removeItem(atPath: folder) }
    }

    /// Which items of a claim are there.
    private func isThere(_ number: Int) -> [Bool] {
        let paths = state.withLock { $0.table.paths(of: number) }
        return paths.map { (try? System.lstat(Location(outside: $0).path)) != nil }
    }

    func blockers(of coordinator: CoordinatorIdentity) -> Set<String> {
        state.withLock { state in
            var next = state.table.claims.values.filter {
                $0.request.coordinator == coordinator.name && !$0.isGranted
            }.flatMap(\.waitsFor)
            var found: Set<String> = []
            while let claim = next.popLast() {
                if found.insert(Self.name(claim.number)).inserted { next += claim.waitsFor }
            }
            return found
        }
    }

    func moved(_ claim: String, from: Location, to: Location) throws(CoveError) {
        // What did not happen is not believed: nothing is there, or what is said to have gone.
        guard let number = Self.number(claim), let there = try? System.lstat(to.path) else { return }
        if let still = try? System.lstat(from.path), still.st_ino == there.st_ino, still.st_dev == there.st_dev {
            return
        }
        try act { state, now throws(CoveError) in
            guard let claim = state.table.claims[number], claim.isGranted else { throw CoveError(.stale) }
            guard claim.writes(at: from.remote) || claim.writes(at: to.remote) else {
                throw CoveError(.invalidArgument, "the claim does not write there", url: from.url)
            }
            state.table.moved(from.remote, to: to.steps, by: number, now: now)
            // The mover's own presenter knows; the others are told.
            guard let own = claim.request.presenter, let node = state.table.presenters[own]?.node else { return }
            let place = Location(outside: node.path)
            state.presenters[own]?.place(at: place, called: place.path)
        }
    }

    func movedOut(_ claim: String, from: Location, to path: String) throws(CoveError) {
        // What did not happen is not believed.
        guard let number = Self.number(claim), (try? System.lstat(from.path)) == nil else { return }
        try act { state, _ throws(CoveError) in
            guard let claim = state.table.claims[number], claim.isGranted else { throw CoveError(.stale) }
            guard claim.writes(at: from.remote) else {
                throw CoveError(.invalidArgument, "the claim does not write there", url: from.url)
            }
            state.table.movedOut(from.remote, to: path, by: number)
        }
    }

    // MARK: Presenters

    func add(_ presenter: PresenterMailbox) throws(CoveError) {
        act { state, now in
            let number = state.table.addPresenter(
                session: state.session,
                at: presenter.location?.steps,
                implements: Set(presenter.wireMessages.compactMap { CoordinationInterface.MessageKind(rawValue: $0) }),
                observes: Set(presenter.observedAttributes),
                purpose: presenter.purpose,
                now: now
            )
            if let number { state.presenters[number] = presenter }
        }
    }

    func move(_ presenter: PresenterMailbox) throws(CoveError) {
        act { state, now in
            guard let number = state.number(of: presenter) else { return }
            state.table.movePresenter(number, to: presenter.location?.steps, now: now)
        }
    }

    func remove(_ presenter: PresenterMailbox) {
        act { state, now in
            guard let number = state.number(of: presenter) else { return }
            state.presenters[number] = nil
            state.table.removePresenter(number, now: now)
        }
    }

    // MARK: The table

    /// Gives the table an input, and does what follows from it, in order, before anybody else has a turn.
    private func act<Value, Failure: Error>(
        _ input: (inout State, MonotonicTime) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        try state.withLock { (state, isNews) throws(Failure) in
            let due = state.table.nextDeadline ?? .distantFuture
            defer {
                let isDone = carryOut(&state)
                isNews = isDone || (state.table.nextDeadline ?? .distantFuture) < due
            }
            return try input(&state, System.monotonic())
        }
    }

    /// False where nothing followed.
    private func carryOut(_ state: inout State) -> Bool {
        var isDone = false
        while true {
            let effects = state.table.takeEffects()
            if effects.isEmpty { return isDone }
            isDone = true
            for effect in effects {
                switch effect {
                case .tell(_, let message): deliver(message, &state)
                case .settle(let claim): state.settling.insert(claim)
                case .granted(let claim): state.outcomes[claim] = .success(())
                case .failed(let claim, let failure):
                    let told = state.refusals[claim].flatMap { $0.message == failure.message ? $0 : nil }
                    state.outcomes[claim] = .failure(told ?? CoveError(failure))
                // Nobody asks whether this process lives.
                case .lost, .probe: break
                }
            }
        }
    }

    private func deliver(_ message: Message, _ state: inout State) {
        let mailbox = message.presenter.flatMap { Token.number($0, "p") }.flatMap { state.presenters[$0] }
        let kind = CoordinationInterface.MessageKind(rawValue: message.kind)
        guard let mailbox, let kind, var delivery = PresenterMailbox.Delivery(message, kind, in: mailbox.location)
        else {
            guard message.wantsReply else { return }
            return state.table.reply(
                session: state.session,
                message: message.number,
                failure: nil,
                now: System.monotonic()
            )
        }
        let claim = message.claim.flatMap { Token.number($0, "c") }
        delivery.claim = claim.map(Self.name)
        guard message.wantsReply else { return mailbox.post(delivery) }
        mailbox.post(delivery) { [self] error in
            act { state, now in
                if let claim, let error, state.table.claims[claim] != nil { state.refusals[claim] = error }
                let failure = error.map { ClaimFailure(Errno($0.code.rawValue), $0.message) }
                state.table.reply(session: state.session, message: message.number, failure: failure, now: now)
            }
        }
    }

    // MARK: Contents

    /// Makes the snapshots that readers want; the paths to be used.
    private func supply(_ intents: [Intent], _ number: Int) throws(CoveError) -> [String] {
        guard intents.contains(where: { $0.reading.contains(.forUploading) }) else {
            return state.withLock { $0.table.paths(of: number) }.map { Location(outside: $0).path }
        }
        var paths: [String] = []
        let items = state.withLock { $0.table.paths(of: number) }.map { Location(outside: $0) }
        for (intent, item) in zip(intents, items) {
            guard intent.reading.contains(.forUploading) else {
                paths.append(item.path)
                continue
            }
            let snapshot = try Self.snapshot(of: item)
            state.withLock { $0.snapshots[number, default: []].append(snapshot.folder) }
            paths.append(snapshot.path)
        }
        // What is read for a snapshot alone holds up nobody.
        act { state, now in state.table.dropSnapshots(of: number, now: now) }
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

    // MARK: Names

    /// Names a claim; a presenter may know one of a daemon's by the same number.
    private static func name(_ claim: Int) -> String { "~\(Token.claim(claim))" }

    private static func number(_ name: String) -> Int? { Token.number(String(name.dropFirst()), "c") }
}
