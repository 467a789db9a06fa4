internal import CoveCore
internal import Synchronization

/// How far one push is.
final class PushProgress: Sendable {
    let started: MonotonicTime
    private let read = Atomic<Int64>(0)
    /// What the provider says that the source has; -1 as long as it says nothing.
    private let arrived = Atomic<Int64>(-1)
    private let size = Atomic<Int64>(0)
    /// The most that arrived of this content so far, and all steps of all contents.
    private let furthest = Atomic<Int64>(0)
    private let steps = Atomic<Int64>(0)

    init(started: MonotonicTime) { self.started = started }

    /// How many bytes there are to send; 0 for a push without content.
    var total: Int64 { size.load(ordering: .relaxed) }

    /// How many of them were sent: what was read, unless the provider knows it better.
    var sent: Int64 {
        let arrived = arrived.load(ordering: .relaxed)
        return min(arrived < 0 ? read.load(ordering: .relaxed) : arrived, total)
    }

    /// Grows with every step forward, whoever tells of it, and with nothing else.
    var mark: Int64 { steps.load(ordering: .relaxed) }

    /// A content is sent, from its beginning on.
    func begin(_ total: Int64) {
        size.store(total, ordering: .relaxed)
        read.store(0, ordering: .relaxed)
        arrived.store(-1, ordering: .relaxed)
        furthest.store(0, ordering: .relaxed)
    }

    func note(read count: Int) {
        read.add(Int64(count), ordering: .relaxed)
        steps.wrappingAdd(Int64(count), ordering: .relaxed)
    }

    func note(arrived bytes: Int64) {
        arrived.store(max(0, bytes), ordering: .relaxed)
        let (before, now) = furthest.max(bytes, ordering: .relaxed)
        steps.wrappingAdd(now - before, ordering: .relaxed)
    }
}

/// What is going on at the provider: one operation per document, and none that changes a path another relies on.
///
/// Also what went on lately: a look at the provider that was taken before an operation ended says nothing of what the
/// operation changed.
struct Reservations: Sendable {
    private struct Reservation {
        let progress: PushProgress
        /// The directories that the operation's paths go through.
        var path: Set<ItemID> = []
        /// The directory whose own place the operation changes.
        var moves: ItemID?
        /// The names at the provider that the operation changes.
        var places: [Place] = []
        /// True where what is known of the document changes under another operation's reservation.
        var isChanged = false
    }

    /// Ends that are remembered, at least.
    private static let memory = 10_000

    private var reservations: [DocumentID: Reservation] = [:]
    private var endedDocuments: [DocumentID: MonotonicTime] = [:]
    private var endedPlaces: [Place: MonotonicTime] = [:]
    /// Looks from before this moment are overtaken, whatever they are of.
    private var horizon = MonotonicTime.distantPast
    private let clock: EngineClock

    init(clock: EngineClock = .system) { self.clock = clock }

    var isEmpty: Bool { reservations.isEmpty }

    func contains(_ document: DocumentID) -> Bool { reservations[document] != nil }

    func progress(of document: DocumentID) -> PushProgress? { reservations[document]?.progress }

    var transfers: [(document: DocumentID, progress: PushProgress)] { reservations.map { ($0.key, $0.value.progress) } }

    /// Reserves a document; false while another operation has it.
    mutating func begin(_ document: DocumentID) -> Bool {
        guard reservations[document] == nil else { return false }
        reservations[document] = Reservation(progress: PushProgress(started: clock.monotonic()))
        return true
    }

    /// Relies on directories staying where they are, all but the one that moves, and on nobody else changing the places.
    ///
    /// The document of the operation that is in the way, nil when there is none.
    mutating func rely(
        on path: Set<ItemID>,
        moving: ItemID?,
        changing places: [Place],
        for document: DocumentID
    ) -> DocumentID? {
        for (other, reservation) in reservations where other != document {
            if let moved = reservation.moves, path.contains(moved) { return other }
            if let moving, reservation.path.contains(moving) { return other }
            if reservation.places.contains(where: places.contains) { return other }
        }
        reservations[document]?.path.formUnion(path)
        if let moving { reservations[document]?.moves = moving }
        for place in places where reservations[document]?.places.contains(place) == false {
            reservations[document]?.places.append(place)
        }
        return nil
    }

    /// Begins an operation with all it relies on; the document of the operation that is in the way, then none is begun.
    mutating func begin(_ document: DocumentID, _ needs: QueueNeeds) -> DocumentID? {
        guard begin(document) else { return document }
        let other = rely(on: needs.path, moving: needs.moving, changing: needs.places, for: document)
        if other != nil { reservations[document] = nil }
        return other
    }

    /// What is known of a document changes, whose places another operation has reserved.
    mutating func change(_ document: DocumentID) { reservations[document]?.isChanged = true }

    mutating func end(_ document: DocumentID) {
        guard let reservation = reservations.removeValue(forKey: document),
            !reservation.places.isEmpty || reservation.isChanged
        else { return }
        let now = clock.monotonic()
        endedDocuments[document] = now
        for place in reservation.places { endedPlaces[place] = now }
        // Paths through a directory that moved may mean anything.
        if reservation.moves != nil { horizon = now }
        guard endedDocuments.count > 2 * Reservations.memory else { return }
        let times = endedDocuments.values.sorted()
        horizon = max(horizon, times[times.count - Reservations.memory])
        endedDocuments = endedDocuments.filter { $0.value > horizon }
        endedPlaces = endedPlaces.filter { $0.value > horizon }
    }

    /// What stands in the way of believing a look at the provider that began at some time.
    enum Doubt: Sendable {
        /// The document is being sent.
        case busy(DocumentID)
        /// It was sent since.
        case overtaken
    }

    func doubt(_ seen: MonotonicTime, of document: DocumentID?, at place: Place?) -> Doubt? {
        if let document, reservations[document] != nil { return .busy(document) }
        if let place, let other = reservations.first(where: { $0.value.places.contains(place) }) {
            return .busy(other.key)
        }
        if seen <= horizon { return .overtaken }
        if let document, let ended = endedDocuments[document], seen <= ended { return .overtaken }
        if let place, let ended = endedPlaces[place], seen <= ended { return .overtaken }
        return nil
    }
}

extension SyncEngine {
    /// Reserves a document for a push or a deletion; ends with `endPush`.
    func beginPush(_ document: DocumentID) -> Bool {
        guard shared.withLock({ $0.reservations.begin(document) }) else { return false }
        activePushes += 1
        activeWeight += 1
        host.catalog.touches.add(document)
        return true
    }

    func endPush(_ document: DocumentID) {
        activePushes -= 1
        activeWeight -= 1
        endReservation(document)
        host.catalog.touches.add(document)
        wake()
    }

    private func endReservation(_ document: DocumentID) {
        shared.withLock { $0.reservations.end(document) }
        schedule.ended(document)
        endedReservations += 1
        resumeWaiters()
    }

    /// Has all look again who wait for a reservation to end.
    private func resumeWaiters() {
        let waiters = reservationWaiters
        reservationWaiters = []
        for continuation in waiters { continuation.resume() }
    }

    nonisolated func isPushing(_ document: DocumentID) -> Bool {
        shared.withLock { $0.reservations.contains(document) }
    }

    /// Waits until a document is not being sent, for a moment; false while it still is.
    ///
    /// What is large is sent for hours: meanwhile nothing else waits for it.
    func isIdleSoon(_ document: DocumentID) async -> Bool {
        guard isPushing(document) else { return true }
        let limit = WaitLimit()
        executor.after(Self.idleWait) { [weak self] in
            limit.isOver.store(true, ordering: .releasing)
            Task { await self?.resumeWaiters() }
        }
        while isPushing(document) {
            if limit.isOver.load(ordering: .acquiring) { return false }
            await waitForEnd(after: endedReservations)
        }
        return true
    }

    private static let idleWait = TimeSpan.seconds(1)

    private final class WaitLimit: Sendable {
        let isOver = Atomic<Bool>(false)
    }

    /// Does something with a document of which nothing is on its way meanwhile; `EBUSY` where that goes on for long.
    func whileIdle<T: Sendable>(
        _ document: DocumentID,
        _ body: @Sendable () async throws(Errno) -> T
    ) async throws(Errno) -> T {
        let deadline = clock.monotonic() + .seconds(10)
        while !beginPush(document) {
            guard clock.monotonic() < deadline else { throw .busy }
            await withCheckedContinuation { continuation in
                executor.after(.milliseconds(20)) { continuation.resume() }
            }
        }
        defer { endPush(document) }
        return try await body()
    }

    /// Waits until more reservations have ended than had at some moment, or whoever waits is to look again.
    private func waitForEnd(after ended: Int) async {
        guard endedReservations == ended else { return }
        await withCheckedContinuation { reservationWaiters.append($0) }
    }

    /// Inside a transaction: relies on the directories down to some at the provider; `EAGAIN` while one is moved.
    nonisolated func rely(
        on directories: [ItemID],
        moving: ItemID? = nil,
        changing places: [Place] = [],
        for document: DocumentID,
        _ database: Database
    ) throws(Errno) {
        var path: Set<ItemID> = []
        for directory in directories { path.formUnion(try database.remoteAncestry(of: directory)) }
        let chain = path
        let other = shared.withLock { $0.reservations.rely(on: chain, moving: moving, changing: places, for: document) }
        if other != nil { throw .wouldBlock }
    }

    nonisolated func doubt(_ seen: MonotonicTime, of document: DocumentID?, at place: Place?) -> Reservations.Doubt? {
        shared.withLock { $0.reservations.doubt(seen, of: document, at: place) }
    }

    /// Does something at the provider while no push moves a directory or one above it.
    func whileInPlace<T: Sendable>(
        _ directory: ItemID,
        _ body: (RemoteReference) async throws(ProviderError) -> T
    ) async throws(ProviderError) -> T? {
        let token = DocumentID.random()
        _ = shared.withLock { $0.reservations.begin(token) }
        defer { endReservation(token) }
        guard let reference = try await stablePlace(of: directory, token) else { return nil }
        return try await body(reference)
    }

    private func stablePlace(
        of directory: ItemID,
        _ token: DocumentID
    ) async throws(ProviderError) -> RemoteReference? {
        let host = host
        return try await whenNothingIsInTheWay { () async throws(ProviderError) in
            try await host.onContentQueue { () throws(Errno) in
                try host.catalog.write { database throws(Errno) in
                    try self.rely(on: [directory], for: token, database)
                    return try database.remoteReference(ofDirectory: directory)
                }
            }
        }
    }

    /// Does something again whenever a reservation ends, until none is in its way.
    func whenNothingIsInTheWay<T: Sendable>(
        _ body: () async throws(ProviderError) -> T
    ) async throws(ProviderError) -> T {
        while true {
            let ended = endedReservations
            do throws(ProviderError) {
                return try await body()
            } catch .failed(_, .wouldBlock) {
                await waitForEnd(after: ended)
            }
        }
    }
}
