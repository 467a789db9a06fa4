import CoveCore
import CoveTestSupport
import Testing

@testable import CoveClaims

/// How long presenters are waited for, and what becomes of what they say later.
@Suite struct AnswerTests {
    private let driver = TableDriver()
    private let read = ItemUse.read([])
    private let write = ItemUse.write(nil)

    private func tick(_ seconds: Int64) {
        driver.now = MonotonicTime(seconds * 1_000_000_000)
        driver.act { $0.tick(now: driver.now) }
    }

    @Test func `19. a presenter has one deadline for all that it is asked for one claim`() {
        let (owner, other) = (driver.session(), driver.session())
        let presenter = driver.present(owner, "f")
        let open = driver.claim(other, [("f", read)], manner: .plain, deadline: 45_000_000_000)
        tick(20)
        driver.reply(presenter, .relinquishToReader)
        #expect(driver.kinds(presenter) == [.relinquishToReader, .saveChanges])
        tick(30)
        #expect(driver.granted == [open])
    }

    @Test func `19. a presenter that let its time pass is not waited for until it answers anything`() {
        let (owner, other) = (driver.session(), driver.session())
        let presenter = driver.present(owner, "f")
        let first = driver.claim(other, [("f", write)])
        tick(30)
        #expect(driver.granted == [first])
        driver.release(first)
        let second = driver.claim(other, [("f", .write(.forDeleting))])
        #expect(driver.granted == [first, second])
        #expect(driver.kinds(presenter).contains(.accommodateDeletion))
        driver.release(second)
        let reader = driver.claim(other, [("f", read)])
        #expect(driver.failed[reader]?.errno == .timedOut)
        let unsaved = driver.claim(other, [("f", .read(.withoutChanges))])
        #expect(driver.isGranted(unsaved))
        driver.release(unsaved)
        driver.reply(presenter, .relinquishToWriter)
        let third = driver.claim(other, [("f", write)])
        #expect(!driver.isGranted(third))
        driver.reply(presenter, .relinquishToWriter)
        #expect(driver.isGranted(third))
    }

    @Test func `what a presenter claims for its answer goes before whoever asks, and nothing else does`() {
        let (owner, other) = (driver.session(), driver.session())
        let presenter = driver.present(owner, "f")
        let writer = driver.claim(other, [("f", write)])
        #expect(driver.kinds(presenter) == [.relinquishToWriter] && !driver.isGranted(writer))
        // It may have asked for something else before it heard the question.
        let early = driver.claim(owner, [("f", write)], presenter: presenter)
        let wrong = driver.claim(owner, [("f", write)], presenter: presenter, answering: [early])
        #expect(!driver.isGranted(early) && !driver.isGranted(wrong))
        for claim in [early, wrong] { driver.act { $0.withdraw(claim, ClaimFailure(.cancelled), now: driver.now) } }
        let own = driver.claim(owner, [("f", write)], presenter: presenter, answering: [writer])
        #expect(driver.isGranted(own) && !driver.isGranted(writer))
        driver.reply(presenter, .relinquishToWriter)
        #expect(!driver.isGranted(writer))
        driver.release(own)
        #expect(driver.isGranted(writer))
        // It has answered.
        let late = driver.claim(owner, [("f", write)], presenter: presenter, answering: [writer])
        #expect(!driver.isGranted(late))
        driver.release(writer)
        #expect(driver.isGranted(late))
    }

    @Test(arguments: [ClaimSession.Liveness.isTrusted, .answers])
    func `one that hangs takes no time from the others of this process, and some from those of its own`(
        liveness: ClaimSession.Liveness
    ) {
        let (owners, other) = (driver.session(liveness), driver.session())
        _ = driver.present(owners, "f")
        let slow = driver.present(owners, "g")
        driver.claim(other, [("f", write)])
        tick(30)
        let reader = driver.claim(other, [("g", read)])
        tick(34)
        #expect((driver.failed[reader] == nil) == (liveness == .isTrusted))
        driver.reply(slow, .relinquishToReader)
        driver.reply(slow, .saveChanges)
        #expect(driver.isGranted(reader) == (liveness == .isTrusted))
    }

    @Test func `a presenter of this process that claims before it answers overtakes the claim that asks`() {
        let (owner, other) = (driver.session(.isTrusted), driver.session(.isTrusted))
        let presenter = driver.present(owner, "f")
        let writer = driver.claim(other, [("f", .write(.forDeleting))])
        for question in [TableDriver.Kind.relinquishToWriter, .accommodateDeletion] {
            let own = driver.claim(owner, [("f", write)], presenter: presenter)
            #expect(driver.isGranted(own) && !driver.isGranted(writer))
            // Others have no part in that.
            let stranger = driver.claim(owner, [("f", write)])
            #expect(driver.waits(of: stranger).contains(writer))
            driver.act { $0.withdraw(stranger, ClaimFailure(.cancelled), now: driver.now) }
            driver.reply(presenter, question)
            #expect(!driver.isGranted(writer))
            driver.release(own)
        }
        #expect(driver.isGranted(writer))
    }

    @Test func `what a presenter of this process waits for when it is asked overtakes the claim that asks`() {
        let (owner, other) = (driver.session(.isTrusted), driver.session(.isTrusted))
        let presenter = driver.present(owner, "f")
        let holder = driver.claim(other, [("f", write)], coordinator: "holder")
        driver.replyAll(presenter)
        let reader = driver.claim(other, [("f", read)], coordinator: "reader")
        let writer = driver.claim(other, [("f", write)], coordinator: "writer")
        let own = driver.claim(owner, [("f", write)], coordinator: "own", presenter: presenter)
        let last = driver.claim(other, [("f", write)], coordinator: "last")
        #expect(driver.granted == [holder])
        driver.release(holder)
        #expect(driver.granted == [holder, own])
        driver.reply(presenter, .relinquishToReader)
        driver.reply(presenter, .saveChanges)
        #expect(!driver.isGranted(reader))
        driver.release(own)
        #expect(driver.granted == [holder, own, reader])
        driver.release(reader)
        driver.reply(presenter, .relinquishToWriter)
        #expect(driver.isGranted(writer) && !driver.isGranted(last))
    }

    @Test func `a name that was left is free once its time is over, and keeps others off until then`() {
        let (owner, other) = (driver.session(), driver.session())
        let held = driver.claim(owner, [("f", write)])
        driver.act { $0.left(TableDriver.path("f"), to: TableDriver.steps("f.bak"), now: driver.now) }
        #expect(driver.paths(of: held) == ["f.bak"])
        let waiting = driver.claim(other, [("f", write)])
        tick(14)
        #expect(driver.waits(of: waiting) == [held])
        tick(15)
        #expect(driver.isGranted(waiting))
        // What comes there later is another document.
        driver.act { $0.taken(TableDriver.path("f"), now: driver.now) }
        #expect(driver.paths(of: held) == ["f.bak"])
        let backup = driver.claim(other, [("f.bak", write)])
        #expect(driver.waits(of: backup) == [held])
    }

    private func remove(_ session: Int) -> Int {
        let deadline = driver.now + .seconds(1)
        return driver.claim(
            session,
            [("f", .write(.forDeleting))],
            manner: .plain,
            isBrief: true,
            deadline: deadline
        )
    }

    @Test func `what a call can't wait for stands until it comes again`() {
        let (owner, other) = (driver.session(), driver.session())
        let presenter = driver.present(owner, "f")
        let first = remove(other)
        tick(1)
        #expect(driver.failed[first]?.errno == .timedOut)
        #expect(driver.kinds(presenter) == [.relinquishToWriter])
        driver.reply(presenter, .relinquishToWriter)
        #expect(driver.kinds(presenter) == [.relinquishToWriter, .accommodateDeletion])
        // It does not wait, and asks nothing again.
        let second = remove(other)
        #expect(!driver.isGranted(second))
        tick(2)
        #expect(driver.failed[second]?.errno == .timedOut)
        driver.reply(presenter, .accommodateDeletion)
        let third = remove(other)
        #expect(driver.isGranted(third))
        driver.release(third)
        #expect(driver.kinds(presenter) == [.relinquishToWriter, .accommodateDeletion, .reacquire])
        #expect(driver.told.last?.claim == "c\(first)")
        // Another one asks anew.
        _ = remove(other)
        #expect(driver.kinds(presenter).last == .relinquishToWriter)
    }

    @Test func `what stands and nobody comes for is over after a while`() {
        let (owner, other) = (driver.session(), driver.session())
        let presenter = driver.present(owner, "f")
        _ = remove(other)
        tick(1)
        driver.reply(presenter, .relinquishToWriter)
        driver.reply(presenter, .accommodateDeletion)
        tick(29)
        #expect(driver.kinds(presenter).last == .accommodateDeletion)
        tick(32)
        #expect(driver.kinds(presenter).last == .reacquire)
        let late = remove(other)
        #expect(!driver.isGranted(late))
        for session in [owner, other] { driver.act { $0.endSession(session, now: driver.now) } }
        #expect(driver.isEmpty)
    }

    @Test func `a slow presenter of many files lets each of them be removed in the second pass`() {
        let (owner, other) = (driver.session(), driver.session())
        let presenters = (0..<20).map { driver.present(owner, "f\($0)") }
        func pass() -> Int {
            var granted = 0
            for (index, presenter) in presenters.enumerated() {
                let start = driver.now
                let call = driver.claim(
                    other,
                    [("f\(index)", .write(.forDeleting))],
                    manner: .plain,
                    isBrief: true,
                    deadline: start + .seconds(1)
                )
                if driver.isGranted(call) { granted += 1 }
                // It needs a second and a half for each answer, and answers one after the other.
                driver.now = start + .milliseconds(1500)
                driver.act { $0.tick(now: driver.now) }
                for kind in [CoordinationInterface.MessageKind.relinquishToWriter, .accommodateDeletion]
                where driver.kinds(presenter).last == kind { driver.reply(presenter, kind) }
            }
            return granted
        }
        #expect(pass() == 0)
        #expect(pass() == 20)
    }

    @Test func `a presenter that missed one answer is asked again, and waited for once it answers`() {
        let (owner, other) = (driver.session(), driver.session())
        let presenter = driver.present(owner, "f")
        let first = driver.claim(other, [("f", write)])
        // That answer is lost.
        tick(30)
        #expect(driver.granted == [first])
        driver.release(first)
        let reader = driver.claim(other, [("f", read)])
        #expect(driver.failed[reader]?.errno == .timedOut)
        #expect(driver.kinds(presenter).last == .saveChanges)
        // No second one goes to it meanwhile.
        _ = driver.claim(other, [("f", read)])
        #expect(driver.kinds(presenter).count { $0 == .saveChanges } == 1)
        driver.reply(presenter, .saveChanges)
        let again = driver.claim(other, [("f", read)])
        #expect(!driver.isGranted(again) && driver.failed[again] == nil)
        driver.reply(presenter, .relinquishToReader)
        driver.reply(presenter, .saveChanges)
        #expect(driver.isGranted(again))
    }

    @Test func `a stopped program with many files open costs one deadline, and little for each of the others`() {
        let (owner, other) = (driver.session(), driver.session())
        for index in 0..<20 { _ = driver.present(owner, "f\(index)") }
        for index in 0..<20 {
            let open = driver.claim(other, [("f\(index)", read)], manner: .plain, deadline: 45_000_000_000_000)
            driver.now = driver.now + (index == 0 ? .seconds(30) : .seconds(2))
            driver.act { $0.tick(now: driver.now) }
            #expect(driver.isGranted(open))
            driver.release(open)
        }
    }

    @Test func `a stopped presenter makes no call fail for ever`() {
        let (owner, other) = (driver.session(), driver.session())
        _ = driver.present(owner, "f")
        var tries = 0
        var call = remove(other)
        while !driver.isGranted(call), tries < 40 {
            tries += 1
            tick(Int64(tries))
            call = remove(other)
        }
        #expect(tries == 30)
    }

    @Test func `what a presenter's program does without claims while it is asked waits for nobody who asks`() {
        let (owner, other) = (driver.session(), driver.session())
        let presenter = driver.present(owner, "f")
        let reader = driver.claim(other, [("f", read)])
        let look = driver.claim(other, [("f", read)], manner: .plain, inside: [owner])
        #expect(driver.granted == [look])
        driver.release(look)
        driver.reply(presenter, .relinquishToReader)
        let save = driver.claim(other, [("f", write)], manner: .plain, inside: [owner])
        #expect(driver.granted == [look, save])
        driver.reply(presenter, .saveChanges)
        #expect(driver.granted == [look, save])
        driver.release(save)
        #expect(driver.granted == [look, save, reader])
        let late = driver.claim(other, [("f", write)], manner: .plain, inside: [owner])
        #expect(!driver.isGranted(late))
    }

    @Test(arguments: [ClaimManner.explicit, .preparing]) func `21. a hundred items of a package are asked about once`(
        manner: ClaimManner
    ) {
        let (owner, other) = (driver.session(), driver.session())
        let package = driver.present(owner, "p.pkg")
        let uses = (0..<100).map { ("p.pkg/\($0)", $0 % 2 == 0 ? read : write) }
        let claim = driver.claim(other, uses, manner: manner)
        #expect(driver.kinds(package) == [.relinquishToWriter])
        driver.reply(package, .relinquishToWriter)
        #expect(driver.kinds(package) == [.relinquishToWriter, .saveChanges])
        driver.reply(package, .saveChanges)
        #expect(driver.isGranted(claim))
        driver.release(claim)
        #expect(driver.kinds(package).count { $0 == .reacquire } == 1)
    }
}
