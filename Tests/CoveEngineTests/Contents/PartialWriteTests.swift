import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// What is recorded of files of which a part is here.
@Suite(.timeLimit(.minutes(2))) struct PartialWriteTests {
    private func recorded(_ id: ItemID, _ account: EngineAccount) throws -> RangeSet {
        try account.engine.catalog.read { database throws(Errno) in try database.ranges(of: id) }
    }

    private func known(_ id: ItemID, _ account: EngineAccount) -> RangeSet? {
        account.engine.contents.live.find(id)?.state.withLock { $0.ranges }
    }

    @Test func `a write records its own bytes, however many others there are`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try SourceFolder(account.source).save("f", [UInt8](repeating: 1, count: 1 << 20))
            #expect(try account.tree.list("") == ["f": .file])
            try await account.settle()
            try await account.setOffline(true)
            let id = try account.tree.open("f")
            let database = try Database(
                path: account.engine.catalog.path,
                disk: account.engine.disk,
                log: account.engine.log
            )
            try database.execute("CREATE TABLE seen(n); INSERT INTO seen VALUES(0)")
            for change in ["INSERT", "DELETE"] {
                try database.execute(
                    "CREATE TRIGGER seen_\(change) AFTER \(change) ON ranges BEGIN UPDATE seen SET n = n + 1; END"
                )
            }
            func seen() throws -> Int64? { try database.first("SELECT n FROM seen") { $0.int(0) } }
            for index in 0..<100 { try account.tree.write(id, at: Int64(index) * 8192, [2]) }
            #expect(try seen() == 100)
            // One that joins two others.
            try account.tree.write(id, at: 1, [UInt8](repeating: 3, count: 8191))
            #expect(try seen() == 103)
            #expect(try recorded(id, account).ranges.count == 99)
            #expect(try recorded(id, account) == known(id, account))
            try account.tree.close(id)
            #expect(try seen() == 103)
            await account.stop()
        }
    }

    @Test func `the catalog counts the bytes that it knows the places of`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try SourceFolder(account.source).save("f", [UInt8](repeating: 1, count: 1 << 20))
            #expect(try account.tree.list("") == ["f": .file])
            try await account.settle()
            try await account.setOffline(true)
            let id = try account.tree.open("f")
            let writes: [Range<Int64>] = [900_000..<900_100, 5000..<9000, 9500..<9600, 8000..<9550, 19_000..<20_500]
            for (index, range) in writes.enumerated() {
                // Bytes that a fetch has brought, and that are not recorded yet.
                account.engine.contents.live.find(id)?.state.withLock { state in
                    if index == 0 { return }
                    let start = Int64(index) * 10_000
                    state.ranges.insert(start..<start + 1000)
                    state.hasUnsavedRanges = true
                }
                try account.tree.write(id, at: range.lowerBound, [UInt8](repeating: 2, count: range.count))
                let resident = try account.engine.catalog.read { database throws(Errno) in
                    try database.existingItem(id).resident
                }
                #expect(try recorded(id, account).count == resident)
            }
            try await account.die()
            await account.stop()
            #expect(try account.repair().findings == [])
        }
    }

    @Test(arguments: 1...8 as ClosedRange<UInt64>)
    func `the catalog has what is here after each write`(seed: UInt64) async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            var random = SeededGenerator(seed: seed)
            var wanted = random.bytes(200_000)
            try source.save("f", wanted)
            #expect(try account.tree.list("") == ["f": .file])
            try await account.settle()
            try await account.setOffline(true)
            let id = try account.tree.open("f")
            for _ in 0..<150 {
                let offset = Int.random(in: 0..<wanted.count + 2000, using: &random)
                let bytes = random.bytes(Int.random(in: 1...4000, using: &random))
                if random.oneIn(25) {
                    try account.tree.truncate("f", to: Int64(offset))
                    wanted = Array(wanted.prefix(offset)) + [UInt8](repeating: 0, count: max(0, offset - wanted.count))
                } else {
                    try account.tree.write(id, at: Int64(offset), bytes)
                    let end = offset + bytes.count
                    wanted += [UInt8](repeating: 0, count: max(0, end - wanted.count))
                    wanted.replaceSubrange(offset..<end, with: bytes)
                }
                #expect(try recorded(id, account) == known(id, account), "seed \(seed)")
            }
            if random.oneIn(2) { try await account.die() } else { try await account.dieAndTakeOver() }
            try await account.setOffline(false)
            try await account.settle()
            #expect(try account.tree.read("f") == wanted, "seed \(seed)")
            #expect(try source.snapshot()["f"] == wanted, "seed \(seed)")
            await account.stop()
        }
    }
}
