import CoveTestSupport
import Foundation
import Testing

@testable import CoveCore
@testable import CoveEngine
@testable import CoveProviders

/// What an engine is told by its provider, and what it finds in its catalog.
@Suite(.timeLimit(.minutes(FuzzTarget.minutes))) struct FuzzTests {
    private static let silent = Log(path: nil, echoToStandardError: false)

    @Test func `listings: only what was listed is shown, under names that can be`() async throws {
        try await FuzzTarget("listings", inputs: 20) { input in
            let pages = input.split(separator: 0x0A).map { Listing(items: Self.items(Array($0)), next: nil) }
            let folder = try TemporaryDirectory("fuzz")
            let (source, state) = (folder.appending("source"), folder.appending("state"))
            try FileManager.default.createDirectory(atPath: source + "/d", withIntermediateDirectories: true)
            let provider = MeddledProvider(
                FolderProvider(root: source),
                show: { path in
                    path.bytes == [0x64] ? pages : nil
                }
            )
            let configuration = EngineConfiguration.ofTest("dir://\(source)", state: state) {
                $0.stallLimit = .seconds(5)
            }
            let engine = try Engine(configuration: configuration, provider: provider, log: Self.silent)
            engine.start(kernel: nil, announcer: nil)
            do {
                let verdict = try Self.judge(engine, pages.flatMap(\.items))
                await engine.stop()
                return verdict
            } catch {
                await engine.stop()
                throw error
            }
        }.run()
    }

    /// The items of a page, without the rules that a program is held to.
    private static func items(_ line: [UInt8]) -> [RemoteItem] {
        let items = try? JSONValue(parsing: line).decode(as: CallResult.self).items
        return (items ?? []).map { item in
            RemoteItem(
                id: RemoteID(item.id.bytes),
                name: item.name.bytes,
                kind: item.kind.kind,
                size: item.size ?? 0,
                contentVersion: ContentVersion(item.contentVersion?.bytes ?? []),
                metadataVersion: MetadataVersion(item.metadataVersion?.bytes ?? []),
                metadata: item.metadata?.metadata ?? ItemMetadata(),
                linkTarget: item.target?.bytes
            )
        }
    }

    private static func judge(_ engine: Engine, _ items: [RemoteItem]) throws -> FuzzVerdict {
        let tree = EngineTree(engine)
        let listed = Set(items.map(\.name))
        var shown: [[UInt8]] = []
        let id = try tree.resolve("d")
        try tree.wait(try engine.openDirectory(id, tree.caller))
        try engine.readDirectory(id, after: 2, plus: true) { entry in
            shown.append(entry.name)
            return true
        }
        engine.releaseDirectory(id)
        try FuzzProblem.unless(Set(shown).count == shown.count, "a name is there twice: \(shown)")
        for name in shown {
            let why = FileName.problem(with: name) ?? (FileName(unchecked: name).isReserved ? "kept for Cove" : nil)
            try FuzzProblem.unless(why == nil && listed.contains(name), "\(name) is shown: \(why ?? "not listed")")
            // What the listing tells twice may be another item by now.
            let found = try? tree.wait(try engine.lookup(id, name, tree.caller))
            try FuzzProblem.unless((found?.size ?? 0) >= 0, "\(name) has a size of \(found?.size ?? 0)")
        }
        var outside: [String] = []
        var count = 0
        do throws(Errno) {
            try engine.walk(.root) { item in
                count += 1
                let path = try? PathParameter(item).remotePath()
                let isBelow = path.map { $0.parent.bytes == [0x64] && listed.contains($0.name?.bytes ?? []) } ?? false
                if !isBelow, item.path != "", item.path != "d" { outside.append(item.path) }
                return count < 1000
            }
        } catch {
            if error != .stale { throw error }
        }
        try FuzzProblem.unless(outside.isEmpty && count < 1000, "\(count) items are found, among them \(outside)")
        return shown.isEmpty ? .refused : .understood
    }

    @Test func `catalog: an engine opens on it or says why not, and a repair leaves nothing to repair`() async throws {
        let base = try await Self.base()
        try await FuzzTarget("catalog", inputs: 15, limit: 2 << 10, patience: .seconds(60)) { input in
            let folder = try TemporaryDirectory("fuzz")
            try Command.run("cp", ["-a", base.appending("state"), base.appending("source"), folder.path])
            let isOnline = try Self.change(folder, by: input)
            let isOpened = try await Self.open(folder, isOnline: isOnline) { engine in
                try Self.expectEnd(engine)
                await use(engine)
            }
            try await Self.repair(folder)
            return isOpened ? .understood : .refused
        }.run()
    }

    /// A folder with the state of an account that is stopped, and its source.
    private static func base() async throws -> TemporaryDirectory {
        try await blocking {
            let account = try await EngineAccount.ofManyRows()
            await account.stop()
            let folder = try TemporaryDirectory("fuzz-base")
            try Command.run("cp", ["-a", account.state, folder.appending("state")])
            try Command.run("cp", ["-a", account.source, folder.appending("source")])
            return folder
        }
    }

    /// Carries out what SQLite understands of an input, a line at a time; true when the source is there afterwards.
    private static func change(_ folder: TemporaryDirectory, by input: [UInt8]) throws -> Bool {
        let state = folder.appending("state")
        let database = try Database(
            path: state + "/catalog.db",
            disk: StateDisk(directory: state, log: silent),
            log: silent
        )
        // The copy of the source is another folder than the one that is known.
        try database.setMeta("source", nil)
        let lines = String(decoding: input, as: UTF8.self).split(separator: "\n")
        for line in lines where line != online { try? database.execute(String(line)) }
        return lines.contains { $0 == online }
    }

    private static let online = "-- online"

    /// True when an engine opens, with which the body is run.
    private static func open(
        _ folder: TemporaryDirectory,
        isOnline: Bool,
        _ body: (Engine) async throws -> Void
    ) async throws -> Bool {
        let source = folder.appending("source")
        let link = SimulatedLink(base: FolderProvider(root: source))
        link.setOffline(!isOnline)
        let configuration = EngineConfiguration.ofTest("dir://\(source)", state: folder.appending("state")) {
            $0.stallLimit = .seconds(1)
        }
        let engine: Engine
        do throws(EngineError) {
            engine = try Engine(configuration: configuration, provider: link, log: silent)
        } catch {
            return false
        }
        engine.start(kernel: nil, announcer: nil)
        let result: Result<Void, any Error>
        do { result = .success(try await body(engine)) } catch { result = .failure(error) }
        await engine.stop()
        try result.get()
        return true
    }

    /// Sees that all folders have an end.
    private static func expectEnd(_ engine: Engine) throws {
        var count = 0
        _ = try? engine.walk(.root) { _ in
            count += 1
            return count < 1000
        }
        try FuzzProblem.unless(count < 1000, "a walk does not end")
    }

    /// Sees that a repair says why it can't be made, or mends all.
    private static func repair(_ folder: TemporaryDirectory) async throws {
        let repair = CatalogRepair(stateDirectory: folder.appending("state"), log: silent)
        do throws(EngineError) { _ = try repair.run() } catch { return }
        let left = try repair.run().findings
        try FuzzProblem.unless(left.isEmpty, "a repair leaves \(left)")
        let isOpened = try await open(folder, isOnline: false) { engine in
            try expectEnd(engine)
            // What was never listed is asked for at the source.
            do throws(Errno) { _ = try EngineTree(engine).list("") } catch {
                if error != .hostUnreachable { throw error }
            }
        }
        try FuzzProblem.unless(isOpened, "what was repaired can't be opened")
    }
}
