import CoveCore
import CoveTestSupport
import Testing

@testable import CoveClaims

/// What one client can make the table do, which others wait for.
struct CostTests {
    private typealias Kind = CoordinationInterface.MessageKind

    private static func deep(_ levels: Int) -> String { (0..<levels).map { _ in "d" }.joined(separator: "/") }

    /// Runs the body on a thread with the stack of those that answer clients.
    private func onSmallStack<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
        let result: Result<Value, any Error> = try await withCheckedThrowingContinuation { continuation in
            do {
                try BlockingThread.start { continuation.resume(returning: Result { try body() }) }
            } catch {
                continuation.resume(throwing: error)
            }
        }
        return try result.get()
    }

    @Test func `however deep a path is, the table walks down it`() async throws {
        try await onSmallStack {
            let driver = TableDriver()
            let (one, two) = (driver.session(), driver.session())
            let bottom = Self.deep(10_000)
            let presenter = driver.present(one, "top/\(bottom)", [.didMove, .accommodateDeletion])
            let reader = driver.claim(one, [("top/\(bottom)/f", .read([]))])
            #expect(driver.isGranted(reader))
            // All that is below it.
            let deletion = driver.claim(two, [("top", .write(.forDeleting))])
            #expect(driver.waits(of: deletion) == [reader])
            driver.release(reader)
            driver.reply(presenter, .accommodateDeletion)
            #expect(driver.isGranted(deletion))
            driver.release(deletion)
            // What is moved to where others wait for it is joined with that.
            let other = driver.claim(two, [("other/\(bottom)/f", .write(nil))])
            driver.act { table in
                table.setPackage(true, at: TableDriver.path("top"), now: 0)
                table.setPackage(false, at: TableDriver.path("top"), now: 0)
                table.moved(TableDriver.path("top"), to: TableDriver.steps("other"), now: 0)
            }
            #expect(driver.kinds(presenter).last == .didMove)
            #expect(driver.paths(of: other) == ["other/\(bottom)/f"])
            // Something is left when the table goes.
            driver.act { $0.left(TableDriver.path("other"), to: TableDriver.steps("third"), now: 0) }
            #expect(driver.paths(of: other) == ["third/\(bottom)/f"])
        }
    }

    @Test func `claims that name one item again and again cost as much as those that name it once`() {
        let driver = TableDriver()
        let session = driver.session()
        let start = System.monotonic()
        var claims: [Int] = []
        for _ in 0..<100 {
            claims.append(driver.claim(session, Array(repeating: ("f", .write(nil)), count: 500)))
        }
        for claim in claims {
            #expect(driver.isGranted(claim))
            driver.release(claim)
        }
        #expect(driver.isEmpty)
        // It took minutes.
        #expect(System.monotonic() - start < .seconds(60))
    }

    @Test func `claims on many items are compared item by item once`() {
        let driver = TableDriver()
        let session = driver.session()
        let start = System.monotonic()
        func items(_ number: Int) -> [(String, ItemUse)] {
            [("all", .write(nil))] + (0..<999).map { ("d\(number)/f\($0)", .read([])) }
        }
        let claims = (0..<60).map { driver.claim(session, items($0)) }
        for (index, claim) in claims.enumerated() {
            #expect(driver.waits(of: claim) == (index == 0 ? [] : [claims[index - 1]]))
        }
        for claim in claims {
            #expect(driver.isGranted(claim))
            driver.release(claim)
        }
        #expect(driver.isEmpty && System.monotonic() - start < .seconds(60))
    }
}
