import CoveCore
import Testing

@testable import CoveEngine

/// The note of an erasure, and what is remembered of it.
@Suite struct ErasureTests {
    @Test func `a note is read as it was written, and nothing else is one`() {
        let erasure = Erasure(token: "abc", time: Timestamp(seconds: 1_800_000_000, nanoseconds: 7))
        #expect(Erasure(note: erasure.note) == erasure)
        for text in [
            "", "cove-erased", "cove-erased abc", "cove-erased abc soon", "erased abc 1", "cove-erased abc 1 2",
        ] {
            #expect(Erasure(note: Array(text.utf8)) == nil)
        }
        #expect(Erasure(note: Array("cove-erased abc 9223372036854775807".utf8))?.time == .distantFuture.wholeSecond)
        #expect(Erasure(note: [UInt8](repeating: 0xFF, count: 500)) == nil)
        #expect(Erasure(note: Array("cove-erased \(String(repeating: "a", count: 101)) 1".utf8)) == nil)
    }

    @Test func `what was heeded is known by its token`() {
        let erasure = Erasure(token: "abc", time: .epoch)
        let since = Timestamp(seconds: 12, nanoseconds: 0)
        #expect(erasure.isKept(in: erasure.kept(since: since)) == since)
        #expect(Erasure(token: "abd", time: .epoch).isKept(in: erasure.kept(since: since)) == nil)
        #expect(erasure.isKept(in: [0xFF, 0x20]) == nil)
    }
}
