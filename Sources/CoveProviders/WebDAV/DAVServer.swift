internal import CoveCore

/// What one server was found to do, by trying it in a hidden folder.
struct DAVServer: Sendable, CustomStringConvertible {
    /// Nothing can be made.
    var isReadOnly = false
    /// PUT heeds `If-Match` and `If-None-Match`.
    var heedsPutConditions = false
    /// PUT answers with the tag of what was put: nobody else's can be taken for it.
    var tellsTagOnPut = false
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

    /// New bytes are put where they belong; else beside, and then moved there.
    var putsInPlace: Bool { heedsPutConditions && tellsTagOnPut }

    /// Changes are refused atomically when the base version is old.
    var isConditional: Bool { putsInPlace || heedsLocks }

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
        return capabilities
    }

    var description: String {
        if isReadOnly { return "read-only" }
        let facts = [
            (heedsPutConditions, "conditional PUT"), (tellsTagOnPut, "tags on PUT"),
            (heedsLocks, "locks"), (heedsDeleteConditions, "conditional DELETE"),
            (heedsOverwrite, "Overwrite"), (refusesTakenDirectory, "MKCOL refuses taken names"),
            (keepsVersionOnMove, "MOVE keeps versions"), (keepsDates, "dates"),
            (directoryTagsRise, "rising directory tags"), (!hidesDotNames, "dot names"), (!lacksTags, "tags"),
            (keepsChecksums, "checksums"), (takesChunks, "chunks"), (keepsVersions, "versions"),
        ]
        return facts.map { ($0 ? "" : "no ") + $1 }.joined(separator: ", ")
    }
}

/// Trying out what a server does.
extension DAVServer {
    static let wrongTag = "\"cove-no-such-tag\""

    static func probe(_ provider: WebDAVProvider) async throws(ProviderError) -> DAVServer {
        let folder = RemotePath([FileName(unchecked: WebDAVProvider.hiddenName("probe"))])
        let made = try await provider.send("MKCOL", folder, isDirectory: true)
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

    private static func probe(
        _ provider: WebDAVProvider,
        in folder: RemotePath
    ) async throws(ProviderError) -> DAVServer {
        let (one, two) = (folder.appending(FileName(unchecked: [0x61])), folder.appending(FileName(unchecked: [0x62])))
        let date = Timestamp(seconds: 1_000_000_000, nanoseconds: 0)
        var server = DAVServer()
        server.refusesTakenDirectory = try await provider.send("MKCOL", folder, isDirectory: true).status == 405
        let sum = Checksum(.sha1, Digest.hash([0x31], .sha1))
        let put = try await provider.put(
            one,
            [0x31],
            [("If-None-Match", "*"), ("X-OC-Mtime", "\(date.seconds)"), ("OC-Checksum", sum.text)]
        )
        guard put.head.isSuccess else { throw provider.refusal(put, "trying out the server") }
        let first = try await provider.properties(one, MultistatusReader.checksumRequest)
        server.keepsChecksums = Checksum.all(in: first.checksums ?? "").contains(sum)
        server.keepsDates = first.modified == date
        server.lacksTags = first.tag == nil
        let told = put.head["etag"].map { DAVResource.version(tag: $0, modified: nil, size: 1) }
        server.tellsTagOnPut = told != nil && told == first.contentVersion
        let again = try await provider.put(one, [0x32], [("If-None-Match", "*")]).status
        let wrong = try await provider.put(one, [0x33], [("If-Match", wrongTag)]).status
        server.heedsPutConditions = again == 412 && wrong == 412
        if server.putsInPlace, let tag = DAVResource.tag(of: first.contentVersion) {
            // One that refuses whatever it can't understand refuses the right tag too.
            server.heedsPutConditions = try await provider.put(one, [0x34], [("If-Match", tag)]).head.isSuccess
        }
        let before = try await provider.properties(one)
        _ = try await provider.move(one, to: two, isDirectory: false, overwrite: false)
        server.keepsVersionOnMove = try await provider.properties(two).contentVersion == before.contentVersion
        server.directoryTagsRise = try await tagsRise(provider, folder)
        _ = try await provider.put(one, [0x34], [])
        server.heedsOverwrite =
            try await provider.move(one, to: two, isDirectory: false, overwrite: false).status == 412
        // A server that let it happen has no `one` any more.
        if !server.heedsOverwrite { _ = try await provider.put(one, [0x35], []) }
        server.heedsLocks = try await locks(provider, folder, one)
        let deleted = try await provider.send("DELETE", two, [("If-Match", wrongTag)])
        if deleted.status == 412, let tag = DAVResource.tag(of: try await provider.properties(two).contentVersion) {
            // One that refuses whatever it can't understand refuses the right tag too.
            server.heedsDeleteConditions = try await provider.send("DELETE", two, [("If-Match", tag)]).head.isSuccess
        }
        let hidden = folder.appending(FileName(unchecked: [0x2E, 0x78]))
        _ = try await provider.put(hidden, [0x36], [])
        server.hidesDotNames = try await !DAVListing(provider, folder).next().items.contains {
            $0.name == [0x2E, 0x78]
        }
        try await server.probeExtensions(provider, in: folder)
        return server
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
        let name = folder.appending(FileName(unchecked: [0x6C]))
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
        let own = try await provider.move(file, to: name, isDirectory: false, overwrite: true, lock: lock)
        await provider.unlock(lock)
        if let second { await provider.unlock(second) }
        return second == nil && others.status == 423 && own.head.isSuccess
    }
}
