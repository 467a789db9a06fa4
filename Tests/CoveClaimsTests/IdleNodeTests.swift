import CoveCore
import CoveTestSupport
import Testing

@testable import CoveClaims

/// Nodes that nobody uses are removed only when nothing is about to be put there.
@Suite struct IdleNodeTests {
    private let read = ItemUse.read([])
    private let write = ItemUse.write(nil)

    /// Calls the body with tables of one idle node more each, around the number at which room is made.
    private func aroundLimit(_ names: [String], _ body: (TableDriver, Int) -> Void) {
        for count in (ClaimTable.idleNodes - 8)...(ClaimTable.idleNodes + 2) {
            let driver = TableDriver()
            let session = driver.session()
            for name in names + (0..<count).map({ "idle\($0)" }) {
                driver.release(driver.claim(session, [(name, read)]))
            }
            body(driver, session)
        }
    }

    @Test func `what a link leads to stays in the tree while its claims come`() {
        aroundLimit(["real"]) { driver, session in
            let holder = driver.claim(session, [("g", write)])
            let waiter = driver.claim(session, [("f", write), ("g", write)])
            driver.act { table in
                _ = table.linked(TableDriver.path("f"), to: TableDriver.steps("real"), now: driver.now)
            }
            driver.release(holder)
            let late = driver.claim(session, [("real", read)])
            #expect(driver.isGranted(waiter) && !driver.isGranted(late))
            driver.release(waiter)
            driver.release(late)
            #expect(driver.isEmpty)
        }
    }

    @Test func `what a link leads to stays in the tree while its presenters come`() {
        aroundLimit(["real"]) { driver, session in
            let presenter = driver.present(session, "f")
            driver.act { table in
                _ = table.linked(TableDriver.path("f"), to: TableDriver.steps("real"), now: driver.now)
            }
            driver.claim(driver.session(), [("real", read)])
            #expect(driver.kinds(presenter) == [.relinquishToReader])
        }
    }

    @Test func `a name that is taken again stays in the tree while its claims come back`() {
        aroundLimit([]) { driver, session in
            let holder = driver.claim(session, [("f", write)])
            driver.act { table in
                _ = table.left(TableDriver.path("f"), to: TableDriver.steps("f.bak"), now: driver.now)
            }
            driver.act { table in table.taken(TableDriver.path("f"), now: driver.now) }
            let late = driver.claim(session, [("f", read)])
            #expect(driver.isGranted(holder) && !driver.isGranted(late))
            for claim in [holder, late] { driver.release(claim) }
            #expect(driver.isGranted(late))
        }
    }

    @Test func `room is made when nothing is under way`() {
        let driver = TableDriver()
        let session = driver.session()
        for number in 0..<(3 * ClaimTable.idleNodes) {
            driver.release(driver.claim(session, [("d\(number)/f", read)]))
        }
        #expect(driver.act { $0.idle.count } <= ClaimTable.idleNodes)
        #expect(driver.isEmpty)
    }
}
