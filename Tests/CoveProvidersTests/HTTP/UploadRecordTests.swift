import Testing

@testable import CoveProviders

/// The parts of uploads, whatever sizes a journal or a server tells of.
@Suite struct UploadRecordTests {
    @Test func `parts of any size of any object are counted`() {
        let sizes = [Int64.min, -1, 0, 1, 5 << 20, (5 << 20) + 1, 1 << 40, .max - 1, .max]
        for partSize in [Int64(1), 5 << 20, .max - 1, .max] {
            let record = UploadRecord(key: [1], upload: "u", identity: "i", partSize: partSize, started: 0)
            for size in sizes {
                let numbers = record.numbers(of: size)
                #expect(numbers.lowerBound == 1)
                for number in [1, 2, 10_000, numbers.upperBound, .max] {
                    let range = record.range(number, of: size)
                    #expect(range.upperBound <= max(size, 0) || range.isEmpty)
                }
                guard size > 0 else { continue }
                #expect(record.range(1, of: size).lowerBound == 0)
                #expect(record.range(numbers.upperBound, of: size).upperBound == size)
                #expect(!record.range(numbers.upperBound, of: size).isEmpty)
            }
        }
    }
}
