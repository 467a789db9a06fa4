import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// What is told of a row that is not sent, for each reason that there is.
///
/// The clock is the test's own: nothing waits.
@Suite(.timeLimit(.minutes(5))) struct WaitReasonTests {
    @Test func `a push is as far as the source says, and what shows that it goes on grows with steps forward alone`() {
        let progress = PushProgress(started: System.monotonic())
        #expect(progress.mark == 0 && progress.sent == 0)
        progress.begin(100)
        progress.note(read: 60)
        #expect(progress.mark == 60 && progress.sent == 60)
        for (arrived, mark) in [(Int64(0), Int64(60)), (5, 65), (0, 65), (5, 65), (-7, 65), (30, 90)] {
            progress.note(arrived: arrived)
            #expect(progress.mark == mark && progress.sent == max(0, arrived), "\(arrived)")
        }
        progress.note(arrived: .max)
        #expect(progress.sent == 100)
        progress.begin(0)
        progress.note(read: 7)
        #expect(progress.sent == 0)
    }

    @Test(arguments: WaitReason.allCases)
    func `a queue that stands still names the row and says why`(_ reason: WaitReason) async throws {
        try await QueueScene.run { scene in
            let row = try await scene.hold(reason)
            let begin = System.monotonic()
            try await scene.sync.lookForStandstill(begin)
            #expect(scene.status.standstill == nil)
            try await scene.sync.lookForStandstill(begin + .seconds(61))
            let standstill = scene.status.standstill
            // Where deletions wait for a person, the account's state says so.
            guard reason != .approval else {
                #expect(standstill == nil)
                return #expect(scene.status.state == "waiting-for-approval")
            }
            #expect(standstill == Standstill(path: row.path, reason: reason.text, seconds: 61))
            let findings = scene.account.engine.queueFindings(scene.status)
            #expect(findings.map(\.level) == ["problem"])
            #expect(findings.first?.message.contains("\(row.path): \(reason.text)") == true, "\(findings)")
        }
    }

    @Test(arguments: WaitReason.allCases)
    func `a row that others go before is named, unless its reason is an ordinary one`(
        _ reason: WaitReason
    ) async throws {
        try await QueueScene.run { scene in
            let row = try await scene.hold(reason)
            let begin = System.monotonic()
            try await scene.sync.lookForStandstill(begin)
            try await scene.letAnotherGo()
            try await scene.sync.lookForStandstill(begin + .seconds(59))
            #expect(scene.status.heldUp == nil)
            try await scene.sync.lookForStandstill(begin + .seconds(61))
            #expect(scene.status.standstill == nil)
            let told = scene.status.heldUp?.first { $0.path == row.path }
            let findings = scene.account.engine.queueFindings(scene.status)
            guard !reason.isOrdinary else {
                #expect(told == nil)
                return #expect(!findings.contains { $0.message.hasPrefix("\(row.path) waits") }, "\(findings)")
            }
            #expect(told == Standstill(path: row.path, reason: reason.text, seconds: 61))
            let shown = "\(row.path) waits for 1 min, while others are sent: \(reason.text)"
            #expect(findings.contains { $0.level == "warning" && $0.message == shown }, "\(findings)")
        }
    }

    @Test func `a row that failed is told with its error, as an error, and not as held up`() async throws {
        try await QueueScene.run { scene in
            try scene.tree.write("file", [1])
            try scene.age(.seconds(7200))
            let row = try scene.row("file")
            try scene.write { database throws(Errno) in
                try database.postpone(row.id, attempts: 1, retry: .distantFuture, error: "the source refuses it")
            }
            let begin = System.monotonic()
            try await scene.sync.lookForStandstill(begin)
            try await scene.letAnotherGo()
            try await scene.sync.lookForStandstill(begin + .seconds(61))
            #expect(scene.status.heldUp == nil && scene.status.errors.map(\.path) == ["file"])
            try await scene.sync.lookForStandstill(begin + .seconds(122))
            #expect(scene.status.standstill?.path == "file")
            #expect(scene.status.standstill?.reason == "the source refuses it")
        }
    }

    @Test func `who comes late in a long queue, changes again, or is sent bit by bit is not held up`() async throws {
        try await QueueScene.run { scene in
            for name in ["early", "late", "large"] { try scene.tree.write(name, [1]) }
            try scene.age(.seconds(7200))
            let (early, late, large) = (try scene.row("early"), try scene.row("late"), try scene.row("large"))
            _ = try await scene.sync.beginPush(large.queued.document)
            let progress = try scene.sync.shared.withLock { $0.reservations.progress(of: large.queued.document) }
            let begin = System.monotonic()
            try await scene.sync.lookForStandstill(begin)
            try await scene.sync.noteProgress(early.queued)
            try await scene.sync.noteOvertaken(by: early.queued)
            progress?.note(read: 1)
            try await scene.sync.lookForStandstill(begin + .seconds(61))
            #expect(scene.status.heldUp == nil)
            // Now one that was changed after it is started.
            try await scene.sync.noteOvertaken(by: late.queued)
            try scene.tree.write("early", [2])
            try scene.age(.seconds(7200), of: "early")
            try await scene.sync.lookForStandstill(begin + .seconds(62))
            #expect(scene.status.heldUp == nil)
        }
    }

    @Test func `deletions that a person is asked about hide nothing else that stands still`() async throws {
        try await QueueScene.run { scene in
            _ = try await scene.hold(.approval)
            try scene.tree.write("file", [1])
            try scene.age(.seconds(7200))
            let begin = System.monotonic()
            try await scene.sync.lookForStandstill(begin)
            try await scene.sync.lookForStandstill(begin + .seconds(61))
            #expect(scene.status.standstill?.path == "file")
        }
    }

    @Test func `rows that wait for each other rest for that reason`() throws {
        struct Ring: QueueView {
            let rows = (0..<2).map { QueueRow(key: .entry($0), document: .random(), stamp: .epoch) }
            func eachDue(_ stream: QueueStream, at now: Timestamp, _ body: (QueueRow) -> Bool) throws(Errno) {
                for row in rows where !body(row) { return }
            }
            func look(at row: QueueRow, now: Timestamp) throws(Errno) -> QueueFinding {
                .after(row == rows[0] ? rows[1] : rows[0], .now, .folder)
            }
        }
        var schedule = Schedule()
        let started = try schedule.pick(8, from: Ring(), now: .epoch) { _, _ in nil }
        #expect(started.isEmpty)
        #expect(schedule.rests.values.map(\.reason) == [.ring, .ring])
    }

    @Test func `every reason has a text of its own that reads on after a colon`() {
        let texts = WaitReason.allCases.map(\.text)
        #expect(Set(texts).count == texts.count)
        for text in texts { #expect(text.first?.isLowercase == true && text.last != ".", "\(text)") }
    }
}
