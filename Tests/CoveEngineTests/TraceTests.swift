import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// What those who follow are told of files.
@Suite struct TraceTests {
    private func event(_ step: TraceEvent.Step, _ item: Int) -> TraceEvent {
        TraceEvent(step, of: ItemID(rawValue: UInt64(item)))
    }

    private func path(_ text: String) -> RemotePath { RemotePath(unchecked: Array(text.utf8)) }

    @Test func `each hears of what is asked for, under the name that was asked for`() async {
        let trace = Trace()
        #expect(!trace.isFollowed)
        let streams = [nil, RemotePath.root, path("a"), path("a/b"), path("ab"), path("c")].map { trace.follow($0) }
        #expect(trace.isFollowed)
        trace.tell(event(.open, 7), of: [path("a/b"), path("c")])
        trace.tell(event(.close, 8), of: [])
        trace.end()
        var heard: [[String]] = []
        for stream in streams {
            var events: [String] = []
            guard let stream else { continue }
            for await event in stream {
                events.append("\(event.step) \(event.path.path ?? "-")")
            }
            heard.append(events)
        }
        let all = ["open a/b", "close -"]
        #expect(heard == [all, all, ["open a/b"], ["open a/b"], [], ["open c"]])
        #expect(!trace.isFollowed)
    }

    @Test func `who is slow hears how much was lost, of what was asked for`() async throws {
        let trace = Trace()
        let slow = try #require(trace.follow(path("a")))
        for number in 0..<10_005 { trace.tell(event(.open, number), of: [path("a")]) }
        trace.tell(event(.open, 1), of: [path("b")])
        var iterator = slow.makeAsyncIterator()
        for number in 0..<10_000 { #expect(await iterator.next()?.itemID == number) }
        trace.tell(event(.close, 2), of: [path("b")])
        trace.tell(event(.close, 3), of: [path("a")])
        trace.tell(event(.close, 4), of: [path("a")])
        let first = await iterator.next()
        #expect(first?.itemID == 3 && first?.lost == 5)
        let second = await iterator.next()
        #expect(second?.itemID == 4 && second?.lost == nil)
    }

    @Test func `no more than some can follow, and nobody after the end`() async throws {
        let trace = Trace()
        var streams = try (0..<32).map { _ in try #require(trace.follow(nil)) }
        #expect(trace.follow(nil) == nil)
        // Who goes makes room.
        streams.removeLast()
        #expect(trace.follow(nil) != nil)
        trace.end()
        let late = try #require(trace.follow(nil))
        for await event in late { Issue.record("\(event) after the end") }
        #expect(!trace.isFollowed)
    }

    /// A task that is cancelled is locked while its handlers run, and a task that is locked holds up who wakes it.
    @Test func `who goes while it is told something holds up nobody`() async throws {
        try await blocking {
            let shared = Shared()
            for _ in 0..<2 {
                try BlockingThread.start {
                    while !shared.isOver.load(ordering: .relaxed) {
                        shared.trace.tell(TraceEvent(.open, of: ItemID(rawValue: 1)), of: [])
                    }
                    shared.ended.add(1, ordering: .relaxed)
                }
            }
            try BlockingThread.start {
                for _ in 0..<2000 {
                    guard let stream = shared.trace.follow(nil) else { continue }
                    let reader = Task { for await _ in stream {} }
                    sched_yield()
                    reader.cancel()
                }
                shared.isOver.store(true, ordering: .relaxed)
                shared.ended.add(1, ordering: .relaxed)
            }
            try waitUntil("all have come and gone") { shared.ended.load(ordering: .relaxed) == 3 }
        }
    }

    private final class Shared: Sendable {
        let trace = Trace()
        let isOver = Atomic<Bool>(false)
        let ended = Atomic<Int>(0)
    }

    @Test func `what a source can't give is told with its reason, cut to a length`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try SourceFolder(account.source).save("doc", Array("bytes".utf8))
            #expect(try account.tree.list("") == ["doc": .file])
            let events = try #require(account.engine.trace(nil))
            try await account.setOffline(true)
            #expect(throws: Errno.self) { try account.tree.read("doc") }
            let id = try account.tree.resolve("doc")
            let words = String(repeating: "ä", count: 5000)
            account.engine.context.note(.fail, id, nil, words)
            await account.stop()
            var details: [String] = []
            for await event in events where event.step == "fail" { details.append(event.detail ?? "") }
            let long = try #require(details.first { $0.hasPrefix("ää") })
            #expect(long.utf8.count <= 1003)
            #expect(details.contains { !$0.hasPrefix("ää") && !$0.isEmpty })
        }
    }
}
