import CoveTestSupport
import Testing

@testable import CoveProviders

/// The parts of uploads, whatever sizes a journal or a server tells of.
@Suite struct UploadRecordTests {
    @Test(arguments: [false, true]) func `an upload that goes on is not old`(isKept: Bool) throws {
        let folder = try TemporaryDirectory("journal")
        let journal = UploadJournal(folder: isKept ? folder.path : nil)
        let (day, key): (Int64, [UInt8]) = (86_400, [1])
        func old(_ now: Int64) -> [[UInt8]] { journal.abandoned(at: now).map(\.key) }
        try journal.save(UploadRecord(key: key, upload: "u", identity: "i", partSize: 1, started: 0))
        journal.refresh(key, at: 0)
        #expect(old(day) == [] && old(day + 1) == [key])
        // While it goes on, however long no part of it arrives.
        journal.begin(key)
        #expect(old(9 * day) == [] && journal.isUnderway(key) && journal.isDue(key, at: 2 * day))
        journal.refresh(key, at: 2 * day)
        #expect(!journal.isDue(key, at: 2 * day + 60) && journal.isDue(key, at: 2 * day + 3600))
        journal.begin(key)
        journal.end(key)
        #expect(journal.isUnderway(key))
        journal.end(key)
        #expect(!journal.isUnderway(key) && !journal.isDue(key, at: 9 * day))
        // The day counts from when it went on.
        #expect(old(3 * day) == [] && old(3 * day + 1) == [key])
        #expect(UploadJournal(folder: isKept ? folder.path : nil).record(key)?.started == (isKept ? 2 * day : nil))
        // What is forgotten does not come back.
        journal.remove(key)
        journal.refresh(key, at: 5 * day)
        #expect(journal.all() == [])
        for now in [Int64.min, .max] { _ = journal.abandoned(at: now) }
    }

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
