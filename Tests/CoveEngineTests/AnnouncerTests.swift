import CoveCore
import CoveTestSupport
import Glibc
import Synchronization
import Testing

@testable import CoveEngine

/// Whose calls count as the announcer's.
@Suite struct AnnouncerTests {
    /// An announcer whose process is not there, while a program that nobody knows deletes what is announced.
    private final class Absent: Announcer {
        let engine: Engine
        let wasTakenFor = Mutex<Bool?>(nil)

        init(_ engine: Engine) { self.engine = engine }

        func isAnnouncer(_ thread: Int32) -> Bool { thread == 0 }

        func perform(_ announcement: Announcement) throws(Errno) {
            guard case .unlink(let path) = announcement, let name = path.name else { throw .notConnected }
            try engine.unlink(.root, name.bytes, Caller(thread: 0, user: 1000, group: 1000))
            wasTakenFor.withLock { $0 = engine.remoteChanges.incoming.current?.isCommitted }
        }
    }

    @Test func `a program of another PID namespace is not taken for the announcer`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try source.save("a", Array("text".utf8))
            #expect(try account.tree.read("a") == Array("text".utf8))
            #expect(try account.tree.list("") == ["a": .file])
            try await account.settle()
            let announcer = Absent(account.engine)
            account.engine.context.announcer.withLock { $0 = announcer }
            try source.remove("a")
            await account.engine.sync(nil, acceptDeletions: true, acceptLocalDeletions: true)
            try waitUntil("the deletion is announced") { announcer.wasTakenFor.withLock { $0 } != nil }
            #expect(announcer.wasTakenFor.withLock { $0 } == false)
            account.engine.context.announcer.withLock { $0 = nil }
            await account.stop()
        }
    }

    /// The kernel sends a call again to each daemon that comes, also when who made it is long gone.
    @Test func `what any dead daemon's announcer had begun changes nothing, and a program's call is carried out`()
        async throws
    {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try source.makeDirectory("d")
            try source.makeDirectory("e")
            for name in ["a", "b"] { try source.save(name, Array("text".utf8)) }
            #expect(try account.tree.list("").count == 4 && account.tree.read("a") == Array("text".utf8))
            #expect(try account.tree.list("d").isEmpty && account.tree.list("e").isEmpty)
            try await account.settle()
            account.engine.contents.ledger.announcer = 11
            let id = try account.tree.open("a", O_RDWR)
            try account.tree.write(id, at: 0, Array("mine".utf8))
            try account.tree.close(id)
            // The next daemon dies before it has an announcer, and the one after that when it has one.
            try await account.takeOver()
            try await account.takeOver()
            account.engine.contents.ledger.announcer = 22
            try await account.takeOver()
            account.engine.contents.ledger.announcer = 33
            func caller(_ thread: Int32, _ request: UInt64) -> Caller {
                Caller(thread: thread, user: 0, group: 0, request: request, isResent: true)
            }
            let engine = account.engine
            func calls(_ caller: Caller) -> [() throws -> Void] {
                [
                    { try engine.unlink(.root, Array("a".utf8), caller) },
                    { try engine.removeDirectory(.root, Array("d".utf8), caller) },
                    { _ = try engine.makeDirectory(.root, Array("n".utf8), mode: 0o755, caller) },
                    { try engine.rename(.root, Array("b".utf8), .root, Array("c".utf8), flags: 0, caller) },
                    { try engine.rename(.root, Array("e".utf8), .root, Array("m".utf8), flags: 0, caller) },
                ]
            }
            for (number, thread) in [Int32(11), 22].enumerated() {
                for call in calls(caller(thread, UInt64(700 + number))) {
                    #expect(throws: Errno.interrupted) { try call() }
                }
            }
            #expect(try account.tree.list("").keys.sorted() == ["a", "b", "d", "e"])
            #expect(try account.tree.read("a") == Array("mine".utf8))
            for number in 0..<5 { try calls(caller(44, UInt64(800 + number)))[number]() }
            #expect(try account.tree.list("").keys.sorted() == ["c", "m", "n"])
            await account.stop()
        }
    }

    /// Two looks at the provider may find the same directory, and both see that it is not here yet.
    @Test func `a directory that came meanwhile does not give way to itself`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try source.makeDirectory("d")
            try source.save("d/doc", Array("text".utf8))
            #expect(try account.tree.list("") == ["d": .directory] && account.tree.list("d") == ["doc": .file])
            let engine = account.engine
            let remote = try await engine.provider.lookup(
                FileName(unchecked: Array("d".utf8)),
                in: RemoteReference(id: nil, path: .root)
            )
            let transition = Transition(
                kind: .insert(parent: .root, name: remote.name),
                remote: remote,
                seen: System.monotonic()
            )
            #expect(throws: Errno.busy) { try engine.remoteChanges.show(transition) }
            #expect(try account.tree.list("") == ["d": .directory] && account.tree.list("d") == ["doc": .file])
            #expect(engine.accountStatus().queuedOperations == 0)
            await account.stop()
        }
    }

    /// A kernel that sets a date for the announcer as Linux does: first it writes back what it holds of the file.
    private final class DatingKernel: Announcer {
        let engine: Engine
        let item: ItemID
        let before: @Sendable (Caller) throws(Errno) -> Void
        /// The date that it has now.
        let date = Mutex<Timestamp?>(nil)
        static let caller = Caller(thread: 7, user: 0, group: 0)

        init(_ engine: Engine, _ item: ItemID, before: @escaping @Sendable (Caller) throws(Errno) -> Void) {
            (self.engine, self.item, self.before) = (engine, item, before)
        }

        func isAnnouncer(_ thread: Int32) -> Bool { thread == 7 }

        func perform(_ announcement: Announcement) throws(Errno) {
            guard case .setTimes(_, let time) = announcement else { throw .notConnected }
            try before(Self.caller)
            try set(time, hasHandle: false)
            date.withLock { $0 = time }
        }

        func set(_ time: Timestamp, hasHandle: Bool) throws(Errno) {
            var change = AttributeChange()
            change.modificationTime = .at(time)
            change.changeTime = time
            _ = try engine.setAttributes(of: item, change, hasHandle: hasHandle, Self.caller)
        }
    }

    /// An account with something that the kernel knows, and a change of its permissions and date at the provider.
    private func dated(
        _ name: String,
        before: @escaping @Sendable (EngineTree, ItemID, Caller) throws(Errno) -> Void,
        _ body: (EngineAccount, ItemID, DatingKernel, Transition) async throws -> Void
    ) async throws {
        let account = try EngineAccount()
        let source = SourceFolder(account.source)
        try source.makeDirectory("d")
        try source.save("f", Array("text".utf8))
        #expect(try account.tree.list("") == ["d": .directory, "f": .file])
        #expect(try account.tree.read("f") == Array("text".utf8) && account.tree.list("d").isEmpty)
        try await account.settle()
        let engine = account.engine
        engine.leaveDatesToKernel()
        let bytes = Array(name.utf8)
        let entry = try #require(try engine.catalog.read { database throws(Errno) in try database.entry(.root, bytes) })
        var remote = try await engine.provider.lookup(
            FileName(unchecked: bytes),
            in: RemoteReference(id: nil, path: .root)
        )
        remote.metadata.permissions = 0o700
        remote.metadata.modificationTime = Timestamp(seconds: 1_000_000_000, nanoseconds: 0)
        remote.metadataVersion = MetadataVersion("other")
        let kernel = DatingKernel(engine, entry.item) { caller throws(Errno) in
            try before(EngineTree(engine), entry.item, caller)
        }
        engine.context.announcer.withLock { $0 = kernel }
        try await body(account, entry.item, kernel, Transition(kind: .metadata(entry: entry.id), remote: remote))
        engine.context.announcer.withLock { $0 = nil }
        await account.stop()
    }

    private static let later = Timestamp(seconds: 2_000_000_000, nanoseconds: 5)

    @Test func `a date that the kernel writes back before it is told another one is the writer's`() async throws {
        try await blocking {
            try await dated("f") { tree, id, caller throws(Errno) in
                _ = try tree.open("f", O_RDWR)
                try tree.write(id, at: 0, [0x21])
                var change = AttributeChange()
                change.modificationTime = .at(Self.later)
                change.changeTime = Self.later
                _ = try tree.engine.setAttributes(of: id, change, hasHandle: true, caller)
            } _: { account, id, kernel, transition in
                let engine = account.engine
                #expect(throws: Errno.busy) { try engine.remoteChanges.show(transition) }
                #expect(kernel.date.withLock { $0 } == nil)
                try account.tree.close(id)
                #expect(try engine.attributes(of: id).modificationTime == Self.later)
            }
        }
    }

    @Test func `names that come in a directory hold up no permissions of it, and its date stays its own`()
        async throws
    {
        try await blocking {
            try await dated("d") { tree, _, _ throws(Errno) in
                try tree.makeDirectory("d/new")
            } _: { account, id, kernel, transition in
                let before = try account.engine.attributes(of: id).modificationTime
                try account.engine.remoteChanges.show(transition)
                let after = try account.engine.attributes(of: id)
                #expect(after.permissions == 0o700 && after.modificationTime >= before)
                #expect(kernel.date.withLock { $0 } != nil)
            }
        }
    }

    @Test func `a date of the provider's waits while a program may write to the file`() async throws {
        try await blocking {
            try await dated("f") { _, _, _ in
            } _: { account, id, kernel, transition in
                let engine = account.engine
                let before = try engine.attributes(of: id).modificationTime
                _ = try account.tree.open("f", O_RDWR)
                try engine.remoteChanges.show(transition)
                #expect(kernel.date.withLock { $0 } == nil)
                #expect(try engine.attributes(of: id).modificationTime == before)
                #expect(try engine.attributes(of: id).permissions == 0o700)
                try account.tree.close(id)
                // It is still news.
                let known = try engine.catalog.read { database throws(Errno) in
                    try database.entry(.root, Array("f".utf8))?.remoteMetadata
                }
                #expect(known != transition.remote?.metadataVersion)
                try engine.remoteChanges.show(transition)
                let date = transition.remote?.metadata.modificationTime
                #expect(try engine.attributes(of: id).modificationTime == date && kernel.date.withLock { $0 } == date)
            }
        }
    }
}
