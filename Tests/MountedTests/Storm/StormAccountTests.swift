import CoveCore
import CoveTestSupport
import Foundation
import Testing

/// The account that a storm is judged by finds out what it is there for.
@Suite struct StormAccountTests {
    private let ledger = StormLedger()
    private let record = StormRecord(device: 1, number: 7)
    private let other = StormRecord(device: 2, number: 8)

    private func missing(_ tree: StormEnd.Snapshot, in place: String = "") -> [String] {
        StormEnd.missing(in: tree, ledger) { _ in place }.map { $0.components(separatedBy: ":").first ?? "" }
    }

    @Test func `a record that was written and is in no file is lost, wherever else it is`() {
        ledger.wrote(record, "created a")
        ledger.wrote(other, "appended to a")
        #expect(missing(["a": record.bytes(10) + other.bytes(3000)]) == [])
        #expect(missing(["a": nil, "b/c": other.bytes(1)]) == ["lost"])
        #expect(missing([:], in: "the trash") == ["lost", "lost"])
        #expect(ledger.torn == [])
    }

    @Test func `what a program saw and did away with may be gone, unless its call failed`() {
        ledger.wrote(record, "created a")
        ledger.gaveUp([record], "deleted a")
        #expect(missing([:]) == [])
        ledger.tookBack([record])
        #expect(missing([:]) == ["lost"])
        // One device has edited it away, and the deletion by another one finds nothing.
        for _ in 0..<2 { ledger.gaveUp([record], "edited a") }
        ledger.tookBack([record])
        #expect(missing([:]) == [])
        ledger.tookBack([record])
        #expect(missing([:]) == ["lost"])
    }

    @Test func `what came in the moment before a deletion may be in the trash, and nowhere else`() {
        for record in [record, other] { ledger.wrote(record, "created a") }
        ledger.tookUnseen("deleted a")
        #expect(missing([:]) == ["lost", "lost"])
        #expect(missing([:], in: "the trash") == ["lost"])
    }

    @Test(arguments: [0, 1, 26, 35, 1025])
    func `bytes that nobody wrote as a whole are torn`(kept: Int) {
        let whole = record.bytes(1000)
        #expect(StormRecord.parse(whole + other.bytes(5)).records.map(\.end) == [1026, 1026 + 31])
        ledger.read(whole + other.bytes(0) + other.bytes(77), "whole")
        #expect(ledger.torn == [])
        ledger.read(other.bytes(5) + whole.prefix(kept), "cut")
        #expect(ledger.torn.isEmpty == (kept == 0))
        ledger.read(whole.prefix(kept) + [0] + whole.dropFirst(kept + 1), "zero")
        #expect(ledger.torn.count == (kept == 0 ? 1 : 2))
    }

    @Test func `a record whose program was told of a failure may be there in part, and no other`() {
        ledger.leftUnfinished(record)
        ledger.read(other.bytes(5) + record.bytes(1000).prefix(500), "unfinished")
        #expect(ledger.torn == [])
        ledger.read(Array(other.bytes(1000).prefix(500)), "torn")
        #expect(ledger.torn.count == 1)
    }

    @Test func `a device differs from the source in names, kinds and bytes, but for what servers leave`() {
        let tree: StormEnd.Snapshot = ["d": nil, "d/a": record.bytes(5)]
        #expect(StormEnd.difference(tree, tree) == nil)
        #expect(StormEnd.difference(tree, tree.merging(["d/.rclone_temp_put_1": []]) { $1 }) == nil)
        for change: StormEnd.Snapshot in [["d": []], ["d/a": other.bytes(5)], ["d/a": []], ["d/b": nil]] {
            #expect(StormEnd.difference(tree, tree.merging(change) { $1 })?.hasPrefix("1 differ: ") == true)
        }
        #expect(StormEnd.difference(tree, ["d": nil])?.hasPrefix("1 differ: d/a is 31 bytes") == true)
    }

    @Test func `a call by name that is told ESTALE counts, and so does what no call may be told`() async throws {
        try await blocking {
            let folder = try TemporaryDirectory("calls")
            let calls = StormCalls(ledger)
            let tree = try StormTree(device: 0, mount: folder.path, mayBeCutOff: false, calls: calls)
            func fail(_ error: Errno, byName: Bool) {
                try? calls.call("call", "a", tree, byName: byName) { () throws(Errno) in throw error }
            }
            #expect(throws: Errno.noSuchEntry) { try tree.lstat("a") }
            fail(.stale, byName: false)
            #expect(calls.problems == [])
            fail(.stale, byName: true)
            fail(.hostUnreachable, byName: true)
            fail(.notConnected, byName: false)
            #expect(
                calls.problems == [
                    "ESTALE: call a on device 0", "unexpected: call a on device 0: No route to host",
                    "unexpected: call a on device 0: Transport endpoint is not connected",
                ]
            )
            tree.die()
            fail(.notConnected, byName: true)
            #expect(calls.problems.count == 3)
        }
    }

    @Test func `what comes to a name is told in the order in which it happens`() async throws {
        try await blocking {
            let folder = try TemporaryDirectory("watch")
            let tree = MountedTree(folder.path)
            try tree.write("new", [1])
            let watch = try NameWatch("a", in: folder.path)
            try tree.write("a", [])
            try tree.rename("new", "a")
            try tree.unlink("a")
            let events = watch.events()
            #expect(events.map(\.isArrival) == [true, true, false])
            #expect(events.map(\.formerName) == [nil, "new", nil])
        }
    }
}
