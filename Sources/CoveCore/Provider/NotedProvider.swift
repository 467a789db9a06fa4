/// A provider of which it is noted what it is asked for, and that is not asked for what may have ended two daemons.
public final class NotedProvider: Provider {
    private let base: any Provider
    private let work: WorkLedger
    private let noteChange: @Sendable (RemotePath) -> Void

    /// Wraps a provider; `noteChange` is told each place at which something was changed, also where no answer came.
    public init(
        _ base: any Provider,
        work: WorkLedger,
        noteChange: @escaping @Sendable (RemotePath) -> Void = { _ in }
    ) {
        self.base = base
        self.work = work
        self.noteChange = noteChange
    }

    /// Notes paths while the body runs.
    private func noting<R>(
        _ paths: [RemotePath],
        _ body: () async throws(ProviderError) -> R
    ) async throws(ProviderError) -> R {
        if work.isHeld { throw Self.held }
        if let path = paths.first(where: { work.isSetAside($0) }) {
            throw .failed("\(path): \(Self.reason)", .inputOutput)
        }
        let slots = paths.compactMap { work.begin($0) }
        defer { slots.forEach { work.end($0) } }
        return try await body()
    }

    /// Notes paths while the body runs, which changes something there.
    private func changing<R>(
        _ paths: [RemotePath],
        _ body: () async throws(ProviderError) -> R
    ) async throws(ProviderError) -> R {
        defer { paths.forEach(noteChange) }
        return try await noting(paths, body)
    }

    /// Why something is set aside.
    public static let reason = "two daemons died while this was at work; it is set aside until `cove sync`"
    private static let held = ProviderError.serverUnreachable("transfers wait for `cove resume`")

    /// What the provider can do.
    public var capabilities: ProviderCapabilities { base.capabilities }

    /// The name of the source.
    public func sourceIdentity() async -> [UInt8]? { await base.sourceIdentity() }

    /// Starts the provider.
    public func start() async throws(ProviderError) { try await base.start() }

    /// Stops the provider.
    public func stop() async { await base.stop() }

    /// Fires when the provider's does.
    public var changeSignal: AsyncStream<Void>? { base.changeSignal }

    /// The provider's requests.
    public var requests: RequestCounts? { base.requests }

    /// True when the provider must be.
    public var mustBePolled: Bool { base.mustBePolled }

    /// Lists a directory.
    public func list(_ directory: RemoteReference, page: Page?) async throws(ProviderError) -> Listing {
        try await noting([directory.path]) { () throws(ProviderError) in try await base.list(directory, page: page) }
    }

    /// Looks a name up.
    public func lookup(_ name: FileName, in directory: RemoteReference) async throws(ProviderError) -> RemoteItem {
        try await noting([directory.path.appending(name)]) { () throws(ProviderError) in
            try await base.lookup(name, in: directory)
        }
    }

    /// Asks for moves that go on.
    public func movesUnderway() async throws(ProviderError) -> [DirectoryMove]? {
        try await noting([]) { () throws(ProviderError) in try await base.movesUnderway() }
    }

    /// Asks for changes.
    public func changes(since anchor: Anchor?) async throws(ProviderError) -> Changes {
        try await noting([]) { () throws(ProviderError) in try await base.changes(since: anchor) }
    }

    /// Fetches bytes.
    public func fetch(
        _ item: RemoteReference,
        version: ContentVersion,
        range: Range<Int64>,
        into sink: any ContentSink
    ) async throws(ProviderError) {
        try await noting([item.path]) { () throws(ProviderError) in
            try await base.fetch(item, version: version, range: range, into: sink)
        }
    }

    /// Creates an item.
    public func create(
        _ template: ItemTemplate,
        name: FileName,
        in directory: RemoteReference,
        content: (any ContentSource)?
    ) async throws(ProviderError) -> RemoteItem {
        try await changing([directory.path.appending(name)]) { () throws(ProviderError) in
            try await base.create(template, name: name, in: directory, content: content)
        }
    }

    /// Modifies an item.
    public func modify(
        _ item: RemoteReference,
        base version: ContentVersion,
        metadata: ItemMetadata,
        content: (any ContentSource)?
    ) async throws(ProviderError) -> RemoteItem {
        try await changing([item.path]) { () throws(ProviderError) in
            try await base.modify(item, base: version, metadata: metadata, content: content)
        }
    }

    /// Moves an item.
    public func move(
        _ item: RemoteReference,
        base version: ContentVersion?,
        to directory: RemoteReference,
        name: FileName
    ) async throws(ProviderError) -> RemoteItem {
        try await changing([item.path, directory.path.appending(name)]) { () throws(ProviderError) in
            try await base.move(item, base: version, to: directory, name: name)
        }
    }

    /// Copies an item.
    public func copy(
        _ item: RemoteReference,
        version: ContentVersion,
        to directory: RemoteReference,
        name: FileName
    ) async throws(ProviderError) -> RemoteItem {
        try await changing([item.path, directory.path.appending(name)]) { () throws(ProviderError) in
            try await base.copy(item, version: version, to: directory, name: name)
        }
    }

    /// Deletes an item.
    public func delete(_ item: RemoteReference, base version: ContentVersion?) async throws(ProviderError) {
        try await changing([item.path]) { () throws(ProviderError) in try await base.delete(item, base: version) }
    }

    /// Moves to the remote trash.
    public func trash(
        _ item: RemoteReference,
        base version: ContentVersion?,
        as token: String
    ) async throws(ProviderError) -> RemoteItem? {
        try await changing([item.path]) { () throws(ProviderError) in
            try await base.trash(item, base: version, as: token)
        }
    }

    /// Asks for earlier contents.
    public func versions(of item: RemoteReference) async throws(ProviderError) -> [RemoteVersion] {
        try await noting([item.path]) { () throws(ProviderError) in try await base.versions(of: item) }
    }

    /// Fetches an earlier content.
    public func fetch(
        _ version: RemoteVersion,
        of item: RemoteReference,
        into sink: any ContentSink
    ) async throws(ProviderError) {
        try await noting([item.path]) { () throws(ProviderError) in
            try await base.fetch(version, of: item, into: sink)
        }
    }

    /// Asks which files may have a picture.
    public func thumbnails(
        of names: [FileName],
        in directory: RemoteReference
    ) async throws(ProviderError) -> Set<FileName> {
        try await noting([directory.path]) { () throws(ProviderError) in
            try await base.thumbnails(of: names, in: directory)
        }
    }

    /// Asks for a picture.
    public func thumbnail(
        of item: RemoteReference,
        version: ContentVersion
    ) async throws(ProviderError) -> [UInt8]? {
        try await noting([item.path]) { () throws(ProviderError) in
            try await base.thumbnail(of: item, version: version)
        }
    }

    /// Gives a picture.
    public func setThumbnail(
        _ picture: [UInt8]?,
        of item: RemoteReference,
        version: ContentVersion
    ) async throws(ProviderError) {
        try await noting([item.path]) { () throws(ProviderError) in
            try await base.setThumbnail(picture, of: item, version: version)
        }
    }

    /// Publishes a version.
    public func publish(
        _ item: RemoteReference,
        version: ContentVersion,
        until: Timestamp
    ) async throws(ProviderError) -> Publication {
        try await noting([item.path]) { () throws(ProviderError) in
            try await base.publish(item, version: version, until: until)
        }
    }

    /// Asks whether a content is that of a version.
    public func matches(
        _ item: RemoteReference,
        version: ContentVersion,
        _ content: any ContentSource
    ) async throws(ProviderError) -> Bool? {
        try await noting([item.path]) { () throws(ProviderError) in
            try await base.matches(item, version: version, content)
        }
    }

    /// Asks for the note of an erasure.
    public func erasure() async throws(ProviderError) -> [UInt8]? {
        try await noting([]) { () throws(ProviderError) in try await base.erasure() }
    }

    /// Leaves the note of an erasure.
    public func noteErasure(_ note: [UInt8]) async throws(ProviderError) {
        try await noting([]) { () throws(ProviderError) in try await base.noteErasure(note) }
    }

    /// Deletes what is kept beside the documents.
    public func eraseRest() async throws(ProviderError) {
        try await noting([]) { () throws(ProviderError) in try await base.eraseRest() }
    }

    /// Asks for news.
    public func news(unless version: ContentVersion?) async throws(ProviderError) -> News? {
        try await noting([]) { () throws(ProviderError) in try await base.news(unless: version) }
    }

    /// Leaves news.
    public func leaveNews(_ board: NewsBoard, as device: String) async throws(ProviderError) {
        try await noting([]) { () throws(ProviderError) in try await base.leaveNews(board, as: device) }
    }

    /// Asks what an item is called for good.
    public func persistentIdentifier(of item: RemoteReference) async throws(ProviderError) -> PersistentIdentifier {
        try await noting([item.path]) { () throws(ProviderError) in try await base.persistentIdentifier(of: item) }
    }

    /// Asks where an item is.
    public func path(ofPersistent identifier: PersistentIdentifier) async throws(ProviderError) -> RemotePath {
        try await noting([]) { () throws(ProviderError) in try await base.path(ofPersistent: identifier) }
    }

    /// Tells the provider.
    public func released(_ item: RemoteReference) async throws(ProviderError) {
        try await noting([item.path]) { () throws(ProviderError) in try await base.released(item) }
    }

    /// Tells the provider.
    public func networkChanged() { base.networkChanged() }

    /// The provider's.
    public var purpose: String? { base.purpose }

    /// What the provider has.
    public var actions: [ProviderAction] { base.actions }

    /// Has the provider do something with items.
    public func perform(_ action: String, on items: [RemoteReference]) async throws(ProviderError) -> String? {
        try await noting(items.map(\.path)) { () throws(ProviderError) in try await base.perform(action, on: items) }
    }

    /// Asks for the quota.
    public func quota() async throws(ProviderError) -> ProviderQuota? {
        try await noting([]) { () throws(ProviderError) in try await base.quota() }
    }
}
