import CoveCore
import CoveEngine
import CoveTestSupport
import Foundation
import Testing

/// What close(2) promises.
@Suite struct CloseTests {
    private func make(_ name: String, _ bytes: [UInt8], in account: EngineAccount) throws -> ItemID {
        let tree = account.tree
        let made = try account.engine.create(.root, Array(name.utf8), mode: 0o100644, flags: O_RDWR, tree.caller)
        try tree.write(made.id, at: 0, bytes)
        return made.id
    }

    private func setDate(_ id: ItemID, _ date: Timestamp, _ account: EngineAccount) throws {
        var change = AttributeChange()
        change.modificationTime = .at(date)
        _ = try account.engine.setAttributes(of: id, change, hasHandle: false, account.tree.caller)
    }

    @Test func `a closed file survives the death of everything, with its date`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try await account.setOffline(true)
            let past = Timestamp(seconds: 1_000_000_000, nanoseconds: 5)
            let bytes = [UInt8](repeating: 7, count: 70_000)
            let plain = try make("plain", bytes, in: account)
            let early = try make("early", bytes, in: account)
            try setDate(early, past, account)
            let late = try make("late", bytes, in: account)
            let grown = try make("grown", bytes, in: account)
            let cut = try make("cut", bytes, in: account)
            let all = [plain, early, late, grown, cut]
            for id in all { try account.engine.flush(id) }
            try setDate(late, past, account)
            // Closed once more, by another handle.
            try account.tree.write(grown, at: 70_000, bytes)
            try account.engine.flush(grown)
            try account.tree.truncate("cut", to: 10)
            let before = try all.map { try account.engine.attributes(of: $0) }
            try await account.die()
            for (id, old) in zip(all, before) {
                let new = try account.engine.attributes(of: id)
                #expect(new.size == old.size && new.modificationTime == old.modificationTime, "\(old) \(new)")
                #expect(new.blocks >= (new.size + 511) / 512)
            }
            #expect(try account.engine.attributes(of: late).modificationTime == past)
            #expect(try account.engine.attributes(of: early).modificationTime == past)
            #expect(try account.tree.read("plain") == bytes)
            #expect(try account.tree.read("grown") == bytes + bytes)
            #expect(try account.tree.read("cut") == Array(bytes.prefix(10)))
            await account.stop()
        }
    }

    @Test func `a closed file that takes a name which stays here survives too`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try await account.setOffline(true)
            let early = try make("early", [1, 2, 3], in: account)
            try account.tree.rename("early", "early~")
            try account.engine.flush(early)
            let late = try make("late", [4, 5], in: account)
            try account.engine.flush(late)
            try account.tree.rename("late", "late~")
            let scratch = try make("scratch~", [6], in: account)
            try account.engine.flush(scratch)
            try await account.die()
            #expect(try account.tree.read("early~") == [1, 2, 3])
            #expect(try account.tree.read("late~") == [4, 5])
            #expect(try account.tree.read("scratch~") == [6])
            await account.stop()
        }
    }

    @Test func `a file is sent with the date of its close, released or not`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let id = try make("doc", [1, 2, 3], in: account)
            let past = Timestamp(seconds: 1_000_000_000, nanoseconds: 0)
            try setDate(id, past, account)
            try account.engine.flush(id)
            account.engine.release(id, flags: O_RDWR)
            try await account.settle()
            let status = try System.lstat("\(account.source)/doc")
            #expect(Timestamp(status.st_mtim) == past && status.st_size == 3)
            await account.stop()
        }
    }
}
