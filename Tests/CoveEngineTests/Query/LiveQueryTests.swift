import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// What a query tells that goes on after it has gathered.
@Suite struct LiveQueryTests {
    private func request(_ text: String, _ attributes: [QueryKey] = [.size]) throws -> QueryRequest {
        QueryRequest(try QueryPredicate(parsing: text), attributes: attributes)
    }

    @Test func `44: gathering ends once, also with nothing, and updates come after it`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let watch = LiveWatch(account.engine, try request("FSName == 'a.txt'"))
            #expect(try watch.wait { $0.told == ["gathered"] } == nil)
            try account.tree.write("a.txt", [1])
            #expect(try watch.wait { $0.results.values.first?.values[.size] == .number(1) } == nil)
            try account.tree.unlink("a.txt")
            #expect(try watch.wait { $0.results.isEmpty } == nil)
            let told = watch.now.told
            #expect(told.first == "gathered" && told.filter { $0 == "gathered" }.count == 1)
            #expect(told.filter { $0 == "+a.txt" }.count == 1 && told.last == "-a.txt")
            await watch.stop()
            await account.stop()
        }
    }

    @Test func `who changed a document is told where another look than that at its version says so`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try account.tree.write("a.txt", [1])
            try await account.settle()
            let id = try account.tree.resolve("a.txt")
            let query = try request("MostRecentEditorNameComponents == 'Grace'", [.mostRecentEditor])
            let watch = LiveWatch(account.engine, query)
            #expect(try watch.wait { $0.told == ["gathered"] } == nil)
            for (name, isFound) in [("Grace", true), ("Ada", false), ("Grace", true)] {
                try account.engine.catalog.write { database throws(Errno) in try database.storeEditor(name, of: id) }
                #expect(try watch.wait { $0.results.isEmpty != isFound } == nil, "\(name)")
            }
            // The same once more is no news, and no name is none.
            let updates = watch.now.updates
            for name in ["Grace", ""] {
                try account.engine.catalog.write { database throws(Errno) in try database.storeEditor(name, of: id) }
            }
            try account.tree.write("b.txt", [1])
            #expect(try account.engine.mostRecentEditor(of: id) == "Grace")
            #expect(watch.now.updates == updates)
            await watch.stop()
            await account.stop()
        }
    }

    @Test func `47: what is done here is told without a connection`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try account.tree.makeDirectory("d")
            try account.tree.write("d/one.txt", [1])
            try await account.settle()
            #expect(try account.tree.list("").count == 1)
            try await account.setOffline(true)
            let watch = LiveWatch(account.engine, try request("FSName ENDSWITH '.txt'"))
            #expect(try watch.wait(for: ["d/one.txt"], gathered: true) == nil)
            try account.tree.write("two.txt", [1, 2])
            #expect(try watch.wait(for: ["d/one.txt", "two.txt"]) == nil)
            try account.tree.rename("two.txt", "d/three.txt")
            #expect(try watch.wait(for: ["d/one.txt", "d/three.txt"]) == nil)
            // A folder takes along what is in it.
            try account.tree.rename("d", "e")
            #expect(try watch.wait(for: ["e/one.txt", "e/three.txt"]) == nil)
            try account.tree.rename("e/one.txt", "e/one.bak")
            #expect(try watch.wait(for: ["e/three.txt"]) == nil)
            let handle = try account.tree.open("e/three.txt")
            try account.tree.append(handle, [3, 4])
            // Before it is closed.
            #expect(try watch.wait { $0.results.values.first?.values[.size] == .number(4) } == nil)
            try account.tree.close(handle)
            try account.tree.unlink("e/three.txt")
            #expect(try watch.wait { $0.results.isEmpty } == nil)
            #expect(!watch.now.told.contains("-d/one.txt") && !watch.now.told.contains("-two.txt"))
            await watch.stop()
            await account.stop()
        }
    }

    @Test func `49: what is made here and sent stays one item`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let watch = LiveWatch(account.engine, try request("FSName == 'a.txt'", [.isUploaded]))
            #expect(try watch.wait { $0.told.contains("gathered") } == nil)
            try account.tree.write("a.txt", [1])
            try await account.settle()
            #expect(try watch.wait { $0.results.values.first?.values[.isUploaded] == .truth(true) } == nil)
            let told = watch.now.told
            #expect(told.filter { $0.hasPrefix("+") }.count == 1 && !told.contains { $0.hasPrefix("-") }, "\(told)")
            await watch.stop()
            await account.stop()
        }
    }

    @Test func `52 and 53: a document of another device is found, fetched and fetched again`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            let watch = LiveWatch(account.engine, try request("FSName == 'a.bin'", [.downloadingStatus, .size]))
            #expect(try watch.wait { $0.told.contains("gathered") } == nil)
            try source.makeDirectory("new")
            try source.save("new/a.bin", Array(repeating: 1, count: 5000))
            try await account.settle()
            // The folder is listed for the query.
            #expect(
                try watch.wait {
                    $0.results.values.first?.values == [
                        .downloadingStatus: .string("NotDownloaded"), .size: .number(5000),
                    ]
                } == nil
            )
            #expect(try account.tree.read("new/a.bin").count == 5000)
            #expect(
                try watch.wait { $0.results.values.first?.values[.downloadingStatus] == .string("Current") } == nil
            )
            try source.save("new/a.bin", Array(repeating: 2, count: 7000))
            try await account.settle()
            #expect(try watch.wait { $0.results.values.first?.values[.size] == .number(7000) } == nil)
            #expect(try account.tree.read("new/a.bin").count == 7000)
            #expect(
                try watch.wait { $0.results.values.first?.values[.downloadingStatus] == .string("Current") } == nil
            )
            #expect(!watch.now.told.contains { $0.hasPrefix("-") })
            await watch.stop()
            await account.stop()
        }
    }

    @Test func `53: while a document is fetched its percentage rises`() async throws {
        try await blocking {
            let gate = FetchGate()
            let account = try EngineAccount(wrap: { MeddledProvider($0, amidFetch: { await gate.pass() }) }) { _ in }
            try SourceFolder(account.source).save("a.bin", Array(repeating: 1, count: 8 << 20))
            #expect(try account.tree.list("").count == 1)
            let keys: [QueryKey] = [.downloadingStatus, .isDownloading, .percentDownloaded]
            let watch = LiveWatch(account.engine, try request("FSName == 'a.bin'", keys))
            @Sendable func percent(_ state: LiveWatch.State) -> Double? {
                let values = state.results.values.first?.values
                guard case .number(let percent)? = values?[.percentDownloaded] else { return nil }
                let isComplete = values?[.downloadingStatus] == .string("Current")
                guard values?[.isDownloading] == .truth(percent > 0 && !isComplete) else { return nil }
                return isComplete == (percent == 100) ? percent : nil
            }
            #expect(try watch.wait { percent($0) == 0 } == nil)
            let engine = account.engine
            let fetch = Task { try await engine.download(RemotePath(unchecked: Array("a.bin".utf8))) }
            #expect(try watch.wait { (percent($0) ?? 0) > 0 && (percent($0) ?? 100) < 100 } == nil)
            gate.open()
            try await fetch.value
            #expect(try watch.wait { percent($0) == 100 } == nil)
            await watch.stop()
            await account.stop()
        }
    }

    @Test func `46: many changes in an interval come as one update`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let watch = LiveWatch(account.engine, try request("FSName BEGINSWITH 'f'"), interval: .seconds(2))
            #expect(try watch.wait { $0.told.contains("gathered") } == nil)
            let began = System.monotonic()
            for number in 0..<100 { try account.tree.write("f\(number)", [1]) }
            #expect(try watch.wait { $0.results.count == 100 } == nil)
            let intervals = Int((System.monotonic() - began).nanoseconds / 2_000_000_000) + 1
            #expect(watch.now.updates <= intervals + 1, "\(watch.now.updates) updates in \(intervals) intervals")
            await watch.stop()
            await account.stop()
        }
    }

    @Test func `a folder that is looked in comes later, and what is in it too`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            #expect(try account.tree.list("").isEmpty)
            try await account.settle()
            var documents = try request("Kind == 'file'")
            documents.scopes = [.documents]
            let watch = LiveWatch(account.engine, documents)
            #expect(try watch.wait { $0.told == ["gathered"] } == nil)
            try source.makeDirectory("Documents")
            try source.makeDirectory("Documents/x")
            try source.save("Documents/x/a.txt", [1])
            try await account.settle()
            #expect(try watch.wait(for: ["Documents/x/a.txt"]) == nil)
            // A folder that nobody has opened is moved in.
            try source.makeDirectory("other")
            try source.save("other/b.txt", [1])
            try await account.settle()
            try account.tree.rename("other", "Documents/other")
            #expect(try watch.wait(for: ["Documents/other/b.txt", "Documents/x/a.txt"]) == nil)
            await watch.stop()
            await account.stop()
        }
    }

    @Test func `what could not be listed is tried again when the source answers`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try source.makeDirectory("d")
            try source.save("d/a.txt", [1])
            #expect(try account.tree.list("").count == 1)
            try await account.setOffline(true)
            // It is known once something has failed.
            await account.engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: false)
            let watch = LiveWatch(account.engine, try request("Kind == 'file'"))
            #expect(try watch.wait { $0.told.contains("gathered") } == nil)
            #expect(watch.now.results.isEmpty)
            try await account.setOffline(false)
            await account.engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: false)
            #expect(try watch.wait(for: ["d/a.txt"]) == nil)
            await watch.stop()
            await account.stop()
        }
    }

    @Test func `a date that is set on an open file is told before it is closed`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let name = Array("a.txt".utf8)
            let handle = try account.engine.create(.root, name, mode: 0o100644, flags: O_RDWR, account.tree.caller).id
            let watch = LiveWatch(account.engine, try request("FSName == 'a.txt'", [.contentChangeDate]))
            #expect(try watch.wait(for: ["a.txt"], gathered: true) == nil)
            try account.tree.append(handle, [1])
            var change = AttributeChange()
            change.modificationTime = .at(Timestamp(seconds: 1_000_000_000, nanoseconds: 0))
            _ = try account.engine.setAttributes(of: handle, change, hasHandle: true, account.tree.caller)
            let date = QueryValue.date(1_000_000_000)
            #expect(try watch.wait { $0.results.values.first?.values[.contentChangeDate] == date } == nil)
            try account.tree.close(handle)
            await watch.stop()
            await account.stop()
        }
    }

    /// The youngest entry goes while the query gathers, and takes the greatest number along.
    @Test func `what goes while a query gathers is none of its results`() async throws {
        try await blocking {
            let account = try EngineAccount()
            for name in ["a.txt", "b.txt"] { try account.tree.write(name, [1]) }
            let (engine, caller, left) = (account.engine, account.tree.caller, Left())
            let request = try request("TRUEPREDICATE")
            let follow = Task {
                try await engine.follow(request, interval: .zero) { event in
                    switch event {
                    case .found(let found):
                        left.ids.withLock { $0 = ($0 ?? []).union(found.map(\.id)) }
                        for name in ["b.txt", "a.txt"] { _ = try? engine.unlink(.root, Array(name.utf8), caller) }
                    case .gathered: break
                    case .changed(let changes):
                        left.ids.withLock {
                            $0 = ($0 ?? []).union(changes.added.map(\.id)).subtracting(changes.removed)
                        }
                    }
                    return true
                }
            }
            try waitUntil("nothing is left") { left.ids.withLock { $0 == [] } }
            follow.cancel()
            _ = await follow.result
            await account.stop()
        }
    }

    private final class Left: Sendable { let ids = Mutex<Set<Int64>?>(nil) }

    @Test func `more changes than are kept are found by another look`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try account.tree.write("stays.txt", [1])
            try account.tree.write("goes.txt", [1])
            let watch = LiveWatch(account.engine, try request("FSName ENDSWITH '.txt'"))
            #expect(try watch.wait(for: ["goes.txt", "stays.txt"], gathered: true) == nil)
            account.engine.catalog.touches.add(Touched(isLost: true))
            try account.tree.unlink("goes.txt")
            try account.tree.write("comes.txt", [1])
            #expect(try watch.wait(for: ["comes.txt", "stays.txt"]) == nil)
            await watch.stop()
            await account.stop()
        }
    }

    @Test func `what is in a package comes and goes with that`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try account.tree.makeDirectory("d")
            try account.tree.makeDirectory("d/in")
            try account.tree.write("d/in/a.txt", [1])
            let watch = LiveWatch(account.engine, try request("TRUEPREDICATE"))
            let all = ["d", "d/in", "d/in/a.txt"]
            #expect(try watch.wait(for: all, gathered: true) == nil)
            try setPackage("d", "1", account)
            #expect(try watch.wait(for: ["d"]) == nil)
            try account.tree.write("d/in/b.txt", [1])
            try setPackage("d", "0", account)
            #expect(try watch.wait(for: all + ["d/in/b.txt"]) == nil)
            try account.tree.rename("d", "d.rtfd")
            #expect(try watch.wait(for: ["d.rtfd"]) == nil)
            try account.tree.rename("d.rtfd/in/b.txt", "b.txt")
            #expect(try watch.wait(for: ["b.txt", "d.rtfd"]) == nil)
            try account.tree.rename("b.txt", "d.rtfd/c.txt")
            #expect(try watch.wait(for: ["d.rtfd"]) == nil)
            try account.tree.rename("d.rtfd/in", "in")
            #expect(try watch.wait(for: ["d.rtfd", "in", "in/a.txt"]) == nil)
            #expect(watch.now.faults.isEmpty, "\(watch.now.faults)")
            await watch.stop()
            await account.stop()
        }
    }

    /// Sets the attribute that makes a directory a package.
    private func setPackage(_ path: String, _ value: String, _ account: EngineAccount) throws(Errno) {
        let (id, caller) = (try account.tree.resolve(path), account.tree.caller)
        try account.engine.setExtendedAttribute(id, PackageTypes.attribute, Array(value.utf8), flags: 0, caller)
    }

    @Test func `a query ends with the engine, and there are not too many`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let watches = try (0..<64).map { _ in LiveWatch(account.engine, try request("TRUEPREDICATE")) }
            for watch in watches { #expect(try watch.wait { $0.told.contains("gathered") } == nil) }
            let tooMany = LiveWatch(account.engine, try request("TRUEPREDICATE"))
            #expect(try tooMany.wait { if case .failure(.busy)? = $0.ended { true } else { false } } == nil)
            // An app has a share, and all apps leave some to others.
            let (app, other) = (try #require(AppIdentifier("com.a.app")), try #require(AppIdentifier("com.b.app")))
            let touches = Touches()
            let mine = try (0..<12).map { _ in try touches.follow(for: app) }
            #expect(throws: Errno.busy) { try touches.follow(for: app) }
            #expect(try touches.follow(for: other) != nil && touches.follow() != nil)
            mine[0]?.leave()
            #expect(try touches.follow(for: app) != nil)
            // The place of one that ends is free again.
            await watches[0].stop()
            let next = LiveWatch(account.engine, try request("TRUEPREDICATE"))
            #expect(try next.wait { $0.told.contains("gathered") } == nil)
            await account.stop()
            #expect(try next.wait { if case .success? = $0.ended { true } else { false } } == nil)
        }
    }

    /// Random use by programs, another device, deaths and lost connections, after each of which what live queries have told
    /// is what the same queries find when they are asked.
    @Test(arguments: 0..<(Int(ProcessInfo.processInfo.environment["COVE_MODEL_PARTS"] ?? "") ?? 4))
    func `live queries agree with new ones`(_ part: Int) async throws {
        let environment = ProcessInfo.processInfo.environment
        let seed = environment["COVE_MODEL_SEED"].flatMap(UInt64.init) ?? UInt64.random(in: 0...UInt64(UInt32.max))
        let steps = environment["COVE_MODEL_STEPS"].flatMap(Int.init) ?? 400
        print("live queries part \(part): seed \(seed &+ UInt64(part)), \(steps) steps")
        try await blocking {
            let account = try EngineAccount { $0.settleTime = part % 2 == 0 ? .zero : .seconds(2) }
            let requests = try [
                request("TRUEPREDICATE", QueryKey.allCases), request("FSSize > 2000 AND Kind == 'file'"),
                request("Path CONTAINS 'd'", [.path]), request("IsUploaded == FALSE", [.isUploading]),
                request("DownloadingStatus == 'NotDownloaded'", [.percentDownloaded]),
                request("HasUnresolvedConflicts == TRUE", [.name]),
            ]
            let model = ModelTest(account, seed: seed &+ UInt64(part))
            var random = SeededGenerator(seed: seed &+ UInt64(part) &+ 1)
            var engine = account.engine
            var watches: [LiveWatch] = []
            model.afterStep = { step in
                if engine !== account.engine || watches.isEmpty {
                    engine = account.engine
                    watches = requests.map { LiveWatch(engine, $0) }
                }
                if Int.random(in: 0..<8, using: &random) == 0 {
                    let folders = try account.tree.list("").filter { $0.value == .directory }.keys.sorted()
                    let value = Bool.random(using: &random) ? "1" : "0"
                    if let folder = folders.randomElement(using: &random) { try? setPackage(folder, value, account) }
                }
                guard step % 3 == 0 else { return }
                for watch in watches {
                    if let difference = try await watch.difference(from: engine) {
                        throw ModelTest<EngineAccount>.Failure("live query at step \(step): \(difference)")
                    }
                }
            }
            try await model.run(steps: steps)
            await account.stop()
        }
    }
}
