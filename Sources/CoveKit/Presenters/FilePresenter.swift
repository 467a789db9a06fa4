public import Foundation

/// Something that shows or edits an item, and is consulted before others touch it.
///
/// A type has the methods that it needs, and is sent the messages that it has methods for, in order. What it is told
/// (`presented…Did…`) is done before the next message comes, so don't wait for a claim there; what it is asked (`relinquish…`,
/// `save…`, `accommodate…`) may take its time, and other messages come meanwhile. Until it has answered, what its method claims
/// by coordinators made for it does not wait for the one who asked; on a mount that is so for what the method does in its own
/// task, and for all that it claims in order to save. A presenter that does not answer within 30 s is taken to agree, but not to
/// have saved.
///
/// A method counts when it is part of the type that conforms: a subclass overrides methods of its superclass, others that it
/// adds are not called.
public protocol FilePresenter: AnyObject, Sendable {
    /// What `relinquishPresentedItemToReader` and `…ToWriter` may return: runs when the other is done.
    typealias Reacquirer = @Sendable () async -> Void

    /// The item; nil for one that has no file yet. Told when it changes by `FileCoordinator.presentedItemURLDidChange`.
    var presentedItemURL: URL? { get }
    /// The messages to be sent; those that the type has methods for, unless it wants fewer.
    var implementedMessages: Set<FilePresenterMessage> { get }
    /// The attributes that `presentedItemDidChangeUbiquityAttributes` is wanted for, such as `is-uploaded`.
    var observedPresentedItemUbiquityAttributes: Set<String> { get }

    // Inferred from the methods, and `NoMethod` where there is none: that is how a type's messages are known.

    /// What `relinquishPresentedItemToReader()` returns.
    associatedtype RelinquishToReader: Sendable = NoMethod
    /// What `relinquishPresentedItemToWriter()` returns.
    associatedtype RelinquishToWriter: Sendable = NoMethod
    /// What `savePresentedItemChanges()` returns.
    associatedtype SaveChanges: Sendable = NoMethod
    /// What `accommodatePresentedItemDeletion()` returns.
    associatedtype AccommodateDeletion: Sendable = NoMethod
    /// What `accommodatePresentedSubitemDeletion(at:)` returns.
    associatedtype AccommodateSubitemDeletion: Sendable = NoMethod
    /// What `accommodatePresentedItemEviction()` returns.
    associatedtype AccommodateEviction: Sendable = NoMethod
    /// What `presentedItemDidMove(to:)` returns.
    associatedtype DidMove: Sendable = NoMethod
    /// What `presentedItemDidChange()` returns.
    associatedtype DidChange: Sendable = NoMethod
    /// What `presentedItemDidChangeUbiquityAttributes(_:)` returns.
    associatedtype DidChangeAttributes: Sendable = NoMethod
    /// What `presentedItemDidGain(_:)` returns.
    associatedtype DidGainVersion: Sendable = NoMethod
    /// What `presentedItemDidLose(_:)` returns.
    associatedtype DidLoseVersion: Sendable = NoMethod
    /// What `presentedItemDidResolveConflict(_:)` returns.
    associatedtype DidResolveVersion: Sendable = NoMethod
    /// What `presentedSubitemDidAppear(at:)` returns.
    associatedtype SubitemDidAppear: Sendable = NoMethod
    /// What `presentedSubitem(at:didMoveTo:)` returns.
    associatedtype SubitemDidMove: Sendable = NoMethod
    /// What `presentedSubitemDidChange(at:)` returns.
    associatedtype SubitemDidChange: Sendable = NoMethod
    /// What `presentedSubitem(at:didGain:)` returns.
    associatedtype SubitemDidGainVersion: Sendable = NoMethod
    /// What `presentedSubitem(at:didLose:)` returns.
    associatedtype SubitemDidLoseVersion: Sendable = NoMethod
    /// What `presentedSubitem(at:didResolve:)` returns.
    associatedtype SubitemDidResolveVersion: Sendable = NoMethod

    /// Let a reader in: finish what you do with the item, then return, maybe a `Reacquirer?`.
    func relinquishPresentedItemToReader() async -> RelinquishToReader
    /// Let a writer in: finish what you do with the item, then return, maybe a `Reacquirer?`.
    ///
    /// Do not load the item again in the reacquirer: `presentedItemDidChange` follows.
    func relinquishPresentedItemToWriter() async -> RelinquishToWriter
    /// Write what is unsaved; an error fails the one who asked.
    func savePresentedItemChanges() async throws -> SaveChanges
    /// The item is about to be deleted: close it; an error prevents it.
    func accommodatePresentedItemDeletion() async throws -> AccommodateDeletion
    /// Something inside the item is about to be deleted; an error prevents it.
    func accommodatePresentedSubitemDeletion(at url: URL) async throws -> AccommodateSubitemDeletion
    /// The item's local bytes are about to go; an error prevents it, else stop to present it.
    ///
    /// What is presented without this method stays.
    func accommodatePresentedItemEviction() async throws -> AccommodateEviction
    /// The item is elsewhere now.
    func presentedItemDidMove(to newURL: URL) async -> DidMove
    /// The item's contents or attributes have changed.
    func presentedItemDidChange() async -> DidChange
    /// What the cloud knows of the item has changed.
    func presentedItemDidChangeUbiquityAttributes(_ attributes: Set<String>) async -> DidChangeAttributes
    /// The item has another version, maybe the other side of a conflict; nil where it is not known which.
    func presentedItemDidGain(_ version: FileVersion?) async -> DidGainVersion
    /// A version of the item is gone.
    func presentedItemDidLose(_ version: FileVersion?) async -> DidLoseVersion
    /// A conflict of the item is dealt with.
    func presentedItemDidResolveConflict(_ version: FileVersion?) async -> DidResolveVersion
    /// Something was made inside the item.
    ///
    /// A presenter of a package that has no method for what happens inside hears `presentedItemDidChange`.
    func presentedSubitemDidAppear(at url: URL) async -> SubitemDidAppear
    /// Something inside the item, or that was inside or is now, has moved.
    func presentedSubitem(at oldURL: URL, didMoveTo newURL: URL) async -> SubitemDidMove
    /// Something inside the item has changed.
    func presentedSubitemDidChange(at url: URL) async -> SubitemDidChange
    /// Something inside the item has another version.
    func presentedSubitem(at url: URL, didGain version: FileVersion?) async -> SubitemDidGainVersion
    /// A version of something inside the item is gone.
    func presentedSubitem(at url: URL, didLose version: FileVersion?) async -> SubitemDidLoseVersion
    /// A conflict of something inside the item is dealt with.
    func presentedSubitem(at url: URL, didResolve version: FileVersion?) async -> SubitemDidResolveVersion
}

extension FilePresenter {
    /// Those that the type has methods for.
    public var implementedMessages: Set<FilePresenterMessage> { Self.messagesWithMethods }

    /// None.
    public var observedPresentedItemUbiquityAttributes: Set<String> { [] }
}
