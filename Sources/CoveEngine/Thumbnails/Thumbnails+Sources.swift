internal import CoveCore
internal import Synchronization

/// Where pictures come from that are not here: the provider, and the bytes of documents.
extension Thumbnails {
    func fetch(
        _ remote: RemoteReference,
        _ version: ContentVersion
    ) async throws(ProviderError) -> Picture? {
        let capabilities = provider.capabilities
        guard capabilities.makesThumbnails || capabilities.keepsThumbnails else { return nil }
        guard sync?.mayFetch == true else { throw .serverUnreachable("not connected") }
        counters.providerRequests.add(1, ordering: .relaxed)
        guard let bytes = try await provider.thumbnail(of: remote, version: version),
            let picture = await usable(bytes, isGiven: false)
        else { return nil }
        counters.thumbnailsFetched.add(1, ordering: .relaxed)
        return picture
    }

    /// A picture as it is kept, of an image file of whatever kind; nil where nothing here can read it.
    ///
    /// How long a program takes for what the provider sends is not held against it.
    func usable(_ bytes: [UInt8], isGiven: Bool) async -> Picture? {
        if let picture = Picture(bytes) { return picture }
        guard let (type, ending) = Self.type(of: bytes) else { return nil }
        let maker = maker
        return await onThread { [self] in
            guard let program = program(for: [type]) else { return nil }
            let made = maker.picture(of: bytes, named: "picture.\(ending)", by: program)
            if isGiven { note(made, of: program) }
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
    func program(forName name: [UInt8]) -> Thumbnailers.Program? { program(for: Self.types(of: name)) }

    /// True where there is one, even if it rests.
    ///
    /// Reads files.
    func hasProgram(forName name: [UInt8]) -> Bool { hasProgram(for: Self.types(of: name)) }

    private static func types(of name: [UInt8]) -> [String] {
        let types = ContentTypes.ofMachine
        return types.tree(types.type(ofFile: String(decoding: name, as: UTF8.self)))
    }

    /// True where a document's bytes are here, and nobody may be writing them.
    func canMake(_ subject: Subject) -> Bool {
        configuration.makesThumbnails && subject.row.residency == .whole
            && (1...Self.mostBytes).contains(subject.attributes.size) && !contents.live.isWritable(subject.row.id)
    }

    /// Has a picture made of the bytes that are here; without one, whether that is for good.
    func made(of subject: Subject) async -> (Picture?, isFinal: Bool) {
        guard canMake(subject) else { return (nil, false) }
        let (file, name) = (contents.store.path(subject.row.id), subject.entry.name)
        let maker = maker
        let (outcome, hasProgram) = await onThread { [self] () -> (ThumbnailMaker.Outcome?, Bool) in
            guard let program = program(forName: name) else { return (nil, self.hasProgram(forName: name)) }
            let made = maker.picture(of: file, named: Self.plainName(name), by: program)
            note(made, of: program)
            return (made, true)
        }
        // Evicted meanwhile, its bytes were zeros; changed, they were of two versions.
        guard let now = await seen(subject.document), now.sight == subject.sight else { return (nil, false) }
        switch outcome {
        case .picture(let picture):
            counters.thumbnailsMade.add(1, ordering: .relaxed)
            return (picture, true)
        case .nothing, .late:
            noteAbsence(of: subject.document, subject.sight, for: Self.failure)
            return (nil, true)
        case nil:
            // One that rests will run again.
            if !hasProgram { noteAbsence(of: subject.document, subject.sight, for: Self.absence) }
            return (nil, !hasProgram)
        case .unable: return (nil, false)
        }
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
        case .unsupported, .notPermitted, .versionNoLongerAvailable: true
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
