internal import CoveCore
internal import Glibc
internal import Synchronization

/// Scopes: an app uses a document that it has no name for between a start and a stop, under a hidden name in its container.
extension Access {
    /// What these names begin with; then come 32 hexadecimal digits, a hyphen, and the document's name.
    private static let prefix = Array(".external-".utf8)
    private static let tokenLength = 32
    /// How many an app may use at a time.
    static let mostLive = 1000
    /// How many an app may have been given; the oldest that nobody uses is forgotten then.
    private static let mostGiven: Int64 = 10_000

    /// What an app names to use a document; nil for one that it may use without.
    func scope(of entry: EntryRow, for app: AppIdentifier) async throws(AccessError) -> String? {
        let isOwn = try await inCatalog { [self] database throws(Errno) in try isOpen(entry, to: app, database) }
        if isOwn { return nil }
        return try await failing("it can't be given") { () throws(Errno) in
            try await onQueue { [self] () throws(Errno) in
                try catalog.write { database throws(Errno) in
                    let known = try database.first(
                        "SELECT token FROM scopes WHERE app = ? AND document = ? LIMIT 1",
                        .text(app.text),
                        .document(entry.document)
                    ) { $0.text(0) }
                    if let known { return known }
                    try database.run(
                        """
                        DELETE FROM scopes WHERE app = ?1 AND token IN (SELECT token FROM scopes WHERE app = ?1
                            AND token NOT IN (SELECT token FROM scope_uses) ORDER BY made DESC LIMIT -1 OFFSET ?2)
                        """,
                        .text(app.text),
                        .int(Self.mostGiven)
                    )
                    let token = "\(DocumentID.random())"
                    try database.run(
                        "INSERT INTO scopes(token, app, document, made) VALUES(?, ?, ?, ?)",
                        .text(token),
                        .text(app.text),
                        .document(entry.document),
                        .milliseconds(self.journalTime())
                    )
                    return token
                }
            }
        }
    }

    /// Lets an app use a document once more; the path that it has for that, nil where it uses too many.
    func startScope(_ token: String, for app: AppIdentifier, process: Int32) async throws(AccessError) -> RemotePath? {
        await refresh()
        let started = Self.startTime(of: process)
        guard started != 0 else { throw AccessError(.stale, "the process has ended") }
        let result = try await failing("it can't be used") { () throws(Errno) in
            try await onQueue { [self] () throws(Errno) -> Result<RemotePath?, AccessError> in
                try catalog.write(durable: true) { database throws(Errno) in
                    guard let entry = try self.scoped(token, app, database) else {
                        return .failure(
                            AccessError(
                                .accessDenied,
                                "the app may not use it; let the user pick it, or resolve a bookmark"
                            )
                        )
                    }
                    let live = try database.first(
                        """
                        SELECT count(DISTINCT u.token) FROM scope_uses u JOIN scopes s ON s.token = u.token
                        WHERE s.app = ? AND u.token <> ?
                        """,
                        .text(app.text),
                        .text(token)
                    ) { $0.int(0) }
                    guard live ?? 0 < Self.mostLive else { return .success(nil) }
                    guard let place = try self.scopedPlace(token, entry, app, database) else {
                        return .failure(AccessError(.noSuchEntry, "the app has no container; make one first"))
                    }
                    try database.run(
                        """
                        INSERT INTO scope_uses(token, process, started, count) VALUES(?1, ?2, ?3, 1)
                            ON CONFLICT(token, process, started) DO UPDATE SET count = min(count + 1, 1000000000)
                        """,
                        .text(token),
                        .int(Int64(process)),
                        .int(started)
                    )
                    return .success(place)
                }
            }
        }
        scopeCount.store(1, ordering: .releasing)
        return try result.get()
    }

    /// Ends one use; one too many is no error.
    ///
    /// True while the process still uses it.
    func stopScope(_ token: String, process: Int32) async throws(AccessError) -> Bool {
        let started = Self.startTime(of: process)
        return try await failing("it can't be ended") { () throws(Errno) in
            try await onQueue { [catalog] () throws(Errno) in
                try catalog.write { database throws(Errno) in
                    let which: [Database.Value] = [.text(token), .int(Int64(process)), .int(started)]
                    try database.run(
                        "UPDATE scope_uses SET count = count - 1 WHERE token = ? AND process = ? AND started = ?",
                        which
                    )
                    try database.run("DELETE FROM scope_uses WHERE count <= 0")
                    // What others do with it is not for this one to know.
                    return try database.first(
                        "SELECT 1 FROM scope_uses WHERE token = ? AND process = ? AND started = ?",
                        .text(token),
                        .int(Int64(process)),
                        .int(started)
                    ) { _ in true } ?? false
                }
            }
        }
    }

    /// Uses end with the processes that began them.
    func expireScopes() {
        guard scopeCount.load(ordering: .acquiring) > 0 else { return }
        let uses = try? catalog.read { database throws(Errno) in
            try database.all("SELECT DISTINCT process, started FROM scope_uses") {
                (Int32(truncatingIfNeeded: $0.int(0)), $0.int(1))
            }
        }
        guard let uses else { return }
        let ended = uses.filter { $0.1 == 0 || Self.startTime(of: $0.0) != $0.1 }
        scopeCount.store(uses.count - ended.count, ordering: .releasing)
        if ended.isEmpty { return }
        try? catalog.write { database throws(Errno) in
            for (process, started) in ended {
                try database.run(
                    "DELETE FROM scope_uses WHERE process = ? AND started = ?",
                    .int(Int64(process)),
                    .int(started)
                )
            }
        }
    }

    /// The item of a hidden name, while its scope is used; nil for any other name.
    ///
    /// `EACCES` where it is not used.
    func scopedAttributes(_ parent: ItemID, _ name: [UInt8]) throws(Errno) -> ItemAttributes? {
        guard let entry = try scopedEntry(parent, name, .reading) else { return nil }
        return try namespace.attributes(of: entry.item)
    }

    /// What has a hidden name, while its scope is used; nil for any other name, `EACCES` where the app may not do that with it.
    func scopedEntry(_ parent: ItemID, _ name: [UInt8], _ use: Use) throws(Errno) -> EntryRow? {
        guard name.starts(with: Self.prefix), name.count > Self.prefix.count + Self.tokenLength,
            case .container(let identifier, _)? = folders[parent]
        else { return nil }
        let token = String(decoding: name[Self.prefix.count...].prefix(Self.tokenLength), as: UTF8.self)
        let entry = try catalog.glance { database throws(Errno) -> EntryRow? in
            guard let app = self.registry.containers[identifier]?.app,
                let entry = try self.scoped(token, app, database, use),
                Self.name(token, entry.name) == name,
                try database.first(
                    "SELECT 1 FROM scope_uses WHERE token = ? LIMIT 1",
                    .text(token),
                    read: { _ in true }
                )
                    == true
            else { return nil }
            return entry
        }
        guard let entry else { throw .accessDenied }
        return entry
    }

    /// True for a hidden name of a scope, which the kernel is not to keep.
    static func isScoped(_ name: [UInt8]) -> Bool { name.starts(with: prefix) }

    private static func name(_ token: String, _ name: [UInt8]) -> [UInt8] {
        let start = prefix + Array(token.utf8) + [0x2D]
        return start + name.suffix(FileName.maximumLength - start.count)
    }

    /// The document of a scope that the app may still use.
    private func scoped(
        _ token: String,
        _ app: AppIdentifier,
        _ database: Database,
        _ use: Use = .reading
    ) throws(Errno) -> EntryRow? {
        let document = try database.first(
            "SELECT document FROM scopes WHERE token = ? AND app = ?",
            .text(token),
            .text(app.text)
        ) { $0.document(0) }
        guard let document, let entry = try database.entry(document: document), try isInTree(entry, database),
            try isAdmitted(app, entry, use, database)
        else { return nil }
        return entry
    }

    private func scopedPlace(
        _ token: String,
        _ entry: EntryRow,
        _ app: AppIdentifier,
        _ database: Database
    ) throws(Errno) -> RemotePath? {
        let registry = registry
        for identifier in registry.apps[app]?.containers ?? [] where registry.containers[identifier]?.app == app {
            guard let folder = try self.entry(ofContainer: identifier, database) else { continue }
            let name = FileName(unchecked: Self.name(token, entry.name))
            return RemotePath([FileName(unchecked: folder.name), name])
        }
        return nil
    }

    /// When a process was started, in the kernel's ticks; 0 for one that is not there.
    ///
    /// See proc_pid_stat(5).
    private static func startTime(of process: Int32) -> Int64 {
        guard process > 0, let file = try? System.open("/proc/\(process)/stat", O_RDONLY) else { return 0 }
        defer { System.close(file) }
        guard let bytes = try? System.contents(file, atMost: 4096), let end = bytes.lastIndex(of: 0x29) else {
            return 0
        }
        let fields = bytes[end...].split(separator: 0x20)
        return fields.count > 20 ? Int64(String(decoding: fields[20], as: UTF8.self)) ?? 0 : 0
    }
}
