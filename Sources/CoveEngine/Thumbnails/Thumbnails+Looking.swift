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

        var content: Content { Content(item: row.id, generation: row.generation) }

        /// The picture that shows these bytes.
        var valid: ThumbnailRow? {
            known.flatMap { $0.isValid(item: row.id, generation: row.generation, attributes) ? $0 : nil }
        }
    }

    /// No larger file is given to the desktop's programs.
    private static let mostBytes: Int64 = 256 << 20
    /// No more pictures are kept.
    private static let mostPictures = 10_000

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

    /// Looks for a document's picture, and has those see it that are to.
    func look(for document: DocumentID, _ purpose: Purpose) async -> Picture? {
        guard let subject = try? await onQueue({ [self] () throws(Errno) in try self.subject(document) }) else {
            return nil
        }
        var found: (row: ThumbnailRow, picture: Picture)?
        if let row = subject.valid, let picture = await read(row) { found = (row, picture) }
        if found == nil, !isAbsent(document, subject.content) { found = await find(subject, purpose) }
        guard let (row, picture) = found else { return nil }
        if purpose.contains(.shown) { await publish(picture, row, subject) }
        if !row.isShared { await share(picture, row, subject) }
        return picture
    }

    private func find(_ subject: Subject, _ purpose: Purpose) async -> (ThumbnailRow, Picture)? {
        var isCertain = true
        if purpose.contains(.shown), let version = subject.entry.remoteVersion, let remote = subject.remote {
            do throws(ProviderError) {
                if let picture = try await fetch(remote, version) {
                    var row = row(of: subject, .provider)
                    (row.isSent, row.place, row.version) = (true, remote.path, version)
                    return await keep(picture, row, subject)
                }
            } catch {
                isCertain = error == .noSuchItem || error.isFinal
            }
        }
        if let picture = await make(subject) {
            var row = row(of: subject, .desktop)
            row.isSent = subject.remote != nil
            // What the provider makes by itself, other devices have from there.
            row.isShared =
                subject.remote == nil || !provider.capabilities.keepsThumbnails
                || provider.capabilities.makesThumbnails
            return await keep(picture, row, subject)
        }
        if isCertain, purpose.contains(.shown) { noteAbsence(of: subject.entry.document, subject.content) }
        return nil
    }

    func row(of subject: Subject, _ origin: ThumbnailRow.Origin) -> ThumbnailRow {
        ThumbnailRow(
            subject.entry.document,
            of: subject.row.id,
            generation: subject.row.generation,
            attributes: subject.attributes,
            origin: origin
        )
    }

    // MARK: Here

    /// Gives a document a picture that a program has made of what it holds now.
    func give(_ picture: Picture, to document: DocumentID) async throws(Errno) {
        guard let subject = try await onQueue({ [self] () throws(Errno) in try self.subject(document) }) else {
            throw .noSuchEntry
        }
        var row = row(of: subject, .program)
        row.isSent = subject.remote != nil
        row.isShared = subject.remote == nil || !provider.capabilities.keepsThumbnails
        guard await keep(picture, row, subject) != nil else { throw .stale }
        want(document, for: [.shown, .shared])
    }

    /// Takes a document's picture away, here and at the provider.
    func takeAway(_ document: DocumentID) async throws(Errno) {
        try await onQueue { [self] () throws(Errno) in
            guard let subject = try subject(document) else { return }
            noteAbsence(of: document, subject.content)
            if let row = subject.known { try drop(row, isGone: true) }
        }
    }

    func file(_ row: ThumbnailRow) -> String {
        let time = row.modificationTime.nanosecondsSinceEpoch
        return "\(folder)/\(row.document)-\(row.item)-\(row.generation)-\(time).png"
    }

    private func read(_ row: ThumbnailRow) async -> Picture? {
        let file = file(row)
        return await OffPool.run { ThumbnailCache.read(file) }
    }

    /// Keeps a picture, if the document is still what it shows; nil where it can't be kept.
    func keep(_ picture: Picture, _ row: ThumbnailRow, _ subject: Subject) async -> (ThumbnailRow, Picture)? {
        let kept = try? await onQueue { [self] () throws(Errno) -> ThumbnailRow? in
            guard let now = try self.subject(row.document),
                row.isValid(
                    item: now.row.id,
                    generation: now.row.generation,
                    now.attributes
                )
            else { return nil }
            var row = row
            row.used = clock.now().seconds
            // What programs were given before is taken back when it is replaced.
            (row.published, row.publishedTime) = (now.known?.published, nil)
            try System.makeDirectories(folder)
            try ThumbnailCache.write(picture.bytes(texts: [:]), to: file(row))
            let made = row
            try catalog.write { database throws(Errno) in try database.store(made, isChecked: false) }
            if let old = now.known, file(old) != file(made) { try? System.unlink(file(old)) }
            try dropOldest()
            return made
        }
        guard let row = kept ?? nil else { return nil }
        forgetAbsence(of: row.document)
        return (row, picture)
    }

    private func dropOldest() throws(Errno) {
        let old = try catalog.read { database throws(Errno) in
            try database.oldThumbnails(beyond: Self.mostPictures, limit: 100)
        }
        for row in old { try remove(row) }
    }

    /// Forgets a picture here.
    func remove(_ row: ThumbnailRow) throws(Errno) {
        try catalog.write { database throws(Errno) in try database.removeThumbnail(row.document) }
        try? System.unlink(file(row))
        unpublish(row)
    }

    /// Drops files that no row stands for, as a death leaves them.
    func sweep() {
        let known = try? catalog.read { database throws(Errno) in
            try database.all("SELECT * FROM thumbnails") { ThumbnailRow($0) }
        }
        guard let known, let names = try? System.names(in: folder) else { return }
        let kept = Set(known.map { file($0) } + [maker.folder])
        for name in names where !kept.contains("\(folder)/\(name)") { try? System.unlink("\(folder)/\(name)") }
        maker.clean()
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
        guard let bytes = try await provider.thumbnail(of: remote, version: version) else { return nil }
        guard let picture = await usable(bytes) else { return nil }
        counters.thumbnailsFetched.add(1, ordering: .relaxed)
        return picture
    }

    /// A picture as it is kept, of an image file of whatever kind; nil where nothing here can read it.
    func usable(_ bytes: [UInt8]) async -> Picture? {
        if let picture = Picture(bytes) { return picture }
        guard let (type, ending) = Self.type(of: bytes) else { return nil }
        let maker = maker
        return await on(making) { [self] in
            guard let program = programs.program(for: [type]) else { return nil }
            return maker.picture(of: bytes, named: "picture.\(ending)", by: program)
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

    /// True for a name whose kind the desktop's programs make pictures of.
    func canMake(_ name: [UInt8]) -> Bool { program(for: name) != nil }

    private func program(for name: [UInt8]) -> Thumbnailers.Program? {
        let types = ContentTypes.ofMachine
        return programs.program(for: types.tree(types.type(ofFile: String(decoding: name, as: UTF8.self))))
    }

    /// Has a picture made of the bytes that are here, unless a program may be writing them.
    private func make(_ subject: Subject) async -> Picture? {
        let (id, size) = (subject.row.id, subject.attributes.size)
        guard subject.row.residency == .whole, (1...Self.mostBytes).contains(size), !contents.live.isWritable(id) else {
            return nil
        }
        let (file, name) = (contents.store.path(id), subject.entry.name)
        let maker = maker
        let picture = await on(making) { [self] in
            program(for: name).flatMap { maker.picture(of: file, named: Self.plainName(name), by: $0) }
        }
        // Evicted meanwhile, its bytes were zeros; `keep` looks whether they were changed.
        guard let picture,
            let now = try? await onQueue({ [self] () throws(Errno) in try self.subject(subject.entry.document) }),
            now.row.residency == .whole, now.content == subject.content, now.attributes.size == size
        else { return nil }
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

    /// Runs what blocks for a while.
    func on<Value: Sendable>(_ threads: ThreadPool, _ body: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in threads.async { continuation.resume(returning: body()) } }
    }
}

extension ProviderError {
    /// True for what another try would not change.
    fileprivate var isFinal: Bool {
        switch self {
        case .unsupported, .notPermitted, .versionNoLongerAvailable: true
        default: false
        }
    }
}
