import CoveCore
import CoveTestSupport
import Testing

@testable import CoveClaims

/// What presenters are asked and told.
///
/// The numbers are those of the acceptance checklist.
@Suite struct PresenterTests {
    private let driver = TableDriver()
    private let read = ItemUse.read([])
    private let write = ItemUse.write(nil)

    @Test func `11. a read asks to let it in and then to save`() {
        let (owner, other) = (driver.session(), driver.session())
        let presenter = driver.present(owner, "f")
        let reader = driver.claim(other, [("f", read)])
        #expect(driver.kinds(presenter) == [.relinquishToReader])
        driver.reply(presenter, .relinquishToReader)
        #expect(driver.kinds(presenter) == [.relinquishToReader, .saveChanges])
        #expect(!driver.isGranted(reader))
        driver.reply(presenter, .saveChanges)
        #expect(driver.isGranted(reader))
    }

    @Test func `11. without changes nothing is saved`() {
        let (owner, other) = (driver.session(), driver.session())
        let presenter = driver.present(owner, "f")
        let reader = driver.claim(other, [("f", .read(.withoutChanges))])
        driver.reply(presenter, .relinquishToReader)
        #expect(driver.kinds(presenter) == [.relinquishToReader])
        #expect(driver.isGranted(reader))
    }

    @Test func `12. the coordinator's own presenter hears only of versions`() {
        let (owner, other) = (driver.session(), driver.session())
        let presenter = driver.present(owner, "f")
        let second = driver.present(other, "f")
        let writer = driver.claim(owner, [("f", write)], presenter: presenter)
        driver.reply(second, .relinquishToWriter)
        driver.release(writer)
        #expect(driver.kinds(presenter).isEmpty)
        #expect(driver.kinds(second) == [.relinquishToWriter, .reacquire, .didChange])
        driver.act { $0.versionChanged(TableDriver.path("f"), .gained, nil) }
        #expect(driver.kinds(presenter) == [.didGainVersion])
    }

    @Test func `13. a presenter that saves does not wait for the reader that asked, nor for who waits behind it`() {
        let (owner, other) = (driver.session(), driver.session())
        let presenter = driver.present(owner, "f")
        let reader = driver.claim(other, [("f", read)])
        let behind = driver.claim(other, [("f", write)])
        driver.reply(presenter, .relinquishToReader)
        let saver = driver.claim(owner, [("f", write)], presenter: presenter)
        #expect(driver.granted == [saver])
        // It replied too early: the reader waits for the save all the same.
        driver.reply(presenter, .saveChanges)
        #expect(driver.granted == [saver])
        driver.release(saver)
        #expect(driver.granted == [saver, reader])
        driver.release(reader)
        driver.reply(presenter, .relinquishToWriter)
        #expect(driver.granted == [saver, reader, behind])
    }

    @Test func `42. what a presenter has asked for before it was asked closes no cycle`() {
        let (owner, other, third) = (driver.session(), driver.session(), driver.session())
        let presenter = driver.present(owner, "f")
        let holder = driver.claim(other, [("g", write)], coordinator: "x")
        let own = driver.claim(owner, [("g", write)], presenter: presenter)
        let reader = driver.claim(third, [("f", read)])
        driver.reply(presenter, .relinquishToReader)
        // The presenter can save for the reader, and then this one goes on.
        let nested = driver.claim(other, [("f", write)], coordinator: "x")
        #expect(driver.failed[nested] == nil)
        driver.reply(presenter, .saveChanges)
        driver.release(reader)
        driver.reply(presenter, .relinquishToWriter)
        for claim in [nested, holder] { driver.release(claim) }
        #expect(driver.granted == [holder, reader, nested, own])
    }

    @Test func `42. what a presenter asks for to save closes a cycle`() {
        let (owner, other, third) = (driver.session(), driver.session(), driver.session())
        let presenter = driver.present(owner, "f")
        let first = driver.claim(other, [("g", write)], coordinator: "x")
        let second = driver.claim(third, [("h", write)], coordinator: "y")
        let reader = driver.claim(third, [("f", read)], coordinator: "y")
        driver.reply(presenter, .relinquishToReader)
        let saver = driver.claim(owner, [("g", write)], presenter: presenter)
        let nested = driver.claim(other, [("h", write)], coordinator: "x")
        #expect(driver.failed[nested]?.errno == .deadlock)
        driver.release(first)
        driver.release(saver)
        driver.reply(presenter, .saveChanges)
        #expect(driver.granted == [first, second, saver, reader])
    }

    @Test func `a nested claim overtakes a reader that waits for a save that waits for its own side`() {
        let (owner, other, third) = (driver.session(), driver.session(), driver.session())
        let presenter = driver.present(owner, "f")
        let holder = driver.claim(other, [("g", write)], coordinator: "x")
        let reader = driver.claim(third, [("f", read)])
        driver.reply(presenter, .relinquishToReader)
        let saver = driver.claim(owner, [("g", write)], presenter: presenter)
        let nested = driver.claim(other, [("f", write)], coordinator: "x")
        driver.reply(presenter, .relinquishToWriter)
        #expect(driver.granted == [holder, nested])
        for claim in [nested, holder] { driver.release(claim) }
        driver.release(saver)
        driver.act { $0.reply(session: owner, message: 2, failure: nil, now: 0) }
        #expect(driver.granted == [holder, nested, saver, reader])
    }

    @Test func `14. a presenter's error is the reader's`() {
        let (owner, other) = (driver.session(), driver.session())
        let presenter = driver.present(owner, "f")
        let reader = driver.claim(other, [("f", read)])
        driver.reply(presenter, .relinquishToReader)
        driver.reply(presenter, .saveChanges, failure: ClaimFailure(.noSpace, "no room"))
        #expect(driver.failed[reader] == ClaimFailure(.noSpace, "no room"))
        #expect(driver.granted.isEmpty)
        #expect(driver.kinds(presenter).last == .reacquire)
    }

    @Test func `15. a deletion asks before`() {
        let (owner, other) = (driver.session(), driver.session())
        let item = driver.present(owner, "d/f")
        let directory = driver.present(owner, "d")
        let deleter = driver.claim(other, [("d/f", .write(.forDeleting))])
        driver.reply(item, .relinquishToWriter)
        #expect(driver.kinds(item) == [.relinquishToWriter, .accommodateDeletion])
        #expect(driver.kinds(directory) == [.accommodateSubitemDeletion])
        driver.reply(item, .accommodateDeletion)
        #expect(!driver.isGranted(deleter))
        driver.reply(directory, .accommodateSubitemDeletion)
        #expect(driver.isGranted(deleter))
    }

    @Test func `15. the end of a directory asks all inside`() {
        let (owner, other) = (driver.session(), driver.session())
        let inside = driver.present(owner, "d/e/f")
        driver.claim(other, [("d", .write(.forDeleting))])
        driver.reply(inside, .relinquishToWriter)
        #expect(driver.kinds(inside) == [.relinquishToWriter, .accommodateDeletion])
        #expect(driver.told.last?.path == "d/e/f")
    }

    @Test func `16. moves are told with the right paths`() {
        let (owner, other) = (driver.session(), driver.session())
        let above = driver.present(owner, "")
        let directory = driver.present(owner, "a/d")
        let inside = driver.present(owner, "a/d/e/f")
        let mover = driver.claim(other, [("a/d", .write(.forMoving)), ("b", .write(.forReplacing))])
        driver.told = []
        driver.act { $0.moved(TableDriver.path("a/d"), to: TableDriver.steps("b"), by: mover, now: 0) }
        #expect(told(above) == ["subitemDidMove a/d b"])
        #expect(told(directory) == ["didMove a/d b"])
        #expect(told(inside) == ["didMove a/d/e/f b/e/f"])
    }

    private func told(_ presenter: Int) -> [String] {
        driver.told.filter { $0.presenter == "p\(presenter)" }.map { "\($0.kind) \($0.path) \($0.newPath ?? "")" }
    }

    @Test func `a presenter whose own claim is granted where its item went hears that it went, and that it came back`()
    {
        let (owner, other) = (driver.session(), driver.session())
        let presenter = driver.present(owner, "f")
        let holder = driver.claim(other, [("f", .read([]))])
        for question in [TableDriver.Kind.relinquishToReader, .saveChanges] { driver.reply(presenter, question) }
        let own = driver.claim(owner, [("f", write)], presenter: presenter)
        driver.told = []
        driver.act { _ = $0.left(TableDriver.path("f"), to: TableDriver.steps("f.bak"), now: driver.now) }
        #expect(told(presenter) == [] && !driver.isGranted(own) && driver.isGranted(holder))
        driver.release(holder)
        #expect(driver.isGranted(own) && driver.paths(of: own) == ["f.bak"])
        driver.act { $0.taken(TableDriver.path("f"), now: driver.now) }
        #expect(driver.paths(of: own) == ["f"])
        let moves = told(presenter).filter { $0.hasPrefix("didMove") }
        #expect(moves == ["didMove f f.bak", "didMove f.bak f"])
    }

    @Test func `what is claimed and presented in a package that makes a backup keeps its name`() {
        let (owner, holder, other) = (driver.session(), driver.session(), driver.session())
        let presenter = driver.present(owner, "p.pkg/2")
        let claim = driver.claim(holder, [("p.pkg/1", write)])
        driver.replyAll(presenter)
        #expect(driver.isGranted(claim))
        driver.told = []
        let isKept = driver.act { $0.left(TableDriver.path("p.pkg"), to: TableDriver.steps("q.pkg"), now: driver.now) }
        #expect(isKept)
        #expect(driver.paths(of: claim) == ["q.pkg/1"])
        // The name is kept: who comes to what is made there waits.
        let reader = driver.claim(other, [("p.pkg/1", .read([.withoutChanges]))])
        let inside = driver.claim(other, [("p.pkg/3", .read([.withoutChanges]))])
        #expect(driver.waits(of: reader) == [claim] && driver.waits(of: inside) == [claim])
        driver.act { $0.taken(TableDriver.path("p.pkg"), now: driver.now) }
        #expect(driver.paths(of: claim) == ["p.pkg/1"])
        #expect(told(presenter).filter { $0.hasPrefix("didMove") } == [])
        let backup = driver.claim(other, [("q.pkg/1", .read([.withoutChanges]))])
        #expect(driver.waits(of: backup) == [])
        driver.release(claim)
        #expect(driver.isGranted(reader) && driver.isGranted(inside))
        for claim in [reader, inside] { driver.release(claim) }
        driver.claim(other, [("p.pkg/2", write)])
        #expect(driver.told.contains { $0.presenter == "p\(presenter)" && $0.path == "p.pkg/2" })
    }

    @Test func `what is changed under claims is held, but not what comes from the source`() {
        let (owner, source) = (driver.session(), driver.session(.isTrusted))
        func held(_ path: String) -> Bool { driver.table.heldNames.contains(TableDriver.path(path)) }
        let claims = [
            driver.claim(owner, [("f", write)]), driver.claim(owner, [("d", .write(.forMoving))]),
            driver.claim(owner, [("p.pkg/1", write)]), driver.claim(owner, [("r", .read([.withoutChanges]))]),
            driver.claim(source, [("s", .write(.forMoving))], isFromSource: true),
        ]
        #expect(claims.allSatisfy { driver.isGranted($0) })
        for path in ["f", "d", "d/e/f", "p.pkg", "p.pkg/1", "p.pkg/2"] { #expect(held(path), "\(path)") }
        for path in ["r", "s", "s/f", "f/x", "e", "q.pkg"] { #expect(!held(path), "\(path)") }
        for claim in claims { driver.release(claim) }
        #expect(driver.table.heldNames.isEmpty)
    }

    @Test func `17. the reacquirer runs first, then the change is told`() {
        let (owner, other) = (driver.session(), driver.session())
        let item = driver.present(owner, "d/f")
        let directory = driver.present(owner, "d")
        let writer = driver.claim(other, [("d/f", write)])
        driver.reply(item, .relinquishToWriter)
        driver.release(writer)
        #expect(driver.kinds(item) == [.relinquishToWriter, .reacquire, .didChange])
        #expect(driver.kinds(directory) == [.subitemDidChange])
    }

    @Test func `17. a creation appears`() {
        let (owner, other) = (driver.session(), driver.session())
        let directory = driver.present(owner, "d")
        driver.settlesAtOnce = false
        let writer = driver.claim(other, [("d/f", write)])
        driver.act { $0.settled(writer, existed: [false], now: 0) }
        driver.act { $0.changed(TableDriver.path("d/f"), .appeared) }
        driver.act { $0.changed(TableDriver.path("d/f"), .changed) }
        #expect(driver.told.isEmpty)
        driver.release(writer, exists: [true])
        #expect(driver.kinds(directory) == [.subitemDidAppear])
    }

    @Test func `18. the end of a process in the middle is an end as any other`() {
        let (owner, other) = (driver.session(), driver.session())
        let presenter = driver.present(owner, "f")
        driver.claim(other, [("f", write)])
        driver.reply(presenter, .relinquishToWriter)
        driver.act { $0.endSession(other, now: 0) }
        #expect(driver.kinds(presenter) == [.relinquishToWriter, .reacquire, .didChange])
    }

    @Test func `19. a silent presenter holds nobody up for longer than the time-out`() {
        let (owner, other) = (driver.session(), driver.session())
        _ = driver.present(owner, "f")
        let writer = driver.claim(other, [("f", write)])
        let reader = driver.claim(other, [("g", read)])
        #expect(driver.granted == [reader])
        driver.now = 30_000_000_000
        driver.act { $0.tick(now: 30_000_000_000) }
        #expect(driver.isGranted(writer))
    }

    @Test func `19. what a silent presenter has not saved can't be read`() {
        let (owner, other) = (driver.session(), driver.session())
        let presenter = driver.present(owner, "f")
        let reader = driver.claim(other, [("f", read)])
        driver.reply(presenter, .relinquishToReader)
        driver.now = 30_000_000_000
        driver.act { $0.tick(now: 30_000_000_000) }
        #expect(driver.failed[reader]?.errno == .timedOut)
    }

    @Test func `19. a presenter that dies has answered`() {
        let (owner, other) = (driver.session(), driver.session())
        _ = driver.present(owner, "f")
        let writer = driver.claim(other, [("f", write)])
        driver.act { $0.endSession(owner, now: 0) }
        #expect(driver.isGranted(writer))
    }

    @Test func `21. preparing asks once and takes nothing`() {
        let (owner, other) = (driver.session(), driver.session())
        let presenters = (0..<100).map { driver.present(owner, "d/\($0)") }
        let batch = driver.claim(other, (0..<100).map { ("d/\($0)", read) }, manner: .preparing)
        for presenter in presenters {
            driver.reply(presenter, .relinquishToReader)
            driver.reply(presenter, .saveChanges)
        }
        #expect(driver.isGranted(batch))
        #expect(presenters.allSatisfy { driver.kinds($0) == [.relinquishToReader, .saveChanges] })
        let writer = driver.claim(owner, [("d/1", write)], presenter: presenters[1])
        #expect(driver.isGranted(writer))
        driver.release(writer)
        driver.release(batch)
        #expect(presenters.allSatisfy { driver.kinds($0) == [.relinquishToReader, .saveChanges, .reacquire] })
    }

    @Test func `a package's presenter hears of its parts as of itself`() {
        let (owner, other) = (driver.session(), driver.session())
        let presenter = driver.present(owner, "p.pkg", [.relinquishToWriter, .didChange])
        let writer = driver.claim(other, [("p.pkg/1", write)])
        driver.reply(presenter, .relinquishToWriter)
        driver.release(writer)
        #expect(driver.kinds(presenter) == [.relinquishToWriter, .didChange])
        #expect(driver.told.last?.path == "p.pkg")
    }

    @Test func `a save by a new file inside a claim asks nobody again`() {
        let driver = TableDriver()
        let session = driver.session()
        let presenter = driver.present(driver.session(), "f")
        let holder = driver.claim(session, [("f", .write(nil))])
        driver.replyAll(presenter)
        #expect(driver.isGranted(holder) && driver.kinds(presenter) == [.relinquishToWriter])
        let rename: [(String, ItemUse)] = [("new", .write(.forMoving)), ("f", .write(nil))]
        let save = driver.claim(driver.session(), rename, manner: .plain, inside: [session])
        #expect(driver.isGranted(save) && driver.kinds(presenter) == [.relinquishToWriter])
    }

    @Test func `programs are not told a presenter's error, and don't ask about themselves`() {
        let (owner, other) = (driver.session(), driver.session(.isTrusted))
        let presenter = driver.present(owner, "f")
        let open = driver.claim(other, [("f", read)], manner: .plain)
        driver.reply(presenter, .relinquishToReader)
        driver.reply(presenter, .saveChanges, failure: ClaimFailure(.noSpace))
        #expect(driver.isGranted(open))
        let own = driver.claim(other, [("f", read)], manner: .plain, inside: [owner])
        #expect(driver.isGranted(own))
    }

    @Test func `bytes go only where every presenter lets them`() {
        let (owner, other) = (driver.session(), driver.session())
        let willing = driver.present(owner, "f")
        _ = driver.present(owner, "g", [.didChange])
        let first = driver.claim(other, [("f", read)], manner: .evicting)
        #expect(driver.kinds(willing) == [.accommodateEviction])
        driver.reply(willing, .accommodateEviction)
        #expect(driver.isGranted(first))
        let second = driver.claim(other, [("g", read)], manner: .evicting)
        #expect(driver.failed[second]?.errno == .busy)
    }

    @Test func `attributes are told to those who observe them`() {
        let owner = driver.session()
        let presenter = driver.present(owner, "f", observes: ["isUploaded"])
        driver.act { $0.attributesChanged(TableDriver.path("f"), ["isUploaded", "isUploading"]) }
        driver.act { $0.attributesChanged(TableDriver.path("f"), ["isUploading"]) }
        #expect(driver.kinds(presenter) == [.didChangeAttributes])
    }

    @Test func `a presenter of before hears of a move that its program was not told of, and of no other`() throws {
        let steps = TableDriver.steps
        func restore(_ number: Int, at path: String, known: String) {
            let session = driver.session()
            driver.act { table in
                table.restorePresenter(
                    number,
                    session: session,
                    at: steps(path),
                    known: TableDriver.path(known),
                    implements: Set(TableDriver.Kind.allCases),
                    observes: [],
                    purpose: nil,
                    now: driver.now
                )
            }
        }
        restore(101, at: "f~", known: "f")
        restore(102, at: "g~", known: "g")
        restore(103, at: "h", known: "h")
        for name in ["f", "g"] {
            driver.act { table in
                table.restoreDeparture(
                    from: steps(name),
                    until: driver.now + ClaimTable.vacancy,
                    intents: [],
                    presenters: [(name == "f" ? 101 : 102, steps(name))]
                )
            }
        }
        // The one's name is taken again, the other has moved.
        driver.act { $0.taken(TableDriver.path("f"), now: driver.now) }
        #expect(driver.table.presenters[101]?.node?.path.description == "f")
        driver.now = driver.now + .seconds(2)
        driver.act { $0.tick(now: driver.now) }
        #expect(driver.kinds(101).isEmpty && driver.kinds(103).isEmpty)
        #expect(driver.told.map(\.newPath) == ["g~"] && driver.kinds(102) == [.didMove])
        driver.act { $0.taken(TableDriver.path("g"), now: driver.now) }
        #expect(driver.told.map(\.newPath) == ["g~", "g"])
    }
}
