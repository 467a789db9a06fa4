internal import CoveCore
internal import Glibc
internal import Synchronization

/// Giving pictures to the programs of the desktop, and taking them back.
extension Thumbnails {
    /// How long a file manager's listing waits for pictures that are on their way.
    private static let patience = TimeSpan.seconds(1)
    /// Of larger directories the first entries only.
    private static let mostShown = 1000
    /// How soon a picture that was shown is looked for again when its document has changed.
    private static let pause = TimeSpan.seconds(3)

    // MARK: Directories

    /// Looks for the pictures of what a file manager is about to show; the result is there when they are, or after a moment.
    ///
    /// Nil where there is nobody to show them to.
    func show(_ directory: ItemID) -> Pending<Void>? {
        guard configuration.cacheFolder != nil else { return nil }
        let pending = Pending<Void>()
        beginWait(in: directory)
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
        guard let (subjects, place) = try? await onQueue({ [self] () throws(Errno) in try toBeShown(in: directory) }),
            !subjects.isEmpty
        else { return }
        var waiting: [Pending<Picture?>] = []
        let unknown = subjects.filter { $0.valid == nil }
        let present = await mayHaveOne(unknown.map { FileName(unchecked: $0.entry.name) }, in: place)
        // The first are looked for first.
        for subject in subjects.reversed() {
            if subject.valid == nil, !present.contains(FileName(unchecked: subject.entry.name)) {
                noteAbsence(of: subject.entry.document, subject.content)
                continue
            }
            waiting.append(want(subject.entry.document, for: .shown))
        }
        for pending in waiting { _ = try? await pending.value() }
    }

    /// Which of some files may have a picture at the provider; none where it can't be asked.
    private func mayHaveOne(_ names: [FileName], in place: RemoteReference?) async -> Set<FileName> {
        let capabilities = provider.capabilities
        guard !names.isEmpty, let place, sync?.mayFetch == true,
            capabilities.makesThumbnails || capabilities.keepsThumbnails
        else { return [] }
        counters.providerRequests.add(1, ordering: .relaxed)
        return (try? await provider.thumbnails(of: names, in: place)) ?? []
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
                    !isPublished(subject), !isAbsent(entry.document, subject.content)
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
        guard let cache, !isPublished(subject) else { return }
        let path = localPath(subject.path)
        let modified = subject.attributes.modificationTime
        let largest = max(picture.width, picture.height)
        let sides = ThumbnailCache.sizes.map(\.1)
        let smaller = sides.filter { $0 < largest }
        let maker = maker
        let reduced =
            smaller.isEmpty
            ? [:]
            : await on(reducing) { [self] in
                programs.program(for: ["image/png"]).map { maker.reduced(picture, to: smaller, by: $0) } ?? [:]
            }
        let isGiven = try? await onQueue { [self] () throws(Errno) in
            let name = ThumbnailCache.name(of: path)
            if let old = row.published, old != name { cache.remove(old) }
            for (size, side) in ThumbnailCache.sizes {
                guard let fitting = side >= largest ? picture : reduced[side] else { continue }
                try cache.publish(fitting, as: size, of: path, modified: modified)
            }
            return try catalog.write { database throws(Errno) -> Bool in
                guard var known = try database.thumbnail(row.document), self.file(known) == self.file(row) else {
                    return false
                }
                (known.published, known.publishedTime) = (name, modified)
                // What has changed since it was looked at is seen by the next check.
                try database.store(known, isChecked: false)
                return true
            }
        }
        // Its document has changed meanwhile: whoever took its row away did not know of this.
        guard isGiven == true else { return cache.remove(ThumbnailCache.name(of: path)) }
        if !isWaiting(in: subject.entry.parent) { await tellWatchers(subject) }
    }

    /// Has file managers that show the file already look for its picture again.
    private func tellWatchers(_ subject: Subject) async {
        guard let announcer, namespace.mayBeKnown(subject.entry.parent) else { return }
        // Who is not told sees the picture the next time.
        try? await onQueue { () throws(Errno) in try announcer.perform(.notice(subject.path)) }
    }

    func unpublish(_ row: ThumbnailRow) { if let name = row.published { cache?.remove(name) } }

    // MARK: The clock's round

    /// Looks at the pictures whose documents have changed, and at what the provider is to get.
    func tick() {
        for document in takeAgain() { want(document, for: .shown) }
        checking { [self] in
            do throws(Errno) {
                try check()
                if mayShare { try shareMore() }
            } catch {
                log.info("thumbnails: \(error)")
            }
        }
    }

    private func check() throws(Errno) {
        let changed = try catalog.read { database throws(Errno) in try database.uncheckedThumbnails(limit: 200) }
        for row in changed {
            let subject = try subject(row.document)
            guard let subject, subject.valid != nil else {
                try drop(row, isGone: subject == nil)
                continue
            }
            try catalog.write { database throws(Errno) in
                try database.run("UPDATE thumbnails SET checked = 1 WHERE document = ?", .document(row.document))
            }
            // Under another name, or with another time, programs don't find it.
            if row.published != nil, !isPublished(subject) { want(row.document, for: .shown) }
        }
    }

    /// A picture does not show what its document is now, or there is no such document.
    func drop(_ row: ThumbnailRow, isGone: Bool) throws(Errno) {
        if isGone, let place = row.place, let version = row.version, provider.capabilities.keepsThumbnails {
            try catalog.write { database throws(Errno) in try database.dropThumbnail(at: place, version) }
        }
        try remove(row)
        if !isGone, row.published != nil { wantAgain(row.document, after: Self.pause) }
    }
}
