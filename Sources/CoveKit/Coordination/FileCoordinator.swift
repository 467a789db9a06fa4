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
        var held: [Holding] = []
    }

    let identity = CoordinatorIdentity()
    private let presenter: (any FilePresenter)?
    private let state: Mutex<State>

    /// Makes a coordinator; its presenter gets no messages for what is done with it.
    public init(filePresenter: (any FilePresenter)? = nil) {
        presenter = filePresenter
        let mailbox = filePresenter.flatMap(PresenterRegistry.mailbox)
        state = Mutex(State(purpose: mailbox?.purpose ?? UUID().uuidString, isPurposeFixed: filePresenter != nil))
    }

    /// Coordinators of one purpose, in any process, never wait for each other.
    public var purposeIdentifier: String { state.withLock { $0.purpose } }

    /// Sets the purpose, once; throws EINVAL for an empty one, a second time, and for a presenter's coordinator.
    public func setPurposeIdentifier(_ identifier: String) throws(CoveError) {
        try state.withLock { state throws(CoveError) in
            guard !identifier.isEmpty else { throw CoveError(.invalidArgument, "a purpose can't be empty") }
            guard !state.isPurposeFixed else { throw CoveError(.invalidArgument, "the purpose is set already") }
            state.purpose = identifier
            state.isPurposeFixed = true
        }
    }

    /// Ends all waiting with ECANCELED, and refuses all from now on; running accessors finish.
    ///
    /// Returns at once, on any thread. The cancellation of a task that waits does the same.
    public func cancel() {
        identity.cancel()
        let authorities = state.withLock { $0.held.map(\.authority) } + waiting.withLock { $0 }
        FileThreads.start { [identity] in
            for authority in authorities { authority.cancel(identity) }
        }
    }

    /// The authorities that were asked and have not answered.
    private let waiting = Mutex<[any Authority]>([])

    // MARK: Claims

    /// A claim that is held.
    struct Holding: Sendable {
        var authority: any Authority
        var claim: String
    }

    /// Runs the body once all intents are granted, whose URLs are then right.
    ///
    /// Blocks.
    func perform<Value>(
        _ intents: [FileAccessIntent],
        timeout: Duration? = nil,
        _ body: () throws -> Value
    ) throws(CoveError) -> Value {
        let holdings = try claim(intents, timeout: timeout)
        state.withLock { $0.held += holdings }
        let outcome: Result<Value, CoveError>
        do { outcome = .success(try body()) } catch { outcome = .failure(CoveError(error, url: intents.first?.url)) }
        state.withLock { state in
            state.held.removeAll { holding in holdings.contains { $0.claim == holding.claim } }
        }
        var failure: CoveError?
        for holding in holdings.reversed() {
            do throws(CoveError) { try holding.authority.release(holding.claim) } catch { failure = error }
        }
        if let presenter, holdings.isEmpty == false { try? PresenterRegistry.update(presenter) }
        let value = try outcome.get()
        if let failure { throw failure }
        return value
    }

    /// Asks all authorities concerned, one after the other in an order that all processes keep.
    private func claim(_ intents: [FileAccessIntent], timeout: Duration?) throws(CoveError) -> [Holding] {
        var held: [Holding] = []
        do throws(CoveError) {
            for (authority, request, indexes) in try requests(intents, timeout: timeout) {
                let grant = try whileWaiting(for: authority) { () throws(CoveError) in
                    try claim(request, from: authority, isFirst: held.isEmpty)
                }
                held.append(Holding(authority: authority, claim: grant.claim))
                for (index, (intent, path)) in zip(indexes, zip(request.intents, grant.paths))
                where path != intent.location.path || intent.reading.contains(.resolvesSymbolicLink) {
                    intents[index].url = URL(fileURLWithPath: path)
                }
            }
            return held
        } catch {
            for holding in held { try? holding.authority.release(holding.claim) }
            throw error
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
            try identity.check()
            _ = poll(nil, 0, 20)
        }
    }

    /// Asks presenters without a claim.
    ///
    /// Blocks.
    func prepare(_ intents: [FileAccessIntent]) throws(CoveError) {
        for intent in intents {
            let isAllowed =
                switch intent.purpose {
                case .reading(let options): !options.contains(.resolvesSymbolicLink)
                case .writing(let options): !options.contains(.forReplacing)
                }
            guard isAllowed else { throw CoveError(.invalidArgument, "can't be prepared for so", url: intent.url) }
        }
        for (authority, request, _) in try requests(intents, timeout: nil) {
            try whileWaiting(for: authority) { () throws(CoveError) in try authority.prepare(request) }
        }
    }

    private func requests(
        _ intents: [FileAccessIntent],
        timeout: Duration?
    ) throws(CoveError) -> [(any Authority, ClaimRequest, [Int])] {
        try identity.check()
        guard !intents.isEmpty else { throw CoveError(.invalidArgument, "nothing is to be accessed") }
        let mailbox = presenter.flatMap(PresenterRegistry.mailbox)
        var requests: [String: (any Authority, ClaimRequest, [Int])] = [:]
        for (index, intent) in intents.enumerated() {
            try intent.check()
            var followsLink = false
            if case .reading(let options) = intent.purpose { followsLink = options.contains(.resolvesSymbolicLink) }
            let (authority, location) = try Authorities.find(intent.url, followsLink: followsLink)
            var entry =
                requests[authority.name]
                ?? (
                    authority,
                    ClaimRequest(
                        coordinator: identity,
                        purpose: mailbox?.purpose ?? purposeIdentifier,
                        presenter: mailbox,
                        intents: [],
                        timeout: timeout
                    ), []
                )
            entry.1.intents.append(Intent(purpose: intent.purpose, location: location))
            entry.2.append(index)
            requests[authority.name] = entry
        }
        return requests.values.sorted { $0.0.name < $1.0.name }
    }

    private func whileWaiting<Value>(
        for authority: any Authority,
        _ body: () throws(CoveError) -> Value
    ) throws(CoveError) -> Value {
        waiting.withLock { $0.append(authority) }
        defer {
            waiting.withLock { waiting in
                if let index = waiting.firstIndex(where: { $0 === authority }) { waiting.remove(at: index) }
            }
        }
        try identity.check()
        return try body()
    }

    // MARK: Moves

    /// Says that an item will be moved; here it changes nothing.
    public func item(at oldURL: URL, willMoveTo newURL: URL) {}

    /// Says, inside the accessor of a writing claim, that an item is elsewhere now.
    ///
    /// Claims that wait for it and presenters of it follow. Blocks for a moment.
    public func item(at oldURL: URL, didMoveTo newURL: URL) throws(CoveError) {
        let (authority, from) = try Authorities.find(oldURL)
        let (other, to) = try Authorities.find(newURL)
        guard authority === other else { return }
        guard let holding = state.withLock({ $0.held.first { $0.authority === authority } }) else { return }
        try authority.moved(holding.claim, from: from, to: to)
    }
}
