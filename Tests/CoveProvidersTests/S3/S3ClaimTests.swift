import CoveCore
import CoveTestSupport
import Synchronization
import Testing

@testable import CoveProviders

/// Claims on keys, where lines break and machines sleep.
@Suite(.serialized, .timeLimit(.minutes(5)))
struct S3ClaimTests {
    /// A prefix behind a server that answers as the test says, and a started device on it.
    private struct Front {
        let server: ScriptedServer
        let provider: S3Provider
        let source: S3Source

        init(
            _ kind: S3ServerKind,
            pieceSize: Int64 = S3Upload.pieceSize,
            clock: @escaping @Sendable () -> MonotonicTime = System.boottime,
            _ answer: @escaping @Sendable (ScriptedServer.Request, S3Source) -> ScriptedServer.Answer?
        ) async throws {
            let real = try kind.server()
            let (source, port) = (try S3Source(real), real.port)
            self.source = source
            server = try ScriptedServer { answer($0, source) ?? .handOn(port) }
            provider = try S3Provider(source.address(through: server), pieceSize: pieceSize, clock: clock)
            try await provider.start()
        }

        /// The claims that are at the server.
        func claims() async throws -> [S3Object] {
            try await source.client.list(source.client.address.prefix + Array(".cove/claims/".utf8), delimiter: false)
                .objects
        }

        func count(_ isMeant: (ScriptedServer.Request) -> Bool) -> Int {
            server.exchanges.count { isMeant($0.request) }
        }
    }

    private final class Count: Sendable {
        private let state = Mutex(0)

        var value: Int { state.withLock { $0 } }
        func increase() { state.withLock { $0 += 1 } }
    }

    private static func isCopy(_ request: ScriptedServer.Request) -> Bool {
        request.method == "PUT" && request.value("x-amz-copy-source") != nil
            && !request.target.contains("/.cove/probe/")
    }

    private static func isCompletion(_ request: ScriptedServer.Request) -> Bool {
        request.method == "POST" && request.target.contains("uploadId=")
    }

    private func move(_ provider: S3Provider, _ item: RemoteItem, _ from: String, _ to: String) async throws
        -> RemoteItem
    {
        try await provider.move(
            provider.reference(from, item),
            base: item.contentVersion,
            to: .root,
            name: #require(FileName(to))
        )
    }

    @Test func `a claim stays while a copy whose answer was lost may go on, and keeps its own device from nothing`()
        async throws
    {
        let isCut = Atomic(true)
        let front = try await Front(.seaweedFS) { request, _ in
            Self.isCopy(request) && isCut.load(ordering: .relaxed) ? .hangUp : nil
        }
        let item = try await front.provider.make("old", "text")
        await #expect(throws: ProviderError.self) { try await move(front.provider, item, "old", "new") }
        #expect(try await front.claims().count == 1)
        isCut.store(false, ordering: .relaxed)
        #expect(try await move(front.provider, item, "old", "new").size == 4)
        // The first request may come yet.
        #expect(try await front.claims().count == 1)
        // One that was answered leaves nothing in doubt.
        let other = try await front.provider.make("other", "text")
        _ = try await move(front.provider, other, "other", "moved")
        #expect(try await front.claims().count == 1)
    }

    @Test func `a claim stays while parts may yet be put together`() async throws {
        let isCut = Atomic(true)
        let front = try await Front(.seaweedFS, pieceSize: 64 << 10) { request, _ in
            Self.isCompletion(request) && isCut.load(ordering: .relaxed) ? .hangUp : nil
        }
        var large = MemorySource(String(repeating: "large", count: 20 << 10))
        large.identity = Array("snapshot".utf8)
        let (content, file) = (large, ItemTemplate(kind: .file, metadata: ItemMetadata()))
        let name = try #require(FileName("file"))
        func make() async throws -> RemoteItem {
            try await front.provider.create(file, name: name, in: .root, content: content)
        }
        await #expect(throws: ProviderError.self) { try await make() }
        #expect(try await front.claims().count == 1)
        isCut.store(false, ordering: .relaxed)
        #expect(try await make().size == 100 << 10)
    }

    @Test func `what may go on at a server is waited for in proportion, and for no longer than claims live`() {
        #expect(S3Provider.linger(0) == .seconds(60))
        #expect(S3Provider.linger(1 << 30) == .seconds(124))
        #expect(S3Provider.linger(.max) == .seconds(600))
    }

    @Test(arguments: S3ServerKind.allCases, [false, true])
    func `what a claim was made for is not asked for after a long sleep, nor asked again`(
        kind: S3ServerKind,
        isAsked: Bool
    ) async throws {
        let slept = Atomic(-1)
        let front = try await Front(kind, clock: { System.boottime() + .seconds(slept.load(ordering: .relaxed)) }) {
            request,
            _ in
            guard slept.load(ordering: .relaxed) == 0 else { return nil }
            let isChange = Self.isCopy(request) || request.method == "PUT" && request.target.hasSuffix("/unsent")
            guard isAsked ? isChange : request.method == "HEAD" else { return nil }
            slept.store(3600, ordering: .relaxed)
            return isAsked ? .hangUp : nil
        }
        let item = try await front.provider.make("old", "text")
        slept.store(0, ordering: .relaxed)
        if isAsked {
            await #expect(throws: ProviderError.self) { try await move(front.provider, item, "old", "new") }
            #expect(front.count(Self.isCopy) == 1)
            #expect(try await front.provider.names() == ["old"])
        }
        // What follows begins anew.
        #expect(try await move(front.provider, item, "old", "new").size == 4)
        if kind == .seaweedFS { return }
        slept.store(0, ordering: .relaxed)
        await #expect(throws: ProviderError.self) { try await front.provider.make("unsent", "text") }
        #expect(front.count { $0.method == "PUT" && $0.target.hasSuffix("/unsent") } == (isAsked ? 1 : 0))
    }

    @Test(arguments: S3ServerKind.allCases)
    func `a claim that comes to be after it was taken back is taken back again`(kind: S3ServerKind) async throws {
        let late = Mutex<String?>(nil)
        let isDone = Atomic(false)
        let front = try await Front(kind) { request, source in
            guard request.target.contains("/.cove/claims/") else { return nil }
            switch request.method {
            case "PUT":
                // The first one is slow: its line breaks, and it is asked for again.
                let isFirst = late.withLock { known in
                    defer { known = known ?? request.target }
                    return known == nil
                }
                return isFirst ? .hangUp : nil
            case "DELETE" where late.withLock({ $0 }) == request.target && !isDone.exchange(true, ordering: .relaxed):
                let key = Array(request.target.dropFirst("/\(source.client.address.bucket)/".count).utf8)
                BlockingThread.wait {
                    _ = try? await source.client.ask(S3Call("DELETE", key))
                    _ = try? await source.client.ask(S3Call("PUT", key))
                }
                return ScriptedServer.answer(204)
            default: return nil
            }
        }
        let item = try await front.provider.make("old", "text")
        _ = try await move(front.provider, item, "old", "new")
        let wasLate = isDone.load(ordering: .relaxed)
        #expect(wasLate)
        let target = late.withLock { $0 }
        try await eventually("it is taken back again") {
            let isGone = try await front.claims().isEmpty
            return isGone && front.count { $0.method == "DELETE" && $0.target == target } > 1
        }
    }

    private func eventually(_ what: String, _ isSo: () async throws -> Bool) async throws {
        for _ in 0..<6000 {
            if try await isSo() { return }
            try await Task.sleep(for: TimeSpan.milliseconds(10))
        }
        Issue.record("still not: \(what)")
    }

    @Test(arguments: S3ServerKind.allCases)
    func `uploads that wait for somebody's claim keep no other from its turn`(kind: S3ServerKind) async throws {
        let front = try await Front(kind) { _, _ in nil }
        let client = front.source.client
        let text = String(repeating: "large", count: 20 << 10)
        // More than there is room for in memory.
        let names = (0..<8).map { "file \($0)" }
        func claim(_ name: String) -> [UInt8] {
            let key = client.address.prefix + Array(name.utf8)
            let hash = Digest.hash(key, .sha256).hexadecimal.prefix(32)
            let separator = front.provider.features.putsConditionally ? "-" : "/"
            return client.address.prefix + Array(".cove/claims/\(hash)\(separator)someone-else".utf8)
        }
        for name in names { _ = try await client.send(S3Call("PUT", claim(name))) }
        let done = Count()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for name in names {
                group.addTask { @Sendable in
                    _ = try await front.provider.make(name, text)
                    done.increase()
                }
            }
            try await eventually("all wait") {
                front.count { request in
                    request.method == "PUT"
                        && (kind == .seaweedFS) == !request.target.contains("/.cove/")
                } >= names.count
            }
            _ = try await front.provider.make("free", text)
            #expect(done.value == 0)
            for name in names { _ = try await client.send(S3Call("DELETE", claim(name))) }
            try await group.waitForAll()
        }
        #expect(try await front.provider.names() == (names + ["free"]).sorted())
    }
}
