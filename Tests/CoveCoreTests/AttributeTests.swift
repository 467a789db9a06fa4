import CoveCore
import CoveTestSupport
import Testing

@Suite struct AttributeTests {
    @Test(
        arguments: [
            (0, 0), (1, 999_999_999), (-1, 0), (-1, 1), (-1, 999_999_999), (1_700_000_000, 5), (-9_000_000_000, 7),
        ] as [(Int64, Int64)]
    )
    func `a timespec survives`(seconds: Int64, nanoseconds: Int64) {
        let time = Timestamp(seconds: seconds, nanoseconds: nanoseconds)
        #expect(time.seconds == seconds)
        #expect(time.nanoseconds == nanoseconds)
        #expect(Timestamp(time.timespec) == time)
    }

    @Test func `times beyond the range are clamped`() {
        #expect(Timestamp(seconds: .max, nanoseconds: 0) == .distantFuture)
        #expect(Timestamp(seconds: .min, nanoseconds: 0) == .distantPast)
        #expect(Timestamp(seconds: 9_223_372_036, nanoseconds: 999_999_999) == .distantFuture)
    }

    @Test func `random times order as their parts do`() {
        let seed = UInt64.random(in: 0...UInt64(UInt32.max))
        print("attribute test: seed \(seed)")
        var random = SeededGenerator(seed: seed)
        for _ in 0..<1000 {
            let first = Timestamp(Int64.random(in: .min ... .max, using: &random))
            let second = Timestamp(Int64.random(in: .min ... .max, using: &random))
            let isBefore = (first.seconds, first.nanoseconds) < (second.seconds, second.nanoseconds)
            #expect((first < second) == isBefore)
            #expect((0..<1_000_000_000).contains(first.nanoseconds))
            #expect(Timestamp(seconds: first.seconds, nanoseconds: first.nanoseconds) == first)
        }
    }

    @Test func `files, directories and links are synced, nothing else`() {
        #expect(ItemKind.allCases.filter(\.isSynced) == [.file, .directory, .symbolicLink])
    }
}
