import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// A large body that is sent for hours holds up nothing else.
@Suite(.timeLimit(.minutes(5))) struct LargeBodyTests {
    private func text(_ string: String) -> [UInt8] { Array(string.utf8) }

    @Test(arguments: [true, false])
    func `small changes are sent beside a large one`(areTogether: Bool) async throws {
        try await blocking {
            let held = HeldAnswer(of: "large")
            let account = try EngineAccount(
                wrap: { held.wrap(MeddledProvider($0, alter: { $0.parallelChanges = 4 })) },
                configure: { $0.settleTime = .zero }
            )
            let (engine, tree, source) = (account.engine, account.tree, SourceFolder(account.source))
            held.arm()
            await engine.pause()
            try tree.write("large", [UInt8](repeating: 1, count: 2 << 20))
            if !areTogether {
                await engine.resume()
                try waitUntil("it is at the source") { held.hasArrived }
            }
            for number in 0..<5 { try tree.write("small\(number)", text("small")) }
            await engine.resume()
            try waitUntil("all small ones are at the source", deadline: 20) {
                try held.hasArrived && source.snapshot().count == 6
            }
            held.answer()
            try await account.settle()
            #expect(try source.snapshot().count == 6)
            await account.stop()
        }
    }

    @Test func `a large file is renamed while another large one is sent`() async throws {
        try await blocking {
            let held = HeldAnswer(of: "large")
            let account = try EngineAccount(
                wrap: { held.wrap(MeddledProvider($0, alter: { $0.parallelChanges = 4 })) },
                configure: { $0.settleTime = .zero }
            )
            let (tree, source) = (account.tree, SourceFolder(account.source))
            try tree.write("former", [UInt8](repeating: 2, count: 2 << 20))
            try await account.settle()
            held.arm()
            try tree.write("large", [UInt8](repeating: 1, count: 2 << 20))
            try waitUntil("it is at the source") { held.hasArrived }
            try tree.rename("former", "renamed")
            try waitUntil("the other one has its name", deadline: 20) { try source.snapshot().keys.contains("renamed") }
            #expect(held.hasArrived)
            held.answer()
            try await account.settle()
            #expect(try source.snapshot().keys.sorted() == ["large", "renamed"])
            await account.stop()
        }
    }

    @Test func `a removal that waits for the end of a push is counted once`() async throws {
        try await blocking {
            let held = HeldAnswer(of: "large")
            let account = try EngineAccount(wrap: held.wrap) { $0.settleTime = .zero }
            let (engine, tree, source) = (account.engine, account.tree, SourceFolder(account.source))
            try tree.write("large", text("base"))
            try tree.write("other", text("other"))
            try await account.settle()
            held.arm()
            try tree.write("large", text("mine"))
            try waitUntil("it is at the source") { held.hasArrived }
            try source.remove("large")
            let sync = try #require(engine.syncEngine)
            for _ in 0..<3 {
                await engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: false)
                try waitUntil("it waits") { sync.shared.withLock { $0.late.count } == 1 }
                #expect(await sync.lateRemovals.count == 0)
            }
            held.answer()
            try await account.settle()
            #expect(await sync.lateRemovals.count <= 1)
            await account.stop()
        }
    }

    @Test(arguments: [true, false])
    func `what another device does is taken in while a document that it changed is sent`(isRemoved: Bool) async throws {
        try await blocking {
            let held = HeldAnswer(of: "large")
            let account = try EngineAccount(wrap: held.wrap) { $0.settleTime = .zero }
            let (engine, tree, source) = (account.engine, account.tree, SourceFolder(account.source))
            try tree.write("large", text("base"))
            try await account.settle()
            #expect(try tree.list("") == ["large": .file])
            held.arm()
            try tree.write("large", text("mine"))
            try waitUntil("it is at the source") { held.hasArrived }
            if isRemoved { try source.remove("large") } else { try source.save("large", text("theirs")) }
            // What comes after it is told when that is being waited for.
            let end = ContinuousClock.now + .seconds(10)
            while await engine.syncEngine?.reservationWaiters.isEmpty == true, ContinuousClock.now < end {
                await Task.yield()
            }
            try source.save("other", text("other"))
            try waitUntil("the other one is here", deadline: 20) { try tree.list("")["other"] != nil }
            #expect(try tree.read("other") == text("other"))
            #expect(held.hasArrived)
            held.answer()
            try await account.settle()
            var expected = ["other": Optional(text("other"))]
            if !isRemoved { expected["large"] = text("theirs") }
            #expect(try source.snapshot() == expected)
            try waitUntil("all is here as it is there") {
                try tree.list("").count == expected.count && (isRemoved || tree.read("large") == text("theirs"))
            }
            await account.stop()
        }
    }
}
