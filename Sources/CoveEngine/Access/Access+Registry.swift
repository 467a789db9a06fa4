internal import CoveCore
internal import Synchronization

/// What the account's documents say of apps and containers: read, checked, kept, and heeded.
extension Access {
    private static let key = "drive"
    /// How long a document that could not be read is left alone.
    private static let readingRest = TimeSpan.seconds(5)
    /// How often the documents are read for one reading, while they are being changed here.
    private static let heedAttempts = 5
    /// How many documents are fetched at a time.
    private static let parallelReads = 8

    /// What an earlier start has read holds until it is read again.
    func recall() throws(Errno) {
        let kept = try catalog.read { database throws(Errno) in try database.meta(Self.key) }
        guard let kept, let value = try? JSONValue(parsing: kept) else { return try markFolders() }
        var registry = Registry()
        if case .array(let apps)? = value["apps"] {
            for app in apps {
                if let record: AppRecord = try? app.decode() { registry.apps[record.identifier] = record }
            }
        }
        if case .array(let containers)? = value["containers"] {
            for container in containers {
                if let record: ContainerRecord = try? container.decode() {
                    registry.containers[record.identifier] = record
                }
            }
        }
        // What was there then was judged then.
        let plain = try possibleContainers()
        let areNamed = registry.containers.keys.allSatisfy { names.isContainer(there: $0.folderName) }
        state.withLock { state in
            (state.registry, state.kept) = (registry, registry)
            state.isNew = !areNamed
            state.plain = plain
        }
        try markFolders()
    }

    /// Tells whether a document has changed since it was read.
    func fingerprint() throws(Errno) -> Int {
        try catalog.read { database throws(Errno) in
            var hasher = Hasher()
            for path in [DriveFolder.apps, DriveFolder.containers, DriveFolder.references] {
                guard let folder = try? database.entry(atPath: path)?.item else { continue }
                // One that another device has made has not been listed yet.
                hasher.combine(folder)
                try database.each(
                    """
                    SELECT e.id, e.item, e.name, i.generation, i.size FROM entries e JOIN items i ON i.id = e.item
                    WHERE e.parent = ? ORDER BY e.id
                    """,
                    .item(folder)
                ) { row in
                    for column in [0, 1, 3, 4] as [Int32] { hasher.combine(row.int(column)) }
                    hasher.combine(row.blob(2))
                    return true
                }
            }
            // Which folders of the root are containers' changes with these.
            try database.each(
                """
                SELECT e.id, e.item, e.remote_parent, e.name, e.remote_name FROM entries e JOIN items i ON i.id = e.item
                WHERE e.parent = 1 AND i.kind = 1 ORDER BY e.id
                """
            ) { row in
                for column in 0...2 as ClosedRange<Int32> { hasher.combine(row.int(column)) }
                hasher.combine(row.blob(3))
                hasher.combine(row.optionalBlob(4))
                return true
            }
            // And what these are called at the provider.
            try database.each("SELECT id, alias FROM container_names ORDER BY id") { row in
                hasher.combine(row.text(0))
                hasher.combine(row.blob(1))
                return true
            }
            return hasher.finalize()
        }
    }

    func read() async { await read(isListing: false) }

    /// Reads all documents that have changed, or waits until somebody else has.
    ///
    /// `isListing`: for a listing of the root, which waits for it.
    func read(isListing: Bool, attempts: Int = 3) async {
        if !context.generation.heedsApps {
            // No listing shows what other devices keep there; no more is heeded of it.
            try? await onQueue { [self] () throws(Errno) in try markFolders() }
            if !folders.isEmpty { noteNone() }
            return
        }
        let isMine = state.withLock { state in
            if state.isReading || state.hasEnded { return false }
            state.isReading = true
            return true
        }
        guard isMine else {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    if state.isReading, !state.hasEnded { state.waiting.append(continuation) }
                    return !state.isReading || state.hasEnded
                }
                if isOver { continuation.resume() }
            }
            // What was changed since the other one began is in none of it.
            let now = try? await onQueue { [self] () throws(Errno) in try fingerprint() }
            let isKnown = state.withLock { $0.fingerprint == now && now != nil || $0.hasEnded }
            if !isKnown, !isListing, attempts > 0 { await read(isListing: false, attempts: attempts - 1) }
            return
        }
        // A listing may come to wait for the first reading, whoever began it.
        let isQuick = isListing || isNew
        let found = try? await onQueue { [self] () throws(Errno) in try fingerprint() }
        var isComplete = true
        do throws(Errno) {
            try await heedRecords(&isComplete)
            try await heedNames(isListing: isQuick)
            // From here on a listing calls containers' folders what they are called.
            if isComplete { state.withLock { $0.isNew = false } }
            // A listing of the root needs to know no more.
            if isQuick { isComplete = false } else if try await !readReferences() { isComplete = false }
        } catch {
            isComplete = false
            log.info("what the account says of apps could not be read: \(error)")
        }
        let waiting = state.withLock { state in
            state.isReading = false
            state.fingerprint = isComplete ? found : nil
            if !isComplete {
                state.rest = isQuick ? .distantPast : clock.monotonic() + Self.readingRest
                state.commits = -1
            }
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
        if isQuick, !isListing, !isNew { await read(isListing: false, attempts: attempts) }
    }

    /// Takes what the documents of apps and containers say to be so.
    private func heedRecords(_ isComplete: inout Bool) async throws(Errno) {
        for _ in 0..<Self.heedAttempts {
            let changes = state.withLock { $0.changes }
            // What comes after this is judged by the next reading.
            let folders = try await onQueue { [self] () throws(Errno) in try possibleContainers() }
            var isWhole = true
            let apps = try await records(in: DriveFolder.apps, &isWhole)
            let containers = try await records(in: DriveFolder.containers, &isWhole)
            // What was changed here meanwhile is in none of it.
            let isOfNow = try await onQueue { [self] () throws(Errno) in try heed(apps, containers, after: changes) }
            guard isOfNow else { continue }
            if isWhole {
                state.withLock { state in
                    state.unread = Set(containers.keys).subtracting(state.registry.containers.keys)
                    state.plain = folders
                }
            } else {
                isComplete = false
            }
            return
        }
        isComplete = false
    }

    /// The values of the documents of a folder, by their identifiers; what could not be had is what it was.
    private func records(
        in path: RemotePath,
        _ isComplete: inout Bool
    ) async throws(Errno) -> [AppIdentifier: JSONValue?] {
        guard let folder = try await folder(path) else { return [:] }
        let rows = try await onQueue { [catalog] () throws(Errno) in
            try catalog.read { database throws(Errno) in
                try database.all(
                    """
                    SELECT e.name, i.id, i.generation, i.kind FROM entries e JOIN items i ON i.id = e.item
                    WHERE e.parent = ? ORDER BY e.name LIMIT 10000
                    """,
                    .item(folder)
                ) { (name: $0.blob(0), item: $0.item(1), generation: $0.int(2), kind: $0.int(3)) }
            }
        }
        // What is not here comes several at a time.
        let unread = rows.filter { row in
            let known = state.withLock { $0.read[path.appending(FileName(unchecked: row.name))] }
            return row.kind == 0 && (known?.item != row.item || known?.generation != row.generation)
        }
        await withTaskGroup(of: Void.self) { group in
            for (index, row) in unread.enumerated() {
                if index >= Self.parallelReads { await group.next() }
                let item = row.item
                group.addTask { [contents] in _ = try? await contents.materialize(item) }
            }
        }
        var values: [AppIdentifier: JSONValue?] = [:]
        for row in rows {
            guard row.kind == 0, let identifier = AppIdentifier(record: row.name) else { continue }
            let place = path.appending(FileName(unchecked: row.name))
            let known = state.withLock { $0.read[place] }
            if let known, known.item == row.item, known.generation == row.generation {
                values[identifier] = .some(known.value)
                continue
            }
            do throws(Errno) {
                let bytes = try await contents(of: row.item, atMost: DriveFolder.greatestRecord)
                var value = try? JSONValue(parsing: bytes)
                if value == nil {
                    log.notice("\(place): it can't be read; what was known of it holds")
                    value = known?.value
                }
                values[identifier] = .some(value)
                state.withLock {
                    $0.read[place] = ReadRecord(item: row.item, generation: row.generation, value: value)
                }
            } catch .fileTooLarge {
                log.notice("\(place): it is too large; what was known of it holds")
                values[identifier] = .some(known?.value)
            } catch {
                log.info("\(place): \(error); it is read again later")
                isComplete = false
                values[identifier] = .some(known?.value)
            }
        }
        return values
    }

    /// Folders of the root that have the form of a container's name.
    private func possibleContainers() throws(Errno) -> Set<ItemID> {
        try catalog.read { database throws(Errno) in
            let folders = try database.all(
                "SELECT e.item, e.name, e.remote_name FROM entries e JOIN items i ON i.id = e.item WHERE e.parent = 1 AND i.kind = 1"
            ) { (item: $0.item(0), names: [$0.blob(1), $0.optionalBlob(2)]) }
            return Set(
                folders.filter { folder in
                    folder.names.contains { $0.flatMap { self.identifier(ofFolder: $0) } != nil }
                }.map(\.item)
            )
        }
    }

    /// The container that a folder of the root may be of, by a name that it has.
    func identifier(ofFolder name: [UInt8]) -> AppIdentifier? {
        AppIdentifier(names.there(FileName(unchecked: name)).description)
    }

    /// Takes what was read to be so, as far as it makes sense; false where something was changed here since.
    private func heed(
        _ apps: [AppIdentifier: JSONValue?],
        _ containers: [AppIdentifier: JSONValue?],
        after changes: Int
    ) throws(Errno) -> Bool {
        var registry = Registry()
        let former = self.registry
        for (identifier, value) in apps {
            guard let record: AppRecord = try? value?.decode(), record.identifier == identifier else {
                registry.apps[identifier] = former.apps[identifier]
                continue
            }
            registry.apps[identifier] = record
        }
        for (identifier, value) in containers {
            guard let record: ContainerRecord = try? value?.decode(), record.identifier == identifier,
                AppManifest.problem(withName: record.name) == nil
            else {
                registry.containers[identifier] = former.containers[identifier]
                continue
            }
            registry.containers[identifier] = record
        }
        let isOfNow = state.withLock { state in
            guard state.changes == changes else { return false }
            state.registry = registry
            return true
        }
        guard isOfNow else { return false }
        try keep()
        return true
    }

    /// Keeps what is known for a start without the source.
    func keep() throws(Errno) {
        try catalog.write { database throws(Errno) in
            // Of two that come at once the later one is of now.
            let (registry, kept) = self.state.withLock { ($0.registry, $0.kept) }
            if registry == kept { return }
            let apps = registry.apps.values.sorted { $0.identifier < $1.identifier }
            let containers = registry.containers.values.sorted { $0.identifier < $1.identifier }
            guard let value = try? JSONValue(encoding: KeptRegistry(apps: apps, containers: containers)) else { return }
            try database.setMeta(Self.key, value.bytes)
            database.whenCommitted { [self] in state.withLock { $0.kept = registry } }
        }
    }
}

/// The registry as the catalog keeps it.
private struct KeptRegistry: Encodable {
    var apps: [AppRecord]
    var containers: [ContainerRecord]
}
