import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// Content files that are gone or shorter than they were, as after a repair of the disk.
@Suite(.timeLimit(.minutes(2))) struct LostBytesTests {
    enum Loss: CaseIterable { case all, end, bytes }

    private static let bytes = (0..<50_000).map { UInt8(truncatingIfNeeded: $0 &* 11 ^ $0 >> 8 | 1) }

    private func lose(_ loss: Loss, of id: ItemID, in state: String) throws {
        let file = "\(state)/content/\(String(id.rawValue & 0xFF, radix: 16))/\(id.rawValue)"
        switch loss {
        case .all: try System.unlink(file)
        case .end: try Command.run("truncate", ["-s", "30000", file])
        case .bytes: try Command.run("truncate", ["-s", "0", file])
        }
    }

    enum Use: CaseIterable { case read, append, cut, punch, copy }

    @Test(arguments: Loss.allCases, Use.allCases)
    func `bytes that the source has too are fetched again`(loss: Loss, use: Use) async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try source.save("f", Self.bytes)
            #expect(try account.tree.read("f") == Self.bytes)
            try await account.settle()
            let id = try account.tree.resolve("f")
            try await account.restart { state in try lose(loss, of: id, in: state) }
            var wanted = Self.bytes
            switch use {
            case .read: break
            case .append:
                try account.tree.append("f", [1, 2, 3])
                wanted += [1, 2, 3]
            case .cut:
                try account.tree.truncate("f", to: 40_000)
                wanted.removeSubrange(40_000...)
            case .punch:
                let hole = Allocation.punches | Allocation.keepsSize
                try account.engine.allocate(id, mode: hole, offset: 100, length: 1000)
                wanted.replaceSubrange(100..<1100, with: repeatElement(0, count: 1000))
            case .copy:
                try account.tree.write("copy", [])
                let copy = try account.tree.resolve("copy")
                // The kernel reads and writes them instead.
                #expect(throws: Errno.notSupported) {
                    try account.engine.copyRange(from: id, at: 0, to: copy, at: 0, count: 50_000)
                }
            }
            #expect(try account.tree.read("f") == wanted)
            try await account.settle()
            #expect(try source.snapshot()["f"] == wanted)
            await account.stop()
            #expect(try account.repair().findings == [])
        }
    }

    @Test(arguments: Loss.allCases)
    func `bytes that only this device had are no zeros, and are not sent`(loss: Loss) async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try source.save("f", Array("good".utf8))
            #expect(try account.tree.read("f") == Array("good".utf8))
            try await account.setOffline(true)
            try account.tree.write("f", Self.bytes)
            let id = try account.tree.resolve("f")
            try await account.restart { state in try lose(loss, of: id, in: state) }
            #expect(throws: Errno.inputOutput) { try account.tree.read("f") }
            #expect(throws: Errno.inputOutput) { try account.tree.append("f", [1]) }
            #expect(throws: Errno.inputOutput) { try account.tree.truncate("f", to: 60_000) }
            try await account.setOffline(false)
            await account.engine.sync(nil, acceptDeletions: true, acceptLocalDeletions: true)
            try waitUntil("the trouble is shown") { account.engine.accountStatus().errors.contains { $0.path == "f" } }
            #expect(try source.snapshot()["f"] == Array("good".utf8))
            // Its name is free for what a person has elsewhere.
            try account.tree.unlink("f")
            try account.tree.write("f", Self.bytes)
            try await account.settle()
            #expect(try source.snapshot()["f"] == Self.bytes)
            await account.stop()
        }
    }

    @Test(arguments: [true, false])
    func `a hole at the end of a file that is not here is a part of it`(dies: Bool) async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try source.save("f", Self.bytes)
            #expect(try account.tree.list("") == ["f": .file])
            try await account.settle()
            try await account.setOffline(true)
            let id = try account.tree.open("f")
            let hole = Allocation.punches | Allocation.keepsSize
            try account.engine.allocate(id, mode: hole, offset: 40_000, length: 20_000)
            if dies { try await account.die() } else { try account.tree.close(id) }
            try await account.setOffline(false)
            let wanted = Self.bytes.prefix(40_000) + [UInt8](repeating: 0, count: 10_000)
            try await account.settle()
            #expect(try account.tree.read("f") == Array(wanted))
            #expect(try source.snapshot()["f"] == Array(wanted))
            await account.stop()
        }
    }
}
