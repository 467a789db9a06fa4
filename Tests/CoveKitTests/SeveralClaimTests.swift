import CoveTestSupport
import Foundation
import Testing

@testable import CoveKit

/// Claims on several items at once, and within each other; the numbers are those of the acceptance checklist.
struct SeveralClaimTests {
    private let folder: Folder

    init() throws { folder = try Folder() }

    @Test func `39. two intents of a move are one claim, and tell where the files are`() async throws {
        try await blocking {
            let (old, new) = (try folder.make("old"), folder.url("new"))
            try await move(old, to: new)
            #expect(try text(new) == "text")
        }
    }

    @Test func `40. claims on A and B and on B and A never wait for each other for ever`() async throws {
        try await blocking {
            let files = [try folder.make("a"), try folder.make("b")]
            try await withThrowingTaskGroup(of: Void.self) { group in
                for order in [files, files.reversed()] {
                    group.addTask {
                        for _ in 0..<1000 {
                            let intents = order.map { FileAccessIntent.writingIntent(with: $0) }
                            try await FileCoordinator().coordinate(with: intents, timeout: .seconds(60)) {}
                        }
                    }
                }
                try await group.waitForAll()
            }
        }
    }

    @Test func `41. two readings for uploading give two snapshots, or say what is missing`() async throws {
        try await blocking {
            let first = FileAccessIntent.readingIntent(with: try folder.make("one", "1"), options: .forUploading)
            let missing = FileAccessIntent.readingIntent(with: folder.url("two"), options: .forUploading)
            let error = await #expect(throws: CoveError.self) {
                try await FileCoordinator().coordinate(with: [first, missing]) {}
            }
            #expect(error?.code == .noSuchFile && error?.url?.lastPathComponent == "two")
            let second = FileAccessIntent.readingIntent(with: try folder.make("two", "2"), options: .forUploading)
            let snapshots = try await FileCoordinator().coordinate(with: [first, second]) {
                // The claim ended with the making of the snapshots.
                try FileCoordinator().perform([.writingIntent(with: folder.url("one"))]) {
                    try "new".write(to: folder.url("one"), atomically: true, encoding: .utf8)
                }
                #expect(try text(first.url) == "1" && text(second.url) == "2")
                return [first.url, second.url]
            }
            #expect(snapshots.allSatisfy { !FileManager.default.fileExists(atPath: $0.path) })
            #expect(try text(folder.url("one")) == "new")
        }
    }

    @Test func `42. nested claims that wait for each other fail instead`() async throws {
        try await blocking {
            let (one, two) = (try folder.make("one"), try folder.make("two"))
            let first = try Held(writing: one).begun()
            let second = try Held(writing: two).begun()
            let nested = try Held([.readingIntent(with: two)], by: first.coordinator).queued()
            let closing = Held([.readingIntent(with: one)], by: second.coordinator)
            #expect(try closing.failure() == .deadlock)
            try second.end()
            try nested.begun().end()
            try first.end()
        }
    }

    @Test func `42. a claim inside another coordinator's that waits for it fails instead`() async throws {
        let file = try folder.make("f")
        let error = await #expect(throws: CoveError.self) {
            try await FileCoordinator().coordinate(writingItemAt: file) { url in
                try await FileCoordinator().coordinate(readingItemAt: url) { _ in }
            }
        }
        #expect(error?.code == .deadlock)
        try await FileCoordinator().coordinate(writingItemAt: file) { _ in }
    }

    @Test func `however many threads wait for claims, an accessor goes on and may claim more`() async throws {
        try await blocking {
            let (file, other) = (try folder.make("f"), try folder.make("other"))
            let (events, mayEnd) = (Events(), DispatchSemaphore(value: 0))
            let (mayGoOn, continuation) = AsyncStream.makeStream(of: Void.self)
            let holding = Task {
                try await FileCoordinator().coordinate(writingItemAt: file) { _ in
                    events.add("begun")
                    for await _ in mayGoOn { break }
                    try await FileCoordinator().coordinate(writingItemAt: other) { _ in events.add("nested") }
                }
            }
            try events.wait(for: "begun")
            for _ in 0..<FileThreads.waitingThreads { FileThreads.startWaiting { mayEnd.wait() } }
            let later = Task {
                try await FileCoordinator().coordinate(writingItemAt: file) { _ in events.add("later") }
            }
            continuation.finish()
            try await holding.value
            #expect(events.all == ["begun", "nested"])
            for _ in 0..<FileThreads.waitingThreads { mayEnd.signal() }
            try await later.value
            #expect(events.all == ["begun", "nested", "later"])
        }
    }
}
