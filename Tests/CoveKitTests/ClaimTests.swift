import CoveTestSupport
import Foundation
import Testing

@testable import CoveKit

/// Who waits for whom, among the coordinators of one process; the numbers are those of the acceptance checklist.
struct ClaimTests {
    private let folder: Folder

    init() throws { folder = try Folder() }

    @Test func `4. readers run together, a writer waits for them`() async throws {
        try await blocking {
            let file = try folder.make("f")
            let readers = [try Held(reading: file).begun(), try Held(reading: file).begun()]
            let writer = try Held(writing: file).queued()
            try readers[0].end()
            #expect(Authorities.process.isWaiting(writer.coordinator.identity))
            try readers[1].end()
            let second = try Held(writing: file).queued()
            try writer.begun().end()
            try second.begun().end()
        }
    }

    @Test func `5. a reader that comes after a waiting writer runs after it`() async throws {
        try await blocking {
            let file = try folder.make("f")
            let reader = try Held(reading: file).begun()
            let writer = try Held(writing: file).queued()
            let later = try Held(reading: file).queued()
            try reader.end()
            _ = try writer.begun()
            #expect(Authorities.process.isWaiting(later.coordinator.identity))
            try writer.end()
            try later.begun().end()
        }
    }

    @Test(arguments: [FileCoordinator.WritingOptions.forDeleting, .forMoving, .forReplacing])
    func `6, 7. a directory's users and those inside it wait only where it goes`(
        options: FileCoordinator.WritingOptions
    ) async throws {
        try await blocking {
            let file = try folder.make("d/f")
            let directory = folder.url("d")
            let reader = try Held(reading: directory).begun()
            let inside = try Held(writing: file).begun()
            try reader.end()
            let going = try Held(writing: directory, options).queued()
            try inside.end()
            _ = try going.begun()
            let later = try Held(reading: file).queued()
            try going.end()
            try later.begun().end()
        }
    }

    @Test func `9. claims of one purpose never wait, and a purpose is set once`() async throws {
        try await blocking {
            let file = try folder.make("f")
            let (one, other) = (FileCoordinator(), FileCoordinator())
            for coordinator in [one, other] { try coordinator.setPurposeIdentifier("io.cove.test") }
            let writer = try Held([.writingIntent(with: file)], by: one).begun()
            try Held([.writingIntent(with: file)], by: other).begun().end()
            try writer.end()
            #expect(throws: CoveError.self) { try one.setPurposeIdentifier("again") }
            #expect(throws: CoveError.self) { try FileCoordinator().setPurposeIdentifier("") }
            let presenters = FileCoordinator(filePresenter: NotingPresenter(file))
            #expect(throws: CoveError.self) { try presenters.setPurposeIdentifier("mine") }
        }
    }

    @Test func `9. who becomes a presenter inside an access goes on with its coordinator, whose purpose stays`()
        async throws
    {
        try await blocking {
            let file = try folder.make("f")
            let presenter = NotingPresenter(file)
            let coordinator = FileCoordinator(filePresenter: presenter)
            try await coordinator.coordinate(readingItemAt: file) { url in
                try await FileCoordinator.addFilePresenter(presenter)
                try await coordinator.coordinate(writingItemAt: url, timeout: .seconds(10)) { _ in }
            }
            await FileCoordinator.removeFilePresenter(presenter)
            #expect(presenter.events.all.isEmpty)
            let plain = FileCoordinator()
            try await plain.coordinate(readingItemAt: file) { url in
                let error = #expect(throws: CoveError.self) { try plain.setPurposeIdentifier("io.cove.test") }
                #expect(error?.code == .invalidArgument)
                try await plain.coordinate(writingItemAt: url, timeout: .seconds(10)) { _ in }
            }
            try plain.setPurposeIdentifier("io.cove.test")
        }
    }

    @Test func `10. a move is believed only if it is so`() async throws {
        try await blocking {
            let (file, copy) = (try folder.make("f"), try folder.make("copy"))
            let presenter = NotingPresenter(file)
            try await presenter.present {
                let coordinator = FileCoordinator()
                let held = try Held([.writingIntent(with: file)], by: coordinator).begun()
                try coordinator.item(at: file, didMoveTo: folder.url("nowhere"))
                try FileManager.default.linkItem(at: file, to: folder.url("link"))
                try coordinator.item(at: file, didMoveTo: folder.url("link"))
                let error = #expect(throws: CoveError.self) {
                    try coordinator.item(at: copy, didMoveTo: folder.url("link"))
                }
                #expect(error?.code == .invalidArgument)
                try held.end()
                try presenter.events.wait(for: "changed")
                #expect(
                    presenter.presentedItemURL == file && presenter.events.all == ["writer", "reacquired", "changed"]
                )
            }
        }
    }

    @Test func `the blocking forms run their accessors`() async throws {
        let (file, other) = (try folder.make("f", "one"), try folder.make("g", "other"))
        try await FileThreads.run { Result { try Self.runBlockingForms(file, other) } }.get()
    }

    private static func runBlockingForms(_ file: URL, _ other: URL) throws {
        let coordinator = FileCoordinator()
        let both = try coordinator.coordinate(readingItemAt: file, writingItemAt: other) { try text($0) + text($1) }
        let written = try coordinator.coordinate(writingItemAt: other, writingItemAt: file) {
            #expect(Authorities.process.isHeld($0.path) && Authorities.process.isHeld($1.path))
            return try text($0) + text($1)
        }
        let prepared = try coordinator.prepare(forReadingItemsAt: [file], writingItemsAt: [other]) {
            try coordinator.coordinate(readingItemAt: file) { try text($0) }
        }
        #expect(both == "oneother" && written == "otherone" && prepared == "one")
    }

    @Test func `10. a waiting writer follows a moved file, unless it replaces what is there`() async throws {
        try await blocking {
            let (old, new) = (try folder.make("old"), folder.url("new"))
            let mover = FileCoordinator()
            let moving = try Held(
                [.writingIntent(with: old, options: .forMoving), .writingIntent(with: new, options: .forReplacing)],
                by: mover
            ).begun()
            let follower = try Held(writing: old).queued()
            let replacer = try Held(writing: old, .forReplacing).queued()
            try FileManager.default.moveItem(at: old, to: new)
            try mover.item(at: old, didMoveTo: new)
            try moving.end()
            #expect(try follower.begun().urls == [new])
            #expect(try replacer.begun().urls == [old])
            try follower.end()
            try replacer.end()
        }
    }

    @Test func `20. cancel ends a waiting call and refuses later ones`() async throws {
        try await blocking {
            let file = try folder.make("f")
            let writer = try Held(writing: file).begun()
            let waiting = try Held(reading: file).queued()
            waiting.coordinator.cancel()
            #expect(try waiting.failure() == .cancelled)
            try writer.end()
            let refused = await #expect(throws: CoveError.self) {
                try await waiting.coordinator.coordinate(readingItemAt: file) { _ in }
            }
            #expect(refused?.code == .cancelled)
        }
    }

    @Test func `a cancelled task waits no longer, and its coordinator goes on with others`() async throws {
        try await blocking {
            let (file, other) = (try folder.make("f"), try folder.make("g", "other"))
            let (writer, holder) = (try Held(writing: file).begun(), try Held(writing: other).begun())
            let coordinator = FileCoordinator()
            let task = Task { try await coordinator.coordinate(readingItemAt: file) { _ in } }
            try waitUntil("it waits") { Authorities.process.isWaiting(coordinator.identity) }
            // Another request of the coordinator waits on.
            let waiting = Task { try await coordinator.coordinate(readingItemAt: other) { try text($0) } }
            task.cancel()
            let error = await #expect(throws: CoveError.self) { try await task.value }
            #expect(error?.code == .cancelled)
            try writer.end()
            #expect(try await coordinator.coordinate(readingItemAt: file) { try text($0) } == "text")
            try holder.end()
            #expect(try await waiting.value == "other")
            let preparing = Task {
                try await coordinator.prepare(forReadingItemsAt: [file], writingItemsAt: []) { "prepared" }
            }
            #expect(try await preparing.value == "prepared")
        }
    }

    @Test func `what an accessor throws reaches the caller as it is`() async throws {
        struct Refusal: Error, Equatable {}
        try await blocking {
            let (file, other) = (try folder.make("f"), try folder.make("g"))
            let queue = FileCoordinator()
            await #expect(throws: Refusal()) {
                try await queue.coordinate(readingItemAt: file) { _ in throw Refusal() }
            }
            await #expect(throws: Refusal()) {
                try await queue.coordinate(writingItemAt: file, writingItemAt: other) { _, _ in throw Refusal() }
            }
            await #expect(throws: Refusal()) {
                try await queue.prepare(forReadingItemsAt: [file], writingItemsAt: []) { throw Refusal() }
            }
            #expect(throws: Refusal()) { try queue.perform([.readingIntent(with: file)]) { throw Refusal() } }
            await #expect(throws: CocoaError.self) {
                try await queue.coordinate(readingItemAt: folder.url("none")) { try text($0) }
            }
            // Whatever is thrown, the claim has ended.
            try await FileCoordinator().coordinate(writingItemAt: file, timeout: .zero) { _ in }
        }
    }

    @Test func `an accessor may wait for others and block, for as long as it holds its claim`() async throws {
        try await blocking {
            let file = try folder.make("f")
            let (gate, opening) = AsyncStream.makeStream(of: Void.self)
            let holding = Task {
                try await FileCoordinator().coordinate(writingItemAt: file) { url in
                    for await _ in gate { break }
                    // A thread that may block: all of Swift's own would not do for so many.
                    await withTaskGroup(of: Void.self) { group in
                        for _ in 0..<64 { group.addTask { usleep(1000) } }
                    }
                    try "new".write(to: url, atomically: false, encoding: .utf8)
                    return try await FileVersion.currentVersionOfItem(at: url)?.size
                }
            }
            try waitUntil("it is held") { Authorities.process.isHeld(file.path) }
            let waiting = try Held(reading: file).queued()
            opening.yield()
            #expect(try await holding.value == 3)
            try waiting.begun().end()
        }
    }

    @Test func `every form gives up when its time is over`() async throws {
        try await blocking {
            let (file, other) = (try folder.make("f"), try folder.make("g"))
            let writer = try Held(writing: file).begun()
            let presenter = NotingPresenter(other, onRelinquish: { _ in try? await Task.sleep(for: .seconds(3600)) })
            try await FileCoordinator.addFilePresenter(presenter)
            let coordinator = FileCoordinator()
            let short = Duration.milliseconds(20)
            let forms: [@Sendable () async throws -> Void] = [
                { try await coordinator.coordinate(with: [.readingIntent(with: file)], timeout: short) {} },
                { try await coordinator.coordinate(readingItemAt: file, timeout: short) { _ in } },
                { try await coordinator.coordinate(writingItemAt: file, timeout: short) { _ in } },
                {
                    try await coordinator.coordinate(readingItemAt: file, writingItemAt: other, timeout: short) {
                        _,
                        _ in
                    }
                },
                {
                    try await coordinator.coordinate(writingItemAt: other, writingItemAt: file, timeout: short) {
                        _,
                        _ in
                    }
                },
                { try await coordinator.prepare(forReadingItemsAt: [other], writingItemsAt: [], timeout: short) {} },
                {
                    try await FileThreads.run { Result { try Self.blockingForms(coordinator, file, other, short) } }
                        .get()
                },
                {
                    let error: CoveError? = await withCheckedContinuation { done in
                        coordinator.coordinate(with: [.readingIntent(with: file)], timeout: short, queue: .init()) {
                            done.resume(returning: $0)
                        }
                    }
                    if let error { throw error }
                },
            ]
            for (number, form) in forms.enumerated() {
                let error = await #expect(throws: CoveError.self) { try await form() }
                #expect(error?.code == .timedOut, "form \(number)")
            }
            await FileCoordinator.removeFilePresenter(presenter)
            try writer.end()
        }
    }

    /// Throws ETIMEDOUT once all forms have.
    private static func blockingForms(
        _ coordinator: FileCoordinator,
        _ file: URL,
        _ other: URL,
        _ short: Duration
    ) throws {
        let forms: [() throws -> Void] = [
            { try coordinator.coordinate(with: [.readingIntent(with: file)], timeout: short) {} },
            { try coordinator.coordinate(readingItemAt: file, timeout: short) { _ in } },
            { try coordinator.coordinate(writingItemAt: file, timeout: short) { _ in } },
            { try coordinator.coordinate(readingItemAt: file, writingItemAt: other, timeout: short) { _, _ in } },
            { try coordinator.coordinate(writingItemAt: other, writingItemAt: file, timeout: short) { _, _ in } },
            { try coordinator.prepare(forReadingItemsAt: [other], writingItemsAt: [], timeout: short) {} },
        ]
        var last: CoveError?
        for (number, form) in forms.enumerated() {
            last = #expect(throws: CoveError.self) { try form() }
            #expect(last?.code == .timedOut, "blocking form \(number)")
        }
        if let last { throw last }
    }

    @Test func `38. with a queue the accessor runs there once, with an error or without`() async throws {
        try await blocking {
            let queue = OperationQueue()
            queue.maxConcurrentOperationCount = 1
            let events = Events()
            let intent = FileAccessIntent.writingIntent(with: try folder.make("f"))
            FileCoordinator().coordinate(with: [intent], queue: queue) { error in
                events.add(error == nil && OperationQueue.current === queue ? "granted" : "wrong")
            }
            try events.wait(for: "granted")
            let cancelled = FileCoordinator()
            cancelled.cancel()
            cancelled.coordinate(with: [intent], queue: queue) { error in
                events.add(error?.code == .cancelled ? "cancelled" : "wrong")
            }
            try events.wait(for: "cancelled")
            #expect(events.all == ["granted", "cancelled"])
        }
    }

    @Test func `bad calls are refused`() async throws {
        let file = try folder.make("f")
        for bad in [[], [FileAccessIntent.writingIntent(with: file, options: [.forMoving, .forMerging])]] {
            let error = await #expect(throws: CoveError.self) { try await FileCoordinator().coordinate(with: bad) {} }
            #expect(error?.code == .invalidArgument)
        }
        let web = try #require(URL(string: "https://example.org/f"))
        let error = await #expect(throws: CoveError.self) {
            try await FileCoordinator().coordinate(readingItemAt: web) { _ in }
        }
        #expect(error?.code == .invalidArgument)
    }
}
