import CoveCore
import CoveTestSupport
import Synchronization
import Testing

@testable import CoveProviders

/// Directories that move in buckets, which know no directories.
@Suite(.serialized, .timeLimit(.minutes(30)))
struct S3MoveTests {
    private static let kinds = S3ServerKind.allCases

    /// A started device that has made the directory which is moved.
    static func filled(_ source: S3Source) async throws -> S3Provider {
        let provider = try source.provider()
        try await provider.start()
        for directory in ["from", "from/empty", "from/inner"] { try await provider.makeDirectory(directory) }
        for number in 0..<12 { _ = try await provider.make("from/file \(number)", "text \(number)") }
        _ = try await provider.make("from/inner/deep", "deep")
        return provider
    }

    private func expectMoved(_ provider: S3Provider, _ kind: S3ServerKind) async throws {
        #expect(try await provider.names() == ["to"])
        let files = (0..<12).map { "file \($0)" }
        #expect(try await provider.names("to") == (["empty", "inner"] + files).sorted())
        for number in 0..<12 { #expect(try await provider.text("to/file \(number)") == "text \(number)") }
        #expect(try await provider.names("to/inner") == ["deep"])
        #expect(try await provider.text("to/inner/deep") == "deep")
        #expect(try await provider.names("to/empty") == [])
    }

    /// False where it is worth trying again.
    private func hasMoved(_ provider: S3Provider, _ name: FileName) async throws -> Bool {
        do {
            _ = try await provider.move(provider.reference("from"), base: nil, to: .root, name: name)
            return true
        } catch ProviderError.busy {
            return false
        }
    }

    /// Counts from 1.
    final class Counter: Sendable {
        private let count = Mutex(0)

        func next() -> Int {
            count.withLock { count in
                count += 1
                return count
            }
        }
    }

    final class Line: Sendable {
        private let state = Mutex(false)

        var isMended: Bool { state.withLock { $0 } }
        func mend() { state.withLock { $0 = true } }
    }

    /// Lets so many changes through, and no more.
    private func front(_ server: TestServer, changes limit: Int) throws -> ScriptedServer {
        let (port, counter) = (server.port, Counter())
        return try ScriptedServer { request in
            guard ["PUT", "DELETE", "POST"].contains(request.method), !request.target.contains("/.cove/probe/") else {
                return .handOn(port)
            }
            return counter.next() <= limit ? .handOn(port) : .hangUp
        }
    }

    @Test(arguments: kinds, [4, 12, 20, 28, 36])
    func `a move that is cut off is finished, and nothing is lost on the way`(
        kind: S3ServerKind,
        changes: Int
    ) async throws {
        let server = try kind.server()
        let source = try S3Source(server)
        let good = try await Self.filled(source)
        let cut = try self.front(server, changes: changes)
        let broken = try S3Provider(source.address(through: cut))
        try await broken.start()
        let to = try #require(FileName("to"))
        let isCut: Bool
        do {
            _ = try await broken.move(broken.reference("from"), base: nil, to: .root, name: to)
            isCut = false
        } catch {
            isCut = true
        }
        await broken.stop()
        // Every text is at one place at least.
        for number in 0..<12 {
            let here = try? await good.text("from/file \(number)")
            let there = try? await good.text("to/file \(number)")
            #expect(here == "text \(number)" || there == "text \(number)")
        }
        // Other devices know that neither place shows all of it.
        let paths = ["from", "to"].map { RemotePath(unchecked: Array($0.utf8)) }
        let move = DirectoryMove(from: paths[0], to: paths[1])
        if changes > 4 || !isCut { #expect(try await good.movesUnderway() == (isCut ? [move] : [])) }
        if isCut {
            if changes.isMultiple(of: 8) {
                _ = try await good.move(good.reference("from"), base: nil, to: .root, name: to)
            } else {
                // The next start does it by itself.
                await good.finishMoves()
            }
        }
        try await expectMoved(good, kind)
        #expect(try await good.movesUnderway() == [])
    }

    @Test(arguments: kinds, ["note", "listing"])
    func `a move is not done while the server does not show what it was just given`(
        kind: S3ServerKind,
        late: String
    ) async throws {
        let server = try kind.server()
        let source = try S3Source(server)
        let good = try await Self.filled(source)
        let (port, listings) = (server.port, Counter())
        let empty = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
        let front = try ScriptedServer { request in
            if late == "note" {
                let isAsked = request.method == "HEAD" && request.target.contains("/.cove/moves/")
                return isAsked ? ScriptedServer.answer(404) : .handOn(port)
            }
            guard request.target.contains("from%2F"), request.target.contains("max-keys=1000"), listings.next() <= 2
            else { return .handOn(port) }
            return ScriptedServer.answer(200, [], empty)
        }
        let provider = try S3Provider(source.address(through: front))
        try await provider.start()
        let to = try #require(FileName("to"))
        var attempts = 0
        while try await !hasMoved(provider, to), attempts < 10 { attempts += 1 }
        try await expectMoved(good, kind)
    }

    @Test(arguments: kinds, [4, 12, 20, 28])
    func `until a move that was cut off is finished neither place is told of`(
        kind: S3ServerKind,
        changes: Int
    ) async throws {
        let server = try kind.server()
        let source = try S3Source(server)
        _ = try await Self.filled(source)
        let (port, counter, line) = (server.port, Counter(), Line())
        let front = try ScriptedServer { request in
            guard ["PUT", "DELETE", "POST"].contains(request.method), !request.target.contains("/.cove/probe/"),
                !line.isMended, counter.next() > changes
            else { return .handOn(port) }
            return .hangUp
        }
        let provider = try S3Provider(source.address(through: front))
        try await provider.start()
        let to = try #require(FileName("to"))
        await #expect(throws: ProviderError.self) {
            _ = try await provider.move(provider.reference("from"), base: nil, to: .root, name: to)
        }
        // Half of it would be taken for all.
        await #expect(throws: ProviderError.self) { try await provider.names("to") }
        await #expect(throws: ProviderError.self) { try await provider.lookup(to, in: .root) }
        line.mend()
        let other = try #require(FileName("file 3"))
        switch changes.isMultiple(of: 8) {
        case true:
            await #expect(throws: ProviderError.noSuchItem) {
                try await provider.lookup(other, in: provider.reference("from"))
            }
        case false: _ = try await provider.lookup(other, in: provider.reference("to"))
        }
        try await expectMoved(provider, kind)
    }

    @Test(arguments: kinds)
    func `what changes while its directory moves stays`(kind: S3ServerKind) async throws {
        let server = try kind.server()
        let source = try S3Source(server)
        let good = try await Self.filled(source)
        let port = server.port
        // Right before the first deletion another device changes a file.
        let deletions = Counter()
        let front = try ScriptedServer { request in
            if request.method == "DELETE", request.target.contains("/from/file"), deletions.next() == 1 {
                BlockingThread.wait {
                    let item = try? await good.find("from/file 7")
                    guard let item else { return }
                    _ = try? await good.modify(
                        good.reference("from/file 7", item),
                        base: item.contentVersion,
                        metadata: ItemMetadata(),
                        content: MemorySource("changed meanwhile")
                    )
                }
            }
            return .handOn(port)
        }
        let mover = try S3Provider(source.address(through: front))
        try await mover.start()
        let to = try #require(FileName("to"))
        _ = try await mover.move(mover.reference("from"), base: nil, to: .root, name: to)
        var texts: [String] = []
        for place in ["from/file 7", "to/file 7"] { if let text = try? await good.text(place) { texts.append(text) } }
        #expect(texts.contains("changed meanwhile") || texts == ["text 7"], "\(texts)")
        for number in 0..<12 where number != 7 { #expect(try await good.text("to/file \(number)") == "text \(number)") }
    }

    @Test(arguments: kinds)
    func `a directory that another program made by a key stays when it is emptied`(kind: S3ServerKind) async throws {
        let source = try S3Source(kind.server())
        let provider = try source.provider()
        try await provider.start()
        try await source.source.put("text", "made/elsewhere")
        #expect(try await provider.names() == ["made"])
        let item = try await provider.find("made/elsewhere")
        try await provider.delete(provider.reference("made/elsewhere", item), base: item.contentVersion)
        #expect(try await provider.names() == ["made"])
        #expect(try await provider.names("made") == [])
        do {
            try await provider.delete(provider.reference("made"), base: nil)
        } catch {
            // Without a key of its own it is gone already.
            #expect(kind == .seaweedFS && error == .noSuchItem)
        }
        // SeaweedFS lists what was emptied for some minutes more.
        await #expect(throws: ProviderError.noSuchItem) { try await provider.find("made") }
    }

    @Test(arguments: kinds)
    func `a file's move that was cut off between its steps is finished when it is asked for again`(
        kind: S3ServerKind
    ) async throws {
        let server = try kind.server()
        let source = try S3Source(server)
        let (port, line) = (server.port, Line())
        let front = try ScriptedServer { request in
            request.method == "DELETE" && request.target.hasSuffix("/from") && !line.isMended ? .hangUp : .handOn(port)
        }
        let provider = try S3Provider(source.address(through: front))
        try await provider.start()
        let item = try await provider.make("from", "text")
        let to = try #require(FileName("to"))
        func move() async throws -> RemoteItem {
            let reference = provider.reference("from", item)
            return try await provider.move(reference, base: item.contentVersion, to: .root, name: to)
        }
        await #expect(throws: ProviderError.self) { try await move() }
        #expect(provider.capabilities.movesInSteps)
        #expect(try await provider.names() == ["from", "to"])
        line.mend()
        #expect(try await move().contentVersion == item.contentVersion)
        #expect(try await provider.names() == ["to"])
        await #expect(throws: ProviderError.noSuchItem) { try await move() }
    }

    @Test(arguments: [S3ServerKind.juiceFS, .rclone])
    func `a claim that a broken line has left keeps nobody waiting`(kind: S3ServerKind) async throws {
        let server = try kind.server()
        let source = try S3Source(server)
        let folder = try TemporaryDirectory()
        let (port, line) = (server.port, Line())
        let front = try ScriptedServer { request in
            request.method == "DELETE" && request.target.contains(".cove/claims/") && !line.isMended
                ? .hangUp : .handOn(port)
        }
        let address = source.address(through: front)
        let provider = try S3Provider(address, uploads: folder.appending("one"))
        try await provider.start()
        let claims = source.client.address.prefix + Array(".cove/claims/".utf8)
        func left() async throws -> Int { try await source.client.list(claims, delimiter: false).objects.count }
        var item = try await provider.make("file", "one")
        #expect(try await left() == 1)
        // Its own keeps it from nothing.
        item = try await provider.modify(
            provider.reference("file", item),
            base: item.contentVersion,
            metadata: ItemMetadata(),
            content: MemorySource("two")
        )
        #expect(try await left() > 0)
        line.mend()
        @Sendable func targets(_ method: String) -> Set<String> {
            let claims = front.exchanges.filter { exchange in
                exchange.request.target.contains(".cove/claims/") && (200..<300).contains(exchange.status)
            }
            return Set(claims.filter { $0.request.method == method }.map(\.request.target))
        }
        // It does so on the pool of threads, none of which waits here.
        try await blocking { try waitUntil("it takes them back") { targets("PUT").isSubset(of: targets("DELETE")) } }
        // What a server has kept though it said otherwise is found a little later.
        let deadline = ContinuousClock.now + .seconds(60)
        while try await left() > 0, ContinuousClock.now < deadline {}
        #expect(try await left() == 0)
        // What a device leaves when it dies is another one's to leave alone, and its next process's to take back.
        let dead = try S3Provider(address, uploads: folder.appending("dead"))
        _ = try await source.client.send(S3Call("PUT", claims + Array("key/\(dead.owner)-left".utf8)))
        let other = try S3Provider(address, uploads: folder.appending("two"))
        try await other.start()
        #expect(try await left() == 1)
        let next = try S3Provider(address, uploads: folder.appending("dead"))
        try await next.start()
        #expect(try await left() == 0)
        #expect(try await other.text("file") == "two")
    }

    @Test(arguments: kinds, [false, true])
    func `what is too large for one request is copied in parts`(kind: S3ServerKind, isCut: Bool) async throws {
        let server = try kind.server()
        let source = try S3Source(server)
        let (port, counter) = (server.port, Counter())
        let line = Line()
        // After one part the line is cut.
        let front = try ScriptedServer { request in
            let isCopy = request.lines.contains { $0.hasPrefix("x-amz-copy-source-range:") }
            guard isCut, isCopy, counter.next() > 1, !line.isMended else { return .handOn(port) }
            return .hangUp
        }
        let provider = try S3Provider(
            source.address(through: front),
            copyLimit: 5 << 20
        )
        try await provider.start()
        let bytes = (0..<11).flatMap { [UInt8](repeating: UInt8($0), count: 1 << 20) }
        let name = try #require(FileName("big"))
        let template = ItemTemplate(kind: .file, metadata: ItemMetadata(modificationTime: Timestamp(5)))
        let item = try await provider.create(template, name: name, in: .root, content: MemorySource(bytes))
        let new = try #require(FileName("new"))
        let reference = provider.reference("big", item)
        func move() async throws -> RemoteItem {
            try await provider.move(reference, base: item.contentVersion, to: .root, name: new)
        }
        let moved: RemoteItem
        if isCut, let early = try? await move() {
            // Where no parts are copied, nothing is cut.
            #expect(kind != .seaweedFS)
            moved = early
        } else {
            line.mend()
            moved = try await move()
        }
        #expect(moved.size == 11 << 20 && moved.metadata.modificationTime == Timestamp(5))
        let sink = MemorySink()
        try await provider.fetch(
            provider.reference("new", moved),
            version: moved.contentVersion,
            range: 0..<moved.size,
            into: sink
        )
        #expect(sink.bytes == bytes)
        #expect(try await provider.names() == ["new"])
        let parts = front.exchanges.filter { exchange in
            exchange.status == 200 && exchange.request.lines.contains { $0.hasPrefix("x-amz-copy-source-range:") }
        }
        // None that was made is made again.
        if kind == .seaweedFS { #expect(parts.count == 3) }
    }

    @Test(arguments: kinds)
    func `a folder that other programs filled leaves nothing where it was`(kind: S3ServerKind) async throws {
        let source = try S3Source(kind.server())
        let provider = try source.provider()
        try await provider.start()
        try await source.source.put("deep", "from/inner/deep")
        try await source.source.put("file", "from/file")
        let name = try #require(FileName("to"))
        _ = try await provider.move(provider.reference("from"), base: nil, to: .root, name: name)
        #expect(try await provider.names() == ["to"])
        #expect(try await provider.names("to") == ["file", "inner"])
        #expect(try await provider.text("to/inner/deep") == "deep")
    }

    @Test(arguments: kinds)
    func `a folder that another program emptied can be deleted`(kind: S3ServerKind) async throws {
        let source = try S3Source(kind.server())
        let provider = try source.provider()
        try await provider.start()
        try await source.source.put("deep", "gone/inner/deep")
        let key = source.client.address.prefix + Array("gone/inner/deep".utf8)
        _ = try await source.client.send(S3Call("DELETE", key))
        for path in ["gone/inner", "gone"] {
            do throws(ProviderError) {
                try await provider.delete(provider.reference(path), base: nil)
            } catch .noSuchItem {}
        }
        #expect(try await provider.names() == [])
    }
}
