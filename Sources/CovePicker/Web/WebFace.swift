internal import CoveCore
internal import Glibc
internal import Synchronization

/// The picker in a browser of this machine.
///
/// Blocks the thread that runs it, until something is chosen, the person leaves or a signal comes.
public final class WebFace: Sendable {
    struct State {
        var listing: FolderListing?
        /// What the last filter left of a listing that is over.
        var items: FilteredEntries?
        var choice: Choice?
        var end: PickerEnd?
    }

    /// Something that is being carried out.
    struct Choice {
        let interruption: Interruption
        /// Interrupted when it is over.
        let ended: Interruption
    }

    let service: any PickerService
    let places: [PickerRoot]
    let state = Mutex(State())
    /// Becomes readable at the end.
    private let over: Int32

    /// Serves the page, and tells its address once it can be opened.
    public static func run(
        _ service: any PickerService,
        opened: (_ address: String) -> Void
    ) throws(PickerFailure) -> PickerEnd {
        let places = try service.roots()
        do throws(Errno) {
            let signals = try SignalReader([SIGINT, SIGTERM, SIGHUP])
            let face = try WebFace(service, places)
            let (server, guardian) = try face.serve()
            defer { server.stop() }
            opened(guardian.address)
            return face.wait(signals)
        } catch {
            throw PickerFailure(nil, "the page can't be served: \(error)", "choose on the terminal", errno: error)
        }
    }

    init(_ service: any PickerService, _ places: [PickerRoot]) throws(Errno) {
        self.service = service
        self.places = places
        over = try System.eventDescriptor()
    }

    deinit { System.close(over) }

    /// Starts a server for this face, and tells what guards it.
    func serve(limits: HTTPServer.Limits = .init()) throws(Errno) -> (HTTPServer, WebGuard) {
        let server = try HTTPServer(limits: limits)
        let guardian = WebGuard(port: server.port)
        let handler = HTTPServer.Handler(
            answer: { [self] request in guardian.refusal(request) ?? answer(request, guardian) },
            sent: { [self] response in sent(response) }
        )
        try server.start(handler)
        return (server, guardian)
    }

    /// How it ended, once it has.
    var end: PickerEnd? { state.withLock { $0.end } }

    private func wait(_ signals: SignalReader) -> PickerEnd {
        while true {
            if let end { return end }
            var entries = [signals.descriptor, over].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            _ = try? System.retry { poll(&entries, 2, -1) }
            guard entries[0].revents != 0, let number = signals.next() else { continue }
            let choice = state.withLock { state in
                state.listing?.cancel()
                return state.choice
            }
            choice?.interruption.interrupt()
            _ = choice?.ended.wait(limit: PickerRequest.patienceAtEnd)
            return number == SIGINT ? .cancelled : .signalled(number)
        }
    }

    /// The page has been told how it ended: so the command may end too.
    private func sent(_ response: HTTPResponse) {
        guard let end = response.end else { return }
        state.withLock { $0.end = $0.end ?? end }
        var one: UInt64 = 1
        _ = write(over, &one, 8)
    }
}
