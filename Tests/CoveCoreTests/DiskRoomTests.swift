import CoveCore
import Testing

/// What file systems tell of their room.
@Suite struct DiskRoomTests {
    @Test(arguments: [
        (UInt(4096), UInt(1000), Int64(4_096_000)), (1, .max, .max), (.max, .max, .max), (4096, 1 << 60, .max),
        (0, .max, 0), (1 << 62, 1, 1 << 62), (1 << 63, 1, .max),
    ])
    func `no number of blocks is too many`(unit: UInt, blocks: UInt, bytes: Int64) {
        let room = DiskRoom(unit: unit, total: blocks, available: blocks)
        #expect(room.total == bytes && room.available == bytes)
    }

    @Test func `the room of a path is that of its disk`() throws {
        let room = try #require(DiskRoom("/"))
        #expect(room.total > 0 && room.available >= 0 && room.available <= room.total)
        #expect(DiskRoom("/nowhere at all") == nil)
    }
}
