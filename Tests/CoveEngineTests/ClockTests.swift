import CoveCore
import CoveTestSupport
import Synchronization
import Testing

@testable import CoveEngine

/// What an engine does by the time, whatever the time is.
@Suite struct ClockTests {
    private static let year = TimeSpan.seconds(365 * 86_400)

    /// Changes that rest before they are sent, so that the time counts.
    private func account(_ clock: SetClock) throws -> EngineAccount {
        let reading = clock.clock
        return try EngineAccount { configuration in
            configuration.clock = reading
            configuration.settleTime = .milliseconds(200)
        }
    }

    @Test(
        "a wall clock that is set keeps nothing from being sent",
        arguments: [
            (TimeSpan.zero, TimeSpan.zero - year), (.zero, year), (TimeSpan.zero - year, .zero), (year, .zero),
            (.seconds(4_000_000_000), .zero),
        ]
    )
    func setWallClock(_ before: TimeSpan, _ after: TimeSpan) async throws {
        try await blocking {
            let clock = SetClock()
            clock.set(before)
            let account = try account(clock)
            try await account.settle()
            for name in ["a", "b"] { try account.tree.write(name, Array("first \(name)".utf8)) }
            try account.tree.makeDirectory("d")
            clock.set(after)
            try account.tree.write("d/c", Array("c".utf8))
            try await account.settle()
            try account.tree.rename("b", "d/b")
            try account.tree.unlink("a")
            try await account.settle()
            let source = SourceFolder(account.source)
            let files = try source.snapshot()
            #expect(files == ["d": nil, "d/b": Array("first b".utf8), "d/c": Array("c".utf8)] as [String: [UInt8]?])
            await account.stop()
        }
    }

    @Test("who left a name has it back within its time, and not after it")
    func tombstones() async throws {
        try await blocking {
            for (passes, isSame) in [(TimeSpan.seconds(14), true), (.seconds(16), false)] {
                let clock = SetClock()
                let account = try account(clock)
                try account.tree.write("f", Array("one".utf8))
                try await account.settle()
                let document = try status("f", account).documentID
                await account.engine.pause()
                try account.tree.rename("f", "f~")
                clock.pass(passes)
                try account.tree.write("f", Array("two".utf8))
                #expect(try (status("f", account).documentID == document) == isSame, "after \(passes.seconds) s")
                await account.stop()
            }
        }
    }

    @Test("deleted documents are kept for their time by the clock, and then go")
    func trash() async throws {
        try await blocking {
            let clock = SetClock()
            let account = try account(clock)
            try account.tree.write("f", Array("one".utf8))
            try await account.settle()
            try account.tree.unlink("f")
            try await account.settle()
            clock.pass(.seconds(29 * 86_400))
            #expect(await account.engine.emptyTrash(olderThan: .seconds(30 * 86_400)) == 0)
            #expect(account.engine.trash().count == 1)
            clock.pass(.seconds(2 * 86_400))
            #expect(await account.engine.emptyTrash(olderThan: .seconds(30 * 86_400)) == 1)
            #expect(account.engine.trash().isEmpty)
            await account.stop()
        }
    }

    @Test("a wall clock that is set forward makes nothing that is kept older")
    func leap() async throws {
        try await blocking {
            let clock = SetClock()
            let account = try account(clock)
            for name in ["f", "g"] { try account.tree.write(name, Array("one \(name)".utf8)) }
            try await account.settle()
            try account.tree.write("g", Array("two".utf8))
            try account.tree.unlink("f")
            try await account.settle()
            let versions = try account.engine.versions(of: RemotePath(unchecked: Array("g".utf8))).count
            for offset in [Self.year, .zero] {
                clock.set(offset)
                try account.tree.write("h\(offset.seconds)", [1])
                try await account.settle()
                #expect(account.engine.trash().count == 1)
                #expect(try account.engine.versions(of: RemotePath(unchecked: Array("g".utf8))).count == versions)
            }
            #expect(versions > 0)
            clock.pass(.seconds(31 * 86_400))
            #expect(await account.engine.emptyTrash(olderThan: .seconds(30 * 86_400)) == 1)
            await account.stop()
        }
    }

    private func status(_ name: String, _ account: EngineAccount) throws -> ItemStatus {
        try account.engine.item(at: RemotePath(unchecked: Array(name.utf8)))
    }
}
