package import CoveCore

/// One item of a claim in the table.
package final class ClaimIntent {
    /// Its claim outlives it in the table.
    package unowned(unsafe) let claim: Claim
    package let use: ItemUse
    @exclusivity(unchecked) package internal(set) var node: PathNode
    /// True while it may concern items that no node is at.
    @exclusivity(unchecked) var isWide = false
    /// True while it is at its node, where it keeps others from the item.
    @exclusivity(unchecked) var isPlaced = false
    /// Whether the item was there when the claim was granted.
    @exclusivity(unchecked) package internal(set) var existed = true

    package init(_ use: ItemUse, of claim: Claim, at node: PathNode) {
        self.use = use
        self.claim = claim
        self.node = node
    }
}

/// One claim, from the moment it is asked for until it ends.
///
/// It is the table's alone, which is used under a lock and reads no field while it changes it: that is not checked at each
/// access, which would take a third of a claim's time.
package final class Claim {
    package enum State {
        /// Earlier claims come first.
        case waiting
        /// Presenters are asked.
        case presenters
        /// What it needs is made ready.
        case settling
        /// All is ready, but for claims that presenters or its own side made meanwhile.
        case ready
        case granted
        case ended
    }

    package let number: Int
    @exclusivity(unchecked) package internal(set) var request: ClaimRequest
    package let since: MonotonicTime
    @exclusivity(unchecked) package internal(set) var state = State.waiting
    @exclusivity(unchecked) package internal(set) var intents: [ClaimIntent] = []
    /// Claims that end before this one is granted.
    @exclusivity(unchecked) package internal(set) var waitsFor: [Claim] = []
    /// Claims that wait for this one.
    @exclusivity(unchecked) var blocks: [Claim] = []
    /// What is still to be asked of each presenter, the next last.
    @exclusivity(unchecked) var script: [Int: [Step]] = [:]
    /// When each presenter's time for all of its answers is over.
    @exclusivity(unchecked) var replyBy: [Int: MonotonicTime] = [:]
    /// All that each presenter is asked, for a call that can't wait for long.
    @exclusivity(unchecked) var asked: [Int: [Step]] = [:]
    /// The number that a presenter knows it by, where an earlier try of the call had asked it.
    @exclusivity(unchecked) var askedAs: [Int: Int] = [:]
    /// Presenters that let it in.
    @exclusivity(unchecked) var relinquished: [Int] = []
    /// The last claim before the grant: what its holder asks for later, it may need before it ends this one.
    @exclusivity(unchecked) var grantedAfter = 0
    /// Claims that wait and that its holder asked for to end before it.
    @exclusivity(unchecked) var waitingWithin: Set<Int> = []
    /// True while its session counts it as waiting.
    @exclusivity(unchecked) var isCounted = false
    /// What changed inside while it was held.
    @exclusivity(unchecked) var changes: [RemotePath: ItemChange] = [:]
    /// Where it moved items, of which presenters have heard.
    @exclusivity(unchecked) var targets: Set<RemotePath> = []

    /// What the presenters that let it in know it by; they hear of its end.
    package var letIn: [LetIn] { relinquished.map { LetIn(presenter: $0, claim: askedAs[$0] ?? number) } }

    /// Names that its items left a moment ago.
    @exclusivity(unchecked) var shades: [Shade] = []
    /// True where programs had one of its files open for writing when it was made ready.
    @exclusivity(unchecked) package var hasOpenFiles = false

    /// A question to a presenter.
    struct Step: Hashable {
        var kind: CoordinationInterface.MessageKind
        var path: RemotePath
    }

    package init(number: Int, request: ClaimRequest, since: MonotonicTime) {
        self.number = number
        self.request = request
        self.since = since
    }

    package var session: Int { request.session }
    package var isGranted: Bool { state == .granted }
    var isExplicit: Bool { request.manner == .explicit }
    /// False for one that was given no time: it fails where others hold it up, and then takes what it takes.
    var mayWait: Bool {
        let isAsked = request.manner == .explicit || request.manner == .preparing
        return !isAsked || request.deadline.map { $0 > since } ?? true
    }

    /// True where it allows its holder to change what is at a path.
    package func writes(at path: RemotePath) -> Bool {
        request.manner != .preparing
            && intents.contains { intent in
                let own = intent.node.path
                return intent.use.isWrite && (own == path || path.isInside(own))
            }
    }

    /// True while it waits until a presenter has saved.
    func isSaved(by presenter: Int) -> Bool { script[presenter]?.last?.kind == .saveChanges }

    /// True where the two are one coordinator's, have one purpose, or this one is asked for below the other's holder.
    package func isExempt(from other: Claim) -> Bool {
        let (one, two) = (request, other.request)
        if one.session == two.session, let coordinator = one.coordinator, coordinator == two.coordinator { return true }
        if let purpose = one.purpose, purpose == two.purpose || two.purposes.contains(purpose) { return true }
        if let purpose = two.purpose, one.purposes.contains(purpose) { return true }
        return !one.inside.isEmpty && one.inside.contains(two.session)
    }
}

/// A name of a document that is not its own, such as a reference: what an app was given may have no other name that it can use.
package struct Alias: Sendable, Hashable {
    package var path: RemotePath
    /// The reference's row; nil for a name that never moves.
    package var reference: Int64?

    package init(path: RemotePath, reference: Int64?) {
        (self.path, self.reference) = (path, reference)
    }
}

/// An object that presents an item.
package final class Presenter {
    /// The name by which its program has the item, where that is not the item's own.
    package internal(set) var alias: Alias?
    package let number: Int
    package let session: Int
    package internal(set) var node: PathNode?
    package let implements: Set<CoordinationInterface.MessageKind>
    package let observes: Set<String>
    /// That of all claims of its coordinators.
    package let purpose: String?
    /// True while it presents a package.
    var isWide = false
    /// True after it let its time for an answer pass, until it answers anything.
    var isSilent = false
    /// How often it was asked since whether it answers again, and when it may be next.
    var probes: (count: Int64, next: MonotonicTime) = (0, .distantPast)
    /// A move that it has not heard of yet.
    var pendingMove: PendingMove?
    /// Where its program knows its item to be.
    package var knownPath: RemotePath? { pendingMove?.from ?? node?.path }
    /// Numbers of the messages that wait for its reply.
    package internal(set) var questions: Set<Int> = []
    /// The last claim before it was asked to save: what it asks for later may be for its answer.
    var saveAskedAfter = 0

    init(
        number: Int,
        session: Int,
        implements: Set<CoordinationInterface.MessageKind>,
        observes: Set<String>,
        purpose: String?
    ) {
        self.purpose = purpose
        self.number = number
        self.session = session
        self.implements = implements
        self.observes = observes
    }
}

/// A presenter that let a claim in, and the number that it knows the claim by.
package struct LetIn: Codable, Sendable {
    package var presenter: Int
    package var claim: Int

    package init(presenter: Int, claim: Int) {
        self.presenter = presenter
        self.claim = claim
    }
}

/// Whose claims and presenters end together.
package final class ClaimSession {
    /// How its holder can be asked whether it lives.
    package enum Liveness {
        /// By a message.
        case answers
        /// By looking at its process; it calls one claim after the other.
        case isProbed
        /// It is this process.
        case isTrusted
    }

    package let number: Int
    package let liveness: Liveness
    package internal(set) var claims: Set<Int> = []
    var waiting: Set<Int> = []
    package internal(set) var presenters: Set<Int> = []
    /// Waiting claims of processes below the holder.
    var waitingInside: Set<Int> = []
    package internal(set) var cancelled: Set<String> = []
    /// The purposes of coordinators that have claims.
    var purposes: [String: (purpose: String, claims: Int)] = [:]
    /// True while it is watched because others wait for it.
    var isWatched = false
    /// The ping that was not answered yet.
    var ping: Int?
    /// True after one of its presenters let its time pass, until the session answers anything.
    var isSlow = false
    /// When a call that could not wait for one of its presenters ended last.
    var lastStanding: MonotonicTime?

    /// Notes that a coordinator has a claim of a purpose; false where it has another purpose.
    func begin(_ purpose: String, of coordinator: String) -> Bool {
        guard purposes[coordinator].map({ $0.purpose == purpose }) ?? true else { return false }
        purposes[coordinator, default: (purpose: purpose, claims: 0)].claims += 1
        return true
    }

    func end(_ purpose: String, of coordinator: String) {
        guard let known = purposes[coordinator], known.purpose == purpose else { return }
        purposes[coordinator] = known.claims > 1 ? (purpose: purpose, claims: known.claims - 1) : nil
    }

    init(number: Int, liveness: Liveness) {
        self.number = number
        self.liveness = liveness
    }
}

/// What happened to an item.
package enum ItemChange {
    case appeared
    case changed
    case removed
}
