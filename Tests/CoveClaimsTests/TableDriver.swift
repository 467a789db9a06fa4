import CoveCore
import CoveTestSupport

@testable import CoveClaims

/// Drives a claim table as an engine would: takes its effects, makes claims ready at once, and keeps what happened.
final class TableDriver {
    typealias Kind = CoordinationInterface.MessageKind

    /// One message that a presenter or a session got.
    struct Told: Equatable {
        var presenter: String?
        var kind: String
        var path: String
        var newPath: String?
        var claim: String?
        var number: Int
        var session: Int
    }

    /// Directories of these names are packages.
    static let packages: Set<String> = ["p.pkg", "in.pkg"]

    private(set) var table: ClaimTable
    var now: MonotonicTime = 0
    var settlesAtOnce = true
    private(set) var granted: [Int] = []
    private(set) var failed: [Int: ClaimFailure] = [:]
    private(set) var settling: [Int] = []
    private(set) var probed: [Int] = []
    private(set) var lost: [Int] = []
    var told: [Told] = []

    init(limits: ClaimTable.Limits = ClaimTable.Limits()) { table = ClaimTable(limits: limits) }

    static func steps(_ path: String) -> [PathStep] {
        path.split(separator: "/").map {
            PathStep(name: FileName(unchecked: Array($0.utf8)), isPackage: packages.contains(String($0)))
        }
    }

    static func path(_ text: String) -> RemotePath { RemotePath(steps(text).map(\.name)) }

    func session(_ liveness: ClaimSession.Liveness = .answers) -> Int { table.beginSession(liveness) }

    @discardableResult
    func claim(
        _ session: Int,
        _ items: [(String, ItemUse)],
        coordinator: String? = nil,
        purpose: String? = nil,
        presenter: Int? = nil,
        manner: ClaimManner = .explicit,
        inside: [Int] = [],
        isFromSource: Bool = false,
        isBrief: Bool = false,
        within: [Int] = [],
        answering: Set<Int> = [],
        deadline: MonotonicTime? = nil
    ) -> Int {
        var request = ClaimRequest(
            session: session,
            coordinator: coordinator,
            purpose: purpose,
            presenter: presenter,
            manner: manner,
            items: items.map { WantedItem(path: Self.steps($0.0), use: $0.1) },
            inside: inside,
            isFromSource: isFromSource,
            deadline: deadline
        )
        request.isBrief = isBrief
        request.within = within
        request.answering = answering
        return act { $0.request(request, now: now) }
    }

    func present(_ session: Int, _ path: String?, _ kinds: [Kind] = Kind.allCases, observes: Set<String> = []) -> Int {
        let steps = path.map { Self.steps($0) }
        return act { table in
            table.addPresenter(session: session, at: steps, implements: Set(kinds), observes: observes, now: now) ?? 0
        }
    }

    func release(_ claim: Int, exists: [Bool]? = nil) { act { $0.release(claim, exists: exists, now: now) } }

    /// Answers the last message of a kind that a presenter got.
    func reply(_ presenter: Int, _ kind: Kind, failure: ClaimFailure? = nil) {
        guard let index = told.lastIndex(where: { $0.presenter == "p\(presenter)" && $0.kind == kind.rawValue }) else {
            return
        }
        let message = told[index]
        act { $0.reply(session: message.session, message: message.number, failure: failure, now: now) }
    }

    /// Answers all that a presenter was asked.
    func replyAll(_ presenter: Int) {
        for message in told
        where message.presenter == "p\(presenter)" && Kind(rawValue: message.kind)?.wantsReply == true {
            act { $0.reply(session: message.session, message: message.number, failure: nil, now: now) }
        }
    }

    @discardableResult
    func act<Result>(_ body: (inout ClaimTable) -> Result) -> Result {
        let result = body(&table)
        drain()
        return result
    }

    /// The kinds that a presenter was told, in order.
    func kinds(_ presenter: Int) -> [Kind] {
        told.filter { $0.presenter == "p\(presenter)" }.compactMap { Kind(rawValue: $0.kind) }
    }

    func isGranted(_ claim: Int) -> Bool { granted.contains(claim) }

    /// True while a claim waits or is held.
    func holds(_ claim: Int) -> Bool { table.claims[claim] != nil }

    /// The claims that wait or are held.
    var numbers: [Int] { table.claims.keys.sorted() }

    /// The claims that one waits for.
    func waits(of claim: Int) -> [Int] { table.claims[claim]?.waitsFor.map(\.number) ?? [] }

    func paths(of claim: Int) -> [String] { table.paths(of: claim).map(\.description) }

    /// Where the table has a row of the catalog.
    func path(ofEntry entry: Int64) -> String? { table.entries[entry]?.path.description }

    /// True when neither claims nor presenters nor paths are left.
    var isEmpty: Bool {
        table.sweep()
        return table.isEmpty && table.root.isEmpty
    }

    /// The claims that are left, one a line.
    var summary: String {
        table.claims.values.sorted { $0.number < $1.number }.map { claim in
            let items = claim.intents.map { "\($0.use) \($0.node.path)" }
            let presenter = claim.request.presenter.map { " of \($0)" } ?? ""
            return "\(claim.number)\(presenter) in \(claim.session) \(claim.state): \(items), "
                + "after \(claim.waitsFor.map(\.number)), asks \(claim.script.keys.sorted())"
        }.joined(separator: "\n")
    }

    private func drain() {
        while true {
            let effects = table.takeEffects()
            if effects.isEmpty { return }
            for effect in effects {
                switch effect {
                case .tell(let session, let message):
                    told.append(
                        Told(
                            presenter: message.presenter,
                            kind: message.kind,
                            path: message.path.path ?? "",
                            newPath: message.newPath?.path,
                            claim: message.claim,
                            number: message.number,
                            session: session
                        )
                    )
                case .settle(let claim):
                    if settlesAtOnce { table.settled(claim, existed: [], now: now) } else { settling.append(claim) }
                case .granted(let claim): granted.append(claim)
                case .failed(let claim, let failure): failed[claim] = failure
                case .lost(let claim): lost.append(claim)
                case .probe(let session): probed.append(session)
                }
            }
        }
    }
}
