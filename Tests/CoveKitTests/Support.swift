import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveKit

/// A folder on an ordinary file system.
struct Folder {
    let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory("kit") }

    /// The URL of something inside.
    func url(_ name: String) -> URL { URL(fileURLWithPath: directory.appending(name)) }

    /// Makes a file.
    func make(_ name: String, _ text: String = "text") throws -> URL {
        let url = url(name)
        try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
        try text.write(to: url, atomically: false, encoding: .utf8)
        return url
    }
}

/// The text of a file.
func text(_ url: URL) throws -> String { try String(contentsOf: url, encoding: .utf8) }

/// The fenced Swift code of a page.
func swiftExamples(of page: URL) throws -> [String] {
    try text(page).components(separatedBy: "```swift\n").dropFirst().compactMap {
        $0.components(separatedBy: "```").first
    }
}

/// What happened, in its order.
final class Events: Sendable {
    private let events = Mutex<[String]>([])

    var all: [String] { events.withLock { $0 } }

    func add(_ event: String) { events.withLock { $0.append(event) } }

    func wait(for event: String) throws { try waitUntil("\(event), not only \(all)") { all.contains(event) } }
}

/// An access that goes on until the test ends it.
final class Held: Sendable {
    private enum Phase: Equatable { case waiting, running, ended(CoveError.Code?) }

    let coordinator: FileCoordinator
    private let phase = Mutex(Phase.waiting)
    private let mayEnd = DispatchSemaphore(value: 0)
    private let intents: [FileAccessIntent]

    /// Begins it on a thread of its own; the body runs at its start.
    init(
        _ intents: [FileAccessIntent],
        by coordinator: FileCoordinator = FileCoordinator(),
        body: @escaping @Sendable ([URL]) throws -> Void = { _ in }
    ) {
        self.coordinator = coordinator
        self.intents = intents
        FileThreads.start { [self] in
            do {
                try coordinator.perform(intents) {
                    try body(intents.map(\.url))
                    phase.withLock { $0 = .running }
                    mayEnd.wait()
                }
                phase.withLock { $0 = .ended(nil) }
            } catch {
                phase.withLock { $0 = .ended(CoveError(error).code) }
            }
        }
    }

    convenience init(reading url: URL, _ options: FileCoordinator.ReadingOptions = []) {
        self.init([.readingIntent(with: url, options: options)])
    }

    convenience init(writing url: URL, _ options: FileCoordinator.WritingOptions = []) {
        self.init([.writingIntent(with: url, options: options)])
    }

    var urls: [URL] { intents.map(\.url) }

    /// Waits until it is granted.
    func begun() throws -> Held {
        try waitUntil("an access is granted") { phase.withLock { $0 != .waiting } }
        #expect(phase.withLock { $0 } == .running)
        return self
    }

    /// Waits until it is in the queue behind others.
    func queued() throws -> Held {
        try waitUntil("an access waits") { Authorities.process.isWaiting(coordinator.identity) }
        return self
    }

    /// Ends it.
    func end() throws {
        mayEnd.signal()
        try waitUntil("an access ends") {
            if case .ended = phase.withLock({ $0 }) { true } else { false }
        }
    }

    /// The error that it ends with.
    func failure() throws -> CoveError.Code? {
        try waitUntil("an access fails") {
            if case .ended = phase.withLock({ $0 }) { true } else { false }
        }
        if case .ended(let code) = phase.withLock({ $0 }) { return code }
        return nil
    }
}

/// A presenter that notes what it is told.
final class NotingPresenter: FilePresenter {
    let events: Events
    let url: Mutex<URL?>
    let implementedMessages: Set<FilePresenterMessage>
    private let onSave: @Sendable (NotingPresenter) async throws -> Void
    private let onRelinquish: @Sendable (NotingPresenter) async -> Void

    var presentedItemURL: URL? { url.withLock { $0 } }

    init(
        _ url: URL?,
        _ events: Events = Events(),
        messages: Set<FilePresenterMessage>? = nil,
        onRelinquish: @escaping @Sendable (NotingPresenter) async -> Void = { _ in },
        onSave: @escaping @Sendable (NotingPresenter) async throws -> Void = { _ in }
    ) {
        self.url = Mutex(url)
        self.events = events
        implementedMessages = messages ?? Self.messagesWithMethods
        self.onSave = onSave
        self.onRelinquish = onRelinquish
    }

    /// Registers it while the body runs.
    func present(_ body: () async throws -> Void) async throws {
        try await FileCoordinator.addFilePresenter(self)
        do {
            try await body()
            await FileCoordinator.removeFilePresenter(self)
        } catch {
            await FileCoordinator.removeFilePresenter(self)
            throw error
        }
    }

    func relinquishPresentedItemToReader() async -> Reacquirer? {
        events.add("reader")
        await onRelinquish(self)
        return { self.events.add("reacquired") }
    }
    func relinquishPresentedItemToWriter() async -> Reacquirer? {
        events.add("writer")
        await onRelinquish(self)
        return { self.events.add("reacquired") }
    }
    func savePresentedItemChanges() async throws {
        events.add("save")
        try await onSave(self)
    }
    func accommodatePresentedItemDeletion() async throws {
        let isThere = presentedItemURL.map { FileManager.default.fileExists(atPath: $0.path) }
        events.add("deletion \(isThere.map { "\($0)" } ?? "-")")
    }
    func accommodatePresentedSubitemDeletion(at url: URL) async throws {
        events.add("subitem deletion \(url.lastPathComponent)")
    }
    func presentedItemDidMove(to newURL: URL) async {
        url.withLock { $0 = newURL }
        events.add("moved \(newURL.lastPathComponent)")
    }
    func presentedItemDidChange() async { events.add("changed") }
    func presentedSubitemDidAppear(at url: URL) async { events.add("appeared \(url.lastPathComponent)") }
    func presentedSubitem(at oldURL: URL, didMoveTo newURL: URL) async {
        events.add("subitem moved \(oldURL.lastPathComponent) \(newURL.lastPathComponent)")
    }
    func presentedSubitemDidChange(at url: URL) async { events.add("subitem changed \(url.lastPathComponent)") }
    func presentedItemDidGain(_ version: FileVersion?) async { events.add("gained \(version?.id ?? "-")") }
}
