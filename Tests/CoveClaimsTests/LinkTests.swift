import CoveCore
import CoveTestSupport
import Testing

@testable import CoveClaims

/// Symbolic links that take the names of what is claimed.
@Suite struct LinkTests {
    private let driver = TableDriver()
    private let read = ItemUse.read([])
    private let write = ItemUse.write(nil)

    private func link(_ name: String, _ target: String) {
        driver.act { table in
            _ = table.linked(TableDriver.path(name), to: TableDriver.steps(target), now: driver.now)
        }
    }

    @Test func `who holds a name that becomes a link's has what that leads to, until it ends`() {
        let session = driver.session()
        let holder = driver.claim(session, [("f", write)])
        let early = driver.claim(session, [("f", write)])
        link("f", "d/real")
        // What uses the name now asks for what it leads to.
        let late = driver.claim(session, [("d/real", read)])
        let program = driver.claim(session, [("d/real", write)], manner: .plain)
        let remover = driver.claim(session, [("f", .write(.forDeleting))])
        #expect(driver.granted == [holder])
        driver.release(holder)
        #expect(driver.granted == [holder, early, remover])
        #expect(driver.act { $0.paths(of: early) } == [TableDriver.path("d/real")])
        driver.release(early)
        #expect(driver.granted == [holder, early, remover, late])
        for claim in [late, remover] { driver.release(claim) }
        #expect(driver.isGranted(program))
        driver.release(program)
        #expect(driver.isEmpty)
    }

    @Test func `what a link leads to stays with whoever has it, and others wait for both`() {
        let session = driver.session()
        let (holder, other) = (driver.claim(session, [("f", write)]), driver.claim(session, [("real", read)]))
        link("f", "real")
        let late = driver.claim(session, [("real", read)])
        driver.release(other)
        #expect(driver.granted == [holder, other])
        // It is a link to something else now; what it led to is still the holder's.
        link("f", "else")
        let beside = driver.claim(session, [("else", read)])
        #expect(driver.granted == [holder, other])
        driver.release(holder)
        #expect(driver.granted == [holder, other, late, beside])
        for claim in [late, beside] { driver.release(claim) }
        #expect(driver.isEmpty)
    }

    @Test func `what a link leads to stays with its holder through a backup of it`() {
        let session = driver.session()
        let holder = driver.claim(session, [("f", write)])
        let early = driver.claim(session, [("f", write)])
        link("f", "real")
        driver.act { table in
            _ = table.left(TableDriver.path("real"), to: TableDriver.steps("real.bak"), now: driver.now)
        }
        let late = driver.claim(session, [("real", read)])
        #expect(driver.granted == [holder])
        driver.act { table in table.taken(TableDriver.path("real"), now: driver.now) }
        #expect(driver.granted == [holder])
        driver.release(holder)
        #expect(driver.granted == [holder, early])
        driver.release(early)
        #expect(driver.isGranted(late))
        driver.release(late)
        #expect(driver.isEmpty)
    }

    @Test func `who only reads what a link leads to, and writes at its name, writes there too`() {
        let session = driver.session()
        let holder = driver.claim(session, [("real", read), ("f", write)])
        link("f", "real")
        let reader = driver.claim(session, [("real", read)])
        #expect(driver.granted == [holder])
        driver.release(holder)
        #expect(driver.isGranted(reader))
    }

    @Test func `a snapshot that waits is one of what a link leads to`() {
        let session = driver.session()
        let holder = driver.claim(session, [("f", write)])
        let snapshot = driver.claim(session, [("f", .read([.forUploading]))])
        link("f", "real")
        #expect(driver.act { $0.paths(of: snapshot) } == [TableDriver.path("real")])
        driver.release(holder)
        #expect(driver.isGranted(snapshot))
    }

    @Test func `who makes one link after the other gets no more than its share`() {
        let session = driver.session()
        let holder = driver.claim(session, [("f", write)])
        for number in 0..<(ClaimTable.mostLinks + 100) { link("f", "real\(number)") }
        #expect(driver.act { $0.paths(of: holder).count } == 1 + ClaimTable.mostLinks)
        let late = driver.claim(session, [("real0", read)])
        #expect(!driver.isGranted(late))
        driver.release(holder)
        driver.release(late)
        #expect(driver.isEmpty)
    }

    @Test func `a circle through what a link leads to is found`() {
        let (one, two) = (driver.session(), driver.session())
        let first = driver.claim(one, [("f", write)], coordinator: "x")
        let second = driver.claim(two, [("g", write)], coordinator: "y")
        driver.claim(one, [("g", write)], coordinator: "x")
        let closing = driver.claim(two, [("real", write)], coordinator: "y")
        #expect(driver.granted == [first, second, closing])
        driver.release(closing)
        link("f", "real")
        let again = driver.claim(two, [("real", write)], coordinator: "y")
        #expect(driver.failed[again]?.errno == .deadlock)
    }

    @Test func `a presenter goes to what a link leads to`() {
        let session = driver.session()
        let presenter = driver.present(session, "f")
        link("f", "real")
        let reader = driver.claim(driver.session(), [("real", read)])
        #expect(!driver.isGranted(reader) && driver.kinds(presenter) == [.relinquishToReader])
        driver.replyAll(presenter)
        driver.replyAll(presenter)
        #expect(driver.isGranted(reader))
    }
}
