public import CoveCore

/// Finding documents by what is known of them, whether their bytes are here or not.
extension Engine {
    /// Gathers what a request asks for; the body gets results as they are found, and ends the query by returning false.
    ///
    /// Without an order each comes once as soon as it is found, else all when all are known. Folders that nobody has opened
    /// are listed on the way. Returns how many could not be, or were not to be, so that what is in them is not known.
    public func query(
        _ request: QueryRequest,
        _ body: ([QueryResult]) async -> Bool
    ) async throws(Errno) -> Int {
        let run = QueryRun(request, self)
        return try await run.gather { event in
            if case .found(let results) = event { return await body(results) }
            return true
        } ?? 0
    }

    /// Gathers what a request asks for and goes on to tell what becomes of it, until the body returns false, the task is
    /// cancelled or the engine ends.
    ///
    /// A change that is made here is told as soon as it is committed, whether there is a connection or not, but after a
    /// look at changes there is no other one for so long. Throws `EBUSY` where too many queries go on.
    public func follow(
        _ request: QueryRequest,
        interval: TimeSpan,
        _ body: (QueryEvent) async -> Bool
    ) async throws(Errno) {
        guard let follower = try catalog.touches.follow(for: request.app) else { return }
        defer { follower.leave() }
        try await onQueue { [catalog] () throws(Errno) in catalog.barrier() }
        let run = QueryRun(request, self, follower)
        guard let unlisted = try await run.gather(body), await body(.gathered(unlisted: unlisted)) else { return }
        try await run.goOn(interval: interval, body)
    }

    /// What is known of the items at some paths; what is not there, and the root, is left out.
    public func values(at paths: [RemotePath], _ attributes: [QueryKey]) async throws(Errno) -> [QueryResult] {
        try await onQueue { [self] () throws(Errno) in
            var results: [QueryResult] = []
            for path in paths {
                let found = try catalog.read { database throws(Errno) -> (Access.External, LiveItem?)? in
                    guard let place = try access.place(named: path, database),
                        let row = try database.item(place.entry.item)
                    else { return nil }
                    let former = contents.live.find(row.id)
                    let real = place.reference == nil ? path : try database.path(of: place.entry)
                    let id = place.reference ?? 0
                    return (Access.External(id: id, reference: path, entry: place.entry, row: row, path: real), former)
                }
                guard let (named, former) = found else { continue }
                let reference = named.id == 0 ? nil : (named.id, named.reference)
                let item = QueryItem(named.entry, named.row, former, at: named.path, self, by: reference)
                var result = item.result(attributes)
                // Whoever asks knows it by what was asked for.
                result.path = path
                results.append(result)
            }
            return results
        }
    }
}
