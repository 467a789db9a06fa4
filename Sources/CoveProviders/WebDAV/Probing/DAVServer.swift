internal import CoveCore

/// What one server was found to do, by trying it in a hidden folder.
struct DAVServer: Sendable, Equatable, CustomStringConvertible {
    /// Nothing can be made.
    var isReadOnly = false
    /// PUT heeds `If-Match` and `If-None-Match`.
    var heedsPutConditions = false
    /// Conditions take tags without their quotes only.
    var wantsBareTags = false
    /// PUT answers with the tag of what was put: nobody else's can be taken for it.
    var tellsTagOnPut = false
    /// MOVE heeds `If-Match` for what is moved, and `If` for what it replaces.
    var heedsMoveConditions = false
    /// LOCK keeps everybody else out.
    var heedsLocks = false
    /// DELETE heeds `If-Match`.
    var heedsDeleteConditions = false
    /// MOVE and COPY heed `Overwrite: F`.
    var heedsOverwrite = false
    /// MKCOL refuses a name that is taken.
    var refusesTakenDirectory = false
    /// A version is the same after a MOVE.
    var keepsVersionOnMove = false
    /// `X-OC-Mtime` sets the date.
    var keepsDates = false
    /// There are no entity tags in listings: versions are made of dates and sizes.
    var lacksTags = false
    /// The tag of a file is the MD5 of its bytes.
    var tagIsDigest = false
    /// Names that begin with a dot are not listed.
    var hidesDotNames = false
    /// The tag of a directory changes with everything below it.
    var directoryTagsRise = false
    /// `OC-Checksum` is kept with a file, or the server makes such checksums itself.
    var keepsChecksums = false
    /// Large files can be sent in chunks.
    var takesChunks = false
    /// Earlier contents of files are listed.
    var keepsVersions = false
    /// It makes pictures of files, as Nextcloud does.
    var makesThumbnails = false
    /// It makes links to files, as Nextcloud does.
    var makesShares = false
    /// Which names it keeps.
    var names = KeptNames()
    /// The headers that all its answers have where it changed something, by lower-case name.
    var habits: Set<String>?
    /// What it calls itself.
    var program: String?

    /// New bytes are put where they belong; else beside, and then moved there.
    var putsInPlace: Bool { heedsPutConditions && tellsTagOnPut }

    /// Changes are refused atomically when the base version is old.
    var isConditional: Bool { putsInPlace || heedsMoveConditions || heedsLocks }

    /// A tag as conditions have it.
    func condition(_ tag: EntityTag) -> String { wantsBareTags ? tag.text : tag.quoted }

    /// False for an answer that comes from something on the way: the login page of a network may answer anything.
    func isOwn(_ response: HTTPResponse) -> Bool {
        response.head["server"] == program && (habits ?? []).allSatisfy { response.head[$0] != nil }
    }

    private mutating func learn(_ response: HTTPResponse) -> HTTPResponse {
        guard response.head.isSuccess else { return response }
        // Those that tell of a body come and go with it.
        let names = Set(response.head.headers.map(\.name).filter { !$0.hasPrefix("content-") && $0 != "location" })
        habits = habits?.intersection(names) ?? names
        program = response.head["server"]
        return response
    }

    func capabilities(root: DAVResource) -> ProviderCapabilities {
        var capabilities = ProviderCapabilities()
        capabilities.conditionalWrites = isConditional && heedsOverwrite
        capabilities.serverSideCopy = !isReadOnly && heedsOverwrite
        capabilities.trash = !isReadOnly && heedsOverwrite
        capabilities.coarseVersions = lacksTags
        capabilities.stableIDs = root.fileID != nil
        capabilities.modificationTimes = keepsDates
        capabilities.risingDirectoryVersions = directoryTagsRise
        capabilities.versions = keepsVersions
        capabilities.readOnly = isReadOnly
        capabilities.makesThumbnails = makesThumbnails
        capabilities.publishes = makesShares && capabilities.serverSideCopy
        capabilities.keepsThumbnails = true
        capabilities.erases = !isReadOnly
        capabilities.carriesNews = true
        return capabilities
    }

    var description: String {
        if isReadOnly { return "read-only" }
        let facts = [
            (heedsPutConditions, "conditional PUT"), (tellsTagOnPut, "tags on PUT"),
            (heedsMoveConditions, "conditional MOVE"), (heedsLocks, "locks"),
            (heedsDeleteConditions, "conditional DELETE"),
            (heedsOverwrite, "Overwrite"), (refusesTakenDirectory, "MKCOL refuses taken names"),
            (keepsVersionOnMove, "MOVE keeps versions"), (keepsDates, "dates"),
            (directoryTagsRise, "rising directory tags"), (!hidesDotNames, "dot names"), (!lacksTags, "tags"),
            (keepsChecksums, "checksums"), (takesChunks, "chunks"), (keepsVersions, "versions"),
            (makesThumbnails, "previews"), (makesShares, "links"),
        ]
        let traits = KeptNames.Trait.allCases.filter { names.lost.contains($0) }.map { "no names with \($0.words)" }
        let folds = [(names.foldsCase, "case is one"), (names.foldsForms, "forms are one")].filter(\.0).map(\.1)
        return (facts.map { ($0 ? "" : "no ") + $1 } + traits + folds).joined(separator: ", ")
    }
}

/// Trying out what a server does.
extension DAVServer {
    static let wrongTag = "\"cove-no-such-tag\""

    /// Finds out what a server does.
    static func find(_ provider: WebDAVProvider) async throws(ProviderError) -> DAVServer {
        try await tryOut {
            let doubts = provider.doubts
            let result = await outcome { () throws(ProviderError) in try await probe(provider) }
            return (result, provider.doubts == doubts)
        }
    }

    private static func probe(_ provider: WebDAVProvider) async throws(ProviderError) -> DAVServer {
        let folder = provider.probeFolder
        var made = try await provider.send("MKCOL", folder, isDirectory: true)
        if made.status == 405 {
            // A daemon of this device may have been killed in the middle of this.
            let cleared = try await provider.send("DELETE", folder, isDirectory: true)
            guard cleared.isGone || [403, 405].contains(cleared.status) else {
                throw provider.refusal(cleared, "trying out the server")
            }
            made = try await provider.send("MKCOL", folder, isDirectory: true)
            if made.status == 405, cleared.head.isSuccess, try await isThere(folder, provider) { throw .busy }
        }
        if [403, 405].contains(made.status) { return DAVServer(isReadOnly: true) }
        guard made.head.isSuccess else { throw provider.refusal(made, "trying out the server") }
        do throws(ProviderError) {
            let server = try await probe(provider, in: folder)
            _ = try await provider.send("DELETE", folder, isDirectory: true)
            return server
        } catch {
            _ = try? await provider.send("DELETE", folder, isDirectory: true)
            throw error
        }
    }

    private static func isThere(
        _ folder: RemotePath,
        _ provider: WebDAVProvider
    ) async throws(ProviderError) -> Bool {
        do throws(ProviderError) {
            _ = try await provider.properties(folder, isDirectory: true)
            return true
        } catch .noSuchItem {
            return false
        }
    }

    private static func probe(
        _ provider: WebDAVProvider,
        in folder: RemotePath
    ) async throws(ProviderError) -> DAVServer {
        async let names = Self.outcome { () throws(ProviderError) in
            let inner = folder.appending(FileName(unchecked: [0x6E]))
            guard try await provider.send("MKCOL", inner, isDirectory: true).head.isSuccess else { return KeptNames() }
            return try await Self.names(provider, in: inner)
        }
        var server = DAVServer()
        try await server.probeChanges(provider, in: folder)
        try await server.probeExtensions(provider, in: folder)
        server.names = try await names.get()
        return server
    }

    private static func outcome<R>(
        _ body: () async throws(ProviderError) -> R
    ) async -> Result<R, ProviderError> {
        do throws(ProviderError) { return .success(try await body()) } catch { return .failure(error) }
    }

    private mutating func probeChanges(
        _ provider: WebDAVProvider,
        in folder: RemotePath
    ) async throws(ProviderError) {
        let (one, two) = (folder.appending(FileName(unchecked: [0x61])), folder.appending(FileName(unchecked: [0x62])))
        refusesTakenDirectory = try await provider.send("MKCOL", folder, isDirectory: true).status == 405
        try await probePut(provider, one)
        let before = try await provider.properties(one)
        _ = learn(try await provider.move(one, to: two, isDirectory: false, overwrite: false))
        keepsVersionOnMove = try await provider.properties(two).contentVersion == before.contentVersion
        directoryTagsRise = try await Self.tagsRise(provider, folder)
        _ = try await provider.put(one, [0x34], [])
        heedsOverwrite = try await provider.move(one, to: two, isDirectory: false, overwrite: false).status == 412
        // A server that let it happen has no `one` any more.
        if !heedsOverwrite { _ = try await provider.put(one, [0x35], []) }
        heedsMoveConditions = try await moveConditions(provider, one, two)
        _ = learn(try await provider.put(one, [0x34], []))
        heedsLocks = try await Self.locks(provider, folder, one)
        heedsDeleteConditions = try await deleteConditions(provider, folder, two)
        let hidden = folder.appending(FileName(unchecked: [0x2E, 0x78]))
        _ = try await provider.put(hidden, [0x36], [])
        hidesDotNames = try await !DAVListing(provider, folder).next().items.contains { $0.name == [0x2E, 0x78] }
    }

    private mutating func probePut(_ provider: WebDAVProvider, _ one: RemotePath) async throws(ProviderError) {
        let date = Timestamp(seconds: 1_000_000_000, nanoseconds: 0)
        let sum = Checksum(.sha1, Digest.hash([0x31], .sha1))
        let put = learn(
            try await provider.put(
                one,
                [0x31],
                [("If-None-Match", "*"), ("X-OC-Mtime", "\(date.seconds)"), ("OC-Checksum", sum.text)]
            )
        )
        guard put.head.isSuccess else { throw provider.refusal(put, "trying out the server") }
        let first = try await provider.properties(one, MultistatusReader.checksumRequest)
        keepsChecksums = Checksum.all(in: first.checksums ?? "").contains(sum)
        keepsDates = first.modified == date
        lacksTags = first.tag == nil
        tagIsDigest = first.tag.flatMap { EntityTag($0) }?.text.lowercased() == Digest.hash([0x31], .md5).hexadecimal
        let told = put.head["etag"].map { DAVResource.version(tag: $0, modified: nil, size: 1) }
        tellsTagOnPut = told != nil && told == first.contentVersion
        let again = try await provider.put(one, [0x32], [("If-None-Match", "*")]).status
        let wrong = try await provider.put(one, [0x33], [("If-Match", Self.wrongTag)]).status
        heedsPutConditions = again == 412 && wrong == 412
        guard putsInPlace, let tag = DAVResource.tag(of: first.contentVersion) else { return }
        // One that refuses whatever it can't understand refuses the right tag too; some understand it without quotes.
        var right = try await provider.put(one, [0x34], [("If-Match", tag.quoted)])
        if right.status == 412 {
            wantsBareTags = true
            right = try await provider.put(one, [0x34], [("If-Match", tag.text)])
        }
        heedsPutConditions = learn(right).head.isSuccess
    }

    private func moveConditions(
        _ provider: WebDAVProvider,
        _ one: RemotePath,
        _ two: RemotePath
    ) async throws(ProviderError) -> Bool {
        let other = two.parent.appending(FileName(unchecked: [0x65]))
        let source = try await provider.move(
            one,
            to: other,
            isDirectory: false,
            overwrite: false,
            [
                ("If-Match", Self.wrongTag)
            ]
        )
        guard source.status == 412 else { return false }
        func replace(_ tag: String) async throws(ProviderError) -> HTTPResponse {
            let condition = ("If", "<\(provider.address.url(two))> ([\(tag)])")
            return try await provider.move(one, to: two, isDirectory: false, overwrite: true, [condition])
        }
        guard try await replace(Self.wrongTag).status == 412 else { return false }
        let there = try await provider.properties(two)
        guard let tag = DAVResource.tag(of: there.contentVersion) else { return false }
        // No condition holds for what is called weak, which passes.
        return try await replace(tag.quoted).head.isSuccess || EntityTag.isWeak(there.tag ?? "")
    }

    /// True when a deletion is refused on a wrong version, of a file, and of a directory in the place of one.
    private mutating func deleteConditions(
        _ provider: WebDAVProvider,
        _ folder: RemotePath,
        _ two: RemotePath
    ) async throws(ProviderError) -> Bool {
        let condition = [("If-Match", Self.wrongTag)]
        let inner = folder.appending(FileName(unchecked: [0x66]))
        guard try await provider.send("DELETE", two, condition).status == 412,
            try await provider.send("MKCOL", inner, isDirectory: true).head.isSuccess,
            try await provider.send("DELETE", inner, condition).status == 412
        else { return false }
        let there = try await provider.properties(two)
        guard let tag = DAVResource.tag(of: there.contentVersion) else { return false }
        let right = learn(try await provider.send("DELETE", two, [("If-Match", self.condition(tag))]))
        return right.head.isSuccess || EntityTag.isWeak(there.tag ?? "")
    }

    /// True when the tag of a directory changes with what is two levels below; looked at where nobody else changes anything.
    private static func tagsRise(
        _ provider: WebDAVProvider,
        _ folder: RemotePath
    ) async throws(ProviderError) -> Bool {
        guard try await provider.properties(folder, isDirectory: true).tag != nil else { return false }
        let inner = folder.appending(FileName(unchecked: [0x64]))
        guard try await provider.send("MKCOL", inner, isDirectory: true).head.isSuccess else { return false }
        let before = try await provider.properties(folder, isDirectory: true).tag
        _ = try await provider.put(inner.appending(FileName(unchecked: [0x66])), [0x37], [])
        return try await provider.properties(folder, isDirectory: true).tag != before
    }

    /// True when a locked name, which was free, is nobody else's to take.
    private static func locks(
        _ provider: WebDAVProvider,
        _ folder: RemotePath,
        _ file: RemotePath
    ) async throws(ProviderError) -> Bool {
        // Another name each time: a lock whose end got lost stays for a while, and some servers keep it when its folder is gone.
        let name = folder.appending(FileName(unchecked: Array("l\(DocumentID.random())".utf8)))
        let lock: DAVLock
        do throws(ProviderError) {
            guard let made = try await provider.lockOnce(name) else { return false }
            lock = made
        } catch {
            if error.parksAccount { throw error }
            return false
        }
        let second = try await provider.lockOnce(name)
        let others = try await provider.move(file, to: name, isDirectory: false, overwrite: true)
        let condition = provider.condition(lock)
        let own = try await provider.move(file, to: name, isDirectory: false, overwrite: true, [condition])
        await provider.unlock(lock)
        if let second { await provider.unlock(second) }
        return second == nil && others.status == 423 && own.head.isSuccess
    }
}
