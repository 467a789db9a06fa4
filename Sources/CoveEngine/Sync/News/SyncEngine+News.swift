internal import CoveCore
internal import Synchronization

/// Word that the account's devices leave for each other at the source, where it does not tell of changes by itself.
///
/// It says where to look, in one small request, however many directories are listed here. Nothing that stands in it is believed:
/// what is named is listed or looked up as in any poll.
struct NewsState {
    /// The board as it was read last, and which state of it that was.
    var board = NewsBoard()
    var version: ContentVersion?
    /// Up to which change each other device was heeded; nil before the catalog was asked.
    var heeded: [String: Int64]?
    /// True where the catalog does not have that.
    var isUnsaved = false
    /// What this device has left last.
    var own = NewsBoard.Word()
    /// True from a start until the device has said that it is there.
    var isUnannounced = true
    /// When it was asked last, and when it may be left next.
    var asked = Timestamp.distantPast
    var rest = Timestamp.epoch
    var isAsking = false
    /// The source takes no word from this device.
    var isRefused = false
    /// What this device has left names what is not there any more.
    var isTelling = false
    /// How often word could not be left, or was not there at the next look, since it last was: a server may give old answers.
    var setbacks = 0
    /// How often asking has failed since it last did not.
    var failures = 0
    /// The daemon before may have changed what it told nobody of.
    var hasGap = false
    /// Large directories that are to be listed when there is something left for it.
    var postponed: Set<RemotePath> = []
    /// When somebody was at work, here or elsewhere.
    var stirred = MonotonicTime.distantPast
}

extension SyncEngine {
    /// How often the board is looked at while somebody works, while nobody does, and when nobody has for an hour.
    private static let newsIntervals = (
        busy: TimeSpan.seconds(1), idle: TimeSpan.milliseconds(3500), asleep: TimeSpan.seconds(10)
    )
    /// Word is left no more often: where other devices are known, and where none has ever left any.
    private static let leavingIntervals = (among: TimeSpan.seconds(1), alone: TimeSpan.seconds(10))
    /// Beyond so many items what is named is looked up, instead of listing all.
    private static let largeDirectory: Int64 = 900
    /// What may be looked at once when a device has changed more than it tells.
    private static let catchingUp = 300
    /// No more devices are remembered that are not on the board.
    private static let mostHeeded = 1000
    private static let heededKey = "news-heeded"
    private static let deviceKey = "news-device"
    /// There while a daemon has ended that had told everything.
    private static let toldKey = "news-told"

    /// True where devices leave word for each other.
    nonisolated var hasNews: Bool { mustPoll && host.provider.capabilities.carriesNews }

    /// For how long nobody has been at work.
    private var calm: TimeSpan {
        clock.monotonic() - max(news.stirred, lastSent, host.namespace.usedDirectories.last ?? .distantPast)
    }

    /// True while nobody has used the mount for a while.
    var isIdle: Bool { calm > .seconds(120) }

    private var newsInterval: TimeSpan {
        let since = calm
        let intervals = Self.newsIntervals
        let wanted = since < .seconds(60) ? intervals.busy : since < .seconds(3600) ? intervals.idle : intervals.asleep
        let interval = min(wanted, host.configuration.pollInterval)
        return news.failures == 0 ? interval : min(.seconds(300), interval.doubled(min(news.failures, 9)))
    }

    /// Asks for news, or leaves some, where it is time.
    func requestNews(_ now: Timestamp) {
        guard hasNews, !news.isAsking else { return }
        let interval = newsInterval
        let isLeaving = hasWord && now >= news.rest
        guard isLeaving || now - news.asked >= interval else {
            let due = news.asked + interval
            return alarm(at: hasWord ? min(due, max(news.rest, now + .milliseconds(1))) : due, now: now)
        }
        news.isAsking = true
        Task { await self.exchangeNews() }
    }

    /// True where there is something to be told.
    private var hasWord: Bool {
        guard !news.isRefused, !host.context.news.isSilent, !host.configuration.isReadOnly, news.heeded != nil else {
            return false
        }
        return news.isUnannounced || news.hasGap || isLost || news.isTelling || !host.context.news.isEmpty
    }

    /// True where another device has put its own word in the place of this one's.
    private var isLost: Bool { news.board.devices[device]?.last ?? 0 < news.own.last }

    private func exchangeNews() async {
        let now = host.journalTime()
        news.asked = now
        do throws(ProviderError) {
            try await recallHeeded()
            host.counters.providerRequests.add(1, ordering: .relaxed)
            let seen = clock.monotonic()
            if let found = try await host.provider.news(unless: news.version) {
                try await heed(found.board, seen: seen)
                (news.board, news.version) = (found.board, found.version)
                // Everything was erased, and nobody needs to know what was before.
                if found.board.devices.isEmpty, found.version != nil { news.own = NewsBoard.Word() }
                let isTelling = found.board.devices[device]?.places.isEmpty == false
                news.isTelling = isTelling ? try await hasNothing() : false
            }
            try await takePostponed(seen: seen)
            if news.isUnannounced, let own = news.board.devices[device] {
                // Who was there today need not say so again.
                if own.last > news.own.last { news.own = own }
                news.isUnannounced = now.seconds.subtractingReportingOverflow(own.time).partialValue.magnitude > 86_400
            }
            if hasWord, now >= news.rest { try await leaveWord(now) }
            news.failures = 0
        } catch {
            news.failures += 1
            if error.parksAccount { disconnect(error) } else { host.log.info("news can't be exchanged: \(error)") }
        }
        news.isAsking = false
        wake()
    }

    /// Waits until no word is on its way any more.
    func endLeaving() async {
        while news.isAsking { await pause(.milliseconds(5)) }
    }

    private func leaveWord(_ now: Timestamp) async throws(ProviderError) {
        // Whoever was heeded once may be there still, though somebody has done away with the board.
        let isAlone = news.heeded?.isEmpty != false && news.board.devices.keys.allSatisfy { $0 == device }
        let pause = isAlone ? Self.leavingIntervals.alone : Self.leavingIntervals.among
        news.setbacks = isLost ? news.setbacks + 1 : 0
        news.rest = now + min(.seconds(300), pause.doubled(min(news.setbacks, 9)))
        let changes = host.context.news.take()
        var board = news.board
        if isLost { board.devices[device] = news.own }
        if news.hasGap { board.admitGap(of: device) }
        board.add(changes, of: device, after: news.own.last, at: now.seconds)
        do throws(ProviderError) {
            // What is gone, all of it, is not to be known by name.
            if try await hasNothing() { board.conceal(device) }
            host.counters.providerRequests.add(1, ordering: .relaxed)
            try await host.provider.leaveNews(board, as: device)
        } catch {
            host.context.news.add(changes)
            if error.parksAccount { throw error }
            news.setbacks += 1
            news.rest = now + min(.seconds(300), pause.doubled(min(news.setbacks, 9)))
            switch error {
            case .notPermitted, .unsupported:
                news.isRefused = true
                host.log.notice("other devices are not told of changes at once: \(error)")
            default: host.log.info("word can't be left: \(error)")
            }
            return
        }
        // Another device may have put its own in the place of this: the next look tells.
        (news.board, news.version) = (board, nil)
        news.own = board.devices[device] ?? NewsBoard.Word()
        (news.isUnannounced, news.isTelling, news.hasGap) = (false, false, false)
    }

    /// Tells what was not told yet, at the end, as far as that takes no longer than until a moment.
    func leaveLastWord(until deadline: MonotonicTime) async {
        guard hasNews, shared.withLock({ $0.isConnected }), news.heeded != nil else { return }
        while news.isAsking, clock.monotonic() < deadline { await pause(.milliseconds(5)) }
        if hasWord, !news.isAsking {
            (news.isAsking, news.rest) = (true, .epoch)
            Task { await self.exchangeNews() }
            while news.isAsking, clock.monotonic() < deadline { await pause(.milliseconds(5)) }
        }
        // Else the next daemon says that something was left untold.
        guard !news.isAsking, !hasWord else { return }
        let host = host
        try? await host.onContentQueue { () throws(Errno) in
            try host.catalog.write { database throws(Errno) in try database.setMeta(Self.toldKey, [1]) }
        }
    }

    private func pause(_ time: TimeSpan) async {
        await withCheckedContinuation { continuation in executor.after(time) { continuation.resume() } }
    }

    /// True where nothing here is at the source.
    private func hasNothing() async throws(ProviderError) -> Bool {
        let host = host
        return try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) in
                try database.first("SELECT 1 FROM entries WHERE remote_id IS NOT NULL LIMIT 1") { $0.int(0) } == nil
            }
        }
    }

    /// Has all looked at that other devices have changed.
    private func heed(_ board: NewsBoard, seen: MonotonicTime) async throws(ProviderError) {
        var places: [RemotePath: Set<FileName>?] = [:]
        var isPart = false
        var heeded = news.heeded ?? [:]
        for (other, word) in board.devices where other != device {
            let last = heeded[other] ?? 0
            guard word.last != last else { continue }
            heeded[other] = word.last
            // Numbers that have begun anew, or that are not all told any more: something else may have changed as well.
            let after = word.last < last ? 0 : last
            if last > 0, word.first > after + 1 || word.last < last { isPart = true }
            for place in word.places where place.number > after {
                let known = places[place.directory]
                let both = known.map { old in old.flatMap { old in place.names.map { old.union($0) } } }
                places.updateValue(both ?? place.names, forKey: place.directory)
            }
        }
        if heeded == news.heeded { return }
        // Who is not on the board any more would be looked at from the beginning, should it come back.
        if heeded.count > Self.mostHeeded { heeded = heeded.filter { board.devices[$0.key] != nil } }
        var events: [RemoteChange] = []
        for (directory, names) in places.sorted(by: { $0.key < $1.key }) {
            events += try await changes(directory, names)
        }
        (news.heeded, news.isUnsaved) = (heeded, true)
        if places.isEmpty, !isPart { return }
        news.stirred = clock.monotonic()
        if !events.isEmpty { enqueue(events, seen: seen) }
        if isPart {
            budget.grant(Self.catchingUp)
            requestPoll()
        }
    }

    /// Has a large directory listed that was told of, where something is left for that; one at a time.
    private func takePostponed(seen: MonotonicTime) async throws(ProviderError) {
        fillBudget()
        guard budget.isLeftForLarge, let directory = news.postponed.popFirst() else { return }
        let host = host
        let found = try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) -> (id: ItemID, count: Int64)? in
                guard let id = try database.directory(atRemotePath: directory) else { return nil }
                let count = try database.first("SELECT count(*) FROM entries WHERE parent = ?", .item(id)) { $0.int(0) }
                return (id, count ?? 0)
            }
        }
        guard let found else { return }
        // What it will cost is known by its size only.
        budget.spend(Int(clamping: found.count / 1000) + 1, on: found.id)
        enqueue([.directoryChanged(directory)], seen: seen)
    }

    /// What may have changed in a directory: all of it, or of a large one what is named.
    private func changes(
        _ directory: RemotePath,
        _ names: Set<FileName>?
    ) async throws(ProviderError) -> [RemoteChange] {
        let host = host
        let found = try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) -> (reference: RemoteReference, count: Int64)? in
                guard let id = try database.directory(atRemotePath: directory),
                    let reference = try database.remoteReference(ofDirectory: id)
                else { return nil }
                let count = try database.first(
                    "SELECT count(*) FROM (SELECT 1 FROM entries WHERE parent = ? LIMIT ?)",
                    .item(id),
                    .int(Self.largeDirectory)
                ) { $0.int(0) }
                return (reference, count ?? 0)
            }
        }
        // What was never shown here need not be looked for.
        guard let found else { return [] }
        if found.count < Self.largeDirectory { return [.directoryChanged(directory)] }
        guard let names else {
            // It costs many requests, and whoever works in it changes it again and again.
            news.postponed.insert(directory)
            return []
        }
        var events: [RemoteChange] = []
        for name in names {
            host.counters.providerRequests.add(1, ordering: .relaxed)
            do throws(ProviderError) {
                let item = try await host.provider.lookup(name, in: found.reference)
                events.append(.updated(item, directory: directory))
            } catch .noSuchItem {
                events.append(.removed(directory.appending(name)))
            }
        }
        return events
    }

    /// Reads what was heeded by the daemon before, and keeps what has been since.
    private func recallHeeded() async throws(ProviderError) {
        let host = host
        if news.heeded == nil {
            let kept = try await host.onContentQueue { () throws(Errno) in
                try host.catalog.write { database throws(Errno) in
                    let known = try database.meta(Self.deviceKey)
                    let name = known ?? Array(String(UInt64.random(in: 1 << 60...UInt64.max), radix: 16).utf8)
                    if known == nil { try database.setMeta(Self.deviceKey, name) }
                    let hasTold = try database.meta(Self.toldKey) != nil
                    if hasTold { try database.setMeta(Self.toldKey, nil) }
                    let heeded = try database.meta(Self.heededKey)
                    return (heeded: heeded, name: name, hasGap: known != nil && !hasTold)
                }
            }
            let value = kept.heeded.flatMap { try? JSONValue(parsing: $0) }
            news.heeded = (try? value?.decode()) ?? [:]
            news.hasGap = kept.hasGap
            device = String(decoding: kept.name, as: UTF8.self)
        }
        // What was told is kept only when it was looked at: a death before has it looked at again.
        guard news.isUnsaved, !isPollingNow, news.postponed.isEmpty, shared.withLock({ $0.inbox.isEmpty }),
            let heeded = news.heeded,
            let bytes = (try? JSONValue(encoding: heeded))?.bytes
        else { return }
        news.isUnsaved = false
        try await host.onContentQueue { () throws(Errno) in
            try host.catalog.write { database throws(Errno) in try database.setMeta(Self.heededKey, bytes) }
        }
    }
}
