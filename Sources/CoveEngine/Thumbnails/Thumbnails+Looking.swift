internal import CoveCore
internal import Glibc
internal import Synchronization

/// Finding a document's picture: here, at the provider, or in its bytes.
extension Thumbnails {
    /// What is known of a document whose picture is looked for.
    struct Subject: Sendable {
        var entry: EntryRow
        var row: ItemRow
        var attributes: ItemAttributes
        var path: RemotePath
        /// Where the provider has it, where it has the bytes that are here.
        var remote: RemoteReference?
        var known: ThumbnailRow?

        var document: DocumentID { entry.document }

        var sight: Sight {
            Sight(
                item: row.id,
                generation: row.generation,
                modificationTime: attributes.modificationTime,
                size: attributes.size,
                isWhole: row.residency == .whole
            )
        }

        /// The picture that shows these bytes.
        var valid: ThumbnailRow? { known.flatMap { isShown(by: $0) ? $0 : nil } }

        func isShown(by picture: ThumbnailRow) -> Bool {
            picture.isValid(item: row.id, generation: row.generation, attributes)
        }
    }

    /// No larger file is given to the desktop's programs.
    private static let mostBytes: Int64 = 256 << 20
    /// No more pictures are kept, nor longer ones together.
    private static let mostPictures = 10_000
    private static let mostLength: Int64 = 512 << 20
    /// How long it is believed that a document has none: where nobody has one, and where none could be made of it.
    private static let absence = TimeSpan.seconds(60)
    private static let failure = TimeSpan.seconds(3600)

    func subject(_ document: DocumentID) throws(Errno) -> Subject? {
        var subject = try catalog.read { database throws(Errno) -> Subject? in
            guard let entry = try database.entry(document: document), let row = try database.item(entry.item) else {
                return nil
            }
            return try self.subject(entry, row, database)
        }
        if let row = subject?.row { subject?.attributes = namespace.overlay(row) }
        return subject
    }

    /// The same without what only an open file tells.
    func subject(_ entry: EntryRow, _ row: ItemRow, _ database: Database) throws(Errno) -> Subject? {
        guard row.kind == .file else { return nil }
        let isSent = entry.isUploaded && !entry.hasUnsentContent(generation: row.generation)
        return Subject(
            entry: entry,
            row: row,
            attributes: row.attributes,
            path: try database.path(of: entry),
            remote: isSent ? try database.remoteReference(of: entry) : nil,
            known: try database.thumbnail(entry.document)
        )
    }

    /// The same off the cooperative pool; nil for what is no file, or can't be read now.
    private func seen(_ document: DocumentID) async -> Subject? {
        (try? await onQueue { [self] () throws(Errno) in try self.subject(document) }) ?? nil
    }

    // MARK: Asking

    /// The picture of a document; nil where there is none, or none can be had within a limit.
    func picture(of document: DocumentID, limit: TimeSpan) async -> Picture? {
        let pending = want(document)
        let clock = Task {
            try? await Task.sleep(for: limit)
            pending.fulfill(.success(nil))
        }
        defer { clock.cancel() }
        return (try? await pending.value()) ?? nil
    }

    /// Has a picture looked for that programs of the desktop, or whoever asks, are to see.
    @discardableResult
    func want(_ document: DocumentID) -> Pending<Picture?> {
        let pending = Pending<Picture?>()
        find(document, ThumbnailQueue.Job(isShown: true, waiters: [pending]))
        return pending
    }

    /// Has a picture looked for that the provider is to get.
    func wantShared(_ document: DocumentID) { find(document, ThumbnailQueue.Job(isShared: true)) }

    private func find(_ document: DocumentID, _ job: ThumbnailQueue.Job) {
        finding.add(document, job) { [self] document, job in await find(document, job) }
    }

    /// Looks for one that is here or at the provider; else one is made, in its turn.
    private func find(_ document: DocumentID, _ job: ThumbnailQueue.Job) async {
        guard let subject = await seen(document) else { return job.end(nil) }
        if let row = subject.valid {
            if let picture = await read(row) { return await end(job, picture, row, subject) }
            // Its file is gone.
            try? await onQueue { [self] () throws(Errno) in try remove(row) }
        }
        if isAbsent(document, subject.sight) { return await end(job, for: document) }
        var isCertain = true
        if job.isShown, let version = subject.entry.remoteVersion, let remote = subject.remote {
            do throws(ProviderError) {
                if let picture = try await fetch(remote, version) {
                    var row = row(of: subject, .provider)
                    (row.isSent, row.place, row.version) = (true, remote.path, version)
                    if let (row, picture) = await keep(picture, row) { return await end(job, picture, row, subject) }
                }
            } catch {
                isCertain = error.isFinal
            }
        }
        guard canMake(subject) else {
            if isCertain, job.isShown, !contents.live.isWritable(subject.row.id) {
                noteAbsence(of: document, subject.sight, for: Self.absence)
            }
            return await end(job, for: document)
        }
        making.add(document, job) { [self] document, job in await make(document, job) }
    }

    private func make(_ document: DocumentID, _ job: ThumbnailQueue.Job) async {
        guard let subject = await seen(document), !isAbsent(document, subject.sight) else {
            return await end(job, for: document)
        }
        if let row = subject.valid, let picture = await read(row) { return await end(job, picture, row, subject) }
        guard let picture = await made(of: subject) else { return await end(job, for: document) }
        var row = row(of: subject, .desktop)
        row.isSent = subject.remote != nil
        // What the provider makes by itself, other devices have from there.
        row.isShared = subject.remote == nil || !canShare || provider.capabilities.makesThumbnails
        guard let (kept, shown) = await keep(picture, row) else { return await end(job, for: document) }
        await end(job, shown, kept, subject)
    }

    /// There is a picture: it is shown, whoever waits gets it, and then the provider does.
    private func end(
        _ job: ThumbnailQueue.Job,
        _ picture: Picture,
        _ row: ThumbnailRow,
        _ subject: Subject
    ) async {
        if job.isShown {
            await publish(picture, row, subject)
            noteUse(of: row)
        }
        job.end(picture)
        if !row.isShared { await share(picture, row) }
        if job.isShared { await endWanting(subject.document) }
    }

    /// There is none.
    private func end(_ job: ThumbnailQueue.Job, for document: DocumentID) async {
        job.end(nil)
        if job.isShared { await endWanting(document) }
    }

    private func endWanting(_ document: DocumentID) async {
        try? await onQueue { [self] () throws(Errno) in
            try catalog.write { database throws(Errno) in try database.endWantingThumbnail(document) }
        }
    }

    // MARK: Here

    func row(of subject: Subject, _ origin: ThumbnailRow.Origin) -> ThumbnailRow {
        ThumbnailRow(
            subject.document,
            of: subject.row.id,
            generation: subject.row.generation,
            attributes: subject.attributes,
            origin: origin
        )
    }

    func file(_ row: ThumbnailRow) -> String { "\(folder)/\(row.document)-\(row.picture).png" }

    private func read(_ row: ThumbnailRow) async -> Picture? {
        let file = file(row)
        return await onThread { ThumbnailCache.read(file) }
    }

    /// Keeps a picture, if the document is still what it shows; nil where it can't be kept.
    ///
    /// One that a program gave stays, and is the result.
    func keep(_ picture: Picture, _ row: ThumbnailRow) async -> (ThumbnailRow, Picture)? {
        if disk.isFull { return nil }
        let kept = try? await onQueue { [self] () throws(Errno) -> ThumbnailRow? in
            guard let now = try self.subject(row.document), now.isShown(by: row) else { return nil }
            if let given = now.valid, given.origin == .program, row.origin != .program { return given }
            var row = row
            let bytes = picture.bytes(texts: [:])
            (row.used, row.length) = (clock.now().seconds, Int64(bytes.count))
            // What programs were given before is taken back when it is replaced.
            (row.published, row.publishedTime) = (now.known?.published, nil)
            if row.place == nil { (row.place, row.version) = (now.known?.place, now.known?.version) }
            try System.makeDirectories(folder)
            try ThumbnailCache.write(bytes, to: file(row))
            let made = row
            do throws(Errno) {
                try catalog.write { database throws(Errno) in try database.store(made, isChecked: false) }
            } catch {
                try? System.unlink(file(made))
                throw error
            }
            if let old = now.known { try? System.unlink(file(old)) }
            try dropOldest()
            return made
        }
        guard let kept = kept ?? nil else { return nil }
        forgetAbsence(of: kept.document)
        if kept.picture == row.picture { return (kept, picture) }
        return await read(kept).map { (kept, $0) }
    }

    /// Gives a document a picture that a program has made of what it holds now.
    func give(_ picture: Picture, to document: DocumentID) async throws(Errno) {
        guard let subject = try await onQueue({ [self] () throws(Errno) in try self.subject(document) }) else {
            throw .noSuchEntry
        }
        var row = row(of: subject, .program)
        row.isSent = subject.remote != nil
        row.isShared = subject.remote == nil || !canShare
        guard await keep(picture, row) != nil else { throw disk.isFull ? .noSpace : .stale }
        want(document)
    }

    /// Takes a document's picture away, here and at the provider.
    func takeAway(_ document: DocumentID) async throws(Errno) {
        try await onQueue { [self] () throws(Errno) in
            guard let subject = try subject(document) else { return }
            noteAbsence(of: document, subject.sight, for: Self.failure)
            if let row = subject.known { try drop(row) }
        }
    }

    /// Says that a picture was used, but not each time.
    private func noteUse(of row: ThumbnailRow) {
        guard clock.now().seconds - row.used > 3600 else { return }
        contentQueue.async { [self] in
            try? catalog.write { database throws(Errno) in
                guard var known = try database.thumbnail(row.document), known.picture == row.picture else { return }
                known.used = self.clock.now().seconds
                try database.store(known, isChecked: false)
            }
        }
    }

    /// Forgets those used least where there are too many, or no room is left on the disk.
    func dropOldest() throws(Errno) {
        let old = try catalog.read { database throws(Errno) -> [ThumbnailRow] in
            let (length, count) = try database.thumbnailTotals()
            guard count > Self.mostPictures || length > Self.mostLength || disk.isFull else { return [] }
            return try database.oldThumbnails(limit: 100)
        }
        for row in old { try remove(row) }
    }

    /// Forgets a picture here.
    func remove(_ row: ThumbnailRow) throws(Errno) {
        try catalog.write { database throws(Errno) in try database.removeThumbnail(row) }
        try? System.unlink(file(row))
        unpublish(row)
    }

    /// Drops files that no row stands for, as a death leaves them.
    func sweep() {
        // What is kept after this look has a row by the next one.
        guard let names = try? System.names(in: folder) else { return }
        let rows = try? catalog.read { database throws(Errno) in
            try database.all("SELECT * FROM thumbnails") { ThumbnailRow($0) }
        }
        guard let rows else { return }
        let kept = Set(rows.map { file($0) } + [maker.folder])
        for name in names where !kept.contains("\(folder)/\(name)") { try? System.unlink("\(folder)/\(name)") }
        maker.clean(olderThan: clock.now())
        ThumbnailHandover.clean(beside: configuration.socketPath, olderThan: clock.now())
    }

    // MARK: At the provider

    private func fetch(
        _ remote: RemoteReference,
        _ version: ContentVersion
    ) async throws(ProviderError) -> Picture? {
        let capabilities = provider.capabilities
        guard capabilities.makesThumbnails || capabilities.keepsThumbnails else { return nil }
        guard sync?.mayFetch == true else { throw .serverUnreachable("not connected") }
        counters.providerRequests.add(1, ordering: .relaxed)
        guard let bytes = try await provider.thumbnail(of: remote, version: version),
            let picture = await usable(bytes)
        else { return nil }
        counters.thumbnailsFetched.add(1, ordering: .relaxed)
        return picture
    }

    /// A picture as it is kept, of an image file of whatever kind; nil where nothing here can read it.
    func usable(_ bytes: [UInt8]) async -> Picture? {
        if let picture = Picture(bytes) { return picture }
        guard let (type, ending) = Self.type(of: bytes) else { return nil }
        let maker = maker
        return await onThread { [self] in
            guard let program = program(for: [type]) else { return nil }
            let made = maker.picture(of: bytes, named: "picture.\(ending)", by: program)
            note(made, of: program)
            return made.picture
        }
    }

    /// What the first bytes of an image say of it.
    private static func type(of bytes: [UInt8]) -> (type: String, ending: String)? {
        if bytes.starts(with: [0xFF, 0xD8, 0xFF]) { return ("image/jpeg", "jpg") }
        if bytes.starts(with: [0x89, 0x50, 0x4E, 0x47]) { return ("image/png", "png") }
        if bytes.starts(with: Array("GIF8".utf8)) { return ("image/gif", "gif") }
        if bytes.starts(with: Array("RIFF".utf8)), bytes.dropFirst(8).starts(with: Array("WEBP".utf8)) {
            return ("image/webp", "webp")
        }
        return nil
    }

    // MARK: In the bytes

    /// The program that makes pictures of what has such a name; nil where there is none.
    ///
    /// Reads files.
    func program(forName name: [UInt8]) -> Thumbnailers.Program? {
        let types = ContentTypes.ofMachine
        return program(for: types.tree(types.type(ofFile: String(decoding: name, as: UTF8.self))))
    }

    /// True where a document's bytes are here, and nobody may be writing them.
    private func canMake(_ subject: Subject) -> Bool {
        configuration.makesThumbnails && subject.row.residency == .whole
            && (1...Self.mostBytes).contains(subject.attributes.size) && !contents.live.isWritable(subject.row.id)
    }

    /// Has a picture made of the bytes that are here.
    private func made(of subject: Subject) async -> Picture? {
        guard canMake(subject) else { return nil }
        let (file, name) = (contents.store.path(subject.row.id), subject.entry.name)
        let maker = maker
        let outcome = await onThread { [self] () -> ThumbnailMaker.Outcome? in
            guard let program = program(forName: name) else { return nil }
            let made = maker.picture(of: file, named: Self.plainName(name), by: program)
            note(made, of: program)
            return made
        }
        // Evicted meanwhile, its bytes were zeros; changed, they were of two versions.
        guard let now = await seen(subject.document), now.sight == subject.sight else { return nil }
        guard let picture = outcome?.picture else {
            let isKnown = outcome != nil
            noteAbsence(of: subject.document, subject.sight, for: isKnown ? Self.failure : Self.absence)
            return nil
        }
        counters.thumbnailsMade.add(1, ordering: .relaxed)
        return picture
    }

    /// A name that says as much as the document's own of what it is, and nothing else.
    private static func plainName(_ name: [UInt8]) -> String {
        let ending = name.split(separator: 0x2E, omittingEmptySubsequences: false).dropFirst().last ?? []
        let plain = ending.prefix(16).allSatisfy { byte in
            (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
        }
        return plain && !ending.isEmpty ? "document." + String(decoding: ending.prefix(16), as: UTF8.self) : "document"
    }
}

extension ProviderError {
    /// True for what another try would not change.
    var isFinal: Bool {
        switch self {
        case .unsupported, .notPermitted, .noSuchItem, .versionNoLongerAvailable: true
        default: false
        }
    }

    /// True for what concerns other pictures too.
    var concernsAll: Bool {
        switch self {
        case .serverUnreachable, .notAuthenticated, .insufficientQuota, .throttled, .timedOut, .cancelled: true
        default: false
        }
    }
}
