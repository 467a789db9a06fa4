internal import CoveCore
public import Foundation
internal import Synchronization

/// Asks for coordinated access to files: waits for others, has presenters save and let go, then runs an accessor.
///
/// On a mount of Cove's it coordinates with every program that uses the mount, elsewhere within this process. Make one for
/// each operation on files, such as an open, a save or the copying of a folder. Accessors run on a thread where they may
/// block; a claim lasts as long as its accessor. Claims of one coordinator never wait for each other.
public final class FileCoordinator: Sendable {
    private struct State {
        var purpose: String
        var isPurposeFixed: Bool
        var isCancelled = false
        /// Requests that wait.
        var waiting: [Cancellation] = []
        var held: [Holding] = []
        var openFilePolicy = OpenFilePolicy.wait
    }

    let identity = CoordinatorIdentity()
    private let presenter: (any FilePresenter)?
    private let state: Mutex<State>

    /// Makes a coordinator; its presenter gets no messages for what is done with it.
    public init(filePresenter: (any FilePresenter)? = nil) {
        presenter = filePresenter
        let purpose = filePresenter.map { PresenterMailbox.purpose(of: $0) } ?? UUID().uuidString
        state = Mutex(State(purpose: purpose, isPurposeFixed: filePresenter != nil))
    }

    /// Coordinators of one purpose, in any process, never wait for each other.
    public var purposeIdentifier: String { state.withLock { $0.purpose } }

    /// Sets the purpose, once; throws EINVAL for an empty one, a second time, for a presenter's coordinator, and while the
    /// coordinator has or waits for access.
    public func setPurposeIdentifier(_ identifier: String) throws(CoveError) {
        try state.withLock { state throws(CoveError) in
            guard !identifier.isEmpty else { throw CoveError(.invalidArgument, "a purpose can't be empty") }
            guard !state.isPurposeFixed else { throw CoveError(.invalidArgument, "the purpose is set already") }
            guard state.held.isEmpty, state.waiting.isEmpty else {
                throw CoveError(.invalidArgument, "the purpose can't change while the coordinator is in use")
            }
            state.purpose = identifier
            state.isPurposeFixed = true
        }
    }

    /// What later accesses do about programs that have their files open for writing; by default they wait.
    public var openFilePolicy: OpenFilePolicy {
        get { state.withLock { $0.openFilePolicy } }
        set { state.withLock { $0.openFilePolicy = newValue } }
    }

    /// Files of the accesses under way that other programs had open for writing when those began.
    public var openFiles: [OpenFile] { state.withLock { $0.held.flatMap(\.openFiles) } }

    /// Ends all waiting with ECANCELED, and refuses all from now on; running accessors finish.
    ///
    /// Returns at once, on any thread. To give up one of several requests cancel the task that waits for it: the coordinator
    /// can be used for others then.
    public func cancel() {
        let waiting = state.withLock { state in
            state.isCancelled = true
            return state.waiting
        }
        for cancellation in waiting { cancellation.cancel() }
    }

    // MARK: Claims

    /// A claim that is held.
    struct Holding: Sendable {
        var authority: any Authority
        var claim: String
        var openFiles: [OpenFile] = []

        /// The claims in whose accessors the task or thread is.
        @TaskLocal static var enclosing: [Holding] = []
    }

    /// Claims all intents, whose URLs are then right; `end` is to be called.
    ///
    /// Blocks.
    func begin(
        _ intents: [FileAccessIntent],
        timeout: Duration?,
        _ cancellation: Cancellation = Cancellation()
    ) throws(CoveError) -> [Holding] {
        let holdings = try whileWaiting(cancellation) { () throws(CoveError) in
            try claim(intents, timeout: timeout, cancellation)
        }
        state.withLock { $0.held += holdings }
        return holdings
    }

    /// Ends claims; throws ESTALE when others got one of them meanwhile.
    ///
    /// Blocks for a moment.
    func end(_ holdings: [Holding]) throws(CoveError) {
        state.withLock { state in
            state.held.removeAll { holding in holdings.contains { $0.claim == holding.claim } }
        }
        var failure: CoveError?
        for holding in holdings.reversed() {
            do throws(CoveError) { try holding.authority.release(holding.claim) } catch { failure = error }
        }
        if let presenter { try? PresenterRegistry.update(presenter) }
        if let failure { throw failure }
    }

    /// Asks all authorities concerned, one after the other in an order that all processes keep.
    private func claim(
        _ intents: [FileAccessIntent],
        timeout: Duration?,
        _ cancellation: Cancellation
    ) throws(CoveError) -> [Holding] {
        var held: [Holding] = []
        let deadline = Self.deadline(timeout)
        let isInUse = state.withLock { !$0.held.isEmpty }
        do throws(CoveError) {
            for (authority, request, indexes) in try requests(intents, cancellation) {
                var request = request
                request.timeout = deadline.map { max(.zero, $0 - .now) }
                let outer = Holding.enclosing + held
                request.isNested = !outer.isEmpty || isInUse || PresenterMailbox.Answer.current != nil
                let grant = try NestedWaits.during(request, at: authority, holding: outer) { () throws(CoveError) in
                    try claim(request, from: authority, isFirst: outer.isEmpty)
                }
                held.append(Holding(authority: authority, claim: grant.claim, openFiles: grant.openFiles))
                for (index, (intent, path)) in zip(indexes, zip(request.intents, grant.paths))
                where !LocalPath.isSame(path, intent.location.path) || intent.reading.contains(.resolvesSymbolicLink) {
                    intents[index].url = URL(fileURLWithPath: path)
                }
            }
            try cancellation.check()
            return held
        } catch {
            for holding in held { try? holding.authority.release(holding.claim) }
            throw cancellation.reason ?? error
        }
    }

    /// Asks one authority.
    ///
    /// Who holds nothing closes no circle: what looks like one ends when a presenter, for which a save of its own is in
    /// the queue, has answered.
    private func claim(
        _ request: ClaimRequest,
        from authority: any Authority,
        isFirst: Bool
    ) throws(CoveError) -> Grant {
        let mayAskAgain = isFirst && state.withLock { $0.held.isEmpty && (!$0.isPurposeFixed || presenter != nil) }
        var attempts = mayAskAgain ? 250 : 1
        while true {
            do throws(CoveError) { return try authority.claim(request) } catch {
                attempts -= 1
                guard error.code == .deadlock, attempts > 0 else { throw error }
            }
            try request.cancellation.check()
            _ = poll(nil, 0, 20)
        }
    }

    /// Presenters that were asked, and have their items again when that is released.
    typealias Prepared = [(authority: any Authority, claim: String)]

    /// Asks presenters without a claim.
    ///
    /// Blocks.
    func prepare(
        _ intents: [FileAccessIntent],
        timeout: Duration?,
        _ cancellation: Cancellation = Cancellation()
    ) throws(CoveError) -> Prepared {
        for intent in intents {
            let isAllowed =
                switch intent.purpose {
                case .reading(let options): !options.contains(.resolvesSymbolicLink)
                case .writing(let options): !options.contains(.forReplacing)
                }
            guard isAllowed else { throw CoveError(.invalidArgument, "can't be prepared for so", url: intent.url) }
        }
        let deadline = Self.deadline(timeout)
        var prepared: Prepared = []
        do throws(CoveError) {
            try whileWaiting(cancellation) { () throws(CoveError) in
                for (authority, request, _) in try requests(intents, cancellation) {
                    var request = request
                    request.timeout = deadline.map { max(.zero, $0 - .now) }
                    request.isNested =
                        !Holding.enclosing.isEmpty || !prepared.isEmpty || PresenterMailbox.Answer.current != nil
                    prepared.append((authority, try authority.prepare(request)))
                }
            }
        } catch {
            release(prepared)
            throw error
        }
        return prepared
    }

    /// Presenters have their items again.
    ///
    /// Blocks.
    func release(_ prepared: Prepared) {
        // A daemon that has gone keeps nothing.
        for (authority, claim) in prepared { try? authority.release(claim) }
    }

    private func requests(
        _ intents: [FileAccessIntent],
        _ cancellation: Cancellation
    ) throws(CoveError) -> [(any Authority, ClaimRequest, [Int])] {
        guard !intents.isEmpty else { throw CoveError(.invalidArgument, "nothing is to be accessed") }
        let mailbox = presenter.flatMap(PresenterRegistry.mailbox)
        let answer = PresenterMailbox.Answer.current.flatMap { $0.mailbox === mailbox ? $0 : nil }
        var requests: [ObjectIdentifier: (any Authority, ClaimRequest, [Int])] = [:]
        for (index, intent) in intents.enumerated() {
            try intent.check()
            let (authority, location) = try Authorities.find(intent.url, followsLink: !intent.concernsLink)
            var entry =
                requests[ObjectIdentifier(authority)]
                ?? (
                    authority,
                    ClaimRequest(
                        coordinator: identity,
                        purpose: purposeIdentifier,
                        presenter: mailbox,
                        intents: [],
                        within: Holding.enclosing.filter { $0.authority === authority }.map(\.claim),
                        answering: answer.map { [$0.claim] } ?? [],
                        openFiles: openFilePolicy,
                        cancellation: cancellation
                    ), []
                )
            entry.1.intents.append(Intent(purpose: intent.purpose, location: location))
            entry.2.append(index)
            requests[ObjectIdentifier(authority)] = entry
        }
        return requests.sorted { one, other in
            let names = (one.value.0.name, other.value.0.name)
            return names.0 == names.1 ? one.key < other.key : names.0.utf8.lexicographicallyPrecedes(names.1.utf8)
        }
        .map(\.value)
    }

    /// When a wait is over; what is longer than a human life is as good as for ever.
    private static func deadline(_ timeout: Duration?) -> ContinuousClock.Instant? {
        timeout.map { ContinuousClock.now + min($0, .seconds(1 << 32)) }
    }

    /// Has `cancel` reach a request while the body waits for it.
    private func whileWaiting<Value>(
        _ cancellation: Cancellation,
        _ body: () throws(CoveError) -> Value
    ) throws(CoveError) -> Value {
        let isCancelled = state.withLock { state in
            if !state.isCancelled { state.waiting.append(cancellation) }
            return state.isCancelled
        }
        guard !isCancelled else { throw CoveError(.cancelled) }
        defer { state.withLock { $0.waiting.removeAll { $0 === cancellation } } }
        try cancellation.check()
        return try body()
    }

    // MARK: Moves

    /// Says that an item will be moved; here it changes nothing.
    public func item(at oldURL: URL, willMoveTo newURL: URL) {}

    /// Says, inside the accessor of a writing claim, that an item is elsewhere now.
    ///
    /// Claims that wait for it and presenters of it follow; to another file system, or another account, presenters alone. Blocks
    /// for a moment.
    public func item(at oldURL: URL, didMoveTo newURL: URL) throws(CoveError) {
        let (authority, from) = try Authorities.find(oldURL)
        let (other, to) = try Authorities.find(newURL)
        var refusal: CoveError?
        // Some of its claims may only read.
        for holding in state.withLock({ $0.held.filter { $0.authority === authority } }) {
            do throws(CoveError) {
                if authority === other { return try authority.moved(holding.claim, from: from, to: to) }
                return try authority.movedOut(holding.claim, from: from, to: to.path)
            } catch {
                guard error.code == .invalidArgument else { throw error }
                refusal = error
            }
        }
        if let refusal { throw refusal }
    }
}
