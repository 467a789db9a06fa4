internal import CoveCore
internal import Foundation
internal import Synchronization

/// What waits for one presenter: messages are handed over in order, and what it is told of is done before the next one.
final class PresenterMailbox: Sendable {
    /// A message on its way to the presenter.
    struct Delivery: Sendable {
        var kind: CoordinationInterface.MessageKind
        /// The presented item, or the subitem.
        var location: Location
        /// Where it moved to.
        var newLocation: Location?
        /// True where it moved to another file system: another authority is asked there.
        var isOutside = false
        /// The claim that asks, or that ended.
        var claim: String?
        var version: FileVersion?
        var attributes: Set<String> = []
        /// Which of the items that the presenter had one after the other it is of.
        var tenure = 0
        /// How often the presenter had said before that its item is elsewhere.
        var placement = 0
    }

    /// A question that the task answers: what it claims for the presenter meanwhile is for the answer.
    struct Answer: Sendable {
        var mailbox: PresenterMailbox
        /// The claim that asks.
        var claim: String

        @TaskLocal static var current: Answer?
    }

    private struct State {
        var location: Location?
        /// Where the presenter itself says that it is: it may not have heard of a move yet, and name it by a link.
        var known: String?
        /// Where it is being told that its item is.
        var told: String?
        /// How many moves it has still to hear of.
        var moves = 0
        /// How often the presenter has said that its item is elsewhere.
        var placement = 0
        /// What runs at the end of a claim that was let in.
        var reacquirers: [String: [FilePresenter.Reacquirer]] = [:]
        /// How many answers a claim that asked to be let in waits for.
        var relinquishing: [String: Int] = [:]
        /// Those of them that have ended.
        var ended: Set<String> = []
        /// How often the presenter has left its item.
        var tenure = 0
    }

    let presenter: any FilePresenter
    /// One purpose for all coordinators of the presenter.
    let purpose: String
    let messages: Set<FilePresenterMessage>
    let observedAttributes: [String]
    private let state: Mutex<State>
    private let stream: AsyncStream<(Delivery, @Sendable (CoveError?) -> Void)>.Continuation

    /// Where the presented item is; nil while it has no file.
    var location: Location? { state.withLock { $0.location } }

    /// True while the presenter has moves to hear of, and says that its item is where it knew it to be, or where it is told.
    func isMoving(from path: String?) -> Bool {
        state.withLock { state in
            let isTold = path != nil && LocalPath.isSame(state.told, path)
            return state.moves > 0 && (isTold || LocalPath.isSame(state.known, path))
        }
    }

    /// The presenter has said where its item is, by a name: of moves of before it does not hear any more.
    func place(at location: Location?, called name: String?) {
        state.withLock { state in
            state.location = location
            state.known = name
            state.placement += 1
        }
    }

    /// The messages to be sent, by their names on the wire.
    var wireMessages: [String] {
        let wantsReacquire = messages.contains(.relinquishToReader) || messages.contains(.relinquishToWriter)
        return messages.map(\.rawValue).sorted()
            + (wantsReacquire ? [CoordinationInterface.MessageKind.reacquire.rawValue] : [])
    }

    /// The item is where another authority is asked; the presenter is being told.
    func follow(to location: Location) { state.withLock { $0.location = location } }

    init(_ presenter: any FilePresenter, at location: Location?) {
        self.presenter = presenter
        purpose = Self.purpose(of: presenter)
        messages = presenter.implementedMessages
        observedAttributes = presenter.observedPresentedItemUbiquityAttributes.sorted()
        state = Mutex(State(location: location, known: presenter.presentedItemURL?.path))
        let (deliveries, continuation) = AsyncStream.makeStream(of: (Delivery, @Sendable (CoveError?) -> Void).self)
        stream = continuation
        Task { [weak self] in
            for await (delivery, reply) in deliveries {
                let mailbox = self
                // A question is not waited for: its answer may need a claim of others, who ask this presenter too.
                if delivery.kind.wantsReply {
                    mailbox?.begin(delivery)
                    Task { reply(await mailbox?.handle(delivery) ?? nil) }
                } else {
                    reply(await mailbox?.handle(delivery) ?? nil)
                }
            }
        }
    }

    deinit { stream.finish() }

    /// The purpose of all coordinators of a presenter, also of those that were made before it was registered.
    static func purpose(of presenter: any FilePresenter) -> String {
        "\(process) \(UInt(bitPattern: ObjectIdentifier(presenter)))"
    }

    private static let process = UUID().uuidString

    /// Hands a message over after those before it; then calls the reply with the presenter's error.
    func post(_ delivery: Delivery, reply: @escaping @Sendable (CoveError?) -> Void = { _ in }) {
        var delivery = delivery
        state.withLock { state in
            if delivery.kind == .didMove {
                state.moves += 1
                if let newLocation = delivery.newLocation { state.location = newLocation }
            }
            delivery.tenure = state.tenure
            delivery.placement = state.placement
        }
        // Whoever posts may hold what the reply needs.
        if case .terminated = stream.yield((delivery, reply)) { Task { reply(nil) } }
    }

    private func handle(_ delivery: Delivery) async -> CoveError? {
        defer { if delivery.kind == .didMove { state.withLock { $0.moves -= 1 } } }
        if delivery.kind == .reacquire {
            for reacquirer in delivery.claim.map(end) ?? [] { await reacquirer() }
            return nil
        }
        guard let message = FilePresenterMessage(rawValue: delivery.kind.rawValue), messages.contains(message) else {
            return nil
        }
        // Nobody makes room for the end of what is not there; on a mount the daemon does not ask for it.
        if message == .accommodateDeletion || message == .accommodateSubitemDeletion, delivery.location.mount == nil {
            let path = delivery.location.path
            guard await FileThreads.run({ (try? System.lstat(path)) != nil }) else { return nil }
        }
        do {
            let answer = delivery.kind.wantsReply ? delivery.claim.map { Answer(mailbox: self, claim: $0) } : nil
            try await Answer.$current.withValue(answer) { try await send(message, delivery) }
            return nil
        } catch {
            return CoveError(error, url: delivery.location.url)
        }
    }

    /// A claim has ended: what is to run then.
    private func end(_ claim: String) -> [FilePresenter.Reacquirer] {
        state.withLock { state in
            // It may end before the presenter has answered: then the answer's reacquirer runs at once.
            if state.relinquishing[claim] != nil { state.ended.insert(claim) }
            return state.reacquirers.removeValue(forKey: claim) ?? []
        }
    }

    /// The claims that the presenter has let in, or is letting in, and of whose end it has not heard.
    var letIn: Set<String> {
        state.withLock { Set($0.reacquirers.keys).union($0.relinquishing.keys) }
    }

    /// Nobody tells of the end of these claims.
    func reacquire(_ claims: Set<String>) {
        let reacquirers = claims.flatMap { end($0) }
        if !reacquirers.isEmpty { Task { for reacquirer in reacquirers { await reacquirer() } } }
    }

    /// Nobody tells the presenter of the item that it had any more: whoever it let in keeps it from nothing.
    func reacquire() {
        let reacquirers = state.withLock { state in
            state.tenure += 1
            defer { state.reacquirers = [:] }
            return state.reacquirers.values.flatMap { $0 }
        }
        if !reacquirers.isEmpty { Task { for reacquirer in reacquirers { await reacquirer() } } }
    }

    private func send(_ message: FilePresenterMessage, _ delivery: Delivery) async throws {
        let url = delivery.location.url
        switch message {
        case .relinquishToReader:
            await keep(await presenter.relinquishPresentedItemToReader() as? FilePresenter.Reacquirer, delivery)
        case .relinquishToWriter:
            await keep(await presenter.relinquishPresentedItemToWriter() as? FilePresenter.Reacquirer, delivery)
        case .saveChanges: _ = try await presenter.savePresentedItemChanges()
        case .accommodateDeletion: _ = try await presenter.accommodatePresentedItemDeletion()
        case .accommodateSubitemDeletion: _ = try await presenter.accommodatePresentedSubitemDeletion(at: url)
        case .accommodateEviction: _ = try await presenter.accommodatePresentedItemEviction()
        case .didMove:
            if delivery.isOutside, let path = delivery.newLocation?.path {
                await FileThreads.run { PresenterRegistry.follow(self, to: path) }
            }
            await sendMove(delivery)
        case .didChange: _ = await presenter.presentedItemDidChange()
        case .didChangeAttributes: _ = await presenter.presentedItemDidChangeUbiquityAttributes(delivery.attributes)
        case .subitemDidAppear: _ = await presenter.presentedSubitemDidAppear(at: url)
        case .subitemDidMove:
            _ = await presenter.presentedSubitem(at: url, didMoveTo: delivery.newLocation?.url ?? url)
        case .subitemDidChange: _ = await presenter.presentedSubitemDidChange(at: url)
        case .didGainVersion, .didLoseVersion, .didResolveVersion, .subitemDidGainVersion, .subitemDidLoseVersion,
            .subitemDidResolveVersion:
            await send(message, delivery.version, at: url)
        }
    }

    private func sendMove(_ delivery: Delivery) async {
        let place = delivery.newLocation ?? delivery.location
        let isCurrent = state.withLock { state in
            guard state.placement == delivery.placement else { return false }
            state.told = place.path
            return true
        }
        guard isCurrent else { return }
        _ = await presenter.presentedItemDidMove(to: place.url)
        state.withLock { state in
            if state.placement == delivery.placement { state.known = place.path }
            state.told = nil
        }
    }

    private func send(_ message: FilePresenterMessage, _ version: FileVersion?, at url: URL) async {
        switch message {
        case .didGainVersion: _ = await presenter.presentedItemDidGain(version)
        case .didLoseVersion: _ = await presenter.presentedItemDidLose(version)
        case .didResolveVersion: _ = await presenter.presentedItemDidResolveConflict(version)
        case .subitemDidGainVersion: _ = await presenter.presentedSubitem(at: url, didGain: version)
        case .subitemDidLoseVersion: _ = await presenter.presentedSubitem(at: url, didLose: version)
        case .subitemDidResolveVersion: _ = await presenter.presentedSubitem(at: url, didResolve: version)
        default: break
        }
    }

    private func begin(_ delivery: Delivery) {
        guard let claim = delivery.claim, let message = FilePresenterMessage(rawValue: delivery.kind.rawValue),
            message == .relinquishToReader || message == .relinquishToWriter, messages.contains(message)
        else { return }
        state.withLock { $0.relinquishing[claim, default: 0] += 1 }
    }

    private func keep(_ reacquirer: FilePresenter.Reacquirer?, _ delivery: Delivery) async {
        guard let claim = delivery.claim else { return }
        let hasEnded = state.withLock { state in
            let left = (state.relinquishing[claim] ?? 1) - 1
            state.relinquishing[claim] = left > 0 ? left : nil
            guard state.ended.contains(claim) || delivery.tenure != state.tenure else {
                if let reacquirer { state.reacquirers[claim, default: []].append(reacquirer) }
                return false
            }
            if left <= 0 { state.ended.remove(claim) }
            return true
        }
        if hasEnded { await reacquirer?() }
    }
}

extension PresenterMailbox.Delivery {
    /// Reads what a daemon sent; nil without a path where one is needed.
    init?(_ message: CoordinationInterface.Message, _ kind: CoordinationInterface.MessageKind, in place: Location?) {
        guard let place else { return nil }
        let remote = (try? message.path.remotePath()) ?? nil
        let newRemote = (try? message.newPath?.remotePath()) ?? nil
        self.kind = kind
        location = remote.map { place.sibling(at: $0) } ?? place
        newLocation = newRemote.map { place.sibling(at: $0) }
        if newLocation == nil, let outside = message.outside {
            newLocation = Location(outside: outside)
            isOutside = true
        }
        claim = message.claim
        version = message.version.map { FileVersion($0, of: location) }
        attributes = Set(message.attributes)
    }
}
