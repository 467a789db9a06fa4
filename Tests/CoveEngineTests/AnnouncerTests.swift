import CoveCore
import CoveTestSupport
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
}
