internal import CoveCore
internal import Glibc

/// Each message as a call of `Provider`.
extension ProviderServer {
    func answer(
        _ name: WireCall,
        _ parameters: CallParameters,
        _ call: Call,
        _ number: Int
    ) async throws -> CallResult {
        var result = CallResult()
        switch name {
        case .hello, .stop, .networkChanged: break
        case .list:
            let page = parameters.page.map { Page($0.bytes) }
            let listing = try await provider.list(try parameters.inDirectory(), page: page)
            result.items = listing.items.compactMap { WireItem($0) }
            result.next = listing.next.map { WireBytes($0.bytes) }
        case .lookup:
            result.item = WireItem(
                try await provider.lookup(try parameters.newName(), in: try parameters.inDirectory())
            )
        case .changes:
            let changes = try await provider.changes(since: parameters.anchor.map { Anchor($0.bytes) })
            // Many changes are few directories.
            result.events =
                changes.events.count < 10_000
                ? changes.events.map { WireChange($0) }
                : Set(changes.events.map(\.place)).map { WireChange(.directoryChanged($0)) }
            result.anchor = WireBytes(changes.anchor.bytes)
            result.more = changes.moreComing
        case .fetch:
            let range = try parameters.range()
            let sink = ServedSink(self, call, number, at: range.lowerBound)
            let (item, version) = (try parameters.theItem(), try parameters.theVersion())
            try await provider.fetch(item, version: version, range: range, into: sink)
            if sink.position < range.upperBound { result.atEnd = true }
        case .fetchVersion:
            guard let past = parameters.past else { throw JSONError("is missing", member: "past") }
            let sink = ServedSink(self, call, number, at: 0)
            try await provider.fetch(try past.version(), of: try parameters.theItem(), into: sink)
        case .create:
            guard let kind = parameters.kind else { throw JSONError("is missing", member: "kind") }
            let template = ItemTemplate(
                kind: kind.kind,
                metadata: parameters.metadata?.metadata ?? ItemMetadata(),
                linkTarget: parameters.target?.bytes
            )
            let content = try await content(of: call, parameters)
            result.item = WireItem(
                try await provider.create(
                    template,
                    name: try parameters.newName(),
                    in: try parameters.inDirectory(),
                    content: content
                )
            )
        case .modify:
            let content = try await content(of: call, parameters)
            result.item = WireItem(
                try await provider.modify(
                    try parameters.theItem(),
                    base: try parameters.theVersion(),
                    metadata: parameters.metadata?.metadata ?? ItemMetadata(),
                    content: content
                )
            )
        case .move:
            result.item = WireItem(
                try await provider.move(
                    try parameters.theItem(),
                    base: parameters.version.map { ContentVersion($0.bytes) },
                    to: try parameters.inDirectory(),
                    name: try parameters.newName()
                )
            )
        case .movesUnderway:
            result.moves = try await provider.movesUnderway()?.map {
                WireMove(from: WireBytes($0.from.bytes), to: WireBytes($0.to.bytes))
            }
        case .copy:
            result.item = WireItem(
                try await provider.copy(
                    try parameters.theItem(),
                    version: try parameters.theVersion(),
                    to: try parameters.inDirectory(),
                    name: try parameters.newName()
                )
            )
        case .delete:
            let base = parameters.version.map { ContentVersion($0.bytes) }
            try await provider.delete(try parameters.theItem(), base: base)
        case .trash:
            guard let token = parameters.token else { throw JSONError("is missing", member: "token") }
            let base = parameters.version.map { ContentVersion($0.bytes) }
            result.item = try await provider.trash(try parameters.theItem(), base: base, as: token).flatMap {
                WireItem($0)
            }
        case .versions:
            result.versions = try await provider.versions(of: try parameters.theItem()).map { WireVersion($0) }
        case .quota:
            let quota = try await provider.quota()
            result.total = quota?.total
            result.available = quota?.available
        case .released: try await provider.released(try parameters.theItem())
        case .persistentIdentifier:
            result.identifier = WireBytes(try await provider.persistentIdentifier(of: try parameters.theItem()).bytes)
        case .itemForPersistentIdentifier:
            guard let identifier = parameters.identifier.flatMap({ PersistentIdentifier($0.bytes) }) else {
                throw JSONError("is none", member: "identifier")
            }
            result.path = WireBytes(try await provider.path(ofPersistent: identifier).bytes)
        case .perform:
            guard let action = parameters.action else { throw JSONError("is missing", member: "action") }
            let items = try (parameters.items ?? []).map { item in try item.reference() }
            result.message = try await provider.perform(action, on: items)
        case .thumbnails:
            let names = try (parameters.names ?? []).map { name in try WirePath.name(name) }
            let found = try await provider.thumbnails(of: names, in: try parameters.inDirectory())
            result.names = found.map { WireBytes($0.bytes) }
        case .thumbnail:
            let (item, version) = (try parameters.theItem(), try parameters.theVersion())
            try send(try await provider.thumbnail(of: item, version: version) ?? [], call, number)
        case .setThumbnail:
            let picture = try await picture(of: call, parameters)
            try await provider.setThumbnail(
                picture,
                of: try parameters.theItem(),
                version: try parameters.theVersion()
            )
        }
        return result
    }

    /// Sends a picture; no bytes at all are none.
    private func send(_ picture: [UInt8], _ call: Call, _ number: Int) throws(ProviderError) {
        guard picture.count <= WireCall.longestPicture else { throw .failed("the picture is too long", nil) }
        guard !picture.isEmpty else { return }
        let sink = ServedSink(self, call, number, at: 0)
        let failure: ProviderError? = picture.withUnsafeBytes { bytes in
            do throws(ProviderError) { try sink.write(bytes, at: 0) } catch { return error }
            return nil
        }
        if let failure { throw failure }
    }

    /// The picture that comes with a call, once it is whole; nil for a call without.
    private func picture(of call: Call, _ parameters: CallParameters) async throws(ProviderError) -> [UInt8]? {
        if let size = call.spool?.size, size > Picture.greatestSize { throw .unsupported("a picture of \(size) bytes") }
        guard let content = try await content(of: call, parameters) else { return nil }
        let read = await OffPool.run {
            Result<[UInt8], ProviderError> { () throws(ProviderError) in
                try content.bytes(at: 0, count: Int(clamping: content.size))
            }
        }
        return try read.get()
    }

    /// The content that comes with a call, once it is whole; nil for a call without.
    private func content(of call: Call, _ parameters: CallParameters) async throws(ProviderError) -> (
        any ContentSource
    )? {
        guard let spool = call.spool else { return nil }
        let tell: @Sendable (Int64) -> Void = { [weak self, number = call.number] sent in
            self?.send(["id": .integer(Int64(number)), "alive": .bool(true), "sent": .integer(sent)])
        }
        // What is taken here has not arrived anywhere.
        if spool.size >= ProgressSteps.step { tell(0) }
        return try await spool.whole(identity: parameters.identity?.bytes, onProgress: tell)
    }
}

extension RemoteChange {
    /// The directory in which something changed.
    fileprivate var place: RemotePath {
        switch self {
        case .updated(_, let directory): directory
        case .removed(let path): path.parent
        case .directoryChanged(let path): path
        }
    }
}

extension CallParameters {
    fileprivate func theItem() throws(JSONError) -> RemoteReference {
        guard let item else { throw JSONError("is missing", member: "item") }
        return try item.reference()
    }

    fileprivate func inDirectory() throws(JSONError) -> RemoteReference {
        guard let directory else { throw JSONError("is missing", member: "directory") }
        return try directory.reference()
    }

    fileprivate func newName() throws(JSONError) -> FileName {
        guard let name else { throw JSONError("is missing", member: "name") }
        return try WirePath.name(name)
    }

    fileprivate func theVersion() throws(JSONError) -> ContentVersion {
        guard let version else { throw JSONError("is missing", member: "version") }
        return ContentVersion(version.bytes)
    }

    fileprivate func range() throws(JSONError) -> Range<Int64> {
        guard let start, let end, start >= 0, end >= start else { throw JSONError("is none", member: "start, end") }
        return start..<end
    }
}
