import CoveCore
import CoveProviders
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// Folders that another device renamed: no deletion, whatever the source tells of it.
@Suite(.timeLimit(.minutes(4))) struct RenamedFolderTests {
    enum Cloud: String, CaseIterable, Sendable { case folder, apache, nginx }

    /// Enough for the brake on deletions.
    private static let count = 250

    /// An account on a folder, or on a server that serves it.
    private struct Account {
        let source: SourceFolder
        let account: SourceAccount
        var engine: Engine { account.engine }
        var tree: EngineTree { account.tree }

        /// Fills a folder at the source.
        func fill(_ name: String, _ count: Int = RenamedFolderTests.count) throws {
            try source.makeDirectory(name)
            for index in 0..<count {
                try source.save("\(name)/\(index)", Array("old \(index)".utf8))
            }
            _ = try tree.list("")
        }

        /// How the account is after it took in what changed, with no deletion approved.
        func sync() async -> String {
            let status = await account.sync()
            return status.state == "idle" ? "idle" : "\(status.state): \(status.reason ?? "")"
        }
    }

    private func account(
        _ cloud: Cloud,
        _ body: @escaping @Sendable (Account) async throws -> Void
    ) async throws {
        try await blocking {
            let folder = try TemporaryDirectory("renamed")
            let server: TestServer? =
                switch cloud {
                case .folder: nil
                case .apache: try .apache()
                case .nginx: try .nginx()
                }
            let address =
                server.map { "webdav://\(TestServer.user)@127.0.0.1:\($0.port)/" } ?? "dir://\(folder.path)"
            let source = SourceFolder(server?.files ?? folder.path)
            try await SourceAccount.with(address) { try await body(Account(source: source, account: $0)) }
        }
    }

    @Test(arguments: Cloud.allCases)
    func `a folder renamed elsewhere is renamed here and asks nobody`(_ cloud: Cloud) async throws {
        try await account(cloud) { account in
            try account.fill("docs")
            #expect(try account.tree.list("docs").count == Self.count)
            #expect(try account.account.text("docs/7") == "old 7")
            let document = try account.account.document("docs/7")
            try account.source.rename("docs", "papers")
            #expect(await account.sync() == "idle")
            #expect(try account.tree.list("").keys.sorted() == ["papers"])
            #expect(try account.tree.list("papers").count == Self.count)
            #expect(try account.account.document("papers/7") == document)
            #expect(account.engine.trash().isEmpty && account.engine.conflicts().isEmpty)
            // It is the source's folder: changes go there, and come from there.
            try account.tree.write("papers/7", Array("mine".utf8))
            try account.source.save("papers/8", Array("theirs".utf8))
            try account.source.remove("papers/9")
            #expect(await account.sync() == "idle")
            #expect(try account.account.text("papers/8") == "theirs")
            #expect(try account.tree.list("papers").count == Self.count - 1)
            let there = try account.source.snapshot()
            #expect(there["papers/7"] == Array("mine".utf8))
            #expect(there.filter { $0.key.hasPrefix("papers/") }.count == Self.count - 1)
        }
    }

    @Test(arguments: Cloud.allCases)
    func `a file renamed here takes no folder along that has its name there by now`(_ cloud: Cloud) async throws {
        try await account(cloud) { account in
            try account.source.makeDirectory("docs")
            try account.source.save("docs/name", [])
            #expect(try account.tree.list("").count == 1)
            #expect(try account.tree.list("docs").count == 1)
            await account.engine.pause()
            try account.tree.rename("docs/name", "docs/other")
            try account.source.remove("docs/name")
            try account.source.makeDirectory("docs/name")
            try account.source.save("docs/name/inner", Array("theirs".utf8))
            await account.engine.resume()
            #expect(await account.sync() == "idle")
            #expect(try account.source.snapshot()["docs/name/inner"] == Array("theirs".utf8))
            // The file is gone there, and had nothing new here.
            #expect(try account.source.snapshot()["docs/other"] == nil)
            #expect(try account.tree.list("docs") == ["name": .directory])
            #expect(try account.account.text("docs/name/inner") == "theirs")
        }
    }

    @Test(arguments: [Cloud.folder, .apache])
    func `a folder moved into another one asks nobody`(_ cloud: Cloud) async throws {
        try await account(cloud) { account in
            try account.source.makeDirectory("attic")
            try account.source.makeDirectory("top")
            try account.fill("top/docs")
            #expect(try account.tree.list("").keys.sorted() == ["attic", "top"])
            #expect(try account.tree.list("attic").isEmpty)
            #expect(try account.tree.list("top").count == 1)
            #expect(try account.tree.list("top/docs").count == Self.count)
            try account.source.rename("top", "attic/top")
            #expect(await account.sync() == "idle")
            #expect(try account.tree.list("").keys.sorted() == ["attic"])
            #expect(try account.tree.list("attic/top/docs").count == Self.count)
        }
    }

    @Test(arguments: [Cloud.folder, .apache])
    func `a folder renamed before another one took its name asks nobody`(_ cloud: Cloud) async throws {
        try await account(cloud) { account in
            try account.fill("docs")
            #expect(try account.tree.list("docs").count == Self.count)
            try account.source.rename("docs", "papers")
            try account.source.save("docs", Array("a file".utf8))
            #expect(await account.sync() == "idle")
            #expect(try account.tree.list("").keys.sorted() == ["docs", "papers"])
            #expect(try account.account.text("docs") == "a file")
            #expect(try account.tree.list("papers").count == Self.count)
        }
    }

    @Test func `a small folder renamed before a file took its name keeps its documents`() async throws {
        try await account(.apache) { account in
            try account.fill("docs", 20)
            #expect(try account.tree.list("docs").count == 20)
            #expect(await account.sync() == "idle")
            let document = try account.account.document("docs/7")
            try account.source.rename("docs", "papers")
            try account.source.save("docs", Array("a file".utf8))
            #expect(await account.sync() == "idle")
            #expect(try account.tree.list("").keys.sorted() == ["docs", "papers"])
            #expect(try account.account.document("papers/7") == document)
        }
    }

    @Test func `a folder whose new name was listed here before is no loss`() async throws {
        try await account(.apache) { account in
            try account.fill("docs")
            #expect(try account.tree.list("docs").count == Self.count)
            try account.fill("copy")
            #expect(await account.sync() == "idle")
            #expect(try account.tree.list("copy").count == Self.count)
            for folder in ["docs", "copy"] {
                try account.source.makeDirectory("\(folder)/deep")
                try account.source.save("\(folder)/deep/file", Array("deep".utf8))
            }
            #expect(await account.sync() == "idle")
            for folder in ["docs", "copy"] { #expect(try account.account.text("\(folder)/deep/file") == "deep") }
            try account.source.remove("docs")
            #expect(await account.sync() == "idle")
            #expect(try account.tree.list("").keys.sorted() == ["copy"])
        }
    }

    @Test(arguments: [Cloud.folder, .apache])
    func `a folder deleted while another one appeared asks`(_ cloud: Cloud) async throws {
        try await account(cloud) { account in
            try account.fill("docs")
            #expect(try account.tree.list("docs").count == Self.count)
            // What is listed while it goes lacks a part of it: that is a small portion, which nobody is asked about.
            #expect(await account.sync() == "idle")
            try account.source.removeAtOnce("docs")
            try account.source.makeDirectory("other")
            for index in 0..<10 { try account.source.save("other/\(index)", Array("old \(index)".utf8)) }
            #expect(await account.sync().hasPrefix("waiting-for-approval"))
            #expect(try account.tree.list("docs").count == Self.count)
        }
    }

    @Test func `what was lost of a folder that was renamed is asked for`() async throws {
        try await account(.apache) { account in
            try account.fill("docs", 100)
            try account.source.makeDirectory("docs/tree")
            try account.fill("docs/tree/many")
            #expect(try account.tree.list("docs").count == 101)
            #expect(try account.tree.list("docs/tree").count == 1)
            #expect(try account.tree.list("docs/tree/many").count == Self.count)
            // What was seen while the source was filled is gone before: it would wait with the rest.
            #expect(await account.sync() == "idle")
            try account.source.remove("docs/tree/many")
            for index in 0..<20 { try account.source.remove("docs/\(index)") }
            try account.source.rename("docs", "papers")
            #expect(await account.sync().hasPrefix("waiting-for-approval"))
            #expect(try account.tree.list("").keys.sorted() == ["papers"])
            #expect(try account.tree.list("papers/tree/many").count == Self.count)
        }
    }

    @Test func `each folder that appeared accounts for one that is gone`() async throws {
        try await account(.apache) { account in
            for name in ["docs", "more"] { try account.fill(name) }
            #expect(await account.sync() == "idle")
            for name in ["docs", "more"] { #expect(try account.tree.list(name).count == Self.count) }
            try account.fill("copy")
            #expect(await account.sync() == "idle")
            #expect(try account.tree.list("copy").count == Self.count)
            for name in ["docs", "more"] { try account.source.remove(name) }
            #expect(await account.sync().hasPrefix("waiting-for-approval"))
            #expect(try account.tree.list("").keys.sorted() == ["copy", "docs", "more"])
        }
    }

    @Test func `a renamed folder that a program claims is asked for once, and renamed in its turn`() async throws {
        try await account(.apache) { account in
            try account.fill("docs")
            #expect(try account.tree.list("docs").count == Self.count)
            let engine = account.engine
            let session = try engine.beginConnection(process: getpid())
            let file = PathParameter(RemotePath(unchecked: Array("docs/1".utf8)))
            let request = CoordinationInterface.ClaimRequest(intents: [CoordinationInterface.Intent(reading: file)])
            let held = try await engine.claim(request, session: session)
            try account.source.rename("docs", "papers")
            try account.source.save("docs", Array("a file".utf8))
            let asked = engine.counters.providerRequests.load(ordering: .relaxed)
            #expect(await account.sync() == "idle")
            let requests = engine.counters.providerRequests.load(ordering: .relaxed) - asked
            #expect(requests < 20, "\(requests)")
            #expect(try account.tree.list("docs").count == Self.count)
            try engine.releaseClaim(held.claim)
            try waitUntil("it is renamed", deadline: 60) { (try? account.account.text("docs")) == "a file" }
            #expect(try account.tree.list("").keys.sorted() == ["docs", "papers"])
            #expect(try account.tree.list("papers").count == Self.count)
            #expect(account.engine.trash().isEmpty)
            engine.endSession(session)
        }
    }

    @Test func `a folder deleted there while it has another name here is made again for what is new`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try source.makeDirectory("d")
            try source.save("d/old", [1])
            #expect(try account.tree.list("d").keys.sorted() == ["old"])
            // From here nothing is sent, and what is told is taken in all the same.
            await account.engine.pause()
            try account.tree.rename("d", "e")
            let told = account.engine.namespace.takenChanges.load(ordering: .acquiring)
            try FileManager.default.removeItem(atPath: account.source + "/d")
            try waitUntil("it is told") { account.engine.namespace.takenChanges.load(ordering: .acquiring) != told }
            await account.engine.syncEngine?.remove([RemotePath(unchecked: [0x64])])
            try account.tree.rename("e", "d")
            try account.tree.write("d/new", [2])
            await account.engine.resume()
            try await account.settle()
            #expect(try source.snapshot() == ["d": nil, "d/new": [2]])
            await account.stop()
        }
    }
}
