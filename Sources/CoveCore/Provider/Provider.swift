/// The remote half of an account: a cloud, or a directory that serves as one.
///
/// Everything is paged or ranged, can be cancelled through the calling task, and changes nothing whose base version is
/// not the current one. No call may block Swift's cooperative pool.
public protocol Provider: Sendable {
    /// What the remote side can do, probed by `start()`.
    var capabilities: ProviderCapabilities { get }

    /// Connects, and learns the capabilities. Throws when the source can't be used; may be called again after that.
    func start() async throws(ProviderError)

    /// Names the source itself, so that another one in its place is noticed; nil where there is no such name.
    func sourceIdentity() async -> [UInt8]?

    /// Ends watching and closes connections.
    func stop() async

    /// Lists one directory, a page at a time; nil asks for the first page.
    ///
    /// Changes made to the directory after the first page was asked for appear in `changes(since:)`.
    func list(_ directory: RemoteReference, page: Page?) async throws(ProviderError) -> Listing

    /// Looks one name up in a directory. Throws `noSuchItem` when it is not there.
    func lookup(_ name: FileName, in directory: RemoteReference) async throws(ProviderError) -> RemoteItem

    /// The changes after an anchor; with nil none, only the current anchor. Throws `anchorExpired` when it can't tell.
    func changes(since anchor: Anchor?) async throws(ProviderError) -> Changes

    /// Fires when `changes(since:)` has something new; nil where the provider must be polled.
    var changeSignal: AsyncStream<Void>? { get }

    /// True while nothing tells of changes by itself, and listed directories must be listed again and again.
    var mustBePolled: Bool { get }

    /// Fetches bytes of one version into a sink, in any order inside the range, each byte once.
    ///
    /// Throws `versionNoLongerAvailable` rather than give bytes of another version.
    func fetch(
        _ item: RemoteReference,
        version: ContentVersion,
        range: Range<Int64>,
        into sink: any ContentSink
    ) async throws(ProviderError)

    /// Creates an item under a name that must be free; else throws `filenameCollision`.
    func create(
        _ template: ItemTemplate,
        name: FileName,
        in directory: RemoteReference,
        content: (any ContentSource)?
    ) async throws(ProviderError) -> RemoteItem

    /// Replaces bytes or metadata, if the content version is still the base; else throws `conflict`.
    func modify(
        _ item: RemoteReference,
        base: ContentVersion,
        metadata: ItemMetadata,
        content: (any ContentSource)?
    ) async throws(ProviderError) -> RemoteItem

    /// Renames or moves to a name that must be free, directories with all below, if a file's version is still the base.
    ///
    /// A directory that is where a file is meant stays, and the error is `noSuchItem` or `conflict`.
    func move(
        _ item: RemoteReference,
        base: ContentVersion?,
        to directory: RemoteReference,
        name: FileName
    ) async throws(ProviderError) -> RemoteItem

    /// The moves of directories that go on now: neither place shows all of one; nil where a directory moves at once.
    func movesUnderway() async throws(ProviderError) -> [DirectoryMove]?

    /// Copies one version on the remote side to a name that must be free.
    func copy(
        _ item: RemoteReference,
        version: ContentVersion,
        to directory: RemoteReference,
        name: FileName
    ) async throws(ProviderError) -> RemoteItem

    /// Deletes a file of the base version, or an empty directory; throws `noSuchItem` when it is not there.
    ///
    /// With the base `.directory` nothing but a directory is deleted, whatever has taken its name; without one, what is there.
    func delete(_ item: RemoteReference, base: ContentVersion?) async throws(ProviderError)

    /// Moves a file of the base version into the remote trash; nil where the provider has none.
    func trash(
        _ item: RemoteReference,
        base: ContentVersion?,
        as token: String
    ) async throws(ProviderError) -> RemoteItem?

    /// The earlier contents of a file that the remote side keeps, newest first, at most some thousands.
    ///
    /// The content that the file has now is not among them. Asked only where `capabilities.versions` says so.
    func versions(of item: RemoteReference) async throws(ProviderError) -> [RemoteVersion]

    /// Fetches all bytes of an earlier content into a sink, in any order, each byte once.
    ///
    /// Throws `versionNoLongerAvailable` when the remote side has dropped it.
    func fetch(
        _ version: RemoteVersion,
        of item: RemoteReference,
        into sink: any ContentSink
    ) async throws(ProviderError)

    /// Which of some files of a directory may have a picture; all of them where that can't be told at once.
    ///
    /// Like the next one asked only where `capabilities` says that it makes or keeps some.
    func thumbnails(of names: [FileName], in directory: RemoteReference) async throws(ProviderError) -> Set<FileName>

    /// The picture of one version of a file, as an image file of any format; nil where there is none.
    func thumbnail(of item: RemoteReference, version: ContentVersion) async throws(ProviderError) -> [UInt8]?

    /// Keeps a PNG picture of one version of a file for all devices; nil drops the one of that version.
    ///
    /// Asked only where `capabilities.keepsThumbnails` says so.
    func setThumbnail(
        _ picture: [UInt8]?,
        of item: RemoteReference,
        version: ContentVersion
    ) async throws(ProviderError)

    /// Makes an address by which anybody can read one version of a file until a moment, whatever becomes of the file.
    ///
    /// Asked only where `capabilities.publishes` says so. What is kept at the source for it goes when its time is over.
    func publish(
        _ item: RemoteReference,
        version: ContentVersion,
        until: Timestamp
    ) async throws(ProviderError) -> Publication

    /// True where one version of a file has just the bytes of a content, as the remote side can tell without sending them; nil where
    /// it can't tell.
    func matches(
        _ item: RemoteReference,
        version: ContentVersion,
        _ content: any ContentSource
    ) async throws(ProviderError) -> Bool?

    /// The note of the last erasure of everything, at most some hundred bytes; nil where there was none.
    ///
    /// Like the next two asked only where `capabilities.erases` says so.
    func erasure() async throws(ProviderError) -> [UInt8]?

    /// Leaves a note by which all devices know, when everything is gone, that this was meant.
    func noteErasure(_ note: [UInt8]) async throws(ProviderError)

    /// Deletes what is kept beside the documents, when these are gone: trash, earlier contents, pictures, links; not the note.
    func eraseRest() async throws(ProviderError)

    /// What devices have left word of, where it is not what it was at a version; nil where it is. One small request.
    ///
    /// Like the next one asked only where `capabilities.carriesNews` says so. What can't be read is an empty board without a version,
    /// what is not there one with.
    func news(unless version: ContentVersion?) async throws(ProviderError) -> News?

    /// Puts a board in the place of the one that is there.
    func leaveNews(_ board: NewsBoard, as device: String) async throws(ProviderError)

    /// What the remote side calls an item wherever it is moved.
    ///
    /// Asked only where `capabilities.persistentIdentifiers` says so.
    func persistentIdentifier(of item: RemoteReference) async throws(ProviderError) -> PersistentIdentifier

    /// Where the item of such an identifier is now; throws `noSuchItem` where it is not there any more.
    ///
    /// Asked for what it gave only; `unsupported` from one that gives none any more.
    func path(ofPersistent identifier: PersistentIdentifier) async throws(ProviderError) -> RemotePath

    /// Says that nobody uses a file any more whose bytes it gave; told again until it does not throw.
    ///
    /// Called only where `capabilities.releases` says so.
    func released(_ item: RemoteReference) async throws(ProviderError)

    /// Says that the machine has slept or its network has changed: connections from before may lead nowhere.
    func networkChanged()

    /// The requests that were made so far; nil where they are not counted.
    var requests: RequestCounts? { get }

    /// Total and free bytes; nil where the provider can't tell.
    func quota() async throws(ProviderError) -> ProviderQuota?

    /// The purpose of claims under which its own program writes here what the remote side has already; nil where there is none.
    ///
    /// That is looked for there before it is sent, and not sent where it is the same.
    var purpose: String? { get }

    /// What a person can have it do with items, besides what every provider does.
    var actions: [ProviderAction] { get }

    /// Does one of these; what a person is to be told of it, nil for nothing.
    func perform(_ action: String, on items: [RemoteReference]) async throws(ProviderError) -> String?
}

extension Provider {
    /// True where there is no signal.
    public var mustBePolled: Bool { changeSignal == nil }

    /// Nothing is kept for a file in use.
    public func released(_ item: RemoteReference) async throws(ProviderError) {}

    /// There are no connections.
    public func networkChanged() {}

    /// None.
    public var purpose: String? { nil }

    /// None.
    public var actions: [ProviderAction] { [] }

    /// There are none.
    public func perform(_ action: String, on items: [RemoteReference]) async throws(ProviderError) -> String? {
        throw .unsupported("it has no action \(action)")
    }

    /// It can't be told.
    public func thumbnails(
        of names: [FileName],
        in directory: RemoteReference
    ) async throws(ProviderError) -> Set<FileName> {
        Set(names)
    }

    /// None.
    public func thumbnail(
        of item: RemoteReference,
        version: ContentVersion
    ) async throws(ProviderError) -> [UInt8]? { nil }

    /// Nothing is kept.
    public func setThumbnail(
        _ picture: [UInt8]?,
        of item: RemoteReference,
        version: ContentVersion
    ) async throws(ProviderError) {
        throw .unsupported("it keeps no pictures")
    }

    /// Nothing can be published.
    public func publish(
        _ item: RemoteReference,
        version: ContentVersion,
        until: Timestamp
    ) async throws(ProviderError) -> Publication {
        throw .unsupported("it gives no links to files")
    }

    /// There was none.
    public func erasure() async throws(ProviderError) -> [UInt8]? { nil }

    /// It can't be noted.
    public func noteErasure(_ note: [UInt8]) async throws(ProviderError) { throw .unsupported("it can't be erased") }

    /// They are not counted.
    public var requests: RequestCounts? { nil }

    /// Nobody has left any.
    public func news(unless version: ContentVersion?) async throws(ProviderError) -> News? { nil }

    /// It can't be left.
    public func leaveNews(_ board: NewsBoard, as device: String) async throws(ProviderError) {
        throw .unsupported("it carries no news")
    }

    /// There is nothing.
    public func eraseRest() async throws(ProviderError) {}

    /// It can't tell.
    public func matches(
        _ item: RemoteReference,
        version: ContentVersion,
        _ content: any ContentSource
    ) async throws(ProviderError) -> Bool? { nil }

    /// None.
    public func versions(of item: RemoteReference) async throws(ProviderError) -> [RemoteVersion] { [] }

    /// There is none.
    public func fetch(
        _ version: RemoteVersion,
        of item: RemoteReference,
        into sink: any ContentSink
    ) async throws(ProviderError) {
        throw .versionNoLongerAvailable
    }
}
