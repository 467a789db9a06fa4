internal import CoveCore

/// One query on its way; used by one task.
final class QueryRun {
    /// As many entries are looked at in one go, at most.
    private static let page = 500

    /// Whether the body that is told of results wants more.
    typealias Body = (QueryEvent) async -> Bool

    /// An entry of which the predicate holds.
    struct Found: Sendable {
        let entry: Int64
        /// The values that order it.
        let order: [QueryValue?]
        /// Nil until the order is known.
        var result: QueryResult?
    }

    let request: QueryRequest
    let predicate: PreparedPredicate
    let engine: Engine
    let access: QueryAccess
    private let scopes: Set<QueryScope>
    /// As many entries are looked at in one go: the fewer, the more work each one is.
    let pageSize: Int
    /// Nil for one that ends when all is gathered.
    let follower: Touches.Follower?
    /// Nothing up to this entry has to be looked at again.
    private var last: Int64 = 0
    /// No item was younger at the last look.
    private var lastItem = ItemID(0)
    /// What has to wait for its order.
    private var kept: [Found] = []
    /// The results that were told, where the query goes on, with a number for all that was told of each.
    var known: [Int64: Int] = [:]
    /// What was looked at and has bytes that come in or go out, so that its values change without any call.
    var moving: Set<Int64> = []
    /// True where such a document is another app's.
    var seesMovingExternals = false
    /// True where a folder that was never listed has come to be known.
    var hasUnlisted = false
    /// True once all is gathered.
    var goesOn = false

    init(_ request: QueryRequest, _ engine: Engine, _ follower: Touches.Follower? = nil) {
        self.request = request
        predicate = PreparedPredicate(request.predicate)
        // Others wait for the same threads.
        pageSize = max(1, min(Self.page, 50_000 / predicate.weight))
        self.engine = engine
        self.follower = follower
        access = QueryAccess(request.predicate)
        scopes = request.scopes.isEmpty ? [.documents, .data] : request.scopes
    }

    /// What SQLite leaves out of what is looked at now: what changes from now on is looked at by its number.
    static func filter(_ request: QueryRequest, _ engine: Engine) -> QueryFilter? {
        QueryFilter(request.predicate, live: engine.contents.live.all().map(\.id))
    }

    /// No entry behind this one is looked at again: while the query gathers, the next look comes to it.
    var horizon: Int64 { goesOn ? .max : last }

    /// True where nothing can be found.
    var isEmpty: Bool { scopes == [.external] }

    /// The folder below which all is that can be found.
    var crawled: RemotePath {
        guard request.folder.isRoot, !scopes.contains(.data), !engine.access.changesRoot else { return request.folder }
        return RemotePath([QueryRequest.documents])
    }

    /// Finds all there is; how many folders were not looked into, nil where the body wants no more.
    func gather(_ body: Body) async throws(Errno) -> Int? {
        guard !isEmpty else { return try await end(body) ? 0 : nil }
        guard try await look(body) else { return nil }
        if !request.listedOnly { await engine.connected.pass() }
        var mayList = !request.listedOnly && engine.syncEngine?.isConnected == true
        var unlisted = 0
        var listed = 0
        var last = ItemID(0)
        let way = try await engine.opened(crawled, mayList: mayList)
        guard let top = way.folder else {
            // Whoever names a folder is told that there is none.
            if way.isKnown, !request.folder.isRoot { throw .noSuchEntry }
            return try await end(body) ? (way.isKnown ? 0 : 1) : nil
        }
        while true {
            let folders = try await engine.unlistedDirectories(below: top, after: last)
            if mayList {
                let failed = await engine.list(folders.found)
                unlisted += failed.count
                mayList = !Engine.isOutOfReach(failed.values)
            } else {
                unlisted += folders.found.count
            }
            try Self.checkCancelled()
            listed += folders.found.count
            if listed > Engine.mostListed { mayList = false }
            guard let next = folders.last else { break }
            last = next
            // What the source tells of here has come later than all that was looked at.
            if mayList, !folders.found.isEmpty, try await !look(body) { return nil }
        }
        return try await end(body) ? unlisted : nil
    }

    /// Looks at all that has come since the last look, and at what has changed since; false when nobody wants more.
    private func look(_ body: Body, isLast: Bool = false) async throws(Errno) -> Bool {
        let (engine, request, access, first, lastItem, follower) = (engine, request, access, last, lastItem, follower)
        let weight = predicate.weight
        // What waits for its order is told when all is known. Who follows a query keeps the order by itself.
        let isTold = request.order.isEmpty || follower != nil
        // In this order nothing is missed: an entry up to the horizon that changes from now on is told of, and one behind it is
        // found by the next look. An item is older than its entries.
        var touched = Touched()
        if let follower, isTold { touched = engine.catalog.touches.take(follower) }
        let (end, item, start) = try await engine.onQueue { () throws(Errno) in
            try engine.catalog.read { database throws(Errno) in
                if let follower, isLast { engine.catalog.touches.bound(follower, by: Touches.Horizon()) }
                // What was deleted takes its number along.
                let end = max(first, try database.first("SELECT max(id) FROM entries") { $0.int(0) } ?? 0)
                let item = max(lastItem, try database.first("SELECT max(id) FROM items") { $0.item(0) } ?? ItemID(0))
                if let follower, !isLast {
                    engine.catalog.touches.bound(follower, by: Touches.Horizon(entry: end, item: item))
                }
                // After that: what memory knows better from now on is told of.
                let filter = Self.filter(request, engine)
                return (end, item, try QueryCursor(access, filter, weight: weight, after: first, upTo: end, database))
            }
        }
        (last, self.lastItem) = (end, item)
        var cursor: QueryCursor? = start
        while let current = cursor {
            let page = try await page(current, isOrdered: !isTold)
            cursor = page.next
            kept += page.found.filter { $0.result == nil }
            guard try await tell(page.found, body) else { return false }
        }
        guard !touched.isEmpty else { return true }
        return try await update(touched, body)
    }

    /// The last look, and what had to wait for its order.
    private func end(_ body: Body) async throws(Errno) -> Bool {
        // What was listed on the way has come since the last look.
        if !isEmpty, follower != nil || !request.listedOnly, try await !look(body, isLast: true) { return false }
        let order = request.order
        kept += try await externals()
        kept.sort { order.precedes($0.order, $1.order) }
        var waiting = kept[...]
        kept = []
        while let first = waiting.first {
            // What was found by a reference is known already.
            let run = waiting.prefix { ($0.result == nil) == (first.result == nil) }
            waiting = waiting.dropFirst(run.count)
            if first.result != nil {
                guard try await tell(Array(run), body) else { return false }
                continue
            }
            var cursor: QueryCursor? = QueryCursor(run.map(\.entry))
            while let current = cursor {
                let page = try await page(current, isOrdered: false)
                cursor = page.next
                guard try await tell(page.found, body) else { return false }
            }
        }
        return true
    }

    /// The documents of other apps that references lead to, of which the predicate holds.
    func externals() async throws(Errno) -> [Found] {
        guard scopes.contains(.external) else { return [] }
        let (engine, request) = (engine, request)
        let all = try await engine.onQueue { () throws(Errno) in try engine.access.externals(of: request.app) }
        var found: [Found] = []
        var start = 0
        seesMovingExternals = false
        while start < all.count {
            let part = Array(all[start..<min(start + pageSize, all.count)])
            start += part.count
            let looked = try await externals(part)
            found += looked.found
            if looked.seesMoving { seesMovingExternals = true }
            try Self.checkCancelled()
        }
        return found
    }

    private func externals(_ part: [Access.External]) async throws(Errno) -> (found: [Found], seesMoving: Bool) {
        let (engine, request, predicate, isFollowed) = (engine, request, predicate, follower != nil)
        return try await engine.onQueue { () throws(Errno) in
            var found: [Found] = []
            var seesMoving = false
            let attributes = request.attributes + (isFollowed ? request.order.map(\.key) : [])
            for external in part {
                guard request.folder.isRoot || external.reference.isInside(request.folder) else { continue }
                let item = QueryItem(
                    external.entry,
                    external.row,
                    engine.contents.live.find(external.row.id),
                    at: external.path,
                    engine,
                    by: (external.id, external.reference)
                )
                if isFollowed, item.isMoving { seesMoving = true }
                guard predicate.holds({ item.value($0) }) else { continue }
                let order = request.order.map { item.value($0.key) }
                found.append(Found(entry: -external.id, order: order, result: item.result(attributes)))
            }
            return (found, seesMoving)
        }
    }

    /// Tells of results that are new.
    private func tell(_ found: [Found], _ body: Body) async throws(Errno) -> Bool {
        var results = found.compactMap(\.result)
        if follower != nil {
            // What has changed may have been told already.
            let new = found.filter { known[$0.entry] == nil }
            var changes = QueryChanges()
            for found in found where known[found.entry] != nil { compare(found, &changes) }
            for found in new { _ = learn(found) }
            results = new.compactMap(\.result)
            if !changes.isEmpty, !(await body(.changed(changes))) { return false }
        }
        if !results.isEmpty, !(await body(.found(results))) { return false }
        try Self.checkCancelled()
        return true
    }

    /// What is found in a page: the values that order it, or all that was asked for.
    func page(
        _ cursor: QueryCursor,
        isOrdered: Bool
    ) async throws(Errno) -> (found: [Found], next: QueryCursor?) {
        let (engine, request, scopes, crawled, isFollowed) = (engine, request, scopes, crawled, follower != nil)
        let (predicate, pageSize) = (predicate, pageSize)
        let page = try await engine.onQueue { () throws(Errno) in
            // Another app's container may be there by now.
            if let app = request.app, !request.folder.isRoot {
                guard try engine.access.isAdmitted(app, at: request.folder, .reading) else { throw .accessDenied }
            }
            // Before their rows: one that is closed in between has saved what its row does not tell yet.
            var open: [ItemID: LiveItem] = [:]
            for item in engine.contents.live.all() { open[item.id] = item }
            var rows: [(entry: EntryRow, item: ItemRow, folder: QueryFolders.Folder?)] = []
            let next = try engine.catalog.read { database throws(Errno) -> QueryCursor? in
                let next = try cursor.read(database, limit: pageSize) { rows.append(($0, $1, nil)) }
                var folders = QueryFolders()
                for index in rows.indices {
                    rows[index].folder = try folders.folder(rows[index].entry.parent, database)
                }
                return next
            }
            var found: [Found] = []
            var hasUnlisted = false
            var moving: Set<Int64> = []
            // What is on the way to what is looked for counts, too.
            for case (let entry, let row, let folder?) in rows
            where row.kind == .directory && row.residency != .whole {
                let path = folder.path.appending(FileName(unchecked: entry.name))
                if path.isInside(crawled) || crawled.isInside(path) { hasUnlisted = true }
            }
            // What a client keeps in order it has to be told of.
            let attributes = request.attributes + (isFollowed ? request.order.map(\.key) : [])
            for case (let entry, let row, let folder?) in rows where folder.isShown(to: request.folder) {
                let path = folder.path.appending(FileName(unchecked: entry.name))
                guard request.covers(path, below: folder.top, scopes, engine.access) else { continue }
                let item = QueryItem(entry, row, open[row.id], at: path, engine)
                if predicate.holds({ item.value($0) }) {
                    if isOrdered {
                        found.append(Found(entry: entry.id, order: request.order.map { item.value($0.key) }))
                    } else {
                        found.append(Found(entry: entry.id, order: [], result: item.result(attributes)))
                    }
                }
                if isFollowed, item.isMoving { moving.insert(entry.id) }
            }
            return (found: found, next: next, hasUnlisted: hasUnlisted, moving: moving)
        }
        if page.hasUnlisted { hasUnlisted = true }
        moving.formUnion(page.moving)
        return (page.found, page.next)
    }

    /// Throws `EINTR` where nobody waits for the query any more.
    static func checkCancelled() throws(Errno) { if Task.isCancelled { throw .interrupted } }
}

extension QueryRequest {
    static let documents = FileName(unchecked: Array("Documents".utf8))

    /// True for the folder, and for an item below it, in one of the scopes.
    ///
    /// `top` is the folder of the root that the item is in: a container is one by it, whatever its name is at the moment.
    fileprivate func covers(
        _ path: RemotePath,
        below top: EntryRow?,
        _ scopes: Set<QueryScope>,
        _ access: Access
    ) -> Bool {
        guard folder.isRoot || path.isInside(folder) else { return false }
        // The account's own documents are nobody's.
        if path.isInside(RemotePath([DriveFolder.name])) { return false }
        // The folder itself is none of its documents.
        var places = path.parent.names[...]
        if let top, access.isContainer(top) { places = places.dropFirst() }
        return scopes.contains(places.first == Self.documents ? .documents : .data)
    }
}
