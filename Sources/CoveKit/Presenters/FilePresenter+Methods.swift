public import Foundation

/// Stands for a method of `FilePresenter` that a type does not have.
public struct NoMethod: Sendable {}

extension FilePresenter {
    /// The messages that the type has methods for.
    static var messagesWithMethods: Set<FilePresenterMessage> {
        let answers: [(FilePresenterMessage, any Any.Type)] = [
            (.relinquishToReader, RelinquishToReader.self),
            (.relinquishToWriter, RelinquishToWriter.self),
            (.saveChanges, SaveChanges.self),
            (.accommodateDeletion, AccommodateDeletion.self),
            (.accommodateSubitemDeletion, AccommodateSubitemDeletion.self),
            (.accommodateEviction, AccommodateEviction.self),
            (.didMove, DidMove.self),
            (.didChange, DidChange.self),
            (.didChangeAttributes, DidChangeAttributes.self),
            (.didGainVersion, DidGainVersion.self),
            (.didLoseVersion, DidLoseVersion.self),
            (.didResolveVersion, DidResolveVersion.self),
            (.subitemDidAppear, SubitemDidAppear.self),
            (.subitemDidMove, SubitemDidMove.self),
            (.subitemDidChange, SubitemDidChange.self),
            (.subitemDidGainVersion, SubitemDidGainVersion.self),
            (.subitemDidLoseVersion, SubitemDidLoseVersion.self),
            (.subitemDidResolveVersion, SubitemDidResolveVersion.self),
        ]
        return Set(answers.filter { $0.1 != NoMethod.self }.map(\.0))
    }
}

// What a type has no method for is never called: these let it leave the methods out.
extension FilePresenter where RelinquishToReader == NoMethod {
    /// Is not called.
    public func relinquishPresentedItemToReader() async -> NoMethod { NoMethod() }
}
extension FilePresenter where RelinquishToWriter == NoMethod {
    /// Is not called.
    public func relinquishPresentedItemToWriter() async -> NoMethod { NoMethod() }
}
extension FilePresenter where SaveChanges == NoMethod {
    /// Is not called.
    public func savePresentedItemChanges() async throws -> NoMethod { NoMethod() }
}
extension FilePresenter where AccommodateDeletion == NoMethod {
    /// Is not called.
    public func accommodatePresentedItemDeletion() async throws -> NoMethod { NoMethod() }
}
extension FilePresenter where AccommodateSubitemDeletion == NoMethod {
    /// Is not called.
    public func accommodatePresentedSubitemDeletion(at url: URL) async throws -> NoMethod { NoMethod() }
}
extension FilePresenter where AccommodateEviction == NoMethod {
    /// Is not called.
    public func accommodatePresentedItemEviction() async throws -> NoMethod { NoMethod() }
}
extension FilePresenter where DidMove == NoMethod {
    /// Is not called.
    public func presentedItemDidMove(to newURL: URL) async -> NoMethod { NoMethod() }
}
extension FilePresenter where DidChange == NoMethod {
    /// Is not called.
    public func presentedItemDidChange() async -> NoMethod { NoMethod() }
}
extension FilePresenter where DidChangeAttributes == NoMethod {
    /// Is not called.
    public func presentedItemDidChangeUbiquityAttributes(_ attributes: Set<String>) async -> NoMethod { NoMethod() }
}
extension FilePresenter where DidGainVersion == NoMethod {
    /// Is not called.
    public func presentedItemDidGain(_ version: FileVersion?) async -> NoMethod { NoMethod() }
}
extension FilePresenter where DidLoseVersion == NoMethod {
    /// Is not called.
    public func presentedItemDidLose(_ version: FileVersion?) async -> NoMethod { NoMethod() }
}
extension FilePresenter where DidResolveVersion == NoMethod {
    /// Is not called.
    public func presentedItemDidResolveConflict(_ version: FileVersion?) async -> NoMethod { NoMethod() }
}
extension FilePresenter where SubitemDidAppear == NoMethod {
    /// Is not called.
    public func presentedSubitemDidAppear(at url: URL) async -> NoMethod { NoMethod() }
}
extension FilePresenter where SubitemDidMove == NoMethod {
    /// Is not called.
    public func presentedSubitem(at oldURL: URL, didMoveTo newURL: URL) async -> NoMethod { NoMethod() }
}
extension FilePresenter where SubitemDidChange == NoMethod {
    /// Is not called.
    public func presentedSubitemDidChange(at url: URL) async -> NoMethod { NoMethod() }
}
extension FilePresenter where SubitemDidGainVersion == NoMethod {
    /// Is not called.
    public func presentedSubitem(at url: URL, didGain version: FileVersion?) async -> NoMethod { NoMethod() }
}
extension FilePresenter where SubitemDidLoseVersion == NoMethod {
    /// Is not called.
    public func presentedSubitem(at url: URL, didLose version: FileVersion?) async -> NoMethod { NoMethod() }
}
extension FilePresenter where SubitemDidResolveVersion == NoMethod {
    /// Is not called.
    public func presentedSubitem(at url: URL, didResolve version: FileVersion?) async -> NoMethod { NoMethod() }
}
