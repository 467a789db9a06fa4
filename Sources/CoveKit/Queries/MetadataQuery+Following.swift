internal import CoveCore
internal import Foundation
internal import Glibc
internal import Synchronization

extension MetadataQuery {
    /// What was set.
    struct Settings: Equatable {
        var predicate: MetadataPredicate?
        var scopes: Set<Scope> = []
        var order: [SortDescriptor] = []
        var attributes: [String] = []
        var valueLists: [String] = []
        var grouping: [String] = []
        var interval: TimeInterval = 1
        var listedOnly = false
    }

    /// What follows daemon after daemon, from a start to its end.
    final class Run: Sendable {
        let interruption: Interruption
        private let isOver = Atomic<Bool>(false)

        init() throws(Errno) { interruption = try Interruption() }

        var isEnded: Bool { isOver.load(ordering: .acquiring) }

        func end() {
            isOver.store(true, ordering: .releasing)
            interruption.interrupt()
        }
    }

    /// All that a query knows.
    struct State {
        let folder: URL
        var settings = Settings()
        var run: Run?
        var wasStarted = false
        var isGathering = false
        /// True while a daemon gathers that came after another one, or is waited for.
        var isCatchingUp = false
        /// True where the rest of what happened at one moment is still to come.
        var isInPart = false
        /// True once the daemon has gathered all.
        var hasAll = false
        var unlisted = 0
        var freezes = 0
        var listeners: [AsyncStream<Event>.Continuation] = []
        /// The folder as the mount shows it, once that is known.
        var location: Location?
        /// What the daemon has told, and which of it the visible results do not show yet.
        var told = QueryResults()
        var touched: Set<Int> = []
        /// What the program sees.
        var visible: [Int: MetadataItem] = [:]
        /// Their order; nil where it is not known.
        var order: [Int]?

        init(folder: URL) { self.folder = folder }

        mutating func clear() {
            (told, touched, visible, order) = (QueryResults(), [], [:], nil)
            (isGathering, isCatchingUp, isInPart, hasAll, unlisted) = (true, false, false, false, 0)
        }

        mutating func stop() {
            run?.end()
            run = nil
            isGathering = false
            freezes = 0
        }

        /// Shows what was told, unless results are to stay as they are; what that tells a program, if anything.
        mutating func publish() -> Event? {
            guard freezes == 0, !isCatchingUp, !isInPart, let location else { return nil }
            var update = Update()
            for id in touched.sorted() {
                let item = told.all[id].map { MetadataItem($0, in: location) }
                let former = visible[id]
                guard item != former else { continue }
                visible[id] = item
                switch (former, item) {
                case (nil, let item?): update.added.append(item)
                case (let former?, nil): update.removed.append(former)
                case (let former?, let item?) where former.documentIdentifier != item.documentIdentifier:
                    update.removed.append(former)
                    update.added.append(item)
                case (_, let item?): update.changed.append(item)
                case (nil, nil): break
                }
            }
            touched = []
            guard !update.added.isEmpty || !update.changed.isEmpty || !update.removed.isEmpty else { return nil }
            order = nil
            return isGathering ? .gatheringProgress : .didUpdate(update)
        }
    }

    /// Begins a run where the condition holds; false where it does not, or there is no room for another thread.
    func begin(if condition: (State) -> Bool) -> Bool {
        guard state.withLock({ condition($0) }) else { return false }
        do throws(Errno) {
            let run = try Run()
            let begins = state.withLock { state in
                guard condition(state) else { return false }
                state.run?.end()
                state.run = run
                state.wasStarted = true
                state.clear()
                tell(.didStartGathering, &state)
                return true
            }
            guard begins else { return false }
            do throws(Errno) {
                // The query may go while it is followed.
                try BlockingThread.start { [weak self] in Self.follow({ self }, run) }
            } catch {
                fail(CoveError(error)) { $0.run === run }
                return false
            }
            return true
        } catch {
            fail(CoveError(error), if: condition)
            return false
        }
    }

    private func fail(_ error: CoveError, if condition: (State) -> Bool) {
        state.withLock { state in
            guard condition(state) else { return }
            tell(.didFail(error), &state)
            state.stop()
        }
    }

    /// Shows and tells what may be shown now.
    func show(_ state: inout State) {
        if let event = state.publish() { tell(event, &state) }
        guard state.isGathering, state.hasAll, !state.isInPart, state.freezes == 0, !state.isCatchingUp else {
            return
        }
        state.isGathering = false
        tell(.didFinishGathering, &state)
    }

    /// Tells all that listen; who has gone is dropped.
    func tell(_ event: Event, _ state: inout State) {
        state.listeners.removeAll { listener in
            if case .terminated = listener.yield(event) { true } else { false }
        }
        let (name, information) = Self.notification(of: event)
        let (run, isFailure) = (state.run, name == .metadataQueryDidFail)
        // The beginning and the end are told to everybody.
        let mayBeLost = [.metadataQueryGatheringProgress, .metadataQueryDidUpdate].contains(name)
        guard !mayBeLost || waitingPosts.load(ordering: .relaxed) < 1000 else { return }
        waitingPosts.add(1, ordering: .relaxed)
        posting.async { [weak self] in
            guard let self else { return }
            waitingPosts.subtract(1, ordering: .relaxed)
            guard isFailure || run?.isEnded == false else { return }
            NotificationCenter.default.post(name: name, object: self, userInfo: information)
        }
    }

    private static func notification(
        of event: Event
    ) -> (name: Notification.Name, information: [String: any Sendable]?) {
        switch event {
        case .didStartGathering: (.metadataQueryDidStartGathering, nil)
        case .gatheringProgress: (.metadataQueryGatheringProgress, nil)
        case .didFinishGathering: (.metadataQueryDidFinishGathering, nil)
        case .didUpdate(let update):
            (
                .metadataQueryDidUpdate,
                [
                    updateAddedItemsKey: update.added, updateChangedItemsKey: update.changed,
                    updateRemovedItemsKey: update.removed,
                ]
            )
        case .didFail(let error): (.metadataQueryDidFail, [errorKey: error])
        }
    }

    // MARK: The thread

    /// How long the next daemon is waited for.
    private static let patience = TimeSpan.seconds(10)

    /// Follows the query at daemon after daemon.
    private static func follow(_ query: () -> MetadataQuery?, _ run: Run) {
        // Since when no daemon has told anything.
        var lost: MonotonicTime?
        while !run.isEnded, query() != nil {
            let error = hear(query, run) { lost = nil }
            guard !run.isEnded, let error else { return }
            let now = System.monotonic()
            let since = lost ?? now
            lost = since
            guard error.code == .noDaemon, now - since < patience else {
                query()?.fail(error) { $0.run === run }
                return
            }
            query()?.state.withLock { state in
                guard state.run === run else { return }
                state.isInPart = false
                if state.hasAll { state.isCatchingUp = true }
            }
            _ = poll(nil, 0, 50)
        }
    }

    /// Hears one daemon to its end; why that came, nil where nobody wants to know.
    private static func hear(_ query: () -> MetadataQuery?, _ run: Run, _ heard: () -> Void) -> CoveError? {
        guard let folder = query()?.state.withLock({ $0.folder }) else { return nil }
        do {
            guard let (client, request) = try query()?.connect(run) else { return nil }
            heard()
            let _: QueryInterface.FollowReply = try client.stream(
                "\(QueryInterface.name).Follow",
                request,
                interruption: run.interruption
            ) { (reply: QueryInterface.FollowReply) in
                heard()
                query()?.take(reply, run)
            }
            // A daemon that hands over ends what follows it before it goes.
            return CoveError(.noDaemon, "the daemon has ended the query", url: folder)
        } catch let failure as VarlinkClient.Failure {
            return CoveError(failure, url: folder)
        } catch {
            return CoveError(error, url: folder)
        }
    }

    /// A connection to the daemon that serves the folder, and what it is asked.
    private func connect(_ run: Run) throws(CoveError) -> (VarlinkClient, QueryInterface.FollowRequest)? {
        let (folder, settings) = state.withLock { ($0.folder, $0.settings) }
        guard let (address, location) = try Authorities.locate(folder, .account) else {
            throw CoveError(.notSupported, "is on no mount of Cove's", url: folder)
        }
        let client: VarlinkClient
        do throws(VarlinkClient.Failure) { client = try VarlinkClient(address) } catch {
            throw CoveError(error, url: folder)
        }
        guard let predicate = settings.predicate else { return nil }
        var query = QueryInterface.RunRequest(
            predicate: predicate.text,
            path: PathParameter(location.remote)
        )
        query.scopes = settings.scopes.map(\.rawValue).sorted()
        query.sort = settings.order.map { $0.isAscending ? $0.key : "-\($0.key)" }
        let asked = settings.attributes.isEmpty ? QueryKey.allCases.map(\.rawValue) : settings.attributes
        query.attributes = asked + settings.valueLists + settings.grouping
        query.listedOnly = settings.listedOnly
        let isWanted = state.withLock { state in
            guard state.run === run else { return false }
            state.location = location
            state.told.beginAgain()
            return true
        }
        return isWanted ? (client, QueryInterface.FollowRequest(query, interval: settings.interval)) : nil
    }

    /// Takes what the daemon tells.
    private func take(_ reply: QueryInterface.FollowReply, _ run: Run) {
        state.withLock { state in
            guard state.run === run else { return }
            let changes = state.told.take(reply)
            for result in changes.added + changes.removed { state.touched.insert(result.id) }
            for (_, result) in changes.changed { state.touched.insert(result.id) }
            state.isInPart = reply.isPart == true
            if reply.gathered == true {
                (state.isCatchingUp, state.hasAll, state.unlisted) = (false, true, reply.unlisted ?? 0)
            }
            show(&state)
        }
    }
}
