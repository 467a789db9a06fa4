import CoveCore
import CoveTestSupport
import Testing

@testable import CoveClaims

/// Who waits for whom.
///
/// The numbers are those of the acceptance checklist.
@Suite struct ClaimTableTests {
    private let driver = TableDriver()
    private let read = ItemUse.read([])
    private let write = ItemUse.write(nil)

    @Test func `4. readers together, a writer waits`() {
        let session = driver.session()
        let first = driver.claim(session, [("d/f", read)])
        let second = driver.claim(session, [("d/f", read)])
        let writer = driver.claim(session, [("d/f", write)])
        #expect(driver.granted == [first, second])
        driver.release(first)
        #expect(!driver.isGranted(writer))
        driver.release(second)
        #expect(driver.isGranted(writer))
        let next = driver.claim(session, [("d/f", write)])
        #expect(!driver.isGranted(next))
        driver.release(writer)
        #expect(driver.isGranted(next))
    }

    @Test func `5. a reader behind a waiting writer runs after it`() {
        let session = driver.session()
        let first = driver.claim(session, [("f", read)])
        let writer = driver.claim(session, [("f", write)])
        let late = driver.claim(session, [("f", read)])
        #expect(driver.granted == [first])
        driver.release(first)
        #expect(driver.granted == [first, writer])
        driver.release(writer)
        #expect(driver.granted == [first, writer, late])
    }

    @Test func `a program goes ahead of a remote change that waits`() {
        let session = driver.session()
        let reader = driver.claim(session, [("d/f", read)])
        let change = driver.claim(session, [("d/f", write)], isFromSource: true)
        let program = driver.claim(session, [("d/f", read)], manner: .plain)
        let late = driver.claim(session, [("d/f", read)])
        let writing = driver.claim(session, [("d/f", write)], manner: .plain)
        #expect(driver.granted == [reader, program])
        driver.release(program)
        driver.release(reader)
        // Whoever writes waits for those that were there before, and the change too.
        #expect(driver.isGranted(change) && !driver.isGranted(late))
        driver.release(change)
        #expect(driver.isGranted(late) && !driver.isGranted(writing))
        let again = driver.claim(session, [("d/f", write)], isFromSource: true)
        driver.release(late)
        #expect(driver.isGranted(writing) && !driver.isGranted(again))
        driver.release(writing)
        #expect(driver.isGranted(again))
        // One that has its turn is waited for, but by a call whose locks in the kernel it needs.
        let behind = driver.claim(session, [("d/f", read)], manner: .plain)
        let brief = driver.claim(session, [("d/f", write)], manner: .plain, isBrief: true)
        #expect(!driver.isGranted(behind) && driver.isGranted(brief))
        driver.release(brief)
        // Nor for what waits for it.
        let next = driver.claim(session, [("d/f", write)])
        let second = driver.claim(session, [("d/f", write)], manner: .plain, isBrief: true)
        #expect(!driver.isGranted(next) && driver.isGranted(second))
        driver.release(second)
        #expect(!driver.isGranted(behind) && !driver.isGranted(next))
        driver.release(again)
        #expect(driver.isGranted(behind) && !driver.isGranted(next))
        driver.release(behind)
        #expect(driver.isGranted(next))
    }

    @Test func `6. a reader of a directory and a writer inside don't wait`() {
        let session = driver.session()
        let directory = driver.claim(session, [("d", read)])
        let inside = driver.claim(session, [("d/f", write)])
        let again = driver.claim(session, [("d", write)])
        #expect(driver.granted == [directory, inside])
        driver.release(directory)
        #expect(driver.granted == [directory, inside, again])
    }

    @Test(arguments: [
        CoordinationInterface.WritingOption.forDeleting, .forMoving, .forReplacing,
    ]) func `7. the end of a directory excludes all inside`(option: CoordinationInterface.WritingOption) {
        let session = driver.session()
        let inside = driver.claim(session, [("d/e/f", read)])
        let end = driver.claim(session, [("d", .write(option))])
        let later = driver.claim(session, [("d/e/g", read)])
        let beside = driver.claim(session, [("e", write)])
        #expect(driver.granted == [inside, beside])
        driver.release(inside)
        #expect(driver.granted == [inside, beside, end])
        driver.release(end)
        #expect(driver.granted == [inside, beside, end, later])
    }

    @Test func `8. items of one package exclude each other`() {
        let session = driver.session()
        let first = driver.claim(session, [("p.pkg/1", write)])
        let second = driver.claim(session, [("p.pkg/in.pkg/2", write)])
        let whole = driver.claim(session, [("p.pkg", read)])
        #expect(driver.granted == [first])
        driver.release(first)
        #expect(driver.granted == [first, second])
        driver.release(second)
        #expect(driver.granted == [first, second, whole])
    }

    @Test func `9. one purpose, or one coordinator, never waits for itself`() {
        let (one, two) = (driver.session(), driver.session())
        let first = driver.claim(one, [("f", write)], purpose: "sync")
        let second = driver.claim(two, [("f", write)], purpose: "sync")
        let other = driver.claim(two, [("f", write)], coordinator: "a")
        #expect(driver.granted == [first, second])
        driver.release(first)
        driver.release(second)
        let same = driver.claim(two, [("f", read)], coordinator: "a")
        #expect(driver.granted == [first, second, other, same])
        // A coordinator's name is its session's own.
        let foreign = driver.claim(one, [("f", read)], coordinator: "a")
        #expect(!driver.isGranted(foreign))
    }

    @Test func `9. programs of a process that holds a claim wait for no other of its purpose`() {
        let (one, two, plain) = (driver.session(), driver.session(), driver.session(.isTrusted))
        driver.claim(one, [("f", write), ("g", write)], purpose: "sync")
        driver.claim(two, [("f", write)], purpose: "sync")
        let own = driver.claim(plain, [("f", write)], manner: .plain, inside: [two])
        // It holds nothing there.
        let beside = driver.claim(plain, [("g", write)], manner: .plain, inside: [two])
        let stranger = driver.claim(plain, [("f", write)], manner: .plain)
        #expect(driver.isGranted(own))
        #expect(!driver.isGranted(beside))
        #expect(!driver.isGranted(stranger))
    }

    @Test func `what moves onto a path where others wait already is one with it, down to its last name`() {
        let session = driver.session()
        let held = driver.claim(session, [("d/in/f", write)])
        let waiting = driver.claim(session, [("e/in/f", write)])
        driver.act { table in
            if let node = table.existingNode(at: TableDriver.path("d/in/f")) { table.setEntry(7, of: node) }
            table.moved(TableDriver.path("d"), to: TableDriver.steps("e"), now: 0)
        }
        #expect(driver.paths(of: held) == ["e/in/f"])
        #expect(driver.path(ofEntry: 7) == "e/in/f")
        for claim in [held, waiting] { driver.release(claim) }
        #expect(driver.isEmpty)
    }

    @Test func `10. a waiting writer goes with a moved item, a replacing one stays`() {
        let session = driver.session()
        let mover = driver.claim(session, [("f", .write(.forMoving)), ("g", .write(.forReplacing))])
        let writer = driver.claim(session, [("f", write)])
        let replacing = driver.claim(session, [("f", .write(.forReplacing))])
        driver.act { $0.moved(TableDriver.path("f"), to: TableDriver.steps("g"), by: mover, now: 0) }
        #expect(driver.paths(of: writer) == ["g"])
        #expect(driver.paths(of: replacing) == ["f"])
        // Where it is now nobody else is.
        #expect(driver.isGranted(replacing))
        #expect(!driver.isGranted(writer))
        driver.release(mover)
        #expect(driver.isGranted(writer))
    }

    @Test func `20. cancelled claims fail, and later ones too`() {
        let session = driver.session()
        let held = driver.claim(session, [("f", write)], coordinator: "a")
        let waiting = driver.claim(session, [("f", write)], coordinator: "b")
        driver.act { $0.cancel("b", session: session, now: 0) }
        #expect(driver.failed[waiting]?.errno == .cancelled)
        let later = driver.claim(session, [("g", write)], coordinator: "b")
        #expect(driver.failed[later]?.errno == .cancelled)
        #expect(driver.granted == [held])
    }

    @Test func `39. two items of one claim move as one`() {
        let session = driver.session()
        let mover = driver.claim(session, [("d/f", .write(.forMoving)), ("e/f", .write(.forReplacing))])
        driver.act { $0.moved(TableDriver.path("d/f"), to: TableDriver.steps("e/f"), by: mover, now: 0) }
        #expect(driver.paths(of: mover) == ["e/f", "e/f"])
        driver.release(mover)
        #expect(driver.isEmpty)
    }

    @Test func `40. both orders of two items never deadlock`() {
        let (one, two) = (driver.session(), driver.session())
        let first = driver.claim(one, [("a", write), ("b", write)])
        let second = driver.claim(two, [("b", write), ("a", write)])
        let third = driver.claim(one, [("a", write), ("b", write)])
        #expect(driver.granted == [first])
        driver.release(first)
        #expect(driver.granted == [first, second])
        driver.release(second)
        #expect(driver.granted == [first, second, third])
    }

    @Test func `a thousand claims on one item wait for the nearest, and for those behind when these leave`() {
        let (holder, one, two) = (driver.session(), driver.session(), driver.session())
        let first = driver.claim(holder, [("f", write)])
        let waiting = (0..<1000).map { driver.claim($0 % 2 == 0 ? one : two, [("f", write)]) }
        #expect(waiting.allSatisfy { driver.waits(of: $0).count == 1 })
        driver.act { $0.endSession(one, now: 0) }
        #expect(driver.granted == [first])
        driver.release(first)
        #expect(driver.granted == [first, waiting[1]])
        driver.release(waiting[1])
        #expect(driver.granted == [first, waiting[1], waiting[3]])
        for session in [holder, two] { driver.act { $0.endSession(session, now: 0) } }
        #expect(driver.isEmpty)
    }

    @Test func `the holder's programs are exempt, others are not`() {
        let (holder, child, other) = (driver.session(), driver.session(.isTrusted), driver.session(.isTrusted))
        driver.claim(holder, [("f", write)])
        let exempt = driver.claim(child, [("f", read)], manner: .plain, inside: [holder])
        let stranger = driver.claim(other, [("f", read)], manner: .plain)
        let sibling = driver.claim(other, [("g", read)], manner: .plain)
        #expect(driver.isGranted(exempt))
        #expect(!driver.isGranted(stranger))
        #expect(driver.isGranted(sibling))
    }

    @Test func `plain programs never wait for each other`() {
        let session = driver.session(.isTrusted)
        let first = driver.claim(session, [("f", write)], manner: .plain)
        let second = driver.claim(session, [("f", .write(.forDeleting))], manner: .plain)
        #expect(driver.granted == [first, second])
    }

    @Test func `a snapshot ends its claim`() {
        let session = driver.session()
        let upload = driver.claim(session, [("f", .read(.forUploading)), ("g", read)])
        let writer = driver.claim(session, [("f", write)])
        let other = driver.claim(session, [("g", write)])
        driver.act { $0.dropSnapshots(of: upload, now: 0) }
        #expect(driver.isGranted(writer))
        #expect(!driver.isGranted(other))
        driver.release(upload)
        #expect(driver.isGranted(other))
    }

    @Test func `a presenter that lets go for one who has gone has the item again`() {
        let (one, two) = (driver.session(), driver.session())
        let presenter = driver.present(one, "f")
        driver.claim(two, [("f", write)])
        driver.act { $0.endSession(two, now: 0) }
        #expect(driver.kinds(presenter) == [.relinquishToWriter, .reacquire])
    }

    @Test func `a wait ends at its deadline`() {
        let session = driver.session()
        driver.claim(session, [("f", write)])
        let waiting = driver.claim(session, [("f", write)], deadline: 5)
        driver.act { $0.tick(now: 4) }
        #expect(driver.failed.isEmpty)
        driver.act { $0.tick(now: 5) }
        #expect(driver.failed[waiting]?.errno == .timedOut)
    }

    @Test func `a claim without any time is granted where nobody holds it, whatever its own needs take`() {
        let (one, two) = (driver.session(), driver.session())
        let presenter = driver.present(two, "f")
        driver.settlesAtOnce = false
        let claim = driver.claim(one, [("f", write)], deadline: 0)
        driver.act { $0.tick(now: 1) }
        driver.replyAll(presenter)
        #expect(driver.settling == [claim])
        driver.act { $0.tick(now: 2) }
        let late = driver.claim(two, [("f", write)], deadline: 0)
        #expect(driver.failed[late] == ClaimFailure(.timedOut))
        driver.act { $0.settled(claim, existed: [true], now: 3) }
        #expect(driver.isGranted(claim))
        let later = driver.claim(two, [("f", read)], deadline: 0)
        #expect(driver.failed[later] == ClaimFailure(.timedOut))
        driver.release(claim)
        #expect(driver.numbers.isEmpty)
    }

    @Test func `the end of a session ends its claims`() {
        let (one, two) = (driver.session(), driver.session())
        driver.claim(one, [("f", write)])
        let waiting = driver.claim(one, [("f", write)])
        let other = driver.claim(two, [("f", write)])
        driver.act { $0.endSession(one, now: 0) }
        #expect(driver.isGranted(other))
        #expect(!driver.isGranted(waiting))
    }

    /// What a client may be in the middle of when it is killed.
    enum Moment: CaseIterable {
        case queued, asking, saving, settling, held, pinged, cancelled, answering, alone
    }

    @Test(arguments: Moment.allCases) func `18. a client may die at any moment`(moment: Moment) {
        let (dying, first, next, owner) = (driver.session(), driver.session(), driver.session(), driver.session())
        let presenter = driver.present(moment == .answering ? dying : owner, "f")
        if moment == .queued { driver.claim(first, [("f", write)]) }
        driver.settlesAtOnce = moment != .settling
        let claim = driver.claim(moment == .answering ? first : dying, [("f", read)], coordinator: "c")
        if moment != .asking, moment != .queued { driver.reply(presenter, .relinquishToReader) }
        if ![.asking, .queued, .saving, .answering].contains(moment) { driver.reply(presenter, .saveChanges) }
        #expect(driver.settling.isEmpty == (moment != .settling))
        driver.settlesAtOnce = true
        if moment == .alone { driver.act { $0.endSession(owner, now: 0) } }
        let waiting = driver.claim(next, [("f", write)])
        if moment == .pinged { driver.act { $0.tick(now: 5_000_000_000) } }
        if moment == .cancelled { driver.act { $0.cancel("c", session: dying, now: 0) } }
        driver.act { $0.endSession(dying, now: 0) }
        for session in moment == .queued || moment == .answering ? [first] : [] {
            driver.replyAll(presenter)
            driver.act { $0.endSession(session, now: 0) }
        }
        // Nothing but the presenter's word stands in the way, and no time passes.
        driver.replyAll(presenter)
        driver.replyAll(presenter)
        #expect(driver.isGranted(waiting))
        driver.act { $0.settled(claim, existed: [], now: 0) }
        driver.release(waiting)
        for session in [next, owner] { driver.act { $0.endSession(session, now: 0) } }
        #expect(driver.isEmpty)
    }

    @Test func `a holder that does not answer loses what others wait for`() {
        let (one, two) = (driver.session(), driver.session())
        let held = driver.claim(one, [("f", write)])
        let free = driver.claim(one, [("g", write)])
        let waiting = driver.claim(two, [("f", write)])
        driver.now = 5_000_000_000
        driver.act { $0.tick(now: 5_000_000_000) }
        #expect(driver.told.map(\.kind) == ["ping"])
        // An answer in time keeps the claim.
        let ping = driver.told[0].number
        driver.act { $0.reply(session: one, message: ping, failure: nil, now: 6_000_000_000) }
        driver.act { $0.tick(now: 15_000_000_000) }
        #expect(!driver.isGranted(waiting))
        driver.act { $0.tick(now: 26_000_000_000) }
        #expect(driver.lost == [held])
        #expect(driver.isGranted(waiting))
        #expect(driver.told.map(\.kind) == ["ping", "ping", "claimLost"])
        #expect(driver.holds(free))
    }

    @Test func `a connection's process is looked at instead`() {
        let (one, two) = (driver.session(.isProbed), driver.session())
        driver.claim(one, [("f", write)])
        let waiting = driver.claim(two, [("f", write)])
        driver.act { $0.tick(now: 5_000_000_000) }
        #expect(driver.probed == [one])
        driver.act { $0.tick(now: 15_000_000_000) }
        #expect(driver.isGranted(waiting))
    }

    @Test func `deadlines far away are kept no longer than their claims`() {
        let (one, two) = (driver.session(), driver.session())
        let far: MonotonicTime = 1_000_000_000_000_000
        for _ in 0..<5000 { driver.release(driver.claim(one, [("f", write)], deadline: far)) }
        #expect(driver.table.deadlines.count < 2000)
        driver.claim(one, [("f", write)])
        for _ in 0..<20_000 {
            let waiting = driver.claim(two, [("f", write)], deadline: far)
            driver.act { $0.withdraw(waiting, ClaimFailure(.cancelled), now: 0) }
        }
        #expect(driver.table.deadlines.count < 2000)
    }
}
