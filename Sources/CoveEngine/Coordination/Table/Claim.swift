internal import CoveCore

/// One item of a claim in the table.
final class ClaimIntent {
    /// Its claim outlives it in the table.
    unowned(unsafe) let claim: Claim
    let use: ItemUse
    var node: PathNode
    /// True while it may concern items that no node is at.
    var isWide = false
    /// Whether the item was there when the claim was granted.
    var existed = true

    init(_ use: ItemUse, of claim: Claim, at node: PathNode) {
        self.use = use
        self.claim = claim
        self.node = node
    }
}

/// One claim, from the moment it is asked for until it ends.
final class Claim {
    enum State {
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

    let number: Int
    var request: ClaimRequest
    let since: Int64
    var state = State.waiting
    var intents: [ClaimIntent] = []
    /// Claims that end before this one is granted.
    var waitsFor: [Claim] = []
    /// Claims that wait for this one.
    var blocks: [Claim] = []
    /// What is still to be asked of each presenter, the next last.
    var script: [Int: [Step]] = [:]
    /// Presenters that let it in.
    var relinquished: [Int] = []
    /// The last claim before the grant: what its holder asks for later, it may need before it ends this one.
    var grantedAfter = 0
    /// True while its session counts it as waiting.
    var isCounted = false
    /// What changed inside while it was held.
    var changes: [RemotePath: ItemChange] = [:]

    /// A question to a presenter.
    struct Step {
        var kind: CoordinationInterface.MessageKind
        var path: RemotePath
    }

    init(number: Int, request: ClaimRequest, since: Int64) {
        self.number = number
        self.request = request
        self.since = since
    }

    var session: Int { request.session }
    var isGranted: Bool { state == .granted }
    /// False for one that was given no time: it fails where others hold it up, and then takes what it takes.
    var mayWait: Bool { request.manner != .explicit || request.deadline.map { $0 > since } ?? true }

    /// True while it waits until a presenter has saved.
    func isSaved(by presenter: Int) -> Bool { script[presenter]?.last?.kind == .saveChanges }

    /// True where the two are one coordinator's, have one purpose, or one runs below the other's holder.
    func isExempt(from other: Claim) -> Bool {
        let (one, two) = (request, other.request)
        if one.session == two.session, let coordinator = one.coordinator, coordinator == two.coordinator { return true }
        if let purpose = one.purpose, purpose == two.purpose || two.purposes.contains(purpose) { return true }
        if let purpose = two.purpose, one.purposes.contains(purpose) { return true }
        if !one.inside.isEmpty, one.inside.contains(two.session) { return true }
        return !two.inside.isEmpty && two.inside.contains(one.session)
    }
}

/// An object that presents an item.
final class Presenter {
    let number: Int
    let session: Int
    var node: PathNode?
    let implements: Set<CoordinationInterface.MessageKind>
    let observes: Set<String>
    /// True while it presents a package.
    var isWide = false
    /// Numbers of the messages that wait for its reply.
    var questions: Set<Int> = []

    init(
        number: Int,
        session: Int,
        implements: Set<CoordinationInterface.MessageKind>,
        observes: Set<String>
    ) {
        self.number = number
        self.session = session
        self.implements = implements
        self.observes = observes
    }
}

/// Whose claims and presenters end together.
final class ClaimSession {
    /// How its holder can be asked whether it lives.
    enum Liveness {
        /// By a message.
        case answers
        /// By looking at its process; it calls one claim after the other.
        case isProbed
        /// It is this process.
        case isTrusted
    }

    let number: Int
    let liveness: Liveness
    var claims: Set<Int> = []
    var waiting: Set<Int> = []
    var presenters: Set<Int> = []
    /// Waiting claims of processes below the holder.
    var waitingInside: Set<Int> = []
    var cancelled: Set<String> = []
    /// True while it is watched because others wait for it.
    var isWatched = false
    /// The ping that was not answered yet.
    var ping: Int?
    var nextMessage = 0

    init(number: Int, liveness: Liveness) {
        self.number = number
        self.liveness = liveness
    }
}

/// What happened to an item.
enum ItemChange {
    case appeared
    case changed
    case removed
}
