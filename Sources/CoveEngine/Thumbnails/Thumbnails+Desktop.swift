internal import CoveCore
internal import Glibc
internal import Synchronization

/// Giving pictures to the programs of the desktop, and taking them back.
extension Thumbnails {
    /// How long a file manager's listing waits for pictures that are on their way.
    private static let patience = TimeSpan.seconds(1)
    /// Of larger directories the first entries only.
    private static let mostShown = 1000
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
        guard let (subjects, place) = try? await onQueue({ [self] () throws(Errno) in try toBeShown(in: directory) }),
            !subjects.isEmpty
        else { return }
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
                    !isPublished(subject), !isAbsent(entry.document, subject.sight)
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
        let largest = max(picture.width, picture.height)
        let smaller = ThumbnailCache.sizes.map(\.1).filter { $0 < largest }
        let maker = maker
        var reduced: [Int: Picture] = [:]
        if !smaller.isEmpty {
            reduced = await onThread { [self] in
                program(for: ["image/png"]).map { maker.reduced(picture, to: smaller, by: $0) } ?? [:]
            }
        }
        let sizes = reduced
        let given = try? await onQueue { [self] () throws(Errno) -> Subject? in
            // It may have another name by now, or hold something else.
            guard let now = try self.subject(row.document), now.valid?.picture == row.picture else { return nil }
            let (path, modified) = (localPath(now.path), now.attributes.modificationTime)
            let name = ThumbnailCache.name(of: path)
            for (size, side) in ThumbnailCache.sizes {
                guard let fitting = side >= largest ? picture : sizes[side] else { continue }
                try cache.publish(fitting, as: size, of: path, modified: modified)
            }
            let isKept = try catalog.write { database throws(Errno) -> Bool in
                guard var known = try database.thumbnail(row.document), known.picture == row.picture else {
                    return false
                }
                (known.published, known.publishedTime) = (name, modified)
                // What has changed since it was looked at is seen by the next check.
                try database.store(known, isChecked: false)
                return true
            }
            if !isKept || now.known?.published.map({ $0 != name }) == true {
                try unpublish(isKept ? now.known?.published : name, of: row.document)
            }
            return isKept ? now : nil
        }
        if let shown = given ?? nil, !isWaiting(in: shown.entry.parent) { await tellWatchers(shown) }
    }

    /// Has file managers that show the file already look for its picture again.
    private func tellWatchers(_ subject: Subject) async {
        guard let announcer, namespace.mayBeKnown(subject.entry.parent) else { return }
        // Who is not told sees the picture the next time.
        try? await onQueue { () throws(Errno) in try announcer.perform(.notice(subject.path)) }
    }

    func unpublish(_ row: ThumbnailRow) { try? unpublish(row.published, of: row.document) }

    /// Takes back what was published under a name, unless another document's picture is there.
    private func unpublish(_ name: String?, of document: DocumentID) throws(Errno) {
        guard let name, let cache else { return }
        let isOthers = try catalog.read { database throws(Errno) in
            try database.isPublished(name, besides: document)
        }
        if !isOthers { cache.remove(name) }
    }

    // MARK: The clock's round

    /// Looks at the pictures whose documents have changed, and at what the provider is to get.
    func tick() {
        for document in takeAgain() { want(document) }
        checking { [self] in
            do throws(Errno) {
                try check()
                if mayShare() { try shareMore() }
                if disk.isFull { try dropOldest() }
            } catch {
                log.info("thumbnails: \(error)")
            }
        }
    }

    private func check() throws(Errno) {
        let (changed, hasMoved) = try catalog.read { database throws(Errno) in
            (try database.uncheckedThumbnails(limit: 1000), try database.hasMovedThumbnails())
        }
        if hasMoved { try catalog.write { database throws(Errno) in try database.uncheckThumbnails() } }
        for row in changed {
            let subject = try subject(row.document)
            guard let subject, subject.isShown(by: row) else {
                try drop(row)
                if subject != nil, row.published != nil { wantAgain(row.document, after: Self.pause) }
                continue
            }
            try catalog.write { database throws(Errno) in
                try database.noteChecked(row)
                guard var known = try database.thumbnail(row.document), known.picture == row.picture else { return }
                if try self.noteProvider(&known, subject) { try database.store(known, isChecked: true) }
            }
            // Under another name, or with another time, programs don't find it.
            if row.published != nil, !isPublished(subject) { want(row.document) }
        }
    }

    /// Looks whether the provider has what a picture shows, and has the picture where it belongs; true for news.
    private func noteProvider(_ row: inout ThumbnailRow, _ subject: Subject) throws(Errno) -> Bool {
        guard let remote = subject.remote, let version = subject.entry.remoteVersion else { return false }
        let wasSent = row.isSent
        row.isSent = true
        let isThere = row.place == remote.path && row.version == version
        // What the provider makes by itself is not given to it; what it has had, it is to have at the new place too.
        let isDue = row.place != nil || row.origin == .program || !provider.capabilities.makesThumbnails
        guard !isThere, isDue, canShare, row.isShared else { return !wasSent }
        row.isShared = false
        return true
    }

    /// A picture does not show what its document is now, or there is no such document.
    func drop(_ row: ThumbnailRow) throws(Errno) {
        try remove(row)
        guard canShare, let place = row.place, let version = row.version else { return }
        try catalog.write { database throws(Errno) in try database.dropThumbnail(at: place, version) }
    }
}
