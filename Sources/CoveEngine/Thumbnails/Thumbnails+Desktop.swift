internal import CoveCore
internal import Glibc
internal import Synchronization

/// Giving pictures to the programs of the desktop, and taking them back.
extension Thumbnails {
    /// How long a file manager's listing waits for pictures that are on their way.
    private static let patience = TimeSpan.seconds(1)
    /// Of larger directories the first entries only.
    private static let mostShown = 1000
    /// So many pictures are looked at in one round.
    private static let mostChecked = 300
    /// How long it is believed that a file of a directory has none.
    private static let rest = TimeSpan.seconds(60)
    /// How soon a picture that was shown is looked for again when its document has changed.
    private static let pause = TimeSpan.seconds(3)

    // MARK: Directories

    /// Looks for the pictures of what a file manager is about to show; the result is there when they are, or after a moment.
    ///
    /// Nil where there is nobody to show them to.
    func show(_ directory: ItemID) -> Pending<Void>? {
        guard configuration.cacheFolder != nil, beginWait(in: directory) else { return nil }
        let pending = Pending<Void>()
        let end = { @Sendable [self] in if pending.fulfill(.success(())) { endWait(in: directory) } }
        pending.onCancel { [self] in endWait(in: directory) }
        Task { [self] in
            await showAll(in: directory)
            end()
        }
        // What was begun goes on, and is told of when it comes.
        Task {
            try? await Task.sleep(for: Self.patience)
            end()
        }
        return pending
    }

    private func showAll(in directory: ItemID) async {
        let found = try? await onQueue { [self] () throws(Errno) in try toBeShown(in: directory) }
        guard let (known, place) = found else { return }
        let subjects = await onThread { [self] in known.filter { !isPublished($0) } }
        if subjects.isEmpty { return }
        var waiting: [Pending<Picture?>] = []
        let unknown = subjects.filter { $0.valid == nil }
        let present = await mayHaveOne(unknown.map { FileName(unchecked: $0.entry.name) }, in: place)
        // The first are looked for first.
        for subject in subjects.reversed() {
            if subject.valid == nil {
                guard let present else { continue }
                guard present.contains(FileName(unchecked: subject.entry.name)) else {
                    noteAbsence(of: subject.document, subject.sight, for: Self.rest)
                    continue
                }
            }
            waiting.append(want(subject.document))
        }
        for pending in waiting { _ = try? await pending.value() }
    }

    /// Which of some files may have a picture at the provider; nil where it can't be asked.
    private func mayHaveOne(_ names: [FileName], in place: RemoteReference?) async -> Set<FileName>? {
        let capabilities = provider.capabilities
        guard capabilities.makesThumbnails || capabilities.keepsThumbnails else { return [] }
        guard !names.isEmpty, let place, sync?.mayFetch == true else { return nil }
        counters.providerRequests.add(1, ordering: .relaxed)
        return try? await provider.thumbnails(of: names, in: place)
    }

    /// The files whose picture programs can't make themselves and have not been given.
    private func toBeShown(in directory: ItemID) throws(Errno) -> ([Subject], RemoteReference?) {
        try catalog.read { database throws(Errno) in
            var entries: [EntryRow] = []
            try database.eachEntry(of: directory, after: 0) { entry in
                entries.append(entry)
                return entries.count < Self.mostShown
            }
            var subjects: [Subject] = []
            for entry in entries {
                guard let row = try database.item(entry.item), row.kind == .file, row.size > 0 else { continue }
                let isKnown = try database.thumbnail(entry.document) != nil
                // Of what is here the desktop makes its own.
                guard row.residency != .whole || isKnown, let subject = try self.subject(entry, row, database),
                    !isAbsent(entry.document, subject.sight)
                else { continue }
                subjects.append(subject)
            }
            return (subjects, try database.remoteReference(ofDirectory: directory))
        }
    }

    // MARK: The desktop's cache

    private var cache: ThumbnailCache? { configuration.cacheFolder.map { ThumbnailCache(cacheFolder: $0) } }

    private func localPath(_ path: RemotePath) -> [UInt8] {
        let base = configuration.mountpoint
        return Array((base == "/" ? "" : base).utf8) + [0x2F] + path.bytes
    }

    private func isPublished(_ subject: Subject) -> Bool {
        guard let row = subject.valid, let published = row.published,
            published == ThumbnailCache.name(of: localPath(subject.path)),
            row.publishedTime == subject.attributes.modificationTime
        else { return false }
        return cache?.holds(published) ?? true
    }

    /// Gives the desktop's programs a picture in all sizes, as far as it can be made smaller.
    func publish(_ picture: Picture, _ row: ThumbnailRow, _ subject: Subject) async {
        var subject = subject
        subject.known = row
        let known = subject
        guard let cache, await !onThread({ [self] in isPublished(known) }) else { return }
        let largest = max(picture.width, picture.height)
        let smaller = ThumbnailCache.sizes.map(\.1).filter { $0 < largest }
        let maker = maker
        var reduced: [Int: Picture] = [:]
        if !smaller.isEmpty {
            reduced = await onThread { [self] in
                guard let program = program(for: ["image/png"]) else { return [:] }
                let (made, outcome) = maker.reduced(picture, to: smaller, by: program)
                note(outcome, of: program)
                return made
            }
        }
        // It may have another name by now, or hold something else.
        guard let now = (try? await onQueue { [self] () throws(Errno) in try self.subject(row.document) }) ?? nil,
            now.valid?.picture == row.picture
        else { return }
        let (path, modified, sizes) = (localPath(now.path), now.attributes.modificationTime, reduced)
        let name = ThumbnailCache.name(of: path)
        let isWritten = await onThread {
            for (size, side) in ThumbnailCache.sizes {
                guard let fitting = side >= largest ? picture : sizes[side] else {
                    // What was there shows something else.
                    cache.remove(name, sizes: [size])
                    continue
                }
                guard (try? cache.publish(fitting, as: size, of: path, modified: modified)) != nil else { return false }
            }
            return true
        }
        let isKept = try? await onQueue { [self] () throws(Errno) in
            try catalog.write { database throws(Errno) -> Bool in
                guard isWritten, var known = try database.thumbnail(row.document), known.picture == row.picture else {
                    return false
                }
                (known.published, known.publishedTime) = (name, modified)
                // What has changed since it was looked at is seen by the next check.
                try database.store(known, isChecked: false)
                return true
            }
        }
        guard isKept == true else { return unpublish(name, of: row.document) }
        if let old = now.known?.published, old != name { unpublish(old, of: row.document) }
        if !isWaiting(in: now.entry.parent) { await tellWatchers(now) }
    }

    /// Has file managers that show the file already look for its picture again.
    private func tellWatchers(_ subject: Subject) async {
        guard let announcer, namespace.mayBeKnown(subject.entry.parent) else { return }
        // Who is not told sees the picture the next time.
        try? await onQueue { () throws(Errno) in try announcer.perform(.notice(subject.path)) }
    }

    func unpublish(_ row: ThumbnailRow) {
        if let name = row.published { unpublish(name, of: row.document) }
    }

    /// Takes back what was published under a name, unless another document's picture is there; does not wait for the disk.
    private func unpublish(_ name: String, of document: DocumentID) {
        guard let cache else { return }
        threads.async { [self] in
            let isOthers = try? catalog.read { database throws(Errno) in
                try database.isPublished(name, besides: document)
            }
            if isOthers == false { cache.remove(name) }
        }
    }

    // MARK: The clock's round

    /// Looks at the pictures whose documents have changed, and at what the provider is to get.
    func tick() {
        for document in takeAgain() { want(document) }
        checking { [self] in
            do throws(Errno) {
                if try catalog.read({ database throws(Errno) in try database.hasUncheckedThumbnails() }) { try check() }
                if disk.isFull { try dropOldest() }
                return try !shareMore() && !disk.isFull
            } catch {
                log.info("thumbnails: \(error)")
                return false
            }
        }
    }

    /// What a look at a picture has shown.
    private struct Finding {
        var row: ThumbnailRow
        /// Nil where the document is gone.
        var subject: Subject?
        var isValid: Bool
    }

    private func check() throws(Errno) {
        let unchecked = try catalog.read { database throws(Errno) in
            try database.uncheckedThumbnails(limit: Self.mostChecked)
        }
        // What a program is writing is known before its row is.
        var written: [DocumentID: ItemAttributes] = [:]
        for row in unchecked where !row.isSent { written[row.document] = try subject(row.document)?.attributes }
        let attributes = written
        let findings = try catalog.write { database throws(Errno) -> [Finding] in
            if try database.hasMovedThumbnails() { try database.uncheckThumbnails() }
            var findings: [Finding] = []
            for row in try database.uncheckedThumbnails(limit: Self.mostChecked) {
                findings.append(try self.look(at: row, attributes[row.document], database))
            }
            return findings
        }
        for finding in findings {
            let row = finding.row
            guard finding.isValid, let subject = finding.subject else {
                try? System.unlink(file(row))
                unpublish(row)
                if finding.subject != nil, row.published != nil { wantAgain(row.document, after: Self.pause) }
                continue
            }
            // Under another name, or with another time, programs don't find it.
            guard row.published != nil else { continue }
            threads.async { [self] in if !isPublished(subject) { want(subject.document) } }
        }
    }

    /// Looks at one, in the transaction that says so: what changes after it is seen by the next look.
    private func look(
        at row: ThumbnailRow,
        _ written: ItemAttributes?,
        _ database: Database
    ) throws(Errno) -> Finding {
        guard let entry = try database.entry(document: row.document), let item = try database.item(entry.item),
            var subject = try subject(entry, item, database)
        else {
            try drop(row, database)
            return Finding(row: row, isValid: false)
        }
        let isStored = subject.isShown(by: row)
        if !isStored, let written { subject.attributes = written }
        guard subject.isShown(by: row) else {
            try drop(row, database)
            return Finding(row: row, subject: subject, isValid: false)
        }
        var known = row
        noteProvider(&known, subject)
        subject.known = known
        try database.store(known, isChecked: isStored)
        return Finding(row: known, subject: subject, isValid: true)
    }

    /// Looks whether the provider has what a picture shows, and has the picture where it belongs.
    private func noteProvider(_ row: inout ThumbnailRow, _ subject: Subject) {
        guard let remote = subject.remote, let version = subject.entry.remoteVersion else { return }
        row.isSent = true
        let isThere = row.place == remote.path && row.version == version
        // What was fetched is given again by whoever has moved it.
        if !isThere, row.origin != .provider, !configuration.isReadOnly { row.isShared = false }
    }

    /// A picture does not show what its document is now, or there is no such document.
    private func drop(_ row: ThumbnailRow, _ database: Database) throws(Errno) {
        try database.removeThumbnail(row)
        guard !configuration.isReadOnly, let place = row.place, let version = row.version else { return }
        try database.dropThumbnail(at: place, version)
    }
}
