import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// What a person keeps out of the cloud, and brings back.
@Suite(.timeLimit(.minutes(5))) struct ExclusionTests {
    @Test func `a file that is excluded goes from the cloud and stays here, until it is included`() async throws {
        try await excludingAccount { account, source, watch in
            for name in ["a", "b"] { try account.tree.write(name, text(name)) }
            try await account.settle()
            let before = try account.tree.resolve("a")
            let document = try account.engine.item(at: path("a")).documentID
            try await account.engine.setExcluded(path("a"), true)
            try await account.settle()
            #expect(try source.snapshot() == ["b": text("b")])
            #expect(account.engine.trash().map(\.path) == ["a"])
            #expect(try account.tree.read("a") == text("a") && account.tree.resolve("a") == before)
            let status = try account.engine.item(at: path("a"))
            #expect(status.state == "local" && status.isExcluded == true && !status.isDirty && status.remoteID == nil)
            #expect(status.documentID == document)
            #expect(try account.engine.answer(before, "is-ubiquitous") == text("0"))
            #expect(try account.engine.answer(before, "excluded-from-sync") == text("1"))
            try account.tree.write("a", text("changed"))
            try await account.settle()
            try await account.crash()
            try await account.settle()
            #expect(try account.tree.read("a") == text("changed") && source.snapshot() == ["b": text("b")])
            #expect(!watch.has(text("changed")))
            #expect(account.engine.excludedItems().map(\.path) == ["a"])
            try await account.engine.setExcluded(path("a"), false)
            try await account.settle()
            #expect(try source.snapshot() == ["a": text("changed"), "b": text("b")])
            let after = try account.engine.item(at: path("a"))
            #expect(after.documentID == document && after.isExcluded == false && account.engine.excludedItems().isEmpty)
            #expect(await account.evict("a"))
        }
    }

    @Test func `what is not here is fetched before it leaves the cloud, or refused`() async throws {
        try await excludingAccount { account, source, _ in
            try source.makeDirectory("d/deep")
            for name in ["far", "d/one", "d/deep/two"] { try source.save(name, text("bytes of \(name)")) }
            try await account.settle()
            #expect(try account.tree.list("").count == 2)
            try await account.setOffline(true)
            #expect(throws: Errno.wouldBlock) { try account.engine.namespace.exclude(account.tree.resolve("far")) }
            await #expect(throws: Errno.hostUnreachable) { try await account.engine.setExcluded(path("far"), true) }
            #expect(account.engine.excludedItems().isEmpty)
            try await account.setOffline(false)
            for name in ["far", "d"] { try await account.engine.setExcluded(path(name), true) }
            try await account.settle()
            #expect(try source.snapshot().isEmpty)
            for name in ["far", "d/one", "d/deep/two"] {
                #expect(try account.tree.read(name) == text("bytes of \(name)"))
            }
            #expect(try account.engine.item(at: path("d/deep/two")).state == "local")
            for name in ["far", "d"] { try await account.engine.setExcluded(path(name), false) }
            try await account.settle()
            #expect(try source.snapshot().keys.sorted() == ["d", "d/deep", "d/deep/two", "d/one", "far"])
        }
    }

    @Test func `what a folder has and gets stays here with it, and nothing waits for it`() async throws {
        try await excludingAccount { account, source, watch in
            try account.tree.makeDirectory("d")
            try await account.settle()
            try await account.setOffline(true)
            for name in ["d/e", "d/e/deep"] { try account.tree.makeDirectory(name) }
            try account.tree.write("d/e/deep/f", text("secret"))
            try account.tree.makeDirectory("n")
            try account.tree.makeDirectory("n/e")
            try account.tree.write("n/e/f", text("secret too"))
            try await account.engine.setExcluded(path("d"), true)
            try account.tree.rename("n", "d/n")
            // The folder at the source alone.
            #expect(account.engine.accountStatus().queuedOperations == 1)
            try await account.setOffline(false)
            try await account.settle()
            #expect(try source.snapshot().isEmpty)
            let status = try account.engine.item(at: path("d/e/deep/f"))
            #expect(status.state == "local" && !status.isDirty && status.isExcluded == true)
            try account.tree.rename("d", "moved")
            try account.tree.makeDirectory("d")
            try account.tree.write("d/new", text("secret as well"))
            try await account.settle()
            #expect(try source.snapshot().isEmpty && !watch.has(text("secret")))
            await #expect(throws: Errno.noData) { try await account.engine.setExcluded(path("d/new"), false) }
            try account.tree.rename("d/new", "out")
            for name in ["d", "moved"] { try await account.engine.setExcluded(path(name), false) }
            try await account.settle()
            #expect(try source.snapshot()["moved/n/e/f"] == text("secret too"))
            #expect(try source.snapshot()["out"] == text("secret as well"))
        }
    }

    @Test func `what has arrived without an answer and is excluded then is neither sent nor kept there`() async throws {
        for isNew in [true, false] {
            try await blocking {
                let account = try await UnderwayTests().account(.init(isNew: isNew, keepsDate: true))
                let source = SourceFolder(account.source)
                try await account.engine.setExcluded(path("f"), true)
                try account.tree.write("f", text("secret"))
                await account.engine.resume()
                for _ in 0..<2 {
                    try await account.settle()
                    #expect(try source.snapshot().isEmpty, "new: \(isNew)")
                    #expect(try account.tree.read("f") == text("secret") && account.tree.list("").count == 1)
                    try account.tree.write("f", text("secret"))
                    try await account.crash()
                }
                #expect(
                    try account.engine.catalog.read { database throws(Errno) in try database.underway().count } == 0
                )
                #expect(try account.engine.item(at: path("f")).state == "local")
                await account.stop()
                #expect(try account.repair() == RepairReport())
            }
        }
    }

    @Test func `a folder that comes back is made anew beside what waits in its former one`() async throws {
        try await excludingAccount { account, source, _ in
            try account.tree.makeDirectory("d")
            for name in ["d/b", "d/c"] { try account.tree.write(name, text(name)) }
            try await account.settle()
            try await account.setOffline(true)
            try account.tree.rename("d/b", "b")
            for isExcluded in [true, false] { try await account.engine.setExcluded(path("d"), isExcluded) }
            // It is the document that was renamed, which is in the former folder there.
            try account.tree.write("d/b", text("new"))
            try await account.setOffline(false)
            try await account.settle()
            let expected = ["b": text("d/b"), "d": nil, "d/b": text("new"), "d/c": text("d/c")]
            #expect(try source.snapshot() == expected)
        }
    }

    @Test func `what leaves a folder while it is sent, before that leaves the cloud, is at one place`() async throws {
        try await excludingAccount { account, source, watch in
            try account.tree.makeDirectory("d")
            for name in ["d/c", "d/o"] { try account.tree.write(name, text(name)) }
            try await account.settle()
            let engine = account.engine
            watch.holdNext {
                let tree = EngineTree(engine)
                try? tree.rename("d/c", "t")
                if let id = try? tree.resolve("d") { try? engine.namespace.exclude(id) }
            }
            try account.tree.write("d/c", text("changed"))
            for _ in 0..<2 { try await account.settle() }
            #expect(try source.snapshot() == ["t": text("changed")])
            #expect(try account.tree.list("").keys.sorted() == ["d", "t"] && account.tree.read("d/o") == text("d/o"))
        }
    }

    @Test func `a transfer under way ends, and nothing of it is left there`() async throws {
        try await excludingAccount { account, source, watch in
            for name in ["f", "d/f"] {
                if name == "d/f" { try account.tree.makeDirectory("d") }
                let engine = account.engine
                watch.holdNext {
                    try? engine.namespace.exclude(
                        ItemID((try? EngineTree(engine).resolve(String(name.prefix(1))).rawValue) ?? 0)
                    )
                }
                let count = watch.count
                try account.tree.write(name, [UInt8](repeating: 7, count: 3_000_000))
                try await account.settle()
                #expect(watch.count == count, "it went on: \(name)")
                #expect(account.engine.excludedItems().contains { $0.path == String(name.prefix(1)) })
                #expect(try source.snapshot().keys.sorted() == [])
            }
        }
    }

    @Test func `what is excluded while it is on its way goes again when it has arrived`() async throws {
        try await excludingAccount { account, source, _ in
            for index in 0..<20 {
                let name = "f\(index)"
                try account.tree.write(name, [UInt8](repeating: 7, count: 100_000))
                try await account.engine.setExcluded(path(name), true)
            }
            for name in ["d", "d/e", "d/e/g"] { try account.tree.makeDirectory(name) }
            for index in 0..<20 { try account.tree.write("d/e/f\(index)", text("\(index)")) }
            try await account.engine.setExcluded(path("d"), true)
            try await account.settle()
            #expect(try source.snapshot().isEmpty)
            #expect(try account.tree.list("").count == 21 && account.tree.list("d/e").count == 21)
            #expect(try account.engine.catalog.read { database throws(Errno) in try database.underway().count } == 0)
        }
    }

    @Test func `nothing is deleted in the cloud before it is durable here that it stays`() async throws {
        try await blocking {
            let watch = SentBytesWatch()
            let durable = Mutex<[String: Int]>([:])
            let current = Mutex<Engine?>(nil)
            let wrap = { (base: any Provider) -> any Provider in
                watch.wrap(base) { moment, path in
                    guard moment == .beforeDeletion, let engine = current.withLock({ $0 }) else { return }
                    durable.withLock { $0[path.description] = engine.catalog.durableCount }
                }
            }
            let account = try EngineAccount(wrap: wrap, configure: { _ in })
            current.withLock { $0 = account.engine }
            let source = SourceFolder(account.source)
            for name in ["a", "temporary"] { try account.tree.write(name, text(name)) }
            try await account.settle()
            try await account.engine.setExcluded(path("a"), true)
            let first = account.engine.catalog.commitCount
            try await account.settle()
            // So does a save whose file was sent before it was done.
            await account.engine.pause()
            try account.tree.rename("temporary", "a")
            let second = account.engine.catalog.commitCount
            await account.engine.resume()
            try await account.settle()
            #expect(try source.snapshot().isEmpty && account.tree.read("a") == text("temporary"))
            let found = durable.withLock { $0 }
            #expect(found["/a"] ?? found["a"] ?? 0 >= first && found["/temporary"] ?? found["temporary"] ?? 0 >= second)
            await account.stop()
        }
    }

    @Test func `other rules for names let nothing go that is excluded`() async throws {
        try await blocking {
            final class Rules { var globs = ["*.o", "build"] }
            let rules = Rules()
            let account = try EngineAccount { $0.ignoredNames = rules.globs }
            for name in ["a.o", "b.o"] { try account.tree.write(name, text(name)) }
            try account.tree.makeDirectory("build")
            try account.tree.write("build/f", text("made"))
            for name in ["a.o", "build"] { try await account.engine.setExcluded(path(name), true) }
            await #expect(throws: Errno.noData) { try await account.engine.setExcluded(path("build/f"), false) }
            rules.globs = []
            try await account.restart { _ in }
            try await account.settle()
            #expect(try SourceFolder(account.source).snapshot() == ["b.o": text("b.o")])
            await account.stop()
            #expect(try account.repair() == RepairReport())
        }
    }

    @Test func `an eviction that waited for the catalog does not take the only bytes`() async throws {
        try await excludingAccount { account, source, _ in
            try account.tree.write("f", text("bytes"))
            try await account.settle()
            let engine = account.engine
            let id = try account.tree.resolve("f")
            let (isHeld, mayLeave) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
            engine.contentQueue.async {
                engine.namespace.excludesAny.store(true, ordering: .releasing)
                try? engine.catalog.write { database throws(Errno) in
                    isHeld.signal()
                    mayLeave.wait()
                    guard let entry = try database.entry(.root, text("f")) else { return }
                    try database.exclude(entry.place, isAsked: true)
                    try engine.namespace.withdraw(entry, database)
                }
            }
            isHeld.wait()
            let item = engine.contents.live.retain(id)
            defer { engine.contents.live.release(id) }
            let eviction = Task.detached { (try? engine.evict(path("f"))) != nil }
            try waitUntil("it is about to be evicted") { item.state.withLockIfAvailable { _ in } == nil }
            mayLeave.signal()
            #expect(await !eviction.value)
            try await account.settle()
            #expect(try account.tree.read("f") == text("bytes") && source.snapshot().isEmpty)
        }
    }
}

/// The bytes of a text.
func text(_ string: String) -> [UInt8] { Array(string.utf8) }

/// A path in an account.
func path(_ text: String) -> RemotePath { RemotePath(unchecked: Array(text.utf8)) }

/// Runs a body with an account whose source is watched; it must be sound in the end.
func excludingAccount(
    answers: @escaping @Sendable (any Provider) -> any Provider = { $0 },
    configure: @escaping @Sendable (inout EngineConfiguration) -> Void = { _ in },
    _ body: @escaping @Sendable (EngineAccount, SourceFolder, SentBytesWatch) async throws -> Void
) async throws {
    try await blocking {
        let watch = SentBytesWatch()
        let account = try EngineAccount(wrap: { watch.wrap(answers($0)) }, configure: configure)
        do {
            try await body(account, SourceFolder(account.source), watch)
        } catch {
            await account.stop()
            throw error
        }
        await account.stop()
        #expect(try account.repair() == RepairReport())
    }
}
