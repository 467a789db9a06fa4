import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// Files that a program was changing when the daemon died, and that its successor takes over.
@Suite(.timeLimit(.minutes(2))) struct TakeoverSizeTests {
    enum Change: CaseIterable { case grow, writeBehind, reserve, cut, cutAll }

    private static let before = (0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* 7 ^ $0 >> 8) }

    /// Does it, and returns what the file is to hold.
    private func apply(_ change: Change, _ id: ItemID, _ account: EngineAccount) throws -> [UInt8] {
        var wanted = [UInt8(1)] + Self.before.dropFirst()
        let count = wanted.count
        switch change {
        case .grow:
            try account.tree.truncate("f", to: Int64(count + 5000))
            wanted += [UInt8](repeating: 0, count: 5000)
        case .writeBehind:
            try account.tree.write(id, at: Int64(count + 4000), [2, 3])
            wanted += [UInt8](repeating: 0, count: 4000) + [2, 3]
        case .reserve:
            try account.engine.allocate(id, mode: 0, offset: Int64(count - 10), length: 5010)
            wanted += [UInt8](repeating: 0, count: 5000)
        case .cut, .cutAll:
            let size = change == .cut ? count / 2 : 0
            try account.tree.truncate("f", to: Int64(size))
            wanted.removeSubrange(size...)
        }
        return wanted
    }

    @Test(arguments: Change.allCases, [true, false])
    func `a size that was not committed is no reason to fetch what nobody has`(
        change: Change,
        comesAgain: Bool
    ) async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try source.save("f", Self.before)
            #expect(try account.tree.list("") == ["f": .file])
            try await account.settle()
            try await account.setOffline(true)
            let id = try account.tree.open("f")
            try account.tree.write(id, at: 0, [1])
            // The daemon dies when size and ledger know of it, and before the commit.
            let database = try Database(
                path: account.engine.catalog.path,
                disk: account.engine.disk,
                log: account.engine.log
            )
            try database.execute(
                """
                CREATE TRIGGER fault BEFORE UPDATE OF size ON items WHEN OLD.size <> NEW.size BEGIN
                    SELECT RAISE(ABORT, 'a test');
                END
                """
            )
            #expect(throws: Errno.self) { try apply(change, id, account) }
            try await account.dieAndTakeOver { state in
                try Command.run("sqlite3", ["\(state)/catalog.db", "DROP TRIGGER fault"])
            }
            if comesAgain {
                let wanted = try apply(change, id, account)
                try await account.setOffline(false)
                try account.tree.close(id)
                try await account.settle()
                #expect(try account.tree.read("f") == wanted)
                #expect(try source.snapshot()["f"] == wanted)
            } else {
                try await account.setOffline(false)
                try account.tree.close(id)
                try await account.settle()
                // Whoever was killed with the request finds it done, or not, and nothing else.
                let bytes = try account.tree.read("f")
                let kept = [UInt8(1)] + Self.before.dropFirst()
                #expect(bytes.count != kept.count && bytes.starts(with: kept.prefix(bytes.count)))
                #expect(bytes.dropFirst(kept.count).allSatisfy { $0 <= 3 })
                #expect(try source.snapshot()["f"] == bytes)
            }
            await account.stop()
            #expect(try account.repair().findings == [])
        }
    }

    @Test(arguments: [true, false])
    func `what is appended to a file that a program has just made whole stays`(livesOn: Bool) async throws {
        try await blocking {
            let account = try EngineAccount()
            try SourceFolder(account.source).save("f", Array("there".utf8))
            #expect(try account.tree.list("") == ["f": .file])
            try await account.settle()
            try await account.setOffline(true)
            let id = try account.tree.open("f")
            try account.tree.write(id, at: 0, Array("here!".utf8))
            try account.tree.append(id, Array(" and more".utf8))
            if livesOn { try await account.dieAndTakeOver() } else { try await account.die() }
            #expect(try account.tree.read("f") == Array("here! and more".utf8))
            try await account.setOffline(false)
            if livesOn { try account.tree.close(id) }
            try await account.settle()
            #expect(try SourceFolder(account.source).snapshot()["f"] == Array("here! and more".utf8))
            await account.stop()
        }
    }

    @Test func `what the kernel wrote by itself after it was last looked at is there`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let kernel = PassingKernel(account.engine, state: account.state)
            let caller = account.tree.caller
            let id = try account.engine.create(.root, Array("f".utf8), mode: 0o100644, flags: O_RDWR, caller).id
            #expect(try kernel.open("f", of: id, account.engine))
            #expect(try kernel.write("f", at: 0, Array("one".utf8)))
            let size = try account.engine.contents.live.use(id) { item throws(Errno) -> Int64? in
                item.state.withLock { state in
                    account.engine.contents.look(id, &state)
                    return state.row?.size
                }
            }
            #expect(size == 3)
            #expect(try kernel.write("f", at: 3, Array(", two".utf8)))
            try await account.dieAndTakeOver()
            #expect(try account.engine.attributes(of: id).size == 8)
            kernel.close("f")
            await account.stop()
        }
    }
}
