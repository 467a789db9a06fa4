public import CoveCore

/// Each call of `Provider` as a message to the process.
extension ExternalProvider {
    /// Asks for a page of a directory.
    public func list(_ directory: RemoteReference, page: Page?) async throws(ProviderError) -> Listing {
        var parameters = CallParameters()
        parameters.directory = WireReference(directory)
        parameters.page = page.map { WireBytes($0.bytes) }
        let result = try await call(.list, parameters)
        return try understand { () throws(JSONError) in
            guard let items = result.items else { throw JSONError("a page without items") }
            let next = result.next?.bytes
            // A page that leads to itself would never end.
            if let next, next.isEmpty || next.count > 500 || next == page?.bytes {
                throw JSONError("the next page has 1 to 500 bytes, and is another one")
            }
            return Listing(
                items: try items.map { item throws(JSONError) in try item.item() },
                next: next.map { Page($0) }
            )
        }
    }

    /// Asks for one name.
    public func lookup(_ name: FileName, in directory: RemoteReference) async throws(ProviderError) -> RemoteItem {
        var parameters = CallParameters()
        parameters.directory = WireReference(directory)
        parameters.name = WireBytes(name.bytes)
        return try item(try await call(.lookup, parameters))
    }

    /// Asks for what has changed.
    public func changes(since anchor: Anchor?) async throws(ProviderError) -> Changes {
        var parameters = CallParameters()
        parameters.anchor = anchor.map { WireBytes($0.bytes) }
        let result = try await call(.changes, parameters)
        return try understand { () throws(JSONError) in
            guard let next = result.anchor?.bytes, next.count <= 500 else {
                throw JSONError("changes need an anchor of at most 500 bytes")
            }
            let more = result.more ?? false
            if more, next == anchor?.bytes { throw JSONError("more changes are said to come after the same anchor") }
            return Changes(
                events: try (result.events ?? []).map { event throws(JSONError) in try event.change() },
                anchor: Anchor(next),
                moreComing: more
            )
        }
    }

    /// Has the process do something with items.
    public func perform(_ action: String, on items: [RemoteReference]) async throws(ProviderError) -> String? {
        var parameters = CallParameters()
        parameters.action = action
        parameters.items = items.map { WireReference($0) }
        let result = try await call(.perform, parameters)
        return result.message?.shown(2000)
    }

    /// Tells the process that nobody uses a file any more.
    public func released(_ item: RemoteReference) async throws(ProviderError) {
        var parameters = CallParameters()
        parameters.item = WireReference(item)
        _ = try await call(.released, parameters)
    }

    /// Asks for bytes.
    public func fetch(
        _ item: RemoteReference,
        version: ContentVersion,
        range: Range<Int64>,
        into sink: any ContentSink
    ) async throws(ProviderError) {
        var parameters = CallParameters()
        parameters.item = WireReference(item)
        parameters.version = WireBytes(version.bytes)
        parameters.start = range.lowerBound
        parameters.end = range.upperBound
        try await fetch(.fetch, parameters, range, sink)
    }

    /// Asks for the bytes of an earlier content.
    public func fetch(
        _ version: RemoteVersion,
        of item: RemoteReference,
        into sink: any ContentSink
    ) async throws(ProviderError) {
        var parameters = CallParameters()
        parameters.item = WireReference(item)
        parameters.past = WireVersion(version)
        try await fetch(.fetchVersion, parameters, 0..<version.size, sink)
    }

    /// Has an item made.
    public func create(
        _ template: ItemTemplate,
        name: FileName,
        in directory: RemoteReference,
        content: (any ContentSource)?
    ) async throws(ProviderError) -> RemoteItem {
        var parameters = CallParameters()
        parameters.directory = WireReference(directory)
        parameters.name = WireBytes(name.bytes)
        guard let kind = WireKind(template.kind) else { throw .unsupported("no source holds such an item") }
        parameters.kind = kind
        parameters.metadata = WireMetadata(template.metadata)
        parameters.target = template.linkTarget.map { WireBytes($0) }
        parameters.size = content?.size
        parameters.identity = content?.identity.map { WireBytes($0) }
        return try item(try await call(.create, parameters, content: content), ofSize: content?.size)
    }

    /// Has an item changed.
    public func modify(
        _ item: RemoteReference,
        base: ContentVersion,
        metadata: ItemMetadata,
        content: (any ContentSource)?
    ) async throws(ProviderError) -> RemoteItem {
        var parameters = CallParameters()
        parameters.item = WireReference(item)
        parameters.version = WireBytes(base.bytes)
        parameters.metadata = WireMetadata(metadata)
        parameters.size = content?.size
        parameters.identity = content?.identity.map { WireBytes($0) }
        return try self.item(try await call(.modify, parameters, content: content), ofSize: content?.size)
    }

    /// Has an item moved.
    public func move(
        _ item: RemoteReference,
        base: ContentVersion?,
        to directory: RemoteReference,
        name: FileName
    ) async throws(ProviderError) -> RemoteItem {
        var parameters = CallParameters()
        parameters.item = WireReference(item)
        parameters.version = base.map { WireBytes($0.bytes) }
        parameters.directory = WireReference(directory)
        parameters.name = WireBytes(name.bytes)
        return try self.item(try await call(.move, parameters))
    }

    /// Asks for moves that go on.
    public func movesUnderway() async throws(ProviderError) -> [DirectoryMove]? {
        guard capabilities.movesInSteps else { return nil }
        let result = try await call(.movesUnderway)
        return try understand { () throws(JSONError) in
            try result.moves?.map { move throws(JSONError) in
                DirectoryMove(from: try WirePath.path(move.from), to: try WirePath.path(move.to))
            }
        }
    }

    /// Has an item copied.
    public func copy(
        _ item: RemoteReference,
        version: ContentVersion,
        to directory: RemoteReference,
        name: FileName
    ) async throws(ProviderError) -> RemoteItem {
        var parameters = CallParameters()
        parameters.item = WireReference(item)
        parameters.version = WireBytes(version.bytes)
        parameters.directory = WireReference(directory)
        parameters.name = WireBytes(name.bytes)
        return try self.item(try await call(.copy, parameters))
    }

    /// Has an item deleted.
    public func delete(_ item: RemoteReference, base: ContentVersion?) async throws(ProviderError) {
        var parameters = CallParameters()
        parameters.item = WireReference(item)
        parameters.version = base.map { WireBytes($0.bytes) }
        _ = try await call(.delete, parameters)
    }

    /// Has an item put into the trash.
    public func trash(
        _ item: RemoteReference,
        base: ContentVersion?,
        as token: String
    ) async throws(ProviderError) -> RemoteItem? {
        guard capabilities.trash else { return nil }
        var parameters = CallParameters()
        parameters.item = WireReference(item)
        parameters.version = base.map { WireBytes($0.bytes) }
        parameters.token = token
        let result = try await call(.trash, parameters)
        return try understand { () throws(JSONError) in
            try result.item.map { item throws(JSONError) in try item.item() }
        }
    }

    /// Asks for earlier contents.
    public func versions(of item: RemoteReference) async throws(ProviderError) -> [RemoteVersion] {
        guard capabilities.versions else { return [] }
        var parameters = CallParameters()
        parameters.item = WireReference(item)
        let result = try await call(.versions, parameters)
        return try understand { () throws(JSONError) in
            try (result.versions ?? []).prefix(10_000).map { version throws(JSONError) in try version.version() }
        }
    }

    /// Asks what an item is called for good.
    public func persistentIdentifier(of item: RemoteReference) async throws(ProviderError) -> PersistentIdentifier {
        var parameters = CallParameters()
        parameters.item = WireReference(item)
        let result = try await call(.persistentIdentifier, parameters)
        return try understand { () throws(JSONError) in
            guard let identifier = result.identifier.flatMap({ PersistentIdentifier($0.bytes) }) else {
                throw JSONError("an identifier has 1 to \(PersistentIdentifier.greatestSize) bytes")
            }
            return identifier
        }
    }

    /// Asks where the item of such an identifier is.
    public func path(ofPersistent identifier: PersistentIdentifier) async throws(ProviderError) -> RemotePath {
        var parameters = CallParameters()
        parameters.identifier = WireBytes(identifier.bytes)
        let result = try await call(.itemForPersistentIdentifier, parameters)
        return try understand { () throws(JSONError) in
            guard let path = try result.path.map({ path throws(JSONError) in try WirePath.path(path) }), !path.isRoot
            else { throw JSONError("no path of an item") }
            return path
        }
    }

    /// Asks for the room at the source.
    public func quota() async throws(ProviderError) -> ProviderQuota? {
        let result = try await call(.quota)
        guard let total = result.total, let available = result.available, total >= 0, available >= 0 else { return nil }
        return ProviderQuota(total: total, available: min(available, total))
    }

    /// The item that a call made, which has all of the content that it was given.
    private func item(_ result: CallResult, ofSize size: Int64? = nil) throws(ProviderError) -> RemoteItem {
        try understand { () throws(JSONError) in
            guard let item = try result.item?.item() else { throw JSONError("a result without an item") }
            if let size, item.size != size { throw JSONError("of \(size) bytes it has \(item.size)") }
            return item
        }
    }
}
