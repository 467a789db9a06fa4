internal import CoveCore
public import Foundation

// What Cocoa's file manager does about files in the cloud. Where both are there, the form without `await` blocks, and is for
// threads of the program's own.
extension FileManager {
    /// Tells the account that this user has mounted from all others; nil while there is none.
    ///
    /// Of several that of the first mount counts, or the one whose name the environment variable `COVE_ACCOUNT` has. ``Foundation/Notification/Name/ubiquityIdentityDidChange`` is posted when it
    /// changes, and ``ubiquityIdentityChanges`` tells so, too.
    public var ubiquityIdentityToken: UbiquityIdentityToken? { UbiquityWatch.token() }

    /// That of the account that a file is in; nil outside of Cove's mounts.
    public func ubiquityIdentityToken(forItemAt url: URL) -> UbiquityIdentityToken? { UbiquityIdentityToken.of(url) }

    /// The tokens that the user's account has after the one of now, nil for none.
    public var ubiquityIdentityChanges: AsyncStream<UbiquityIdentityToken?> { UbiquityWatch.changes() }

    /// True for an item that is, or is meant to be, in the cloud; whether it was sent already is another question.
    ///
    /// False for what stays on this device by its name, and outside of Cove's mounts.
    public func isUbiquitousItem(at url: URL) -> Bool {
        let value = try? System.attribute(Array(url.path.utf8), Array("user.cove.is-ubiquitous".utf8))
        return value == [0x31]
    }

    /// Moves an item into an account, or out of one, to a URL where nothing is yet.
    ///
    /// Both URLs are claimed, and presenters of the item are told where it is. What is not here is fetched before it leaves. It
    /// is copied, put in place in one step, and removed where it was: when that is cut off, it is whole in one place or in both.
    /// Throws ``CoveError/Code/fileExists`` and ``CoveError/Code/noSuchFile``, ``CoveError/Code/invalidArgument`` for a URL on the
    /// wrong side, and ``CoveError/Code/stale`` where somebody who claims nothing changed it meanwhile: what changed stays.
    public func setUbiquitous(_ flag: Bool, itemAt url: URL, destinationURL: URL) async throws(CoveError) {
        let move = UbiquitousMove(into: flag, from: url, to: destinationURL)
        try await FileThreads.run { () throws(CoveError) in try move.prepare() }
        let coordinator = FileCoordinator()
        do {
            try await coordinator.coordinate(
                writingItemAt: url,
                options: .forMoving,
                writingItemAt: destinationURL,
                options: .forReplacing
            ) { from, to in try move.carryOut(from, to, coordinator) }
        } catch {
            throw CoveError(error, url: url)
        }
    }

    /// The same; blocks.
    @available(*, noasync)
    public func setUbiquitous(_ flag: Bool, itemAt url: URL, destinationURL: URL) throws(CoveError) {
        let move = UbiquitousMove(into: flag, from: url, to: destinationURL)
        try move.prepare()
        let coordinator = FileCoordinator()
        try explaining(url) {
            try coordinator.coordinate(
                writingItemAt: url,
                options: .forMoving,
                writingItemAt: destinationURL,
                options: .forReplacing
            ) { from, to in try move.carryOut(from, to, coordinator) }
        }
    }

    /// Keeps an item, with all that is in it, on this device alone, or sends it again.
    ///
    /// It is fetched first; what the cloud has of it is deleted there. Whatever gets its name stays here too.
    /// ``PromisedItem`` tells whether it is so, by `ubiquitousItemIsExcludedFromSyncKey`. Throws
    /// ``CoveError/Code/invalidArgument`` outside of Cove's mounts.
    public func setExcludedFromSync(_ flag: Bool, itemAt url: URL) async throws(CoveError) {
        try await FileThreads.run { () throws(CoveError) in try Self.setExcluded(flag, url) }
    }

    /// The same; blocks.
    @available(*, noasync)
    public func setExcludedFromSync(_ flag: Bool, itemAt url: URL) throws(CoveError) { try Self.setExcluded(flag, url) }

    /// Has the bytes of an item, or of all in a directory, fetched, and returns at once.
    ///
    /// Throws ``CoveError/Code/invalidArgument`` outside of Cove's mounts.
    public func startDownloadingUbiquitousItem(at url: URL) async throws(CoveError) {
        try await FileThreads.run { () throws(CoveError) in try Self.startDownloading(url) }
    }

    /// The same; blocks for a moment.
    @available(*, noasync)
    public func startDownloadingUbiquitousItem(at url: URL) throws(CoveError) { try Self.startDownloading(url) }

    /// Drops the bytes of an item, or of all in a directory, that the cloud has too.
    ///
    /// To be called without a claim. Throws ``CoveError/Code/busy`` for what is open, presented, or not sent yet.
    public func evictUbiquitousItem(at url: URL) async throws(CoveError) {
        try await FileThreads.run { () throws(CoveError) in try Self.evict(url) }
    }

    /// The same; blocks.
    @available(*, noasync)
    public func evictUbiquitousItem(at url: URL) throws(CoveError) { try Self.evict(url) }

    /// An address by which anybody can read what a file holds now, until a date, or for a week; and when it ends.
    ///
    /// Later edits don't change what it leads to. Throws ``CoveError/Code/notSupported`` for what is no file and where the source
    /// gives no links, EAGAIN for what is not sent yet, and ``CoveError/Code/unreachable`` without the source.
    public func url(
        forPublishingUbiquitousItemAt url: URL,
        expirationDate: Date? = nil
    ) async throws(CoveError) -> (url: URL, expirationDate: Date) {
        try await FileThreads.run { () throws(CoveError) in try Self.publish(url, expirationDate) }
    }

    /// The same; blocks, and sets the date when it is known.
    @available(*, noasync)
    public func url(
        forPublishingUbiquitousItemAt url: URL,
        expirationDate: inout Date?
    ) throws(CoveError) -> URL {
        let (link, date) = try Self.publish(url, expirationDate)
        expirationDate = date
        return link
    }

    private static func service(for url: URL) throws(CoveError) -> (ItemService, ItemInterface.Request) {
        guard let (service, location) = try ItemService.find(url) else {
            throw CoveError(.invalidArgument, "it is in no account", url: url)
        }
        return (service, ItemInterface.Request(path: PathParameter(location.remote)))
    }

    private static func startDownloading(_ url: URL) throws(CoveError) {
        let (service, request) = try service(for: url)
        let _: ItemInterface.DownloadReply = try service.call("Download", request, for: url)
    }

    private static func setExcluded(_ flag: Bool, _ url: URL) throws(CoveError) {
        let (service, request) = try service(for: url)
        let _: VarlinkNothing = try service.call(flag ? "Exclude" : "Include", request, for: url)
    }

    private static func evict(_ url: URL) throws(CoveError) {
        let (service, request) = try service(for: url)
        let _: ItemInterface.EvictReply = try service.call("Evict", request, for: url)
    }

    private static func publish(_ url: URL, _ date: Date?) throws(CoveError) -> (url: URL, expirationDate: Date) {
        var (service, request) = try service(for: url)
        request.seconds = date.map { Int64(saturating: $0.timeIntervalSinceNow.rounded(.up)) }
        let reply: ItemInterface.PublishReply = try service.call("Publish", request, for: url)
        guard let link = URL(string: reply.url) else { throw CoveError(.other, "the link is no URL", url: url) }
        return (link, Date(timeIntervalSince1970: reply.expires))
    }
}
