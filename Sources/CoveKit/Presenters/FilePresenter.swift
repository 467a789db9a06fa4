internal import CoveCore
public import Foundation

/// What a presenter can be told or asked; each is a method of `FilePresenter`.
public enum FilePresenterMessage: String, Sendable, Hashable, CaseIterable {
    /// `relinquishPresentedItemToReader`.
    case relinquishToReader
    /// `relinquishPresentedItemToWriter`.
    case relinquishToWriter
    /// `savePresentedItemChanges`.
    case saveChanges
    /// `accommodatePresentedItemDeletion`.
    case accommodateDeletion
    /// `accommodatePresentedSubitemDeletion(at:)`.
    case accommodateSubitemDeletion
    /// `accommodatePresentedItemEviction`.
    case accommodateEviction
    /// `presentedItemDidMove(to:)`.
    case didMove
    /// `presentedItemDidChange`.
    case didChange
    /// `presentedItemDidChangeUbiquityAttributes(_:)`.
    case didChangeAttributes
    /// `presentedSubitemDidAppear(at:)`.
    case subitemDidAppear
    /// `presentedSubitem(at:didMoveTo:)`.
    case subitemDidMove
    /// `presentedSubitemDidChange(at:)`.
    case subitemDidChange
    /// `presentedItemDidGain(_:)`.
    case didGainVersion
    /// `presentedItemDidLose(_:)`.
    case didLoseVersion
    /// `presentedItemDidResolveConflict(_:)`.
    case didResolveVersion
    /// `presentedSubitem(at:didGain:)`.
    case subitemDidGainVersion
    /// `presentedSubitem(at:didLose:)`.
    case subitemDidLoseVersion
    /// `presentedSubitem(at:didResolve:)`.
    case subitemDidResolveVersion
}

/// Something that shows or edits an item, and is consulted before others touch it.
///
/// A presenter is sent only what is in `implementedMessages`, in order. What it is told (`presented…Did…`) is done before the
/// next message comes, so don't wait for a claim there; what it is asked (`relinquish…`, `save…`, `accommodate…`) may take its
/// time, and other messages come meanwhile. Until it has answered, claims of coordinators made for it do not wait for the one
/// who asked. A presenter that does not answer within 30 s is taken to agree, but not to have saved.
public protocol FilePresenter: AnyObject, Sendable {
    /// What `relinquishPresentedItemToReader` and `…ToWriter` may return: runs when the other is done.
    typealias Reacquirer = @Sendable () async -> Void

    /// The item; nil for one that has no file yet. Told when it changes by `FileCoordinator.presentedItemURLDidChange`.
    var presentedItemURL: URL? { get }
    /// The messages that this type has methods for. A message that is missing here is not sent.
    var implementedMessages: Set<FilePresenterMessage> { get }
    /// The attributes that `presentedItemDidChangeUbiquityAttributes` is wanted for, such as `is-uploaded`.
    var observedPresentedItemUbiquityAttributes: Set<String> { get }

    /// Let a reader in: finish what you do with the item, then return.
    func relinquishPresentedItemToReader() async -> Reacquirer?
    /// Let a writer in: finish what you do with the item, then return.
    ///
    /// Do not load the item again in the reacquirer: `presentedItemDidChange` follows.
    func relinquishPresentedItemToWriter() async -> Reacquirer?
    /// Write what is unsaved; an error fails the one who asked.
    func savePresentedItemChanges() async throws
    /// The item is about to be deleted: close it; an error prevents it.
    func accommodatePresentedItemDeletion() async throws
    /// Something inside the item is about to be deleted; an error prevents it.
    func accommodatePresentedSubitemDeletion(at url: URL) async throws
    /// The item's local bytes are about to go; an error prevents it, else stop to present it.
    func accommodatePresentedItemEviction() async throws
    /// The item is elsewhere now.
    func presentedItemDidMove(to newURL: URL) async
    /// The item's contents or attributes have changed.
    func presentedItemDidChange() async
    /// What the cloud knows of the item has changed.
    func presentedItemDidChangeUbiquityAttributes(_ attributes: Set<String>) async
    /// The item has another version, maybe the other side of a conflict; nil where it is not known which.
    func presentedItemDidGain(_ version: FileVersion?) async
    /// A version of the item is gone.
    func presentedItemDidLose(_ version: FileVersion?) async
    /// A conflict of the item is dealt with.
    func presentedItemDidResolveConflict(_ version: FileVersion?) async
    /// Something was made inside the item.
    func presentedSubitemDidAppear(at url: URL) async
    /// Something inside the item, or that was inside or is now, has moved.
    func presentedSubitem(at oldURL: URL, didMoveTo newURL: URL) async
    /// Something inside the item has changed.
    func presentedSubitemDidChange(at url: URL) async
    /// Something inside the item has another version.
    func presentedSubitem(at url: URL, didGain version: FileVersion?) async
    /// A version of something inside the item is gone.
    func presentedSubitem(at url: URL, didLose version: FileVersion?) async
    /// A conflict of something inside the item is dealt with.
    func presentedSubitem(at url: URL, didResolve version: FileVersion?) async
}

// What is not in `implementedMessages` is never called: these let a type leave it out.
extension FilePresenter {
    /// None.
    public var observedPresentedItemUbiquityAttributes: Set<String> { [] }
    /// Lets the reader in.
    public func relinquishPresentedItemToReader() async -> Reacquirer? { nil }
    /// Lets the writer in.
    public func relinquishPresentedItemToWriter() async -> Reacquirer? { nil }
    /// Has nothing to save.
    public func savePresentedItemChanges() async throws {}
    /// Agrees.
    public func accommodatePresentedItemDeletion() async throws {}
    /// Agrees.
    public func accommodatePresentedSubitemDeletion(at url: URL) async throws {}
    /// Agrees.
    public func accommodatePresentedItemEviction() async throws {}
    /// Does nothing.
    public func presentedItemDidMove(to newURL: URL) async {}
    /// Does nothing.
    public func presentedItemDidChange() async {}
    /// Does nothing.
    public func presentedItemDidChangeUbiquityAttributes(_ attributes: Set<String>) async {}
    /// Does nothing.
    public func presentedItemDidGain(_ version: FileVersion?) async {}
    /// Does nothing.
    public func presentedItemDidLose(_ version: FileVersion?) async {}
    /// Does nothing.
    public func presentedItemDidResolveConflict(_ version: FileVersion?) async {}
    /// Does nothing.
    public func presentedSubitemDidAppear(at url: URL) async {}
    /// Does nothing.
    public func presentedSubitem(at oldURL: URL, didMoveTo newURL: URL) async {}
    /// Does nothing.
    public func presentedSubitemDidChange(at url: URL) async {}
    /// Does nothing.
    public func presentedSubitem(at url: URL, didGain version: FileVersion?) async {}
    /// Does nothing.
    public func presentedSubitem(at url: URL, didLose version: FileVersion?) async {}
    /// Does nothing.
    public func presentedSubitem(at url: URL, didResolve version: FileVersion?) async {}
}
