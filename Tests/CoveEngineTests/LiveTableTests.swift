import CoveCore
import Glibc
import Testing

@testable import CoveEngine

/// The table of open items, which a daemon takes over from the one before.
@Suite struct LiveTableTests {
    @Test func `announcers of all daemons before are known, whichever of them died before it had answered`() throws {
        let first = try HandleLedger()
        #expect(!first.isFormerAnnouncer(11))
        first.announcer = 11
        // The next daemon dies early, before it has one, and another one late.
        let second = try HandleLedger(inherited: dup(first.descriptor))
        #expect(second.isFormerAnnouncer(11))
        let third = try HandleLedger(inherited: dup(first.descriptor))
        #expect(third.isFormerAnnouncer(11))
        third.announcer = 22
        #expect(!third.isFormerAnnouncer(22))
        let fourth = try HandleLedger(inherited: dup(first.descriptor))
        #expect(fourth.isFormerAnnouncer(11) && fourth.isFormerAnnouncer(22))
        #expect(!fourth.isFormerAnnouncer(0) && !fourth.isFormerAnnouncer(33))
        for number in 100..<400 { fourth.announcer = Int32(number) }
        let last = try HandleLedger(inherited: dup(first.descriptor))
        #expect((300..<400).allSatisfy { last.isFormerAnnouncer(Int32($0)) })
    }

    @Test
    func `an item that a dead daemon counted before its commit failed is another one when its number is given again`()
        throws
    {
        let ledger = try HandleLedger()
        let id = ItemID(rawValue: 7)
        _ = try LiveTable(ledger: ledger).open(id, writes: true, request: 11)
        let table = LiveTable(ledger: ledger)
        #expect(table.handleCount == 1)
        var row = ItemRow(kind: .file, permissions: 0o644, user: 0, group: 0, now: System.now())
        row.id = id
        // The same request, sent again, or another one that is first.
        for request: UInt64 in [11, 12] {
            let item = try table.open(id, writes: false, request: request, made: row)
            #expect(item.state.withLock { $0.row?.id == id && $0.isMarked })
            #expect(table.handleCount == 1 && !table.isWritable(id))
        }
        #expect(table.close(id, writes: false).isLast)
        #expect(table.handleCount == 0 && LiveTable(ledger: ledger).handleCount == 0)
    }
}
