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
    static let mostBytes: Int64 = 256 << 20
    /// No more pictures are kept, nor longer ones together.
    private static let mostPictures = 10_000
    private static let mostLength: Int64 = 512 << 20
    /// How long it is believed that a document has none: where nobody has one, and where none could be made of it.
    static let absence = TimeSpan.seconds(60)
    static let failure = TimeSpan.seconds(3600)
    /// No younger file is taken for what a death has left.
    private static let youth = TimeSpan.seconds(60)

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
    func seen(_ document: DocumentID) async -> Subject? {
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
        guard let subject = await seen(document) else { return await end(job, for: document, isFinal: true) }
        if let row = subject.valid {
            if let picture = await read(row) { return await end(job, picture, row, subject) }
            // Its file is gone.
            try? await onQueue { [self] () throws(Errno) in try remove(row) }
        }
        if isAbsent(document, subject.sight) { return await end(job, for: document, isFinal: true) }
        var isCertain = true
        if job.isShown, let version = subject.entry.remoteVersion, let remote = subject.remote {
            do throws(ProviderError) {
                if let picture = try await fetch(remote, version) {
                    var row = row(of: subject, .provider)
                    row.isSent = true
                    // What the provider makes by itself is not at a place of its own.
                    if !provider.capabilities.makesThumbnails { (row.place, row.version) = (remote.path, version) }
                    if let (row, picture) = await keep(picture, row) { return await end(job, picture, row, subject) }
                }
            } catch {
                isCertain = error.isFinal || error == .noSuchItem
            }
        }
        guard canMake(subject) else {
            let isBusy = contents.live.isWritable(subject.row.id)
            if isCertain, job.isShown, !isBusy { noteAbsence(of: document, subject.sight, for: Self.absence) }
            return await end(job, for: document, isFinal: !isBusy)
        }
        making.add(document, job) { [self] document, job in await make(document, job) }
    }

    private func make(_ document: DocumentID, _ job: ThumbnailQueue.Job) async {
        guard let subject = await seen(document), !isAbsent(document, subject.sight) else {
            return await end(job, for: document, isFinal: true)
        }
        if let row = subject.valid, let picture = await read(row) { return await end(job, picture, row, subject) }
        let (picture, isFinal) = await made(of: subject)
        guard let picture else { return await end(job, for: document, isFinal: isFinal) }
        var row = row(of: subject, .desktop)
        row.isSent = subject.remote != nil
        row.isShared = subject.remote == nil || configuration.isReadOnly
        guard let (kept, shown) = await keep(picture, row) else { return await end(job, for: document, isFinal: false) }
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
        if !row.isShared, mayShare(row.document) { addShare(row.document) }
        if job.isShared { await endWanting(subject.document) }
    }

    /// There is none, or none yet.
    private func end(_ job: ThumbnailQueue.Job, for document: DocumentID, isFinal: Bool) async {
        job.end(nil)
        if job.isShared, isFinal { await endWanting(document) }
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

    func read(_ row: ThumbnailRow) async -> Picture? {
        let file = file(row)
        return await onThread { ThumbnailCache.read(file) }
    }

    /// Keeps a picture, if the document is still what it shows; nil where it can't be kept.
    ///
    /// One that a program gave stays, and is the result.
    func keep(_ picture: Picture, _ row: ThumbnailRow) async -> (ThumbnailRow, Picture)? {
        if disk.isFull { return nil }
        let bytes = picture.bytes(texts: [:])
        let kept = try? await onQueue { [self] () throws(Errno) -> ThumbnailRow? in
            try System.makeDirectories(folder)
            var row = row
            (row.used, row.length) = (clock.now().seconds, Int64(bytes.count))
            try ThumbnailCache.write(bytes, to: file(row))
            // Another one may come at the same moment: each is kept in its turn.
            for _ in 0..<3 {
                guard let now = try self.subject(row.document), now.isShown(by: row),
                    row.origin == .program || !isAbsent(row.document, now.sight)
                else { break }
                if let given = now.valid, given.origin == .program, row.origin != .program {
                    try? System.unlink(file(row))
                    return given
                }
                if try store(row, instead: now.known) {
                    if let old = now.known { try? System.unlink(file(old)) }
                    try dropOldest()
                    return row
                }
            }
            try? System.unlink(file(row))
            return nil
        }
        guard let kept = kept ?? nil else { return nil }
        forgetAbsence(of: kept.document)
        if kept.picture == row.picture { return (kept, picture) }
        return await read(kept).map { (kept, $0) }
    }

    /// Puts a row in the place of another one, or of none; false where that is not what is there.
    private func store(_ row: ThumbnailRow, instead old: ThumbnailRow?) throws(Errno) -> Bool {
        try catalog.write { database throws(Errno) -> Bool in
            guard try database.thumbnail(row.document)?.picture == old?.picture else { return false }
            var row = row
            // What programs were given before is taken back when it is replaced.
            (row.published, row.publishedTime) = (old?.published, nil)
            if row.place == nil { (row.place, row.version) = (old?.place, old?.version) }
            try database.store(row, isChecked: false)
            if let place = old?.place, let version = old?.version, place != row.place {
                try database.dropThumbnail(at: place, version)
            }
            return true
        }
    }

    /// Gives a document a picture that a program has made of what it holds now.
    func give(_ picture: Picture, to document: DocumentID) async throws(Errno) {
        guard let subject = try await onQueue({ [self] () throws(Errno) in try self.subject(document) }) else {
            throw .noSuchEntry
        }
        var row = row(of: subject, .program)
        row.isSent = subject.remote != nil
        row.isShared = subject.remote == nil || configuration.isReadOnly
        guard await keep(picture, row) != nil else { throw disk.isFull ? .noSpace : .stale }
        want(document)
    }

    /// Takes a document's picture away, here and at the provider.
    func takeAway(_ document: DocumentID) async throws(Errno) {
        try await onQueue { [self] () throws(Errno) in
            guard let subject = try subject(document) else { return }
            noteAbsence(of: document, subject.sight, for: Self.failure)
            if let row = subject.known { try remove(row) }
            guard !configuration.isReadOnly else { return }
            try catalog.write { database throws(Errno) in
                try database.endWantingThumbnail(document)
                if let place = subject.known?.place, let version = subject.known?.version {
                    try database.dropThumbnail(at: place, version)
                }
                // This device need not know that there is one.
                if let place = subject.remote?.path, let version = subject.entry.remoteVersion {
                    try database.dropThumbnail(at: place, version)
                }
            }
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
        for row in old {
            try remove(row)
            // What the provider has not got is made again when there is room.
            guard !row.isShared, row.origin == .desktop else { continue }
            try catalog.write { database throws(Errno) in try database.wantThumbnail(row.document) }
        }
    }

    /// Forgets a picture here.
    func remove(_ row: ThumbnailRow) throws(Errno) {
        try catalog.write { database throws(Errno) in try database.removeThumbnail(row) }
        try? System.unlink(file(row))
        unpublish(row)
    }

    /// Drops files that no row stands for, as a death leaves them.
    func sweep() {
        // What is younger may be about to get a row.
        let young = clock.now() - Self.youth
        guard let names = try? System.names(in: folder) else { return }
        let rows = try? catalog.read { database throws(Errno) in
            try database.all("SELECT * FROM thumbnails") { ThumbnailRow($0) }
        }
        guard let rows else { return }
        let kept = Set(rows.map { file($0) } + [maker.folder])
        for name in names {
            let file = "\(folder)/\(name)"
            guard !kept.contains(file), let status = try? System.lstat(file), Timestamp(status.st_mtim) < young else {
                continue
            }
            try? System.unlink(file)
        }
        maker.clean(olderThan: young)
        if configuration.socketPath.hasPrefix("/") {
            ThumbnailHandover.clean(beside: configuration.socketPath, olderThan: young)
        }
    }
}
