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
        guard try await gathering.look(body) else { return 0 }
        var unlisted = 0
        if request.listedOnly {
            unlisted = try unlistedDirectories(below: request.folder, after: ItemID(0), limit: 1_000_000).count
        } else {
            var last = ItemID(0)
            while true {
                let found = try unlistedDirectories(below: request.folder, after: last, limit: 64)
                guard let next = found.last else { break }
                last = next
                unlisted += await list(found)
                try Task.checkCancelled()
                // What the source tells of here has come later than all that was looked at.
                guard try await gathering.look(body) else { return unlisted }
            }
        }
        try await gathering.end(body)
        return unlisted
    }

    /// Lists folders, some at a time; returns how many could not be.
    private func list(_ directories: [ItemID]) async -> Int {
        await withTaskGroup(of: Bool.self) { group in
            var (failed, next) = (0, 0)
            func begin() {
                guard next < directories.count else { return }
                let directory = directories[next]
                next += 1
                group.addTask { [namespace] in
                    let pending = namespace.listing(of: directory, whenGone: { .noSuchEntry })
                    do throws(Errno) {
                        try await pending.value()
                        return true
                    } catch {
                        return error == .noSuchEntry
                    }
                }
            }
            for _ in 0..<Self.crawlers { begin() }
            for await isListed in group {
                if !isListed { failed += 1 }
                begin()
            }
            return failed
        }
    }

    private func unlistedDirectories(
        below folder: RemotePath,
        after last: ItemID,
        limit: Int
    ) throws(Errno) -> [ItemID] {
        try catalog.read { database throws(Errno) in
            let top = try database.entry(atPath: folder)?.item ?? .root
            var found: [ItemID] = []
            try database.each(
                """
                SELECT i.id FROM items i WHERE i.kind = 1 AND i.state = 1 AND i.nlink > 0 AND i.id > ? ORDER BY i.id
                """,
                .item(last)
            ) { row in
                found.append(row.item(0))
                return found.count < limit
            }
            guard top != .root else { return found }
            var below: [ItemID] = []
            for id in found {
                if id == top { below.append(id) } else if try database.directory(id, isInside: top) { below.append(id) }
            }
            return below
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
        private var kept: [(order: [QueryValue?], result: QueryResult)] = []

        init(_ request: QueryRequest, _ engine: Engine) {
            self.request = request
            self.engine = engine
            access = QueryAccess(request.predicate)
            scopes = request.scopes.isEmpty ? [.documents, .data] : request.scopes
        }

        /// Looks at all that has come since the last look; false when nobody wants more.
        mutating func look(_ body: ([QueryResult]) async -> Bool) async throws(Errno) -> Bool {
            let first = last
            last = try engine.catalog.read { database throws(Errno) in
                try database.first("SELECT max(id) FROM entries") { $0.int(0) } ?? 0
            }
            var cursors = QueryCursor.all(access, after: first)
            while let cursor = cursors.popLast() {
                var cursor: QueryCursor? = cursor
                while let current = cursor {
                    let (found, next) = try page(current)
                    cursor = next
                    if request.order.isEmpty {
                        if !found.isEmpty, !(await body(found.map(\.result))) { return false }
                    } else {
                        kept += found
                    }
                    try Task.checkCancelled()
                }
            }
            return true
        }

        /// Gives what had to wait for its order.
        mutating func end(_ body: ([QueryResult]) async -> Bool) async throws(Errno) {
            guard !request.order.isEmpty else { return }
            let order = request.order
            kept.sort { order.precedes($0.order, $1.order) }
            var rest = kept[...]
            while !rest.isEmpty {
                guard await body(rest.prefix(Engine.page).map(\.result)) else { return }
                rest = rest.dropFirst(Engine.page)
            }
        }

        private func page(
            _ cursor: QueryCursor
        ) throws(Errno) -> (found: [(order: [QueryValue?], result: QueryResult)], next: QueryCursor?) {
            var rows: [(entry: EntryRow, item: ItemRow, path: RemotePath?)] = []
            let next = try engine.catalog.read { database throws(Errno) -> QueryCursor? in
                let next = try cursor.read(database, upTo: last, limit: Engine.page) { rows.append(($0, $1, nil)) }
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
            var found: [(order: [QueryValue?], result: QueryResult)] = []
            for case (let entry, let row, let path?) in rows where isInScope(path) {
                let item = QueryItem(entry, row, at: path, engine)
                guard request.predicate.holds({ item.value($0) }) else { continue }
                var values: [QueryKey: QueryValue] = [:]
                for key in request.attributes { values[key] = item.value(key) }
                let result = QueryResult(path: path, item: entry.item, document: entry.document, values: values)
                found.append((request.order.map { item.value($0.key) }, result))
            }
            return (found, next)
        }

        private static let documents = Array("Documents/".utf8)

        private func isInScope(_ path: RemotePath) -> Bool {
            guard request.folder.isRoot || path.isInside(request.folder) else { return false }
            let isDocument = path.bytes.starts(with: Self.documents)
            return scopes.contains(isDocument ? .documents : .data)
        }
    }
}

extension Task where Success == Never, Failure == Never {
    /// Throws `EINTR` where nobody waits for the task any more.
    fileprivate static func checkCancelled() throws(Errno) {
        if isCancelled { throw .interrupted }
    }
}
