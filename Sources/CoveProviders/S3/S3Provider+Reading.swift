public import CoveCore

extension S3Provider {
    /// Lists a directory, a page of the server's at a time.
    public func list(_ directory: RemoteReference, page: Page?) async throws(ProviderError) -> Listing {
        try await settleMoves(around: directory.path)
        var cursor = S3Cursor(path: directory.path)
        if let page {
            guard let known = cursors.take(page), known.path == directory.path else { throw .pageExpired }
            cursor = known
        }
        let key = directoryKey(directory.path)
        let names = features.names
        while true {
            let listing = try await client.list(key, delimiter: true, from: cursor.pages.token)
            let items = cursor.take(listing, of: key, names, log: log)
            guard try cursor.pages.advance(listing) else {
                guard cursor.hasSeen || directory.path.isRoot else { throw .noSuchItem }
                return Listing(items: items, next: nil)
            }
            if !items.isEmpty { return Listing(items: items, next: cursors.put(cursor)) }
        }
    }

    /// Looks a name up.
    public func lookup(_ name: FileName, in directory: RemoteReference) async throws(ProviderError) -> RemoteItem {
        if name.isReserved, !name.isPassing { throw .noSuchItem }
        try await settleMoves(around: directory.path.appending(name))
        guard let item = try await find(directory.path.appending(name)) else { throw .noSuchItem }
        return item
    }

    /// What has a path: an object, else a directory; nil when nothing has.
    func find(_ path: RemotePath) async throws(ProviderError) -> RemoteItem? {
        guard problem(with: path) == nil else { return nil }
        if let name = path.name, features.kept.folded(name) != nil || features.kept.problem(with: name) != nil {
            // Where one name may stand for another, the server answers for that, too: only a listing tells.
            guard try await isListed(path) else { return nil }
        }
        let (object, isDirectory) = try await both { () throws(ProviderError) in
            try await self.client.head(self.key(path))
        } and: { () throws(ProviderError) in
            try await self.hasDirectory(path)
        }
        if let object { return object.item(at: path) }
        return isDirectory ? S3Object.directory(at: path) : nil
    }

    /// True for a name that a listing shows as it is.
    private func isListed(_ path: RemotePath) async throws(ProviderError) -> Bool {
        let (key, directory) = (key(path), directoryKey(path))
        let objects = try await client.list(key, delimiter: true, limit: 1).objects
        if objects.contains(where: { $0.key == key }) { return true }
        let inside = try await client.list(directory, delimiter: false, limit: 1).objects
        return inside.contains { $0.key.starts(with: directory) }
    }

    /// Fetches a range of the version that is wanted; what comes whole and has a checksum is checked before it is given.
    public func fetch(
        _ item: RemoteReference,
        version: ContentVersion,
        range: Range<Int64>,
        into sink: any ContentSink
    ) async throws(ProviderError) {
        guard !range.isEmpty else { return }
        do throws(ProviderError) {
            try await fetchPlaced(item, version: version, range: range, into: sink)
        } catch {
            // Its version tells that it is the right one, whatever moves around it; unless it is on the move itself.
            guard error == .noSuchItem, unfinishedMoves.contains(where: { $0.concerns(item.path) }) else { throw error }
            try await settleMoves(around: item.path)
            try await fetchPlaced(item, version: version, range: range, into: sink)
        }
    }

    private func fetchPlaced(
        _ item: RemoteReference,
        version: ContentVersion,
        range: Range<Int64>,
        into sink: any ContentSink
    ) async throws(ProviderError) {
        let key = key(item.path)
        let features = features
        var call = S3Call("GET", key)
        if !version.isMadeUp { call.headers.append(("If-Match", features.tag(version))) }
        call.headers.append(S3Call.wantsChecksum)
        let checked = CheckedSink(range, into: sink)
        let receiver = RangeReceiver(range, into: checked, takesCodings: true) { head throws(ProviderError) in
            let object = try S3Object(key: key, head: head)
            guard object.version.isSame(as: version) else { throw .versionNoLongerAvailable }
            if let editor = object.editor { sink.note(editor: editor, of: version) }
            if checked.hold(size: object.size) { checked.expect(features.checks(of: object, head)) }
        }
        let outcome: Result<HTTPResponse, S3Failure>
        do throws(ProviderError) {
            outcome = try await client.fetch(call, receiver)
        } catch .versionNoLongerAvailable {
            guard try await client.head(key)?.version.isSame(as: version) == true else {
                throw .versionNoLongerAvailable
            }
            throw .failed("the server sent the bytes as of another version than it says it has", .inputOutput)
        }
        switch outcome {
        case .success:
            guard receiver.isComplete else { throw .serverUnreachable("the server sent fewer bytes than it has") }
            if checked.lacksChecks, features.keepsChecksums {
                // Some tell it of the whole alone, and not of a part that is the whole.
                var call = S3Call("HEAD", key)
                call.headers.append(S3Call.wantsChecksum)
                let head = try await client.send(call).head
                let object = try S3Object(key: key, head: head)
                guard object.version.isSame(as: version) else { throw .versionNoLongerAvailable }
                checked.expect(features.checks(of: object, head))
            }
            if checked.isRight { return try checked.finish() }
            // A server that writes in place may have sent what it was in the middle of replacing.
            guard try await client.head(key)?.version.isSame(as: version) == true else {
                throw .versionNoLongerAvailable
            }
            throw .failed("the bytes that came do not have the checksum that the server gives", .inputOutput)
        case .failure(let failure):
            if failure.status == 404 { throw failure.error }
            guard failure.isPrecondition || failure.status == 416 else { throw failure.error }
            // Which of these a server says of an object that is gone differs.
            guard let object = try await client.head(key) else { throw .noSuchItem }
            guard object.version.isSame(as: version) else { throw .versionNoLongerAvailable }
            if range.lowerBound < object.size { throw .failed("the server refuses the bytes it has", nil) }
        }
    }

    /// What a HEAD tells of the hash of a version.
    public func matches(
        _ item: RemoteReference,
        version: ContentVersion,
        _ content: any ContentSource
    ) async throws(ProviderError) -> Bool? {
        var call = S3Call("HEAD", key(item.path))
        call.headers.append(S3Call.wantsChecksum)
        let head: HTTPHead
        switch try await client.ask(call) {
        case .success(let response): head = response.head
        case .failure(let failure): throw failure.status == 404 ? .noSuchItem : failure.error
        }
        let object = try S3Object(key: key(item.path), head: head)
        guard object.version.isSame(as: version) else { throw .versionNoLongerAvailable }
        guard object.size == content.size else { return false }
        guard let told = features.checksum(of: object, head) else { return nil }
        return try await work.run { flag throws(ProviderError) in
            try Checksum.of(content, told.algorithm, flag) == told
        }
    }

    /// Says why a server could not hold a path, or nil.
    func problem(with path: RemotePath) -> String? {
        if markerKey(path).count > 1024 { return "a path over 1024 bytes" }
        if String(validating: path.bytes, as: UTF8.self) == nil { return "a name that is not UTF-8" }
        return nil
    }

    /// Runs two requests at once.
    func both<A: Sendable, B: Sendable>(
        _ first: @escaping @Sendable () async throws(ProviderError) -> A,
        and second: @escaping @Sendable () async throws(ProviderError) -> B
    ) async throws(ProviderError) -> (A, B) {
        async let other = Self.outcome(second)
        let one = await Self.outcome(first)
        return (try one.get(), try await other.get())
    }

    private static func outcome<R: Sendable>(
        _ body: @Sendable () async throws(ProviderError) -> R
    ) async -> Result<R, ProviderError> {
        do throws(ProviderError) { return .success(try await body()) } catch { return .failure(error) }
    }
}

/// A listing under way.
struct S3Cursor: Sendable {
    let path: RemotePath
    var pages = S3Pages()
    /// Something is there, if only the object that stands for the directory.
    private(set) var hasSeen = false
    /// The names of files that a directory of the same name may still follow: each begins with the one before.
    private var files: [[UInt8]] = []

    init(path: RemotePath) { self.path = path }

    /// The items of a page.
    ///
    /// A directory that has the name of a file is given under a name that nothing can have.
    mutating func take(_ listing: S3Listing, of key: [UInt8], _ convention: S3Names, log: (String) -> Void)
        -> [RemoteItem]
    {
        var items: [RemoteItem] = []
        hasSeen = hasSeen || !listing.objects.isEmpty || !listing.prefixes.isEmpty
        var names: Set<[UInt8]> = []
        items.reserveCapacity(listing.objects.count + listing.prefixes.count)
        for object in listing.objects {
            guard object.key.starts(with: key),
                let name = visible(convention.decode(Array(object.key.dropFirst(key.count))))
            else { continue }
            files.removeAll { !name.bytes.starts(with: $0) }
            files.append(name.bytes)
            if !listing.prefixes.isEmpty { names.insert(name.bytes) }
            var item = object.item(at: path.appending(name))
            // A key with a slash where none belongs is no other name.
            item.name = name.bytes
            items.append(item)
        }
        for prefix in listing.prefixes {
            guard prefix.starts(with: key), prefix.last == 0x2F,
                let name = visible(convention.decode(Array(prefix.dropFirst(key.count).dropLast())))
            else { continue }
            let isHidden = names.contains(name.bytes) || files.contains(name.bytes)
            var item = S3Object.directory(at: path.appending(name))
            item.name = name.bytes
            if isHidden {
                log("\(path.appending(name)): hidden, for a file at the source has the same name")
                item.name.append(0x2F)
            }
            items.append(item)
        }
        return items
    }

    /// The name in a key; nil for the directory's own object and for what Cove keeps for itself.
    private func visible(_ bytes: [UInt8]) -> FileName? {
        let name = FileName(unchecked: bytes)
        return bytes.isEmpty || name.isReserved && !name.isPassing ? nil : name
    }
}
