package import CoveCore

/// The options of a reading; the bits are those of the field.
package struct ReadingOptions: OptionSet, Hashable {
    package let rawValue: Int
    package init(rawValue: Int) { self.rawValue = rawValue }

    package static let withoutChanges = ReadingOptions(rawValue: 1)
    package static let resolvesSymbolicLink = ReadingOptions(rawValue: 2)
    package static let metadataOnly = ReadingOptions(rawValue: 4)
    package static let forUploading = ReadingOptions(rawValue: 8)
}

/// What an intent does with its item.
package enum ItemUse: Hashable {
    case read(ReadingOptions)
    case write(CoordinationInterface.WritingOption?)

    package var isWrite: Bool {
        if case .write = self { return true }
        return false
    }

    /// True for what concerns all that a directory holds: deleting, moving and replacing it.
    package var takesAll: Bool {
        switch self {
        case .read, .write(nil), .write(.forMerging), .write(.contentIndependentMetadataOnly): false
        case .write(.forDeleting), .write(.forMoving), .write(.forReplacing): true
        }
    }

    /// True when presenters are to make room for the item's end.
    package var removes: Bool { self == .write(.forDeleting) || self == .write(.forReplacing) }

    /// True when presenters are to save before.
    package var wantsChanges: Bool {
        switch self {
        case .read(let options): !options.contains(.withoutChanges)
        case .write(let option): option == .forMerging
        }
    }
}

/// One name of a path, and whether it names a file package: a directory that people see as one file.
package struct PathStep: Hashable {
    package var name: FileName
    package var isPackage: Bool

    package init(name: FileName, isPackage: Bool = false) {
        self.name = name
        self.isPackage = isPackage
    }
}

/// One item of a claim that is asked for.
package struct WantedItem: Hashable {
    package var path: [PathStep]
    package var use: ItemUse

    package init(path: [PathStep], use: ItemUse) {
        self.path = path
        self.use = use
    }
}

/// How a claim takes part.
package enum ClaimManner {
    /// It excludes others, as its intents say.
    case explicit
    /// A program that knows nothing of claims: none of these waits for another one.
    case plain
    /// It only asks presenters, as before many claims, and excludes nobody; they have their items again when it ends.
    case preparing
    /// It only asks presenters whether the item's bytes may go.
    case evicting
}

/// What a claim does about files that programs have open for writing.
package enum OpenFilePolicy: String {
    case wait, ignore, fail
}

/// What a claim is asked for with.
package struct ClaimRequest {
    package var session: Int
    package var coordinator: String?
    package var purpose: String?
    /// The coordinator's own presenter.
    package var presenter: Int?
    package var manner = ClaimManner.explicit
    package var items: [WantedItem]
    /// Sessions of the processes that the asking one runs below, itself too for a plain program.
    package var inside: [Int] = []
    /// Claims of the same side that end after this one.
    package var within: [Int] = []
    package var openFiles = OpenFilePolicy.wait
    /// Claims, as its presenter knows them, whose questions it answers with what this claim is for.
    package var answering: Set<Int> = []
    /// Purposes of claims that a plain program's own side is granted on its items.
    package var purposes: Set<String> = []
    /// The process that asks, where its session does not tell.
    package var process: Int32 = 0
    /// True for a change that comes from the source: programs' calls go ahead of it until it has its turn, brief ones then
    /// too.
    package var isFromSource = false
    /// True for a program's call that can't wait for long: what it asked presenters stands until it comes again.
    package var isBrief = false
    /// True for a program's call on a file that is open for writing: claims that are not granted yet wait for its close.
    package var isOfWriter = false
    /// False when nothing is to be done between the presenters' replies and the grant.
    package var needsSettling = true
    /// When the wait ends, monotonic nanoseconds.
    package var deadline: MonotonicTime?

    package init(
        session: Int,
        coordinator: String? = nil,
        purpose: String? = nil,
        presenter: Int? = nil,
        manner: ClaimManner = .explicit,
        items: [WantedItem],
        inside: [Int] = [],
        isFromSource: Bool = false,
        needsSettling: Bool = true,
        deadline: MonotonicTime? = nil
    ) {
        self.session = session
        self.coordinator = coordinator
        self.purpose = purpose
        self.presenter = presenter
        self.manner = manner
        self.items = items
        self.inside = inside
        self.isFromSource = isFromSource
        self.needsSettling = needsSettling
        self.deadline = deadline
    }
}

/// What is to be done after an input of the claim table, in this order.
package enum Effect {
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
