internal import CoveCore
internal import Synchronization

/// What a query does once all is gathered.
extension QueryRun {
    /// Below so many places that changed, all is looked at again instead.
    private static let mostBelow = 50_000

    /// Tells what becomes of the results, at most once in an interval, until the engine ends or nobody wants more.
    func goOn(interval: TimeSpan, _ body: Body) async throws(Errno) {
        guard let follower else { return }
        goesOn = true
        let crawler = request.listedOnly || isEmpty ? nil : LiveCrawler(engine, below: crawled, for: follower)
        defer { if let crawler { Task { await crawler.stop() } } }
        // Something may have come to be known since the last folder was listed.
        hasUnlisted = true
        var (looked, moved) = (MonotonicTime.distantPast, MonotonicTime.distantPast)
        while true {
            if let crawler, hasUnlisted || follower.missesFolders.load(ordering: .relaxed) {
                await crawler.wake(isNews: hasUnlisted)
            }
            hasUnlisted = false
            follower.seesMoving.store(!moving.isEmpty || seesMovingExternals, ordering: .relaxed)
            guard await follower.next() else { break }
            let rest = interval - (engine.clock.monotonic() - looked)
            // A cancelled task finds no more signals.
            if looked > .distantPast, rest > .zero { try? await Task.sleep(for: rest) }
            var touched = engine.catalog.touches.take(follower)
            let now = engine.clock.monotonic()
            // No call tells how far they are.
            if !touched.isLost, now - moved > .milliseconds(900) {
                touched.entries.formUnion(moving)
                moved = now
            }
            guard !touched.isEmpty || seesMovingExternals else { continue }
            guard try await update(touched, body) else { return }
            looked = engine.clock.monotonic()
        }
        try Self.checkCancelled()
    }

    /// Looks again at what was touched, and tells what has become of it; false when nobody wants more.
    func update(_ touched: Touched, _ body: Body) async throws(Errno) -> Bool {
        var teller = Teller()
        guard !touched.isLost, let entries = try await entries(of: touched) else {
            guard await teller.tell(try await externalChanges(), body) else { return false }
            guard try await lookAgain(&teller, body) else { return false }
            return await teller.end(body)
        }
        guard await teller.tell(try await externalChanges(), body) else { return false }
        var start = 0
        while start < entries.count {
            let page = Array(entries[start..<min(start + pageSize, entries.count)])
            start += page.count
            var gone = Set(page)
            moving.subtract(page)
            var changes = QueryChanges()
            for found in try await self.page(QueryCursor(page), isOrdered: false).found {
                gone.remove(found.entry)
                compare(found, &changes)
            }
            for entry in page where gone.contains(entry) { forget(entry, &changes) }
            guard await teller.tell(changes, body) else { return false }
            try Self.checkCancelled()
        }
        return await teller.end(body)
    }

    /// What has become of the documents that references lead to: any change may be one of theirs.
    private func externalChanges() async throws(Errno) -> QueryChanges {
        var changes = QueryChanges()
        var unseen = Set(known.keys.filter { $0 < 0 })
        for found in try await externals() {
            unseen.remove(found.entry)
            compare(found, &changes)
        }
        for entry in unseen.sorted() { forget(entry, &changes) }
        return changes
    }

    /// Looks at everything: more has changed than was kept.
    private func lookAgain(_ teller: inout Teller, _ body: Body) async throws(Errno) -> Bool {
        let (engine, request, access, horizon, weight) = (engine, request, access, horizon, predicate.weight)
        // Folders that were never listed may not be looked at.
        hasUnlisted = true
        var unseen = Set(known.keys.filter { $0 > 0 })
        var cursor: QueryCursor? = try await engine.onQueue { () throws(Errno) in
            try engine.catalog.read { database throws(Errno) in
                // What comes later is told of.
                let last = try database.first("SELECT max(id) FROM entries") { $0.int(0) } ?? 0
                let filter = Self.filter(request, engine)
                return try QueryCursor(access, filter, weight: weight, after: 0, upTo: min(last, horizon), database)
            }
        }
        while let current = cursor {
            let page = try await page(current, isOrdered: false)
            cursor = page.next
            var changes = QueryChanges()
            for found in page.found {
                unseen.remove(found.entry)
                compare(found, &changes)
            }
            guard await teller.tell(changes, body) else { return false }
            try Self.checkCancelled()
        }
        var changes = QueryChanges()
        for entry in unseen.sorted() { forget(entry, &changes) }
        return await teller.tell(changes, body)
    }

    /// Notes what is told of a result; true where it is other than what was told before.
    func learn(_ found: Found) -> Bool {
        guard let result = found.result else { return false }
        var hasher = Hasher()
        hasher.combine(result.path)
        hasher.combine(result.item)
        hasher.combine(result.document)
        for (key, value) in result.values.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            hasher.combine(key)
            hasher.combine(value)
        }
        let number = hasher.finalize()
        return known.updateValue(number, forKey: found.entry) != number
    }

    /// Notes what is told of a result, and whether that is new.
    func compare(_ found: Found, _ changes: inout QueryChanges) {
        guard let result = found.result else { return }
        let isNew = known[found.entry] == nil
        guard learn(found) else { return }
        if isNew { changes.added.append(result) } else { changes.changed.append(result) }
    }

    private func forget(_ entry: Int64, _ changes: inout QueryChanges) {
        if known.removeValue(forKey: entry) != nil { changes.removed.append(entry) }
    }

    /// The entries that are to be looked at again, in order; nil for all.
    private func entries(of touched: Touched) async throws(Errno) -> [Int64]? {
        let horizon = horizon
        let found = try await engine.onQueue { [engine] () throws(Errno) -> (entries: [Int64]?, hasFolder: Bool) in
            try engine.catalog.read { database throws(Errno) -> (entries: [Int64]?, hasFolder: Bool) in
                var entries = touched.entries
                // A folder that was moved may have some below it that were never listed.
                var hasFolder = false
                for tree in touched.trees where !hasFolder {
                    let row = try database.item(tree)
                    hasFolder = row?.kind == .directory && row?.linkCount ?? 0 > 0
                }
                for item in touched.items {
                    entries.formUnion(
                        try database.all("SELECT id FROM entries WHERE item = ?", .item(item)) { $0.int(0) }
                    )
                }
                for document in touched.documents {
                    let found = try database.all("SELECT id FROM entries WHERE document = ?", .document(document)) {
                        $0.int(0)
                    }
                    entries.formUnion(found)
                }
                var seen = touched.trees
                var waiting = Array(touched.trees)
                var count = 0
                while let tree = waiting.popLast() {
                    let below = try database.all("SELECT id, item FROM entries WHERE parent = ?", .item(tree)) {
                        (entry: $0.int(0), item: $0.item(1))
                    }
                    count += below.count
                    guard count <= Self.mostBelow else { return (nil, hasFolder) }
                    entries.formUnion(below.lazy.map(\.entry))
                    waiting += below.lazy.map(\.item).filter { seen.insert($0).inserted }
                }
                return (entries.filter { $0 <= horizon }.sorted(), hasFolder)
            }
        }
        if found.hasFolder { hasUnlisted = true }
        return found.entries
    }
}

/// Tells changes that happened at a time, of which only the last are not followed by more.
private struct Teller {
    private var waiting = QueryChanges()

    mutating func tell(_ changes: QueryChanges, _ body: QueryRun.Body) async -> Bool {
        guard !changes.isEmpty else { return true }
        var before = waiting
        waiting = changes
        guard !before.isEmpty else { return true }
        before.isPart = true
        return await body(.changed(before))
    }

    mutating func end(_ body: QueryRun.Body) async -> Bool {
        waiting.isEmpty ? true : await body(.changed(waiting))
    }
}
