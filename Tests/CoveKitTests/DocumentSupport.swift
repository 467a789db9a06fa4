import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveKit

/// A document of text whose parts a test can make fail.
@MainActor final class TextDocument: Document, @unchecked Sendable {
    var text = "new"
    /// The type to be saved as; nil for the one it has.
    var type: String?
    var loads = 0
    var errors: [CoveError.Code] = []
    var isBroken = false
    /// Runs when the user may edit no longer, before a revert reads.
    var whileDisabled: (@MainActor () async -> Void)?
    /// Runs in the middle of a save, before the new file takes the old one's place.
    nonisolated let whileWriting = Mutex<(@Sendable () throws -> Void)?>(nil)

    override func contents(forType type: String) async throws -> FileContents { .file(Data(text.utf8)) }

    override func load(fromContents contents: FileContents, ofType type: String) async throws {
        guard !isBroken, let data = contents.data, let text = String(data: data, encoding: .utf8) else {
            throw CocoaError(.fileReadCorruptFile)
        }
        self.text = text
        loads += 1
    }

    override var savingFileType: String { get async { type ?? fileType } }

    override func disableEditing() async { await whileDisabled?() }

    override func handleError(_ error: CoveError) async { errors.append(error.code) }

    nonisolated override func writeContents(
        _ contents: FileContents,
        to url: URL,
        for operation: SaveOperation,
        originalContentsURL: URL?
    ) throws {
        try super.writeContents(contents, to: url, for: operation, originalContentsURL: originalContentsURL)
        try whileWriting.withLock { $0 }?()
    }

    func edit(_ text: String) {
        self.text = text
        updateChangeCount(.done)
    }

    /// Waits until a text was loaded and the document is at rest.
    func load(of text: String) async {
        for await state in stateChanges where state == .normal && self.text == text { return }
    }

    /// Waits for a state, which may be there already.
    func wait(for isRight: @escaping @Sendable (State) -> Bool) async {
        for await state in stateChanges where isRight(state) { return }
    }
}

/// Time that passes when a test says so.
final class ManualClock: Clock, Sendable {
    struct Instant: InstantProtocol {
        var offset: Duration
        func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        func duration(to other: Instant) -> Duration { other.offset - offset }
        static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    private struct State {
        var now = Instant(offset: .zero)
        var sleepers: [(deadline: Instant, id: UUID, continuation: CheckedContinuation<Void, any Error>)] = []
    }

    private let state = Mutex(State())

    var now: Instant { state.withLock { $0.now } }
    var minimumResolution: Duration { .nanoseconds(1) }
    /// How many sleep.
    var sleepers: Int { state.withLock { $0.sleepers.count } }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let id = UUID()
        // As every clock it lets go of who is called off.
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let isOver = state.withLock { state in
                    guard deadline > state.now, !Task.isCancelled else { return true }
                    state.sleepers.append((deadline, id, continuation))
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            let sleeper = state.withLock { state in
                state.sleepers.firstIndex { $0.id == id }.map { state.sleepers.remove(at: $0) }
            }
            sleeper?.continuation.resume(throwing: CancellationError())
        }
    }

    /// Lets time pass.
    func advance(by duration: Duration) {
        let awake = state.withLock { state in
            state.now = state.now.advanced(by: duration)
            let now = state.now
            let awake = state.sleepers.filter { $0.deadline <= now }
            state.sleepers.removeAll { $0.deadline <= now }
            return awake
        }
        for sleeper in awake { sleeper.continuation.resume() }
    }
}

/// Waits until a document's save, or its reading, is in the queue behind others.
@MainActor func waits(_ document: Document) async throws {
    try await blocking {
        try waitUntil("the document waits") {
            let waiting = document.shared.withLock { $0.waiting }
            return waiting.map { Authorities.process.isWaiting($0.identity) } ?? false
        }
    }
}

/// Lets others run until something is so; throws when it is not for long, as tests that compute keep Swift's pool busy.
@MainActor func until(_ what: String, deadline: Duration = .seconds(300), _ isSo: () -> Bool) async throws {
    let end = ContinuousClock.now + deadline
    while !isSo() {
        guard ContinuousClock.now < end else { throw CommandFailure("after \(deadline) still not: \(what)") }
        await Task.yield()
    }
}
