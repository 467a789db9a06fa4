import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// The folders of what is looked at: containers that get other names, folders that go to another app, and deep ones.
@Suite(.timeLimit(.minutes(5))) struct QueryFolderTests {
    private func name(_ text: String) -> FileName { FileName(unchecked: Array(text.utf8)) }

    @Test func `documents of a container whose folder is renamed stay results, offline and when it is sent`()
        async throws
    {
        try await blocking {
            let account = try EngineAccount()
            let (box, own) = (try #require(AppIdentifier("com.one.box")), try #require(AppIdentifier("com.one.app")))
            _ = try await account.engine.createContainer(box, for: own, name: "a", isPublic: true)
            try account.tree.write("a/Documents/one.txt", [1])
            try account.tree.write("a/data.txt", [1])
            try await account.settle()
            func request(_ scopes: Set<QueryScope>) throws -> QueryRequest {
                let predicate = try QueryPredicate(parsing: "FSName ENDSWITH '.txt'")
                return QueryRequest(predicate, scopes: scopes, attributes: [.containerDisplayName])
            }
            let documents = LiveWatch(account.engine, try request([.documents]))
            let data = LiveWatch(account.engine, try request([.data]))
            #expect(try documents.wait(for: ["a/Documents/one.txt"], gathered: true) == nil)
            #expect(try data.wait(for: ["a/data.txt"], gathered: true) == nil)
            await account.engine.pause()
            try account.tree.rename("a", "Letters")
            #expect(try documents.wait(for: ["Letters/Documents/one.txt"]) == nil)
            #expect(try data.wait(for: ["Letters/data.txt"]) == nil)
            await account.engine.resume()
            try await account.settle()
            try account.tree.write("Letters/Documents/two.txt", [1])
            #expect(try documents.wait(for: ["Letters/Documents/one.txt", "Letters/Documents/two.txt"]) == nil)
            #expect(try data.wait(for: ["Letters/data.txt"]) == nil)
            for watch in [documents, data] {
                #expect(!watch.now.told.contains { $0.hasPrefix("-") }, "\(watch.now.told)")
                let names = watch.now.results.values.map { $0.values[.containerDisplayName] }
                #expect(names.allSatisfy { [.string("a"), .string("Letters")].contains($0) }, "\(names)")
                await watch.stop()
            }
            await account.stop()
        }
    }

    @Test func `an app's query of a folder ends when another app's container has its name`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let (box, other) = (try #require(AppIdentifier("com.two.box")), try #require(AppIdentifier("com.two.app")))
            let app = try #require(AppIdentifier("com.one.app"))
            let folder = RemotePath([name("Notes")])
            try account.tree.makeDirectory("Notes")
            try account.tree.write("Notes/mine.txt", [1])
            var request = QueryRequest(try QueryPredicate(parsing: "FSName ENDSWITH '.txt'"), folder: folder)
            request.app = app
            let watch = LiveWatch(account.engine, request)
            #expect(try watch.wait(for: ["Notes/mine.txt"], gathered: true) == nil)
            try account.tree.rename("Notes", "Old")
            #expect(try watch.wait(for: []) == nil)
            _ = try await account.engine.createContainer(box, for: other, name: "Notes", isPublic: false)
            try account.tree.write("Notes/Documents/secret.txt", [1])
            #expect(try watch.wait { $0.ended != nil } == nil)
            guard case .failure(.accessDenied)? = watch.now.ended else {
                Issue.record("\(String(describing: watch.now.ended))")
                return
            }
            #expect(!watch.now.told.contains { $0.contains("secret") }, "\(watch.now.told)")
            await watch.stop()
            await account.stop()
        }
    }

    @Test func `a query that is followed tells what it finds at once, also in an order`() async throws {
        try await blocking {
            let account = try EngineAccount()
            for number in 0..<700 { try account.tree.write("\(number).txt", [1]) }
            var request = QueryRequest(try QueryPredicate(parsing: "FSName ENDSWITH '.txt'"))
            request.order = [QuerySort(.name)]
            let watch = LiveWatch(account.engine, request)
            #expect(try watch.wait { $0.told.contains("gathered") && $0.results.count == 700 } == nil)
            #expect(watch.now.told.filter { $0 == "found" }.count >= 2)
            #expect(watch.now.results.values.allSatisfy { $0.values[.name] != nil })
            await watch.stop()
            await account.stop()
        }
    }

    @Test func `what is deeper than any program can name is no result, and its folders take no memory`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let name = String(repeating: "n", count: 250)
            var folder = try account.tree.resolve("")
            var (shown, length) = (0, 0)
            for level in 1...90 {
                folder = try account.engine.makeDirectory(folder, Array(name.utf8), mode: 0o40755, account.tree.caller)
                    .id
                length += name.utf8.count + (level > 1 ? 1 : 0)
                if length <= 16_384 { shown = level }
            }
            try #require(shown > 60 && shown < 90)
            var request = QueryRequest(try QueryPredicate(parsing: "Kind == 'directory'"), attributes: [.path, .url])
            request.listedOnly = true
            let found = Mutex<[Int]>([])
            _ = try await account.engine.query(request) { results in
                found.withLock { $0 += results.map { $0.path.names.count } }
                return true
            }
            // A folder is told of where the one that it is in can be named.
            let depths = found.withLock { $0.sorted() }
            #expect(depths == Array(1...depths.count) && abs(depths.count - shown) <= 1, "\(depths.count)")
            await account.stop()
        }
    }

    @Test func `a large predicate finds the same by an index as without one`() async throws {
        try await blocking {
            let account = try EngineAccount()
            for number in 0..<300 {
                try account.tree.write("report \(number % 2 == 0 ? "even" : "odd") \(number)", [1])
            }
            let parts = (0..<60).map { "FSName CONTAINS '\(String(repeating: "long", count: 30))\($0)'" }
            let text = "FSName BEGINSWITH 'report' AND (FSName CONTAINS 'even' OR \(parts.joined(separator: " OR ")))"
            let found = Mutex<Set<String>>([])
            _ = try await account.engine.query(QueryRequest(try QueryPredicate(parsing: text))) { results in
                found.withLock { $0.formUnion(results.map { $0.path.description }) }
                return true
            }
            #expect(found.withLock { $0.count == 150 && $0.allSatisfy { $0.contains("even") } })
            await account.stop()
        }
    }
}
