import CoveCore
import CoveTestSupport
import Testing

@testable import CoveClaims

/// Who belongs to the side of a claim's holder.
@Suite struct SideTests {
    private let driver = TableDriver()
    private let write = ItemUse.write(nil)

    @Test func `a holder's parent waits for its claim, and what runs below the parent for nobody's`() {
        let parent = driver.session()
        let child = driver.session()
        let own = driver.claim(child, [("f", write)], inside: [parent])
        let outer = driver.claim(parent, [("f", write)])
        #expect(driver.granted == [own])
        let below = driver.claim(driver.session(), [("f", write)], inside: [parent])
        #expect(driver.granted == [own])
        driver.release(own)
        #expect(driver.granted == [own, outer, below])
    }

    @Test func `42. what is asked for inside a claim belongs to its side, whoever coordinates it`() {
        let (one, two) = (driver.session(), driver.session())
        let first = driver.claim(one, [("a", write)], coordinator: "x")
        let itself = driver.claim(one, [("a", write)], coordinator: "y", within: [first])
        #expect(driver.failed[itself]?.errno == .deadlock)
        let second = driver.claim(two, [("b", write)], coordinator: "z")
        let nested = driver.claim(one, [("b", write)], coordinator: "y", within: [first])
        let closing = driver.claim(two, [("a", write)], coordinator: "w", within: [second])
        #expect(driver.failed[closing]?.errno == .deadlock)
        let free = driver.claim(two, [("c", write)], coordinator: "w", within: [second])
        // It waits behind one that waits for its own side, and goes ahead of that.
        let behind = driver.claim(driver.session(), [("a", write), ("c", write)])
        let ahead = driver.claim(one, [("c", write)], coordinator: "v", within: [first])
        driver.release(free)
        #expect(driver.granted == [first, second, free, ahead])
        for claim in [ahead, second] { driver.release(claim) }
        for claim in [nested, first] { driver.release(claim) }
        #expect(driver.granted == [first, second, free, ahead, nested, behind])
    }

    @Test func `8. what is a package no more is claimed by its parts`() {
        let session = driver.session()
        let first = driver.claim(session, [("p.pkg/a", write)])
        let second = driver.claim(session, [("p.pkg/b", write)])
        #expect(driver.granted == [first])
        driver.act { $0.setPackage(false, at: TableDriver.path("p.pkg"), now: 0) }
        #expect(driver.granted == [first, second])
        driver.act { $0.setPackage(true, at: TableDriver.path("p.pkg"), now: 0) }
        let third = driver.claim(session, [("p.pkg/c", write)])
        for claim in [first, second] { driver.release(claim) }
        #expect(driver.granted == [first, second, third])
        driver.act { $0.endSession(session, now: 0) }
        #expect(driver.isEmpty)
        #expect(driver.act { !$0.isWide })
    }

    @Test func `8. a place that nobody claimed for a while is what it is now`() {
        let (one, two) = (driver.session(), driver.session())
        for isPackage in [true, false, true] {
            func steps(_ name: String) -> [PathStep] {
                [
                    PathStep(name: FileName(unchecked: Array("d".utf8)), isPackage: isPackage),
                    PathStep(name: FileName(unchecked: Array(name.utf8))),
                ]
            }
            func claim(_ session: Int, _ name: String) -> Int {
                let item = WantedItem(path: steps(name), use: write)
                return driver.act { $0.request(ClaimRequest(session: session, items: [item]), now: 0) }
            }
            let (first, second) = (claim(one, "a"), claim(two, "b"))
            #expect(driver.isGranted(second) == !isPackage)
            for claim in [first, second] { driver.release(claim) }
        }
    }

    @Test func `9. a coordinator has one purpose as long as it has claims`() {
        let session = driver.session()
        let first = driver.claim(session, [("a", write)], coordinator: "x", purpose: "p")
        let second = driver.claim(session, [("b", write)], coordinator: "x", purpose: "q")
        #expect(driver.failed[second]?.errno == .invalidArgument)
        let third = driver.claim(session, [("a", write)], coordinator: "x", purpose: "p")
        for claim in [first, third] { driver.release(claim) }
        let last = driver.claim(session, [("b", write)], coordinator: "x", purpose: "q")
        #expect(driver.granted == [first, third, last])
        driver.act { $0.endSession(session, now: 0) }
        #expect(driver.isEmpty)
    }
}
