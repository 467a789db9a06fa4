internal import CoveCore
internal import Synchronization

/// Pictures of documents, whether their bytes are here or not: where they come from, who gets them, and when they end.
final class Thumbnails: EnginePart {
    /// What was seen of a document in which no picture was found.
    struct Sight: Equatable {
        var item: ItemID
        var generation: Int64
        var modificationTime: Timestamp
        var size: Int64
        var isWhole: Bool
    }

    private struct State {
        /// Documents that have none for now.
        var absences: [DocumentID: (sight: Sight, until: MonotonicTime)] = [:]
        /// Those to be looked for again, and when.
        var again: [DocumentID: MonotonicTime] = [:]
        /// Those that the provider did not take: how often, and when it is asked again.
        var refused: [DocumentID: (count: Int, until: MonotonicTime)] = [:]
        /// When the provider is asked again to take or to drop pictures.
        var nextSharing = MonotonicTime.distantPast
        /// Places at the provider for which something goes on.
        var busyPlaces: Set<RemotePath> = []
        var isDropping = false
        var programs: (found: Thumbnailers, until: MonotonicTime)?
        /// Programs that had to be ended: how often, and until when they are not run.
        var hanging: [String: (count: Int, until: MonotonicTime)] = [:]
        var isChecking = false
        /// How many commits there were at the last look; nil where it left something to do.
        var checked: Int?
        /// Directories whose listings wait for pictures, and how many do.
        var waits: [ItemID: Int] = [:]
        /// When directories were shown lately.
        var shown: [MonotonicTime] = []
        var hasEnded = false
    }

    private static let mostAbsences = 10_000
    private static let mostAgain = 1000
    private static let mostRefused = 10_000
    /// How often the provider is asked to take one picture.
    private static let patience = 5
    /// How long the provider is left alone, or with one picture, after it did not take it.
    private static let sharingRest = TimeSpan.seconds(60)
    /// How long the programs that were found are taken to be all there are.
    private static let programsRest = TimeSpan.seconds(60)
    /// A program that had to be ended so often, one time after the other, is not run for so long.
    private static let mostHangs = 3
    private static let hangingRest = TimeSpan.seconds(3600)
    /// So many directories are shown in so much time: who opens one after the other reads names, and looks at no pictures.
    private static let mostShown = 10
    private static let shownTime = TimeSpan.seconds(10)

    let context: EngineContext
    let contents: Contents
    let namespace: Namespace
    /// The folder of the pictures.
    let folder: String
    let maker: ThumbnailMaker
    /// Pictures that are here or at the provider.
    let finding = ThumbnailQueue(workers: 4)
    /// Pictures that the desktop's programs make of documents.
    let making = ThumbnailQueue(workers: 1)
    /// Pictures that the provider is to get.
    let sharing = ThumbnailQueue(workers: 2)
    /// Runs these programs, for documents and for pictures that are to be smaller.
    let threads = ThreadPool(threads: 3)
    private let state = EngineMutex(.thumbnails, State())

    init(_ context: EngineContext, _ contents: Contents, _ namespace: Namespace) {
        self.context = context
        self.contents = contents
        self.namespace = namespace
        folder = context.configuration.stateDirectory + "/thumbnails"
        maker = ThumbnailMaker(folder: folder + "/making")
    }

    /// Ends all work.
    func end() {
        state.withLock { $0.hasEnded = true }
        finding.end()
        making.end()
        sharing.end()
    }

    /// Runs what blocks for a while.
    func onThread<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in threads.async { continuation.resume(returning: body()) } }
    }

    // MARK: What is known for a while

    /// True where it was found lately that there is no picture of what a document holds.
    func isAbsent(_ document: DocumentID, _ sight: Sight) -> Bool {
        state.withLock { state in
            guard let absence = state.absences[document] else { return false }
            if absence.sight == sight, absence.until > clock.monotonic() { return true }
            state.absences[document] = nil
            return false
        }
    }

    func noteAbsence(of document: DocumentID, _ sight: Sight, for time: TimeSpan) {
        let until = clock.monotonic() + time
        state.withLock { state in
            if state.absences.count >= Self.mostAbsences { state.absences.removeAll() }
            state.absences[document] = (sight, until)
        }
    }

    /// There may be a picture now.
    func forgetAbsence(of document: DocumentID) { state.withLock { $0.absences[document] = nil } }

    /// Has a document's picture looked for later.
    func wantAgain(_ document: DocumentID, after pause: TimeSpan) {
        let time = clock.monotonic() + pause
        state.withLock { state in
            if state.again.count < Self.mostAgain { state.again[document] = time }
        }
    }

    /// The documents whose time has come.
    func takeAgain() -> [DocumentID] {
        let now = clock.monotonic()
        return state.withLock { state in
            if state.again.isEmpty { return [] }
            let due = state.again.filter { $0.value <= now }.map(\.key)
            for document in due { state.again[document] = nil }
            return due
        }
    }

    // MARK: Directories that are shown

    /// Counts a directory that is shown; false where there were too many lately.
    func beginWait(in directory: ItemID) -> Bool {
        let now = clock.monotonic()
        return state.withLock { state in
            state.shown.removeAll { $0 + Self.shownTime < now }
            guard state.shown.count < Self.mostShown, !state.hasEnded else { return false }
            state.shown.append(now)
            state.waits[directory, default: 0] += 1
            return true
        }
    }

    func endWait(in directory: ItemID) {
        state.withLock { state in
            let left = (state.waits[directory] ?? 1) - 1
            state.waits[directory] = left > 0 ? left : nil
        }
    }

    /// True while whoever is to see a directory's pictures has not read its names yet.
    func isWaiting(in directory: ItemID) -> Bool { state.withLock { $0.waits[directory] != nil } }

    // MARK: The provider

    /// True where the provider, once connected, says that it keeps pictures, and may be given some.
    var canShare: Bool {
        let capabilities = provider.capabilities
        return capabilities.keepsThumbnails && !capabilities.readOnly && !configuration.isReadOnly
    }

    /// True while it may be asked to take or to drop one, the one of a document if it is named.
    func mayShare(_ document: DocumentID? = nil) -> Bool {
        guard sync?.mayFetch == true, canShare else { return false }
        let now = clock.monotonic()
        return state.withLock { state in
            guard state.nextSharing <= now, !state.hasEnded else { return false }
            return document.flatMap { state.refused[$0] }.map { $0.until <= now } ?? true
        }
    }

    /// The provider did not take or drop a picture, for a reason that concerns others too.
    func noteSharingFailed() {
        let next = clock.monotonic() + Self.sharingRest
        state.withLock { $0.nextSharing = next }
    }

    /// It did not take one; true when it has been asked often enough.
    func noteRefused(_ document: DocumentID) -> Bool {
        let until = clock.monotonic() + Self.sharingRest
        return state.withLock { state in
            let count = (state.refused[document]?.count ?? 0) + 1
            if count >= Self.patience || state.refused.count >= Self.mostRefused {
                state.refused[document] = nil
                return true
            }
            state.refused[document] = (count, until)
            return false
        }
    }

    /// Keeps others from a place at the provider; false where one of them is there.
    func beginWork(at place: RemotePath) -> Bool { state.withLock { $0.busyPlaces.insert(place).inserted } }

    func endWork(at place: RemotePath) { state.withLock { _ = $0.busyPlaces.remove(place) } }

    /// Has the body drop pictures, unless another one does.
    func dropping(_ body: @escaping @Sendable () async -> Void) {
        let isFree = state.withLock { state in
            defer { state.isDropping = true }
            return !state.isDropping && !state.hasEnded
        }
        guard isFree else { return }
        Task {
            await body()
            state.withLock { $0.isDropping = false }
        }
    }

    // MARK: Programs

    /// The desktop's programs; none where they are not to be used, or can't be shut in.
    ///
    /// Reads files.
    private var programs: Thumbnailers {
        let now = clock.monotonic()
        if let known = state.withLock({ $0.programs }), known.until > now { return known.found }
        let usable = configuration.makesThumbnails && ThumbnailMaker.canRun
        let found = usable ? Thumbnailers.ofMachine() : Thumbnailers(folders: [])
        state.withLock { $0.programs = (found, now + Self.programsRest) }
        return found
    }

    /// The program for the nearest of some types; nil where there is none that can be run now.
    ///
    /// Reads files.
    func program(for types: [String]) -> Thumbnailers.Program? {
        guard let program = programs.program(for: types), !isResting(program) else { return nil }
        return program
    }

    /// True where there is a program for one of the types, even if it rests.
    ///
    /// Reads files.
    func hasProgram(for types: [String]) -> Bool { programs.program(for: types) != nil }

    private func isResting(_ program: Thumbnailers.Program) -> Bool {
        let now = clock.monotonic()
        return state.withLock { state in
            state.hanging[program.name].map { $0.count >= Self.mostHangs && $0.until > now } ?? false
        }
    }

    /// Counts how often in a row a program took too long.
    func note(_ outcome: ThumbnailMaker.Outcome, of program: Thumbnailers.Program) {
        let now = clock.monotonic()
        let count = state.withLock { state -> Int in
            guard case .late = outcome else {
                // What could not be started says nothing of it.
                if case .unable = outcome {} else { state.hanging[program.name] = nil }
                return 0
            }
            let count = (state.hanging[program.name]?.count ?? 0) + 1
            state.hanging[program.name] = (count, now + Self.hangingRest)
            return count
        }
        if count >= Self.mostHangs { log.notice("thumbnails: \(program.name) does not end; it is not run for an hour") }
    }

    // MARK: The clock's round

    /// Has the body look at what has changed, unless another one does, or nothing was committed since it left nothing to do.
    func checking(_ body: @escaping @Sendable () -> Bool) {
        let commits = catalog.commitCount
        let isDue = state.withLock { state in
            guard !state.isChecking, !state.hasEnded, state.checked != commits else { return false }
            state.isChecking = true
            return true
        }
        guard isDue else { return }
        contentQueue.async { [self] in
            let isDone = body()
            state.withLock { state in
                state.isChecking = false
                state.checked = isDone ? commits : nil
            }
        }
    }
}
