public import CoveCore
internal import Glibc
internal import Synchronization

/// A provider behind a slow or broken line: adds latency, limits bandwidth, stalls fetches and goes offline.
///
/// It makes a local directory behave like a far cloud, for trying things out and for tests.
public final class SimulatedLink: Provider {
    private let base: any Provider
    private let latency: TimeSpan
    private let bandwidth: Bandwidth?
    private let stall: [UInt8]?
    private let offline = Atomic(false)
    private let returned = ChangeSignal()

    /// Wraps a provider.
    ///
    /// Every operation waits for the latency first. The bandwidth, in bytes a second, is shared by all fetched and sent
    /// bytes. Fetches of items whose name matches the `stall` glob make no progress until they are cancelled.
    public init(base: any Provider, latency: TimeSpan = .zero, bandwidth: Int64? = nil, stall: String? = nil) {
        self.base = base
        self.latency = latency
        self.bandwidth = bandwidth.map { Bandwidth(bytesPerSecond: max(1, $0)) }
        self.stall = stall.map { Array($0.utf8) }
    }

    /// Cuts the line, or mends it, which fires `changeSignal`; operations under way fail at their next chunk.
    public func setOffline(_ isOffline: Bool) {
        let was = offline.exchange(isOffline, ordering: .acquiringAndReleasing)
        if was, !isOffline { returned.fire() }
    }

    /// What the provider behind the line can do.
    public var capabilities: ProviderCapabilities { base.capabilities }

    /// The name of the source behind the line.
    public func sourceIdentity() async -> [UInt8]? { await base.sourceIdentity() }

    /// Starts the provider behind the line.
    public func start() async throws(ProviderError) {
        try await travel()
        try await base.start()
    }

    /// Stops the provider behind the line.
    public func stop() async { await base.stop() }

    /// The requests of the provider behind the line.
    public var requests: RequestCounts? { base.requests }

    /// True where the base must be.
    public var mustBePolled: Bool { base.mustBePolled }

    /// Fires when the provider behind the line does, and when the line is mended.
    public var changeSignal: AsyncStream<Void>? {
        guard let inner = base.changeSignal else { return nil }
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let outer = returned.stream()
        let changes = Task { for await _ in inner { continuation.yield() } }
        let returns = Task { for await _ in outer { continuation.yield() } }
        continuation.onTermination = { _ in
            changes.cancel()
            returns.cancel()
        }
        return stream
    }

    /// Lists a directory, one latency a page.
    public func list(_ directory: RemoteReference, page: Page?) async throws(ProviderError) -> Listing {
        try await travel()
        return try await base.list(directory, page: page)
    }

    /// Looks a name up after the latency.
    public func lookup(_ name: FileName, in directory: RemoteReference) async throws(ProviderError) -> RemoteItem {
        try await travel()
        return try await base.lookup(name, in: directory)
    }

    /// Asks for changes after the latency.
    public func changes(since anchor: Anchor?) async throws(ProviderError) -> Changes {
        try await travel()
        return try await base.changes(since: anchor)
    }

    /// Fetches after the latency, in chunks as the bandwidth allows.
    public func fetch(
        _ item: RemoteReference,
        version: ContentVersion,
        range: Range<Int64>,
        into sink: any ContentSink
    ) async throws(ProviderError) {
        try await travel()
        if let stall, let name = item.path.name, matches(name, stall) { try await wait(nil) }
        guard let bandwidth else {
            return try await base.fetch(item, version: version, range: range, into: sink)
        }
        var start = range.lowerBound
        while start < range.upperBound {
            let end = min(range.upperBound, start + bandwidth.chunk)
            try await wait(bandwidth.reserve(end - start) - System.monotonic())
            try online()
            try await base.fetch(item, version: version, range: start..<end, into: sink)
            start = end
        }
    }

    /// Creates an item after the latency; its bytes are sent as the bandwidth allows.
    public func create(
        _ template: ItemTemplate,
        name: FileName,
        in directory: RemoteReference,
        content: (any ContentSource)?
    ) async throws(ProviderError) -> RemoteItem {
        try await travel()
        return try await sending(content) { content throws(ProviderError) in
            try await base.create(template, name: name, in: directory, content: content)
        }
    }

    /// Modifies an item after the latency; its bytes are sent as the bandwidth allows.
    public func modify(
        _ item: RemoteReference,
        base version: ContentVersion,
        metadata: ItemMetadata,
        content: (any ContentSource)?
    ) async throws(ProviderError) -> RemoteItem {
        try await travel()
        return try await sending(content) { content throws(ProviderError) in
            try await base.modify(item, base: version, metadata: metadata, content: content)
        }
    }

    /// Moves after the latency.
    public func move(
        _ item: RemoteReference,
        base version: ContentVersion?,
        to directory: RemoteReference,
        name: FileName
    ) async throws(ProviderError) -> RemoteItem {
        try await travel()
        return try await base.move(item, base: version, to: directory, name: name)
    }

    /// Asks which files may have a picture after the latency.
    public func thumbnails(
        of names: [FileName],
        in directory: RemoteReference
    ) async throws(ProviderError) -> Set<FileName> {
        try await travel()
        return try await base.thumbnails(of: names, in: directory)
    }

    /// Asks for a picture after the latency.
    public func thumbnail(
        of item: RemoteReference,
        version: ContentVersion
    ) async throws(ProviderError) -> [UInt8]? {
        try await travel()
        return try await base.thumbnail(of: item, version: version)
    }

    /// Gives a picture after the latency.
    public func setThumbnail(
        _ picture: [UInt8]?,
        of item: RemoteReference,
        version: ContentVersion
    ) async throws(ProviderError) {
        try await travel()
        try await base.setThumbnail(picture, of: item, version: version)
    }

    /// Publishes after the latency.
    public func publish(
        _ item: RemoteReference,
        version: ContentVersion,
        until: Timestamp
    ) async throws(ProviderError) -> Publication {
        try await travel()
        return try await base.publish(item, version: version, until: until)
    }

    /// Asks whether a content is that of a version after the latency.
    public func matches(
        _ item: RemoteReference,
        version: ContentVersion,
        _ content: any ContentSource
    ) async throws(ProviderError) -> Bool? {
        try await travel()
        return try await base.matches(item, version: version, content)
    }

    /// Asks for the note of an erasure after the latency.
    public func erasure() async throws(ProviderError) -> [UInt8]? {
        try await travel()
        return try await base.erasure()
    }

    /// Leaves the note of an erasure after the latency.
    public func noteErasure(_ note: [UInt8]) async throws(ProviderError) {
        try await travel()
        try await base.noteErasure(note)
    }

    /// Deletes what is kept beside the documents after the latency.
    public func eraseRest() async throws(ProviderError) {
        try await travel()
        try await base.eraseRest()
    }

    /// Asks for news after the latency.
    public func news(unless version: ContentVersion?) async throws(ProviderError) -> News? {
        try await travel()
        return try await base.news(unless: version)
    }

    /// Leaves news after the latency.
    public func leaveNews(_ board: NewsBoard, as device: String) async throws(ProviderError) {
        try await travel()
        return try await base.leaveNews(board, as: device)
    }

    /// Copies after the latency; a copy at the source takes no bandwidth.
    public func copy(
        _ item: RemoteReference,
        version: ContentVersion,
        to directory: RemoteReference,
        name: FileName
    ) async throws(ProviderError) -> RemoteItem {
        try await travel()
        return try await base.copy(item, version: version, to: directory, name: name)
    }

    /// Deletes after the latency.
    public func delete(_ item: RemoteReference, base version: ContentVersion?) async throws(ProviderError) {
        try await travel()
        try await base.delete(item, base: version)
    }

    /// Moves to the remote trash after the latency.
    public func trash(
        _ item: RemoteReference,
        base version: ContentVersion?,
        as token: String
    ) async throws(ProviderError) -> RemoteItem? {
        try await travel()
        return try await base.trash(item, base: version, as: token)
    }

    /// Asks for earlier contents after the latency.
    public func versions(of item: RemoteReference) async throws(ProviderError) -> [RemoteVersion] {
        try await travel()
        return try await base.versions(of: item)
    }

    /// Asks for moves that go on after the latency.
    public func movesUnderway() async throws(ProviderError) -> [DirectoryMove]? {
        try await travel()
        return try await base.movesUnderway()
    }

    /// Fetches an earlier content after the latency; for trying things out its bandwidth doesn't matter.
    public func fetch(
        _ version: RemoteVersion,
        of item: RemoteReference,
        into sink: any ContentSink
    ) async throws(ProviderError) {
        try await travel()
        try await base.fetch(version, of: item, into: sink)
    }

    /// Asks what an item is called for good after the latency.
    public func persistentIdentifier(of item: RemoteReference) async throws(ProviderError) -> PersistentIdentifier {
        try await travel()
        return try await base.persistentIdentifier(of: item)
    }

    /// Asks where an item is after the latency.
    public func path(ofPersistent identifier: PersistentIdentifier) async throws(ProviderError) -> RemotePath {
        try await travel()
        return try await base.path(ofPersistent: identifier)
    }

    /// Tells the provider behind the line after the latency.
    public func released(_ item: RemoteReference) async throws(ProviderError) {
        try await travel()
        try await base.released(item)
    }

    /// Tells the provider behind the line.
    public func networkChanged() { base.networkChanged() }

    /// That of the provider behind the line.
    public var purpose: String? { base.purpose }

    /// What the provider behind the line has.
    public var actions: [ProviderAction] { base.actions }

    /// Has something done after the latency.
    public func perform(_ action: String, on items: [RemoteReference]) async throws(ProviderError) -> String? {
        try await travel()
        return try await base.perform(action, on: items)
    }

    /// Asks for the quota after the latency.
    public func quota() async throws(ProviderError) -> ProviderQuota? {
        try await travel()
        return try await base.quota()
    }

    private func online() throws(ProviderError) {
        if offline.load(ordering: .acquiring) { throw .serverUnreachable("the simulated line is cut") }
    }

    /// One way over the line.
    private func travel() async throws(ProviderError) {
        try online()
        if latency > .zero { try await wait(latency) }
        try online()
    }

    /// Waits for a while, or with nil until the task is cancelled.
    private func wait(_ time: TimeSpan?) async throws(ProviderError) {
        do {
            repeat { try await Task.sleep(for: time ?? .seconds(3600)) } while time == nil
        } catch {
            throw .cancelled
        }
    }

    /// Sends content through the line; a source that is slowed down stops waiting when the task is cancelled.
    private func sending<R>(
        _ content: (any ContentSource)?,
        _ body: ((any ContentSource)?) async throws(ProviderError) -> R
    ) async throws(ProviderError) -> R {
        guard let content else { return try await body(nil) }
        let slowed = SlowSource(content, bandwidth) { [weak self] () throws(ProviderError) in try self?.online() }
        return try await body(slowed)
    }

    private func matches(_ name: FileName, _ glob: [UInt8]) -> Bool {
        ((try? System.withCString(glob) { glob throws(Errno) in
            try System.withCString(name.bytes) { name throws(Errno) in fnmatch(glob, name, 0) }
        }) ?? FNM_NOMATCH) == 0
    }
}
