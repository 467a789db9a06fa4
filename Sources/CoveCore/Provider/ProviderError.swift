/// Everything that can go wrong on the remote side, and what becomes of the operation.
public enum ProviderError: Error, Sendable, Equatable {
    /// The cloud can't be reached now; operations wait until it can.
    case serverUnreachable(String)
    /// The cloud refuses the credentials; operations wait for new ones.
    case notAuthenticated(String)
    /// The cloud has no room for the bytes; the local change stays.
    case insufficientQuota(String)
    /// The cloud says no to this operation on this item, now and later.
    case notPermitted(String)
    /// The item is not there.
    case noSuchItem
    /// Another item has the name already; the other item, where it is known.
    case filenameCollision(RemoteItem?)
    /// The base version is no longer the current one; the current item, where it is known.
    case conflict(RemoteItem?)
    /// The directory still holds something.
    case directoryNotEmpty
    /// The bytes of the asked-for version are gone.
    case versionNoLongerAvailable
    /// The page token is too old: list again.
    case pageExpired
    /// The anchor is too old: list again.
    case anchorExpired
    /// The provider can't hold such an item or name; it stays local.
    case unsupported(String)
    /// Another program is writing the item at the source; try later.
    case busy
    /// The cloud wants fewer requests: they rest as long as it asks for, and fewer go on at a time after that.
    ///
    /// It says nothing of the item, whose operation counts no failed attempt.
    case throttled(retryAfter: TimeSpan?)
    /// No progress within the stall limit.
    case timedOut
    /// The local side called the operation off.
    case cancelled
    /// The remote or local disk failed; the errno where there is one.
    case failed(String, Errno?)

    /// The errno that a waiting program gets.
    public var errno: Errno {
        switch self {
        case .serverUnreachable: .hostUnreachable
        case .notAuthenticated: .keyRejected
        case .insufficientQuota: .quotaExceeded
        case .notPermitted: .notPermitted
        case .noSuchItem: .noSuchEntry
        case .filenameCollision: .exists
        case .conflict: .stale
        case .directoryNotEmpty: .notEmpty
        case .versionNoLongerAvailable, .pageExpired, .anchorExpired: .stale
        case .unsupported: .notSupported
        case .busy: .busy
        case .throttled: .hostUnreachable
        case .timedOut: .timedOut
        case .cancelled: .interrupted
        case .failed(_, let errno): errno ?? .inputOutput
        }
    }

    /// True when the whole account waits, not one item.
    public var parksAccount: Bool {
        switch self {
        case .serverUnreachable, .notAuthenticated: true
        case .insufficientQuota, .notPermitted, .noSuchItem, .filenameCollision, .conflict, .directoryNotEmpty,
            .versionNoLongerAvailable, .pageExpired, .anchorExpired, .unsupported, .busy, .throttled, .timedOut,
            .cancelled, .failed:
            false
        }
    }
}

extension ProviderError: CustomStringConvertible {
    /// One line for a person.
    public var description: String {
        switch self {
        case .serverUnreachable(let why): "the source can't be reached: \(why)"
        case .notAuthenticated(let why): "the source refuses the credentials: \(why)"
        case .insufficientQuota(let why): "the source is full: \(why)"
        case .notPermitted(let why): "the source does not permit it: \(why)"
        case .noSuchItem: "the item is no longer at the source"
        case .filenameCollision: "the source already has an item of that name"
        case .conflict: "the source holds a newer version"
        case .directoryNotEmpty: "the directory at the source is not empty"
        case .versionNoLongerAvailable: "that version is no longer at the source"
        case .pageExpired, .anchorExpired: "the source wants to be listed again"
        case .unsupported(let why): "the source can't hold it: \(why)"
        case .busy: "another program is writing the item at the source"
        case .throttled: "the source is busy and asks for patience"
        case .timedOut: "the source made no progress"
        case .cancelled: "called off"
        case .failed(let why, _): why
        }
    }
}
