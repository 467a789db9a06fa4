import CoveCore
import CoveProviders
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// What is not where a device left it, since another one has moved or replaced the folder that it is in.
@Suite(.timeLimit(.minutes(4))) struct ElsewhereTests {
    enum Cloud: String, CaseIterable, Sendable { case folder, apache }

    private struct Account: @unchecked Sendable {
        let engine: Engine
        let tree: EngineTree
        let source: SourceFolder

        func text(_ path: String) throws -> String { String(decoding: try tree.read(path), as: UTF8.self) }

        /// Sends and takes in what changed until the source has what is expected.
        func expect(_ what: String, opening: Bool = true, _ isDone: @escaping @Sendable ([String: String?]) -> Bool)
            throws
        {
            let engine = engine
            try waitUntil(what, deadline: 90) {
                let done = DispatchSemaphore(value: 0)
                Task { [engine] in
                    await engine.sync(nil, acceptDeletions: true, acceptLocalDeletions: true)
                    _ = await engine.waitUntilSettled(nil, timeout: .seconds(2))
                    done.signal()
                }
                done.wait()
                for (name, kind) in try tree.list("") where opening && kind == .directory { _ = try? tree.list(name) }
                return isDone(try there())
            }
        }

        /// All names at the source, hidden ones too, with what files hold.
        func there() throws -> [String: String?] {
            let names = FileManager.default.enumerator(atPath: source.path)?.compactMap { $0 as? String } ?? []
            var found: [String: String?] = [:]
            for name in names where !name.hasPrefix(".cove/") && ![".cove", ".cove-news"].contains(name) {
                found[name] = .some(try? String(contentsOfFile: "\(source.path)/\(name)", encoding: .utf8))
            }
            return found
        }
    }

    /// Runs a body with an account beside which something happens at the source.
    private func account(
        _ cloud: Cloud,
        _ meddle: @escaping @Sendable (MeddledProvider.Moment, RemotePath, SourceFolder) throws -> Void = { _, _, _ in
        },
        _ body: @escaping @Sendable (Account) async throws -> Void
    ) async throws {
        try await blocking {
            let folder = try TemporaryDirectory("elsewhere")
            let state = try TemporaryDirectory("elsewhere-state")
            let server: TestServer? = cloud == .folder ? nil : try .apache()
            let address =
                server.map { "webdav://\(TestServer.user)@127.0.0.1:\($0.port)/" } ?? "dir://\(folder.path)"
            let source = SourceFolder(server?.files ?? folder.path)
            let login = Credentials(user: TestServer.user, password: TestServer.password)
            let configuration = EngineConfiguration.ofTest(address, state: state.path) {
                $0.pollInterval = .seconds(3600)
            }
            let access = ProviderFactory.Access(stallLimit: configuration.stallLimit, credentials: { login })
            let base = try ProviderFactory.make(source: address, access: access)
            let provider = MeddledProvider(base) { moment, path in try? meddle(moment, path, source) }
            let engine = try Engine(
                configuration: configuration,
                provider: provider,
                log: Log(path: nil, echoToStandardError: false)
            )
            try source.makeDirectory("d")
            for name in ["a", "b", "c", "f"] { try source.save("d/\(name)", Array("this is \(name)".utf8)) }
            engine.start(kernel: nil, announcer: nil)
            let account = Account(engine: engine, tree: EngineTree(engine), source: source)
            do {
                #expect(try account.tree.list("").keys.sorted() == ["d"])
                #expect(try account.tree.list("d").count == 4)
                for name in ["a", "b", "c"] { #expect(try account.text("d/\(name)") == "this is \(name)") }
                try await body(account)
            } catch {
                await engine.stop()
                throw error
            }
            await engine.stop()
            withExtendedLifetime(server) {}
        }
    }

    /// Something that is done once.
    private final class Once: Sendable {
        private let isDone = Mutex(false)
        var hasRun: Bool { isDone.withLock { $0 } }

        /// True the first time.
        func begin() -> Bool {
            isDone.withLock { isDone in
                defer { isDone = true }
                return !isDone
            }
        }
    }

    @Test(arguments: Cloud.allCases, [false, true])
    func `a deletion that met its folder away for a moment is not taken for done`(
        _ cloud: Cloud,
        _ isWhole: Bool
    ) async throws {
        let (left, back) = (Once(), Once())
        try await account(cloud) { moment, path, source in
            guard path.name?.bytes == Array("f".utf8) else { return }
            switch moment {
            case .beforeDeletion: if left.begin() { try source.rename("d", "away") }
            case .afterDeletion: if back.begin() { try source.rename("away", "d") }
            case .afterMove, .afterMiss: break
            }
        } _: { account in
            if isWhole { #expect(try account.text("d/f") == "this is f") }
            try account.tree.unlink("d/f")
            try account.expect("it is deleted") { there in
                there.keys.sorted() == ["d", "d/a", "d/b", "d/c"]
            }
            #expect(left.hasRun && back.hasRun)
            #expect(try account.tree.list("d").keys.sorted() == ["a", "b", "c"])
        }
    }

    @Test(arguments: [false, true])
    func `a deletion follows a folder that another device has renamed`(_ isWhole: Bool) async throws {
        try await account(.apache) { account in
            if isWhole { #expect(try account.text("d/f") == "this is f") }
            try account.source.rename("d", "e")
            try account.tree.unlink("d/f")
            try account.expect("it is deleted") { $0.keys.sorted() == ["e", "e/a", "e/b", "e/c"] }
            #expect(try account.tree.list("e").keys.sorted() == ["a", "b", "c"])
        }
    }

    @Test func `what was hidden in a folder that another device has replaced is found there`() async throws {
        let moved = Once()
        try await account(.apache) { moment, path, source in
            guard moment == .afterMove, path.name?.isPassing == true, moved.begin() else { return }
            try source.rename("d", "e")
            try source.makeDirectory("d")
        } _: { account in
            await account.engine.pause()
            try account.tree.rename("d/a", "d/t")
            try account.tree.rename("d/b", "d/a")
            try account.tree.rename("d/t", "d/b")
            await account.engine.resume()
            // Nobody opens the folder in which it is now.
            try account.expect("nothing is hidden", opening: false) { there in
                moved.hasRun && !there.keys.contains { $0.contains(".cove") }
                    && there["d/a"] == "this is b" && there["d/b"] == "this is a"
            }
        }
    }

    @Test func `what was hidden in a folder that is away for a while is waited for`() async throws {
        let moved = Once()
        try await account(.apache) { moment, path, source in
            // What made room is hidden in the folder, and what comes in its place has come.
            guard moment == .afterMove, path == RemotePath(unchecked: Array("d/f".utf8)), moved.begin() else { return }
            try FileManager.default.moveItem(atPath: "\(source.path)/d", toPath: "\(source.path).away")
        } _: { account in
            try account.source.save("g", Array("this is g".utf8))
            try account.expect("it is here") { _ in (try? account.text("g")) != nil }
            await account.engine.pause()
            // What leaves the folder, of which nothing is here, trades places with what comes into it.
            try account.tree.rename("d/f", "t")
            try account.tree.rename("g", "d/f")
            try account.tree.rename("t", "g")
            await account.engine.resume()
            let engine = account.engine
            // As long as another device takes to move the folder in a bucket, where nobody sees it meanwhile.
            for _ in 0..<3 {
                await engine.sync(nil, acceptDeletions: true, acceptLocalDeletions: true)
                _ = await engine.waitUntilSettled(nil, timeout: .seconds(2))
            }
            #expect(moved.hasRun)
            let path = account.source.path
            try FileManager.default.moveItem(atPath: "\(path).away", toPath: "\(path)/e")
            try account.expect("nothing is hidden, and all is there") { there in
                !there.keys.contains { $0.contains(".cove") }
                    && ["this is f", "this is g"].allSatisfy(there.values.contains)
            }
        }
    }

    @Test func `versions without sizes, as older catalogs have them, are those of the source`() async throws {
        try await account(.apache) { account in
            let engine = account.engine
            await engine.pause()
            try account.tree.write("d/b", Array("edited".utf8))
            let downloads = engine.statistics().bytesDownloaded
            try engine.catalog.write { database throws(Errno) in
                for table in ["entries SET remote_version", "items SET version"] {
                    let column = table.split(separator: " ").last.map(String.init) ?? ""
                    try database.execute(
                        "UPDATE \(table) = CAST(substr(\(column), 1, instr(\(column), CAST(' ' AS BLOB)) - 1) AS BLOB) "
                            + "WHERE instr(\(column), CAST(' ' AS BLOB)) > 0"
                    )
                }
            }
            await engine.resume()
            try account.expect("the edit is there, and nothing else") { there in
                return there["d/b"] == "edited" && there.keys.sorted() == ["d", "d/a", "d/b", "d/c", "d/f"]
            }
            for name in ["a", "c"] { #expect(try account.text("d/\(name)") == "this is \(name)") }
            #expect(engine.statistics().bytesDownloaded == downloads)
            #expect(try account.text("d/f") == "this is f")
            let versions = try engine.catalog.read { database throws(Errno) in
                try database.all("SELECT remote_version FROM entries WHERE length(remote_version) > 0") {
                    ContentVersion($0.blob(0)).description
                }
            }
            #expect(
                versions.count == 4 && versions.allSatisfy { $0.hasSuffix("\" 9") || $0.hasSuffix("\" 6") },
                "\(versions)"
            )
        }
    }

    @Test(arguments: Cloud.allCases)
    func `what was hidden is shown soon where nothing here stands for it any more`(_ cloud: Cloud) async throws {
        let hidden = Once()
        let device = Mutex<Engine?>(nil)
        try await account(cloud) { moment, path, source in
            guard moment == .afterMove, let name = path.name, name.isPassing, hidden.begin() else { return }
            // Others rename what it is in, time and again, until the device forgets the folder and all in it.
            let document = PassingName(name)?.document
            try device.withLock { $0 }?.catalog.write { database throws(Errno) in
                try document.map { document throws(Errno) in
                    try database.run("DELETE FROM entries WHERE document = ?", .document(document))
                }
            }
            try source.rename("d", "e")
        } _: { account in
            device.withLock { $0 = account.engine }
            for name in ["x", "y"] {
                try account.source.makeDirectory("d/\(name)")
                try account.source.save("d/\(name)/1", Array("1 of \(name)".utf8))
            }
            try account.expect("they are here") { _ in (try? account.tree.list("d/y").count) == 1 }
            #expect(try account.text("d/x/1") == "1 of x")
            await account.engine.pause()
            try account.tree.rename("d/x", "d/t")
            try account.tree.rename("d/y", "d/x")
            try account.tree.rename("d/t", "d/y")
            await account.engine.resume()
            try account.expect("nothing is hidden, and all is there") { there in
                hidden.hasRun && !there.keys.contains { $0.contains(".cove") }
                    && ["1 of x", "1 of y"].allSatisfy(there.values.contains)
            }
        }
    }

    @Test func `what was hidden, deleted here and changed there comes back under a name`() async throws {
        let hidden = Once()
        let device = Mutex<EngineTree?>(nil)
        try await account(.apache) { moment, path, source in
            guard moment == .afterMove, path.name?.isPassing == true, hidden.begin() else { return }
            try source.save("\(path)", Array("newer than it was".utf8))
            let tree = device.withLock { $0 }
            for name in ["a", "b"] { try tree?.unlink("d/\(name)") }
        } _: { account in
            device.withLock { $0 = account.tree }
            await account.engine.pause()
            try account.tree.rename("d/a", "d/t")
            try account.tree.rename("d/b", "d/a")
            try account.tree.rename("d/t", "d/b")
            await account.engine.resume()
            try account.expect("it came back") { there in
                hidden.hasRun && !there.keys.contains { $0.contains(".cove") }
                    && there.values.contains("newer than it was")
            }
        }
    }

    @Test func `a file that took the name of a folder at the source is not hidden in its stead`() async throws {
        try await account(.apache) { account in
            await account.engine.pause()
            try account.tree.makeDirectory("d.new")
            try account.tree.rename("d/a", "d.new/a")
            for name in ["b", "c", "f"] { try account.tree.unlink("d/\(name)") }
            try account.tree.removeDirectory("d")
            try account.tree.rename("d.new", "d")
            try account.source.rename("d", "x")
            try account.source.save("d", Array("a file".utf8))
            // The folder is to make room for the one that has its name here.
            let engine = account.engine
            let deletion = try #require(
                try engine.catalog.read { database throws(Errno) in try database.trash(pending: true) }
                    .first { $0.kind == .directory }
            )
            _ = try? await engine.syncEngine?.clear(.trash(deletion.id))
            #expect(try account.there()["d"] == "a file")
            await engine.resume()
            try account.expect("all is there") { there in
                !there.keys.contains { $0.contains(".cove") } && there.values.contains("a file")
                    && there.values.contains("this is a")
            }
        }
    }

    @Test func `a file that took the name of a folder at the source is not moved in its stead`() async throws {
        try await account(.apache) { account in
            try account.source.rename("d", "x")
            try account.source.save("d", Array("a file".utf8))
            try account.tree.rename("d", "mine")
            try account.expect("both are there") { there in
                there["d"] == "a file" && (there["x/a"] ?? there["mine/a"]) == "this is a"
            }
            #expect(try account.text("d") == "a file")
        }
    }

    @Test(arguments: ["", "d/"])
    func `a deletion that was carried out under a hidden name is over in the same folder`(
        folder: String
    ) async throws {
        try await blocking {
            let account = try EngineAccount()
            if !folder.isEmpty { try account.tree.makeDirectory("d") }
            try account.tree.write("\(folder)f", Array("text".utf8))
            try await account.settle()
            await account.engine.pause()
            try account.tree.unlink("\(folder)f")
            try SourceFolder(account.source).remove("\(folder)f")
            try account.engine.catalog.write { database throws(Errno) in
                guard let id = try database.first("SELECT id FROM trash WHERE pending = 1", read: { $0.int(0) }),
                    let row = try database.trash(id: id)
                else { throw .noSuchEntry }
                let original = FileName(unchecked: Array("f".utf8))
                let name = PassingName(row.document, since: System.now(), original: original).name
                try database.run("UPDATE trash SET remote_name = ? WHERE id = ?", .blob(name.bytes), .int(id))
            }
            await account.engine.resume()
            // Else it is looked for, for a minute.
            try await account.settle()
            #expect(try account.tree.list("").keys.sorted() == (folder.isEmpty ? [] : ["d"]))
            await account.stop()
        }
    }
}
