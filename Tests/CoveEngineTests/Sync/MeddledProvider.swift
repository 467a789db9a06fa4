import CoveCore

/// A provider beside which another device does something at a certain moment, or that tells of other items than there are.
final class MeddledProvider: Provider {
    enum Moment: Sendable { case beforeDeletion, afterDeletion, afterMove, afterMiss }

    private let base: any Provider
    private let meddle: @Sendable (Moment, RemotePath) -> Void
    private let refuse: @Sendable (RemotePath) -> ProviderError?
    private let refuseFetch: @Sendable (RemotePath) -> ProviderError?
    private let cutFetch: @Sendable (Range<Int64>) -> Range<Int64>
    private let show: @Sendable (RemotePath) -> [Listing]?
    private let alter: @Sendable (inout ProviderCapabilities) -> Void
    private let watch: @Sendable (any ContentSource) -> any ContentSource
    private let beforeAnswer: @Sendable (RemotePath) async throws(ProviderError) -> Void
    private let amidFetch: (@Sendable () async -> Void)?
    private let isSilent: Bool
    private let hasTrash: Bool
    private let tellPage: @Sendable (RemotePath, Page?) -> Listing?
    private let tellChanges: @Sendable (Anchor?) throws(ProviderError) -> Changes?

    /// Wraps a provider.
    ///
    /// `meddle` is called with what is deleted, with the new place of what was moved, or with what was looked for and is not there; `refuse` with what is to be made, and
    /// `refuseFetch` with what is to be read, and may tell an error; `cutFetch` with what is asked for, and may bring less; `show` with a directory, and may tell its pages.
    /// `watch` may read what is sent before the source does; `beforeAnswer` is called with the place of what was made,
    /// modified, moved or deleted, and may lose the answer; `amidFetch` when half of what is to be read was brought. `isSilent`: it tells of no changes by itself.
    /// Without `hasTrash` the trash takes nothing.
    /// `tellPage` and `tellChanges` may tell a page of a directory, and changes, by themselves.
    init(
        _ base: any Provider,
        _ meddle: @escaping @Sendable (Moment, RemotePath) -> Void = { _, _ in },
        refuse: @escaping @Sendable (RemotePath) -> ProviderError? = { _ in nil },
        refuseFetch: @escaping @Sendable (RemotePath) -> ProviderError? = { _ in nil },
        cutFetch: @escaping @Sendable (Range<Int64>) -> Range<Int64> = { $0 },
        show: @escaping @Sendable (RemotePath) -> [Listing]? = { _ in nil },
        alter: @escaping @Sendable (inout ProviderCapabilities) -> Void = { _ in },
        watch: @escaping @Sendable (any ContentSource) -> any ContentSource = { $0 },
        beforeAnswer: @escaping @Sendable (RemotePath) async throws(ProviderError) -> Void = { _ in },
        amidFetch: (@Sendable () async -> Void)? = nil,
        isSilent: Bool = false,
        hasTrash: Bool = true,
        tellPage: @escaping @Sendable (RemotePath, Page?) -> Listing? = { _, _ in nil },
        tellChanges: @escaping @Sendable (Anchor?) throws(ProviderError) -> Changes? = { _ in nil }
    ) {
        self.tellPage = tellPage
        self.tellChanges = tellChanges
        self.amidFetch = amidFetch
        self.watch = watch
        self.beforeAnswer = beforeAnswer
        self.alter = alter
        self.isSilent = isSilent
        self.hasTrash = hasTrash
        self.base = base
        self.refuseFetch = refuseFetch
        self.cutFetch = cutFetch
        self.refuse = refuse
        self.meddle = meddle
        self.show = show
    }

    var capabilities: ProviderCapabilities {
        var all = base.capabilities
        alter(&all)
        return all
    }
    var purpose: String? { base.purpose }
    var changeSignal: AsyncStream<Void>? { isSilent ? nil : base.changeSignal }

    func sourceIdentity() async -> [UInt8]? { await base.sourceIdentity() }
    func start() async throws(ProviderError) { try await base.start() }
    func stop() async { await base.stop() }

    func thumbnails(of names: [FileName], in directory: RemoteReference) async throws(ProviderError) -> Set<FileName> {
        try await base.thumbnails(of: names, in: directory)
    }

    func thumbnail(of item: RemoteReference, version: ContentVersion) async throws(ProviderError) -> [UInt8]? {
        try await base.thumbnail(of: item, version: version)
    }

    func setThumbnail(
        _ picture: [UInt8]?,
        of item: RemoteReference,
        version: ContentVersion
    ) async throws(ProviderError) {
        try await base.setThumbnail(picture, of: item, version: version)
    }

    func news(unless version: ContentVersion?) async throws(ProviderError) -> News? {
        try await base.news(unless: version)
    }

    func leaveNews(_ board: NewsBoard, as device: String) async throws(ProviderError) {
        try await base.leaveNews(board, as: device)
    }

    func persistentIdentifier(of item: RemoteReference) async throws(ProviderError) -> PersistentIdentifier {
        try await base.persistentIdentifier(of: item)
    }

    func path(ofPersistent identifier: PersistentIdentifier) async throws(ProviderError) -> RemotePath {
        try await base.path(ofPersistent: identifier)
    }

    func quota() async throws(ProviderError) -> ProviderQuota? { try await base.quota() }

    func list(_ directory: RemoteReference, page: Page?) async throws(ProviderError) -> Listing {
        if let told = tellPage(directory.path, page) { return told }
        guard let pages = show(directory.path) else { return try await base.list(directory, page: page) }
        let number = page.map { Int($0.bytes[0]) } ?? 0
        let next = number + 1 < min(pages.count, 256) ? Page([UInt8(number + 1)]) : nil
        return Listing(items: number < pages.count ? pages[number].items : [], next: next)
    }

    func lookup(_ name: FileName, in directory: RemoteReference) async throws(ProviderError) -> RemoteItem {
        guard let pages = show(directory.path) else {
            do throws(ProviderError) { return try await base.lookup(name, in: directory) } catch .noSuchItem {
                meddle(.afterMiss, directory.path.appending(name))
                throw .noSuchItem
            }
        }
        guard let item = pages.flatMap(\.items).first(where: { $0.name == name.bytes }) else { throw .noSuchItem }
        return item
    }

    func changes(since anchor: Anchor?) async throws(ProviderError) -> Changes {
        if let told = try tellChanges(anchor) { return told }
        if isSilent { return Changes(events: [], anchor: Anchor([1]), moreComing: false) }
        return try await base.changes(since: anchor)
    }

    func fetch(
        _ item: RemoteReference,
        version: ContentVersion,
        range: Range<Int64>,
        into sink: any ContentSink
    ) async throws(ProviderError) {
        if let error = refuseFetch(item.path) { throw error }
        var rest = cutFetch(range)
        if let amidFetch {
            let middle = rest.lowerBound + (rest.upperBound - rest.lowerBound) / 2
            try await base.fetch(item, version: version, range: rest.lowerBound..<middle, into: sink)
            await amidFetch()
            rest = middle..<rest.upperBound
        }
        try await base.fetch(item, version: version, range: rest, into: sink)
    }

    func create(
        _ template: ItemTemplate,
        name: FileName,
        in directory: RemoteReference,
        content: (any ContentSource)?
    ) async throws(ProviderError) -> RemoteItem {
        if let error = refuse(directory.path.appending(name)) { throw error }
        let made = try await base.create(template, name: name, in: directory, content: content.map(watch))
        try await beforeAnswer(directory.path.appending(name))
        return made
    }

    func modify(
        _ item: RemoteReference,
        base version: ContentVersion,
        metadata: ItemMetadata,
        content: (any ContentSource)?
    ) async throws(ProviderError) -> RemoteItem {
        let modified = try await base.modify(item, base: version, metadata: metadata, content: content.map(watch))
        try await beforeAnswer(item.path)
        return modified
    }

    func move(
        _ item: RemoteReference,
        base version: ContentVersion?,
        to directory: RemoteReference,
        name: FileName
    ) async throws(ProviderError) -> RemoteItem {
        let moved = try await base.move(item, base: version, to: directory, name: name)
        meddle(.afterMove, directory.path.appending(name))
        try await beforeAnswer(directory.path.appending(name))
        return moved
    }

    func copy(
        _ item: RemoteReference,
        version: ContentVersion,
        to directory: RemoteReference,
        name: FileName
    ) async throws(ProviderError) -> RemoteItem {
        try await base.copy(item, version: version, to: directory, name: name)
    }

    func delete(_ item: RemoteReference, base version: ContentVersion?) async throws(ProviderError) {
        meddle(.beforeDeletion, item.path)
        defer { meddle(.afterDeletion, item.path) }
        try await base.delete(item, base: version)
        try await beforeAnswer(item.path)
    }

    func trash(
        _ item: RemoteReference,
        base version: ContentVersion?,
        as token: String
    ) async throws(ProviderError) -> RemoteItem? {
        guard hasTrash else { return nil }
        meddle(.beforeDeletion, item.path)
        defer { meddle(.afterDeletion, item.path) }
        let trashed = try await base.trash(item, base: version, as: token)
        try await beforeAnswer(item.path)
        return trashed
    }
}
