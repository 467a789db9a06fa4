internal import CoveCore

/// Something that failed and waits for its next attempt, or for a person.
struct FailureRow {
    var path: RemotePath
    var message: String
    /// When it is tried again; nil when nobody but a person can help.
    var retry: Timestamp?
}

/// What failed: all of it as a number, and the first few to be shown.
extension Database {
    /// What was wrong with names of a directory that a listing does not have any more.
    func problems(in directory: RemotePath, except names: SeenNames) throws(Errno) -> [[UInt8]] {
        try problems(below: directory).filter { path in
            let rest = directory.isRoot ? path[...] : path.dropFirst(directory.bytes.count + 1)
            // Anything may be in a bad name, a slash too.
            let ends = rest.indices.filter { rest[$0] == 0x2F } + [rest.endIndex]
            return !ends.contains { names.contains(Array(rest[..<$0])) }
        }
    }

    /// What was wrong at a path and below it.
    func problems(at path: RemotePath) throws(Errno) -> [[UInt8]] {
        let own = try first("SELECT path FROM problems WHERE path = ?", .blob(path.bytes)) { $0.blob(0) }
        return (own.map { [$0] } ?? []) + (try problems(below: path))
    }

    func forgetProblem(at path: [UInt8]) throws(Errno) {
        try run("DELETE FROM problems WHERE path = ?", .blob(path))
    }

    func problems(below directory: RemotePath) throws(Errno) -> [[UInt8]] {
        if directory.isRoot { return try all("SELECT path FROM problems") { $0.blob(0) } }
        return try all(
            "SELECT path FROM problems WHERE path > ? AND path < ?",
            .blob(directory.bytes + [0x2F]),
            .blob(directory.bytes + [0x30])
        ) { $0.blob(0) }
    }

    func failureCount() throws(Errno) -> Int {
        let counts: [StaticString] = [
            "SELECT count(*) FROM journal WHERE error IS NOT NULL",
            "SELECT count(*) FROM trash WHERE pending = 1 AND error IS NOT NULL",
            "SELECT count(*) FROM problems",
        ]
        var sum = 0
        for query in counts { sum += Int(try first(query) { $0.int(0) } ?? 0) }
        return sum
    }

    /// At most so many: changes that were not sent, deletions, then names that can't be here.
    func failures(limit: Int) throws(Errno) -> [FailureRow] {
        var found: [FailureRow] = []
        let changes = try all(
            "SELECT entry, retry, error FROM journal WHERE error IS NOT NULL ORDER BY entry LIMIT ?",
            .int(Int64(limit)),
            read: { ($0.int(0), $0.milliseconds(1), $0.text(2)) }
        )
        for (id, retry, message) in changes {
            guard let entry = try entry(id: id) else { continue }
            found.append(FailureRow(path: try path(of: entry), message: message, retry: retry))
        }
        found += try all(
            "SELECT path, retry, error FROM trash WHERE pending = 1 AND error IS NOT NULL ORDER BY id LIMIT ?",
            .int(Int64(limit - found.count)),
            read: { row in
                FailureRow(path: RemotePath(unchecked: row.blob(0)), message: row.text(2), retry: row.milliseconds(1))
            }
        )
        found += try all(
            "SELECT path, message FROM problems ORDER BY path LIMIT ?",
            .int(Int64(limit - found.count)),
            read: { row in
                let message = "\(row.text(1)); rename it at the source"
                return FailureRow(path: RemotePath(unchecked: row.blob(0)), message: message)
            }
        )
        return found
    }
}
