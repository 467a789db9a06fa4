internal import CoveCore
internal import Synchronization

/// A directory's listing under way: the answer is parsed as it comes, and rests while nobody takes what is there.
final class DAVListing: Sendable {
    private static let pageSize = 1000
    /// Parsed and not yet taken: then the line rests.
    private static let most = 4 * pageSize

    private struct State {
        var items: [RemoteItem] = []
        var count = 0
        var hasItself = false
        var end: Result<Void, ProviderError>?
        var waiter: CheckedContinuation<Void, Never>?
        var resume: (@Sendable () -> Void)?
        var isResting = false
        /// True once somebody has a part of it.
        var isTaken = false

        mutating func wakeIfReady() -> CheckedContinuation<Void, Never>? {
            guard items.count >= DAVListing.pageSize || end != nil else { return nil }
            defer { waiter = nil }
            return waiter
        }
    }

    private let path: RemotePath
    private let state = Mutex(State())
    private let task = Mutex<Task<Void, Never>?>(nil)

    init(_ provider: WebDAVProvider, _ path: RemotePath) {
        self.path = path
        let asking = Task { [receiver = Receiver(self, provider, path)] in
            var receiver = receiver
            for attempt in 1... {
                let end: Result<Void, ProviderError>
                do throws(ProviderError) {
                    try await provider.propfind(
                        path,
                        isDirectory: true,
                        depth: 1,
                        provider.itemRequest,
                        to: receiver
                    )
                    end = .success(())
                } catch {
                    end = .failure(error)
                }
                guard let listing = receiver.listing else { return }
                guard receiver.isUnreadable || receiver.isTooEarly, attempt < Self.attempts, listing.beginAgain() else {
                    return listing.finish(end)
                }
                if receiver.isTooEarly { try? await Task.sleep(for: .milliseconds(300)) }
                receiver = Receiver(listing, provider, path)
                receiver.isLast = attempt + 1 == Self.attempts
            }
        }
        task.withLock { $0 = asking }
    }

    /// How often a listing is asked for whose end can't be read: something that it tells of went away meanwhile, for example.
    private static let attempts = 3

    /// Forgets what came; false when somebody has a part of it.
    private func beginAgain() -> Bool {
        state.withLock { state in
            guard !state.isTaken else { return false }
            (state.items, state.count, state.hasItself, state.isResting) = ([], 0, false, false)
            return true
        }
    }

    /// Nobody comes back for the rest.
    deinit { task.withLock { $0 }?.cancel() }

    /// The next page, and whether it is the last.
    func next() async throws(ProviderError) -> (items: [RemoteItem], isLast: Bool) {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let ready = state.withLock { state in
                    state.waiter = continuation
                    return state.wakeIfReady()
                }
                ready?.resume()
            }
        } onCancel: {
            task.withLock { $0 }?.cancel()
        }
        let (page, resume) = state.withLock {
            state -> (Result<([RemoteItem], Bool), ProviderError>, (@Sendable () -> Void)?) in
            if case .failure(let error) = state.end { return (.failure(error), nil) }
            if state.end != nil, !state.hasItself { return (.failure(.noSuchItem), nil) }
            state.isTaken = true
            let items = Array(state.items.prefix(Self.pageSize))
            state.items.removeFirst(items.count)
            let resume = state.isResting && state.items.count < Self.pageSize ? state.resume : nil
            if resume != nil { state.isResting = false }
            return (.success((items, state.end != nil && state.items.isEmpty)), resume)
        }
        resume?()
        return try page.get()
    }

    private func finish(_ end: Result<Void, ProviderError>) {
        let ready = state.withLock { state in
            state.end = end
            return state.wakeIfReady()
        }
        ready?.resume()
    }

    private func add(_ item: RemoteItem) throws(ProviderError) {
        let (ready, count) = state.withLock { state in
            state.items.append(item)
            state.count += 1
            return (state.wakeIfReady(), state.count)
        }
        ready?.resume()
        if count > PageLimit.items { throw .failed("\(path): the server's listing does not end", nil) }
    }

    private var isFull: Bool {
        state.withLock { state in
            state.isResting = state.items.count >= Self.most
            return state.isResting
        }
    }

    private var isTaken: Bool { state.withLock { $0.isTaken } }

    private func noteItself() { state.withLock { $0.hasItself = true } }

    /// Turns resources into items of the listing, as long as somebody holds that.
    private final class Receiver: MultistatusReceiver, @unchecked Sendable {
        weak let listing: DAVListing?
        private let provider: WebDAVProvider
        private let path: RemotePath
        private var count = 0
        /// True when something will be described in a moment, perhaps.
        private(set) var isTooEarly = false
        /// True when nothing is waited for any more.
        var isLast = false

        init(_ listing: DAVListing, _ provider: WebDAVProvider, _ path: RemotePath) {
            self.listing = listing
            self.provider = provider
            self.path = path
            super.init(provider.client.pageLimit)
        }

        override func take(_ resource: DAVResource) throws(ProviderError) {
            guard let listing else { throw .cancelled }
            let refusal = resource.refusal("\(path)")
            if resource.isPlaceholder, refusal == nil { return }
            switch provider.address.place(of: resource.href, in: path) {
            case .elsewhere: return
            case .inside(let bytes) where refusal != nil:
                let name = FileName(unchecked: bytes)
                if !name.isReserved || name.isPassing { try leaveOut(resource) }
            case .itself:
                if let refusal { throw refusal }
                guard resource.isCollection else { throw .noSuchItem }
                listing.noteItself()
            case .inside(let bytes):
                let name = FileName(unchecked: bytes)
                if name.isReserved {
                    provider.noteLeftover(name, in: path, resource)
                    if !name.isPassing { return }
                }
                var item = provider.item(resource, path.appending(name))
                // As it was sent: one with a slash, or one that is too long, is for the engine to refuse.
                item.name = Array(bytes.prefix(1000))
                try listing.add(item)
                count += 1
                if count.isMultiple(of: DAVListing.pageSize) { beginPage() }
            }
        }

        /// Takes note of something that the server does not describe.
        ///
        /// A listing without it does not say that it is gone: who looks for it by its name is told why it is not here. One that
        /// will be described in a moment is waited for, a short time.
        private func leaveOut(_ resource: DAVResource) throws(ProviderError) {
            let what = String(decoding: resource.href.prefix(1000), as: UTF8.self)
            switch resource.refusal(what) {
            case .noSuchItem, nil: return
            case .busy where !isLast && listing?.isTaken == false:
                isTooEarly = true
                throw .busy
            case .some(let error): provider.log("left out of a listing: \(error)")
            }
        }

        override var isFull: Bool {
            guard listing?.isFull == true else { return false }
            // It rests as long as nobody wants more.
            beginPage()
            return true
        }

        override func connect(_ resume: @escaping @Sendable () -> Void) {
            listing?.state.withLock { $0.resume = resume }
        }
    }
}
