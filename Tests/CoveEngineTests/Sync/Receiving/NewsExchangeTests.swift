import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// Devices that leave word for each other on one server, and what a server or a liar must not do by way of it.
@Suite(.timeLimit(.minutes(30))) struct NewsExchangeTests {
    /// Some devices that look around no more often than in an hour.
    private final class Devices {
        let cloud: ScriptedCloud
        private(set) var engines: [Engine] = []
        private(set) var trees: [EngineTree] = []
        private var folders: [TemporaryDirectory] = []

        init(_ count: Int, _ prepare: (ScriptedCloud) -> Void = { _ in }) throws {
            cloud = try ScriptedCloud(tagsRise: false)
            prepare(cloud)
            for _ in 0..<count {
                let folder = try TemporaryDirectory("news")
                let engine = try Self.engine(cloud, folder.path)
                folders.append(folder)
                engines.append(engine)
                trees.append(EngineTree(engine))
            }
            for engine in engines {
                try waitUntil("it is connected", deadline: 60) { engine.accountStatus().state == "idle" }
            }
        }

        private static func engine(_ cloud: ScriptedCloud, _ state: String) throws -> Engine {
            let configuration = EngineConfiguration.ofTest(cloud.source, state: state) {
                $0.pollInterval = .seconds(3600)
                $0.stallLimit = .seconds(5)
            }
            let engine = try Engine.onSource(configuration)
            engine.start(kernel: nil, announcer: nil)
            return engine
        }

        /// Ends a device's engine, does something, and starts the next one.
        func restart(_ device: Int, _ meanwhile: (_ state: String) throws -> Void) async throws {
            await engines[device].stop()
            try meanwhile(folders[device].path)
            engines[device] = try Self.engine(cloud, folders[device].path)
            trees[device] = EngineTree(engines[device])
        }

        func text(_ device: Int, _ path: String) -> String? {
            (try? trees[device].read(path)).map { String(decoding: $0, as: UTF8.self) }
        }

        func end() async { for engine in engines { await engine.stop() } }

        /// The requests for something other than the board.
        var others: Int { cloud.server.exchanges.count { !$0.request.target.hasSuffix(".cove-news") } }
    }

    private func devices(
        _ count: Int = 2,
        prepare: @escaping @Sendable (ScriptedCloud) -> Void = { _ in },
        _ body: @escaping @Sendable (Devices) async throws -> Void
    ) async throws {
        try await blocking {
            let devices = try Devices(count, prepare)
            try await body(devices)
            await devices.end()
        }
    }

    @Test func `three devices that leave word at once lose none of it`() async throws {
        try await devices(3) { devices in
            for device in 0..<3 { try devices.trees[device].makeDirectory("d\(device)") }
            for device in 0..<3 {
                try waitUntil("all folders are there", deadline: 60) { try devices.trees[device].list("").count == 3 }
                for folder in 0..<3 { _ = try devices.trees[device].list("d\(folder)") }
            }
            for round in 0..<4 {
                for device in 0..<3 {
                    for folder in 0..<3 {
                        try devices.trees[device].write("d\(folder)/f\(device)-\(round)", Array("text".utf8))
                    }
                }
                for device in 0..<3 {
                    try waitUntil("device \(device) has all of round \(round)", deadline: 60) {
                        try (0..<3).allSatisfy { try devices.trees[device].list("d\($0)").count == 3 * (round + 1) }
                    }
                }
            }
        }
    }

    @Test func `what is sent just before an end is told, and what a death left untold is looked for`() async throws {
        try await devices { devices in
            try devices.trees[0].makeDirectory("d")
            try waitUntil("it is there", deadline: 60) { try devices.trees[1].list("").count == 1 }
            _ = try devices.trees[1].list("d")
            for round in 0..<3 {
                try devices.trees[0].write("d/f\(round)", Array("text".utf8))
                try waitUntil("it is sent", deadline: 60) { devices.cloud.bytes("d/f\(round)") != nil }
                try await devices.restart(0) { _ in }
                try waitUntil("it is seen", deadline: 60) { devices.text(1, "d/f\(round)") == "text" }
            }
            try await devices.restart(0) { state in
                devices.cloud.put("d/untold", Array("text".utf8))
                // As a daemon leaves it that was killed.
                try Command.run("sqlite3", ["\(state)/catalog.db", "DELETE FROM meta WHERE key = 'news-told'"])
            }
            try waitUntil("it is seen", deadline: 60) { devices.text(1, "d/untold") == "text" }
        }
    }

    @Test(arguments: ["", "{", "{\"devices\":{}}", String(repeating: "x", count: 300_000)])
    func `a board that says nothing is written anew`(text: String) async throws {
        try await devices { devices in
            try devices.trees[0].write("f", Array("one".utf8))
            try waitUntil("it is seen", deadline: 60) { devices.text(1, "f") == "one" }
            for round in 0..<3 {
                devices.cloud.put(".cove-news", Array(text.utf8))
                try devices.trees[0].write("f", Array("new \(round)".utf8))
                try waitUntil("it is seen all the same", deadline: 60) { devices.text(1, "f") == "new \(round)" }
            }
        }
    }

    @Test(arguments: [(403, 403), (200, 403), (500, 500), (200, 507), (404, 409)])
    func `a server that takes no word has all else work`(asked: Int, left: Int) async throws {
        let refuse: @Sendable (ScriptedCloud) -> Void = { cloud in
            cloud.answer { request in
                guard request.target.hasSuffix(".cove-news") else { return nil }
                let status = request.method == "PUT" ? left : asked
                return status == 200 ? nil : ScriptedServer.answer(status)
            }
        }
        try await devices(prepare: refuse) { devices in
            for round in 0..<3 {
                try devices.trees[0].write("f\(round)", Array("text".utf8))
                try waitUntil("it is sent", deadline: 60) { devices.cloud.bytes("f\(round)") != nil }
            }
            await devices.engines[1].sync(nil, acceptDeletions: false, acceptLocalDeletions: false)
            try waitUntil("who looks sees it", deadline: 60) { try devices.trees[1].list("").count == 3 }
            for engine in devices.engines { #expect(engine.accountStatus().state != "offline") }
        }
    }

    @Test func `a board that lies has nothing changed, and what is not shown here is not asked for`() async throws {
        try await devices(1) { devices in
            let (cloud, tree) = (devices.cloud, devices.trees[0])
            for folder in ["a", "b", "b/hidden"] { cloud.makeFolder(folder) }
            for file in ["a/f", "b/f"] { cloud.put(file, Array("one".utf8)) }
            _ = try tree.list("")
            #expect(try tree.list("a").count == 1)
            try tree.write("a/own", Array("mine".utf8))
            try waitUntil("it is sent", deadline: 60) {
                cloud.bytes("a/own") != nil && devices.engines[0].accountStatus().state == "idle"
            }
            let before = devices.others
            var board = NewsBoard()
            var lies: [RemotePath: Set<FileName>?] = [:]
            for number in 0..<250 { lies.updateValue(nil, forKey: RemotePath(unchecked: Array("no/\(number)".utf8))) }
            for place in ["b", "b/hidden", "a/f", ".cove/trash"] {
                lies.updateValue(nil, forKey: RemotePath(unchecked: Array(place.utf8)))
            }
            board.add(lies, of: "liar", after: 5, at: System.now().seconds)
            let asked = cloud.server.exchanges.count
            cloud.put(".cove-news", board.encode(for: "liar"))
            try waitUntil("it was read, and the board is whole again", deadline: 60) {
                cloud.server.exchanges.dropFirst(asked).contains { $0.request.method == "PUT" }
            }
            // What is told last is looked at last.
            board.add([RemotePath(unchecked: Array("a".utf8)): nil], of: "liar", after: 0, at: System.now().seconds)
            cloud.put("a/new", Array("seen".utf8))
            cloud.put(".cove-news", board.encode(for: "liar"))
            try waitUntil("what is true is seen", deadline: 60) { devices.text(0, "a/new") == "seen" }
            #expect(devices.text(0, "a/own") == "mine" && devices.text(0, "a/f") == "one")
            #expect(devices.others - before < 12, "\(devices.others - before)")
        }
    }

    /// Erases everything, as the command does.
    private func erase(_ devices: Devices) async throws {
        let (engine, tree) = (devices.engines[0], devices.trees[0])
        try await engine.beginErasure()
        let names = try tree.list("secret").keys.sorted()
        for name in names { try tree.unlink("secret/" + name) }
        try tree.removeDirectory("secret")
        for _ in 0..<60 {
            await engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: true)
            _ = await engine.waitUntilSettled(nil, timeout: .seconds(2))
            if (try? await engine.finishErasure()) != nil { return }
        }
        Issue.record("it does not end")
    }

    @Test func `what was erased is not named any more`() async throws {
        try await devices { devices in
            try devices.trees[0].makeDirectory("secret")
            for round in 0..<3 {
                try devices.trees[0].write("secret/f\(round)", Array("text".utf8))
                try waitUntil("it is seen", deadline: 60) { devices.text(1, "secret/f\(round)") == "text" }
                try devices.trees[1].write("secret/g\(round)", Array("text".utf8))
                try waitUntil("it is seen", deadline: 60) { devices.text(0, "secret/g\(round)") == "text" }
            }
            func names() -> Int {
                guard let board = NewsBoard(parsing: devices.cloud.bytes(".cove-news") ?? []) else { return 0 }
                var count = 0
                for word in board.devices.values { count += word.places.count }
                return count
            }
            #expect(names() > 0)
            try await erase(devices)
            try waitUntil("no place is named", deadline: 60) { names() == 0 }
            try waitUntil("it is gone on the other one", deadline: 60) { try devices.trees[1].list("").isEmpty }
            try waitUntil("no place is named", deadline: 60) { names() == 0 }
            // The account goes on.
            try devices.trees[1].write("new", Array("new".utf8))
            try waitUntil("it is seen", deadline: 60) { devices.text(0, "new") == "new" }
        }
    }

    @Test func `in a large folder what is named is looked up, and the folder not listed again`() async throws {
        try await devices(
            2,
            prepare: { cloud in
                cloud.makeFolder("big")
                for number in 0..<1200 { cloud.put("big/n\(number)", Array("one".utf8)) }
            }
        ) { devices in
            for device in 0..<2 {
                _ = try devices.trees[device].list("")
                #expect(try devices.trees[device].list("big").count == 1200)
            }
            func listings() -> Int {
                devices.cloud.server.exchanges.count {
                    $0.request.method == "PROPFIND" && $0.request.target.hasSuffix("/big/")
                }
            }
            try waitUntil("both know of each other", deadline: 60) {
                NewsBoard(parsing: devices.cloud.bytes(".cove-news") ?? [])?.devices.count == 2
            }
            let before = listings()
            try devices.trees[0].write("big/n7", Array("two and more".utf8))
            try devices.trees[0].write("big/new", Array("new".utf8))
            try devices.trees[0].unlink("big/n9")
            try waitUntil("it is seen", deadline: 60) {
                let names = try devices.trees[1].list("big")
                return names["new"] != nil && names["n9"] == nil && (try? devices.trees[1].size("big/n7")) == 12
            }
            #expect(listings() == before)
        }
    }
}
