public import CoveCore

/// The options of a reading; the bits are those of the field.
struct ReadingOptions: OptionSet, Hashable {
    let rawValue: Int
    static let withoutChanges = ReadingOptions(rawValue: 1)
    static let resolvesSymbolicLink = ReadingOptions(rawValue: 2)
    static let metadataOnly = ReadingOptions(rawValue: 4)
    static let forUploading = ReadingOptions(rawValue: 8)
}

/// What an intent does with its item.
enum ItemUse: Hashable {
    case read(ReadingOptions)
    case write(CoordinationInterface.WritingOption?)

    var isWrite: Bool {
        if case .write = self { return true }
        return false
    }

    /// True for what concerns all that a directory holds: deleting, moving and replacing it.
    var takesAll: Bool {
        switch self {
        case .read, .write(nil), .write(.forMerging), .write(.contentIndependentMetadataOnly): false
        case .write(.forDeleting), .write(.forMoving), .write(.forReplacing): true
        }
    }

    /// True when presenters are to make room for the item's end.
    var removes: Bool { self == .write(.forDeleting) || self == .write(.forReplacing) }

    /// True when presenters are to save before.
    var wantsChanges: Bool {
        switch self {
        case .read(let options): !options.contains(.withoutChanges)
        case .write(let option): option == .forMerging
        }
    }
}

/// One name of a path, and whether it names a file package: a directory that people see as one file.
struct PathStep: Hashable {
    var name: FileName
    var isPackage = false
}

/// One item of a claim that is asked for.
struct WantedItem {
    var path: [PathStep]
    var use: ItemUse
}

/// How a claim takes part.
enum ClaimManner {
    /// It excludes others, as its intents say.
    case explicit
    /// A program that knows nothing of claims: none of these waits for another one.
    case plain
    /// It only asks presenters, as before many claims, and excludes nobody.
    case preparing
    /// It only asks presenters whether the item's bytes may go.
    case evicting
}

/// What a claim is asked for with.
struct ClaimRequest {
    var session: Int
    var coordinator: String?
    var purpose: String?
    /// The coordinator's own presenter.
    var presenter: Int?
    var manner = ClaimManner.explicit
    var items: [WantedItem]
    /// Sessions of the processes that the asking one runs below, itself too for a plain program.
    var inside: [Int] = []
    /// Purposes of claims that a plain program's own side is granted on its items.
    var purposes: Set<String> = []
    /// The process that asks, where its session does not tell.
    var process: Int32 = 0
    /// True for a change that comes from the source: programs' calls go ahead of it until it has its turn.
    var isFromSource = false
    /// False when nothing is to be done between the presenters' replies and the grant.
    var needsSettling = true
    /// When the wait ends, monotonic nanoseconds.
    var deadline: Int64?
}

/// Why a claim was not granted.
public struct ClaimFailure: Error, Equatable, Sendable {
    /// `ECANCELED`, `EDEADLK`, `ETIMEDOUT`, a presenter's or the source's.
    public var errno: Errno
    /// A presenter's own words, or what to do.
    public var message: String?
    /// The item it is about.
    public var path: RemotePath?

    /// Makes a failure.
    public init(_ errno: Errno, _ message: String? = nil, path: RemotePath? = nil) {
        self.errno = errno
        self.message = message
        self.path = path
    }
}

/// What is to be done after an input of the claim table, in this order.
enum Effect {
    /// A session's presenter, or the session itself, is told something.
    case tell(session: Int, CoordinationInterface.Message)
    /// The claim has its turn and its presenters' replies: what it needs is to be made ready, then `settled` called.
    case settle(claim: Int)
    case granted(claim: Int)
    case failed(claim: Int, ClaimFailure)
    /// Others got a claim whose holder did not answer.
    case lost(claim: Int)
    /// A holder that can't be asked: `heard` is to be called if it lives.
    case probe(session: Int)
}
