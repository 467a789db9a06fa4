import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// What a program is told of a directory that it has open while somebody removes it.
@Suite struct RemovedDirectoryTests {
    /// Asks for a directory's attributes without a pause while the body removes it, until they tell that it is removed.
    private func attributes(of directory: ItemID, in engine: Engine, while body: () throws -> Void) throws -> Result<
        ItemAttributes, Errno
    > {
        let isAsking = DispatchSemaphore(value: 0)
        let isOver = DispatchSemaphore(value: 0)
        let last = Mutex<Result<ItemAttributes, Errno>?>(nil)
        Thread.detachNewThread {
            defer { isOver.signal() }
            let end = System.monotonic() + .seconds(30)
            while System.monotonic() < end {
                let found: Result<ItemAttributes, Errno>
                do throws(Errno) { found = .success(try engine.attributes(of: directory)) } catch {
                    found = .failure(error)
                }
                last.withLock { $0 = found }
                isAsking.signal()
                guard case .success(let attributes) = found, attributes.linkCount > 0 else { return }
            }
        }
        isAsking.wait()
        try body()
        isOver.wait()
        return try #require(last.withLock { $0 })
    }

    @Test func `has attributes at every moment`() async throws {
        try await blocking {
            let account = try EngineAccount()
            for number in 0..<1000 {
                try account.tree.makeDirectory("d\(number)")
                let id = try account.tree.resolve("d\(number)")
                let found = try attributes(of: id, in: account.engine) {
                    try account.tree.removeDirectory("d\(number)")
                }
                #expect(try found.get().linkCount == 0)
                account.engine.forget(id)
            }
            await account.stop()
        }
    }

    @Test func `has attributes when another device has removed it`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try source.makeDirectory("d")
            #expect(try account.tree.list("") == ["d": .directory])
            #expect(try account.tree.list("d") == [:])
            let id = try account.tree.resolve("d")
            let found = try attributes(of: id, in: account.engine) { try source.remove("d") }
            #expect(try found.get().linkCount == 0)
            // By its path nobody comes to it any more.
            #expect(throws: Errno.stale) {
                _ = try account.engine.openDirectory(id, Caller(thread: 7, user: 0, group: 0))
            }
            account.engine.forget(id)
            #expect(throws: Errno.stale) { try account.engine.attributes(of: id) }
            await account.stop()
        }
    }
}
