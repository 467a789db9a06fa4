internal import CoveCore
internal import Glibc
internal import Synchronization

/// How a face ended.
public enum PickerEnd: Sendable, Equatable {
    /// A choice was carried out.
    case picked(PickerOutcome)
    /// The person left.
    case cancelled
    /// A signal asks the process to end; the terminal is as it was.
    case signalled(Int32)
}

/// The picker on a terminal, full screen.
///
/// Blocks, and owns the controlling terminal meanwhile. What may take time runs on threads of its own.
public final class TerminalFace {
    private let service: any PickerService
    private let terminal: RawTerminal
    private let news: News
    private var model: PickerModel
    private var listing: FolderListing?
    private var shown: Screen?
    private var choice: Interruption?

    /// What other threads have for the face.
    private final class News: Sendable {
        let descriptor: Int32
        private let result = Mutex<Result<PickerOutcome, PickerFailure>?>(nil)

        init() throws(Errno) { descriptor = try System.eventDescriptor() }

        deinit { System.close(descriptor) }

        func ring() {
            var one: UInt64 = 1
            _ = write(descriptor, &one, 8)
        }

        func put(_ new: Result<PickerOutcome, PickerFailure>) {
            result.withLock { $0 = new }
            ring()
        }

        /// What has come of a choice.
        func take() -> Result<PickerOutcome, PickerFailure>? {
            var count: UInt64 = 0
            _ = read(descriptor, &count, 8)
            return result.withLock { result in
                let taken = result
                result = nil
                return taken
            }
        }
    }

    /// Shows the picker until something is chosen or the person leaves.
    public static func run(_ service: any PickerService) throws(PickerFailure) -> PickerEnd {
        let roots = try service.roots()
        let face: TerminalFace
        do throws(Errno) {
            face = try TerminalFace(service, roots)
        } catch {
            let remedy = "run it in one, or use --web or --choose PATH"
            throw PickerFailure(
                "/dev/tty",
                "there is no terminal to show the picker on: \(error)",
                remedy,
                errno: error
            )
        }
        defer {
            face.listing?.cancel()
            face.terminal.leave()
            face.endChoice()
        }
        return try face.run()
    }

    private init(_ service: any PickerService, _ roots: [PickerRoot]) throws(Errno) {
        self.service = service
        model = PickerModel(service.request, roots: roots)
        news = try News()
        terminal = try RawTerminal()
    }

    private func run() throws(PickerFailure) -> PickerEnd {
        terminal.enter()
        if let folder = model.folder { try list(folder) }
        var reader = KeyReader()
        while true {
            draw()
            var entries = [terminal.descriptor, terminal.signals.descriptor, news.descriptor].map {
                pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
            }
            // A lone escape is a key when nothing follows it at once.
            let count = (try? System.retry { poll(&entries, 3, reader.isPending ? 50 : -1) }) ?? 0
            if count == 0 {
                for key in reader.flush() { if let end = try press(key) { return end } }
            }
            if entries[1].revents != 0, let end = takeSignal() { return end }
            if entries[2].revents != 0, let end = takeNews() { return end }
            if entries[0].revents != 0 {
                guard let bytes = terminal.input() else { return .cancelled }
                for key in reader.take(bytes) { if let end = try press(key) { return end } }
            }
        }
    }

    private func draw() {
        let (columns, rows) = terminal.size
        model.set(height: PickerLayout.height(of: model, rows: rows))
        let screen = PickerLayout.draw(model, columns: columns, rows: rows)
        guard screen != shown else { return }
        terminal.write(screen.changes(from: shown))
        shown = screen
    }

    /// Draws everything anew, as the size may be another one.
    private func redraw() {
        shown = nil
        terminal.write("\u{1B}[0m\u{1B}[2J")
    }

    /// Gives up what is being carried out, and lets it take away what it has made.
    private func endChoice() {
        guard let choice else { return }
        choice.interrupt()
        let deadline = System.monotonic() + PickerRequest.patienceAtEnd
        while news.take() == nil {
            var entry = pollfd(fd: news.descriptor, events: Int16(POLLIN), revents: 0)
            let left = deadline - System.monotonic()
            guard left > .zero, ((try? System.retry { poll(&entry, 1, left.pollMilliseconds) }) ?? 0) > 0 else {
                return
            }
        }
    }

    private func takeSignal() -> PickerEnd? {
        guard let number = terminal.signals.next() else { return nil }
        switch number {
        case SIGWINCH: redraw()
        case SIGTSTP:
            terminal.stop()
            redraw()
        case SIGCONT:
            terminal.takeAgain()
            redraw()
        case SIGINT: return .cancelled
        default: return .signalled(number)
        }
        return nil
    }

    private func takeNews() -> PickerEnd? {
        let result = news.take()
        if let listing { model.take(listing) }
        switch result {
        case .success(let outcome):
            choice = nil
            return .picked(outcome)
        case .failure(let failure):
            choice = nil
            model.fail(failure)
        case nil: break
        }
        return nil
    }

    private func press(_ key: Key) throws(PickerFailure) -> PickerEnd? {
        switch model.press(key) {
        case .none: break
        case .list(let folder): try list(folder)
        case .showRoots:
            listing?.cancel()
            listing = nil
        case .choose(let selection): choose(selection)
        case .giveUp: choice?.interrupt()
        case .cancel: return .cancelled
        case .redraw: redraw()
        }
        return nil
    }

    private func list(_ folder: [UInt8]) throws(PickerFailure) {
        listing?.cancel()
        listing = try FolderListing(folder, of: service) { [news] in news.ring() }
    }

    private func choose(_ selection: PickerSelection) {
        do throws(Errno) {
            let interruption = try Interruption()
            choice = interruption
            try BlockingThread.start { [service, news] in
                news.put(
                    Result { () throws(PickerFailure) in try service.choose(selection, interruption: interruption) }
                )
            }
        } catch {
            model.fail(PickerFailure(nil, "nothing can be done: \(error)", "close other programs", errno: error))
        }
    }
}
