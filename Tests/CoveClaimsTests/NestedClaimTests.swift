import CoveCore
import CoveTestSupport
import Testing

@testable import CoveClaims

/// Claims within claims: what would wait for itself.
///
/// The numbers are those of the acceptance checklist.
@Suite struct NestedClaimTests {
    private let driver = TableDriver()
    private let read = ItemUse.read([])
    private let write = ItemUse.write(nil)

    @Test func `42. nested claims in a cycle fail with EDEADLK`() {
        let (one, two) = (driver.session(), driver.session())
        let first = driver.claim(one, [("a", write)], coordinator: "x")
        let second = driver.claim(two, [("b", write)], coordinator: "y")
        let nested = driver.claim(one, [("b", write)], coordinator: "x")
        let cycle = driver.claim(two, [("a", write)], coordinator: "y")
        #expect(driver.failed[cycle]?.errno == .deadlock)
        #expect(!driver.isGranted(nested))
        driver.release(second)
        #expect(driver.granted == [first, second, nested])
    }

    @Test func `42. programs started below a holder are part of the cycle`() {
        let (one, two) = (driver.session(), driver.session())
        let (below, other) = (driver.session(), driver.session())
        driver.claim(one, [("a", write)])
        driver.claim(two, [("b", write)])
        driver.claim(below, [("b", write)], inside: [one])
        let cycle = driver.claim(other, [("a", write)], inside: [two])
        #expect(driver.failed[cycle]?.errno == .deadlock)
    }

    @Test func `42. two tasks of one coordinator close no cycle`() {
        let (one, two) = (driver.session(), driver.session())
        let holder = driver.claim(one, [("a", write)], coordinator: "x")
        let waiting = driver.claim(two, [("a", write)], coordinator: "y")
        let beside = driver.claim(two, [("b", write)], coordinator: "y")
        let nested = driver.claim(one, [("b", write)], coordinator: "x")
        #expect(driver.failed.isEmpty)
        driver.release(beside)
        for claim in [nested, holder] { driver.release(claim) }
        #expect(driver.granted == [holder, beside, nested, waiting])
    }

    @Test func `42. a connection that waits for itself is told so`() {
        let session = driver.session(.isProbed)
        driver.claim(session, [("a", write)])
        let again = driver.claim(session, [("a", write)])
        #expect(driver.failed[again]?.errno == .deadlock)
    }

    @Test func `a nested claim overtakes a writer that waits for its own side`() {
        let (one, two) = (driver.session(), driver.session())
        let outer = driver.claim(one, [("f", read)], coordinator: "x")
        let writer = driver.claim(two, [("f", write)])
        let inner = driver.claim(one, [("f", read)], coordinator: "x")
        #expect(driver.granted == [outer, inner])
        driver.release(outer)
        #expect(!driver.isGranted(writer))
        driver.release(inner)
        #expect(driver.isGranted(writer))
    }
}
