public import CoveCore
internal import Synchronization

/// Finding documents by what is known of them, whether their bytes are here or not.
extension Engine {
    /// As many entries are looked at in one go.
    private static let page = 500
    /// So many folders are listed at a time for a query.
    private static let crawlers = 4

    /// Gathers what a request asks for; the body gets results as they are found, and ends the query by returning false.
    ///
    /// Without an order each comes once as soon as it is found, else all when all are known. Folders that nobody has opened
    /// are listed on the way. Returns how many could not be, or were not to be, so that what is in them is not known.
    public func query(
        _ request: QueryRequest,
        _ body: ([QueryResult]) async -> Bool
    ) async throws(Errno) -> Int {
        var gathering = Gathering(request, self)
        guard !gathering.isEmpty, try await gathering.look(body) else { return 0 }
        if !request.listedOnly { await connected.pass() }
        var mayList = !request.listedOnly && syncEngine?.isConnected == true
        var unlisted = 0
        var last = ItemID(0)
        guard let top = try await opened(gathering.crawled, mayList: mayList) else {
            // Whoever names a folder is told that there is none.
            if mayList, !request.folder.isRoot { throw .noSuchEntry }
            try await gathering.end(body)
            return mayList ? 0 : 1
        }
        while true {
            let folders = try await unlistedDirectories(below: top, after: last)
            if mayList {
                let failed = await list(folders.found)
                unlisted += failed.count
                // Where the source does not answer, each of the others would be waited for in vain.
                mayList = !failed.contains { [.timedOut, .hostUnreachable].contains($0) }
            } else {
                unlisted += folders.found.count
            }
            try Task.checkCancelled()
            guard let next = folders.last else { break }
            last = next
            // What the source tells of here has come later than all that was looked at.
            if !request.listedOnly, try await !gathering.look(body) { return unlisted }
        }
        try await gathering.end(body)
        return unlisted
    }

    /// Lists folders, some at a time; returns why some could not be.
    private func list(_ directories: [ItemID]) async -> [Errno] {
        await withTaskGroup(of: Errno?.self) { group in
            var failures: [Errno] = []
            var rest = directories[...]
            func begin() {
                guard !Task.isCancelled, let directory = rest.popFirst() else { return }
                group.addTask { [namespace] in
                    let pending = namespace.listing(of: directory, whenGone: { .noSuchEntry })
                    return await withTaskCancellationHandler {
                        do throws(Errno) {
                            try await pending.value()
                            return nil
                        } catch {
                            return error == .noSuchEntry ? nil : error
                        }
                    } onCancel: {
                        pending.cancel()
                    }
                }
            }
            for _ in 0..<Self.crawlers { begin() }
            for await failure in group {
                if let failure { failures.append(failure) }
                begin()
            }
            return failures
        }
    }

    /// The folder at a path, for which those above it are listed where they never were; nil where there is none, or it can't be
    /// known.
    private func opened(_ path: RemotePath, mayList: Bool) async throws(Errno) -> ItemID? {
        var folder = ItemID.root
        for name in path.names {
            let (parent, catalog) = (folder, catalog)
            let look = { @Sendable () throws(Errno) -> (found: ItemID?, isListed: Bool) in
                try catalog.read { database throws(Errno) in
                    (try database.entry(parent, name.bytes)?.item, try database.item(parent)?.residency == .whole)
                }
            }
            var (found, isListed) = try await onQueue(look)
            if found == nil, !isListed, mayList {
                _ = await list([parent])
                (found, isListed) = try await onQueue(look)
            }
            guard let found else { return nil }
            folder = found
        }
        return folder
    }

    /// Folders that were never listed, of those behind an item; `last` is nil when there are no more behind them.
    private func unlistedDirectories(
        below top: ItemID,
        after last: ItemID
    ) async throws(Errno) -> (found: [ItemID], last: ItemID?) {
        try await onQueue { [catalog] () throws(Errno) in
            try catalog.read { database throws(Errno) in
                let found = try database.all(
                    """
                    SELECT id FROM items WHERE kind = 1 AND state = 1 AND nlink > 0 AND id > ? ORDER BY id LIMIT 64
                    """,
                    .item(last)
                ) { $0.item(0) }
                guard top != .root else { return (found, found.last) }
                var below: [ItemID] = []
                for id in found {
                    if id == top {
                        below.append(id)
                    } else if try database.directory(id, isInside: top) {
                        below.append(id)
                    }
                }
                return (below, found.last)
            }
        }
    }

    /// One query on its way.
    private struct Gathering {
        private let request: QueryRequest
        private let engine: Engine
        private let access: QueryAccess
        private let scopes: Set<QueryScope>
        /// Nothing up to this entry has to be looked at again.
        private var last: Int64 = 0
        /// What has to wait for its order.
        private var kept: [Found] = []

        private struct Found: Sendable {
            let entry: Int64
            let order: [QueryValue?]
            var result: QueryResult?
        }

        init(_ request: QueryRequest, _ engine: Engine) {
            self.request = request
            self.engine = engine
            access = QueryAccess(request.predicate)
            scopes = request.scopes.isEmpty ? [.documents, .data] : request.scopes
        }

        /// True where nothing can be found.
        var isEmpty: Bool { scopes == [.external] }

        /// The folder below which all is that can be found.
        var crawled: RemotePath {
            guard request.folder.isRoot, !scopes.contains(.data) else { return request.folder }
            return RemotePath([QueryRequest.documents])
        }

        /// Looks at all that has come since the last look; false when nobody wants more.
        mutating func look(_ body: ([QueryResult]) async -> Bool) async throws(Errno) -> Bool {
            let (catalog, access, first) = (engine.catalog, access, last)
            let (end, start) = try await engine.onQueue { () throws(Errno) in
                try catalog.read { database throws(Errno) in
                    let end = try database.first("SELECT max(id) FROM entries") { $0.int(0) } ?? 0
                    return (end, try QueryCursor(access, after: first, upTo: end, database))
                }
            }
            last = end
            var cursor: QueryCursor? = start
            while let current = cursor {
                let page = try await page(current, isOrdered: !request.order.isEmpty)
                cursor = page.next
                kept += page.found.filter { $0.result == nil }
                let results = page.found.compactMap(\.result)
                if !results.isEmpty, !(await body(results)) { return false }
                try Task.checkCancelled()
            }
            return true
        }

        /// Gives what had to wait for its order.
        mutating func end(_ body: ([QueryResult]) async -> Bool) async throws(Errno) {
            guard !request.order.isEmpty else { return }
            let order = request.order
            kept.sort { order.precedes($0.order, $1.order) }
            var cursor: QueryCursor? = QueryCursor(kept.map(\.entry))
            kept = []
            while let current = cursor {
                let page = try await page(current, isOrdered: false)
                cursor = page.next
                guard await body(page.found.compactMap(\.result)) else { return }
                try Task.checkCancelled()
            }
        }

        /// What is found in a page: the values that order it, or all that was asked for.
        private func page(
            _ cursor: QueryCursor,
            isOrdered: Bool
        ) async throws(Errno) -> (found: [Found], next: QueryCursor?) {
            let (engine, request, scopes) = (engine, request, scopes)
            return try await engine.onQueue { () throws(Errno) in
                var rows: [(entry: EntryRow, item: ItemRow, path: RemotePath?)] = []
                let next = try engine.catalog.read { database throws(Errno) -> QueryCursor? in
                    let next = try cursor.read(database, limit: Engine.page) { rows.append(($0, $1, nil)) }
                    var folders: [ItemID: RemotePath?] = [:]
                    for index in rows.indices {
                        let parent = rows[index].entry.parent
                        let folder: RemotePath?
                        if let known = folders[parent] {
                            folder = known
                        } else {
                            folder = try database.path(ofDirectory: parent)
                            folders[parent] = folder
                        }
                        rows[index].path = folder?.appending(FileName(unchecked: rows[index].entry.name))
                    }
                    return next
                }
                var found: [Found] = []
                for case (let entry, let row, let path?) in rows where request.covers(path, scopes) {
                    let item = QueryItem(entry, row, at: path, engine)
                    guard request.predicate.holds({ item.value($0) }) else { continue }
                    if isOrdered {
                        found.append(Found(entry: entry.id, order: request.order.map { item.value($0.key) }))
                    } else {
                        found.append(Found(entry: entry.id, order: [], result: item.result(request.attributes)))
                    }
                }
                return (found, next)
            }
        }
    }
}

extension QueryRequest {
    fileprivate static let documents = FileName(unchecked: Array("Documents".utf8))

    /// True for the folder, and for an item below it, in one of the scopes.
    fileprivate func covers(_ path: RemotePath, _ scopes: Set<QueryScope>) -> Bool {
        guard folder.isRoot || path.isInside(folder) else { return false }
        // The folder itself is none of its documents.
        return scopes.contains(path.parent.isInside(RemotePath([Self.documents])) ? .documents : .data)
    }
}

extension Task where Success == Never, Failure == Never {
    /// Throws `EINTR` where nobody waits for the task any more.
    fileprivate static func checkCancelled() throws(Errno) {
        if isCancelled { throw .interrupted }
    }
}
