import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// Deletions made here that are so many that a person is to be asked.
@Suite struct LocalBrakeTests {
    private func isHeld(_ account: EngineAccount) -> Bool {
        account.engine.accountStatus().state == "waiting-for-approval"
    }

    private func remove(_ numbers: Range<Int>, _ account: EngineAccount) async throws {
        await account.engine.pause()
        for number in numbers { try account.tree.unlink("\(number)") }
        await account.engine.resume()
    }

    private func accept(_ account: EngineAccount) async {
        await account.engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: true)
    }

    @Test func `deletions in portions count as one`() async throws {
        try await blocking {
            let account = try EngineAccount { $0.settleTime = .zero }
            let source = SourceFolder(account.source)
            for number in 0..<150 { try account.tree.write("\(number)", [1]) }
            try await account.settle()
            for begin in [0, 40] {
                try await remove(begin..<begin + 40, account)
                try waitUntil("they are deleted") { try source.snapshot().count == 110 - begin }
            }
            try await remove(80..<120, account)
            try waitUntil("a person is asked") { isHeld(account) }
            #expect(try source.snapshot().count == 70)
            await accept(account)
            try waitUntil("they are deleted") { try source.snapshot().count == 30 }
            // What was approved counts no more.
            try await remove(120..<125, account)
            try waitUntil("they are deleted") { try source.snapshot().count == 25 }
            #expect(!isHeld(account))
            await account.stop()
        }
    }

    @Test func `an approval is for what was deleted before it`() async throws {
        try await blocking {
            let held = HeldAnswer(of: "stuck")
            let account = try EngineAccount(wrap: held.wrap) { $0.settleTime = .zero }
            let source = SourceFolder(account.source)
            for number in 0..<150 { try account.tree.write("\(number)", [1]) }
            try account.tree.write("stuck", [1])
            try await account.settle()
            held.arm()
            try account.tree.unlink("stuck")
            try waitUntil("its deletion goes on") { held.hasArrived }
            await accept(account)
            try await remove(0..<120, account)
            try waitUntil("a person is asked") { isHeld(account) }
            #expect(try source.snapshot().count == 150)
            held.answer()
            await accept(account)
            try waitUntil("they are deleted") { try source.snapshot().count == 30 }
            await account.stop()
        }
    }
}
