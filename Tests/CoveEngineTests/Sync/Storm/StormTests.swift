import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// Several engines at random on one source, and an account of every byte; `mount-scripts/soak storm` runs mounted ones.
///
/// COVE_STORM_SECONDS says how long, COVE_STORM_CLOUD on which source instead of a folder, COVE_STORM_SEED repeats what each device chooses,
/// not the timing between them, and COVE_STORM_KEEP is where the states of a storm that failed are kept, with what was done.
@Suite(.serialized) struct StormTests {
    private static let environment = ProcessInfo.processInfo.environment
    private static let seconds = environment["COVE_STORM_SECONDS"].flatMap(Int.init)

    enum Cloud: String, CaseIterable, Sendable { case folder, apache, nginx, rclone, s3 }

    private static let clouds = Cloud.allCases.filter { cloud in
        cloud.rawValue == environment["COVE_STORM_CLOUD"] ?? "folder"
    }

    @Test(arguments: clouds)
    func `a storm of devices loses nothing and leaves nothing hidden`(_ cloud: Cloud) async throws {
        let seed = Self.environment["COVE_STORM_SEED"].flatMap(UInt64.init) ?? .random(in: 0...UInt64(UInt32.max))
        let seconds = Self.seconds ?? 2
        print("storm on \(cloud.rawValue): seed \(seed), \(seconds) s")
        try await blocking {
            let folder = try TemporaryDirectory("storm")
            let server: TestServer? =
                switch cloud {
                case .folder: nil
                case .apache: try .apache()
                case .nginx: try .nginx()
                case .rclone: try .rcloneWebDAV()
                // Its objects are files of a folder.
                case .s3: try .rcloneS3()
                }
            let address =
                server.map { cloud == .s3 ? $0.s3Source("storm") : "webdav://\(TestServer.user)@127.0.0.1:\($0.port)/" }
                ?? "dir://\(folder.path)"
            let ledger = StormLedger()
            let devices = try (0..<3).map {
                try StormDevice("device\($0)", address, ledger, SeededGenerator(seed: seed &+ UInt64($0)))
            }
            for device in devices { try device.start() }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for device in devices { group.addTask { try await device.run(for: .seconds(seconds)) } }
                try await group.waitForAll()
            }
            let below = cloud == .s3 ? "/\(TestServer.bucket)/storm" : ""
            let source = SourceFolder((server?.files ?? folder.path) + below)
            do {
                try await Storm(devices: devices, source: source, ledger: ledger).settle()
            } catch {
                if let path = Self.environment["COVE_STORM_KEEP"] {
                    for device in devices { await device.stop() }
                    try Self.keep(devices, source, "\(error)\n\(ledger.history)", at: path)
                }
                throw error
            }
            let counts = ledger.counts
            print("storm on \(cloud.rawValue): \(counts.written) written, \(counts.given) given up, none lost")
            #expect(counts.written > 0)
            for device in devices { await device.stop() }
        }
    }

    /// Keeps what a storm left, to be looked into.
    private static func keep(
        _ devices: [StormDevice],
        _ source: SourceFolder,
        _ report: String,
        at path: String
    ) throws {
        let files = FileManager.default
        try files.createDirectory(atPath: path, withIntermediateDirectories: true)
        for device in devices { try files.copyItem(atPath: device.statePath, toPath: "\(path)/\(device.name)") }
        try files.copyItem(atPath: source.path, toPath: "\(path)/source")
        try report.write(toFile: "\(path)/report", atomically: true, encoding: .utf8)
    }
}

/// What was written, and what was overwritten or deleted by somebody who had seen it.
final class StormLedger: Sendable {
    private struct State {
        var written: [String: String] = [:]
        var given: Set<String> = []
        var steps: [String] = []
    }

    private let state = Mutex(State())

    var counts: (written: Int, given: Int) { state.withLock { ($0.written.count, $0.given.count) } }

    /// Notes a text that a device has, and what it did with it.
    func wrote(_ text: [UInt8], _ how: String) {
        note("wrote \(String(decoding: text, as: UTF8.self)) \(how)")
        state.withLock { $0.written[String(decoding: text, as: UTF8.self)] = how }
    }

    /// Notes a text that a device has seen and did away with.
    func gaveUp(_ text: [UInt8]) {
        let text = String(decoding: text, as: UTF8.self)
        note("gave up \(text)")
        _ = state.withLock { $0.given.insert(text) }
    }

    /// Notes a step of a device.
    func note(_ step: String) {
        state.withLock { $0.steps.append("\(Date().timeIntervalSince1970) \(step)") }
    }

    /// All steps, a line each.
    var history: String { state.withLock { $0.steps.joined(separator: "\n") } }

    /// What must be somewhere and is not.
    func lost(_ found: Set<String>) -> [String] {
        state.withLock { state in
            state.written.filter { !state.given.contains($0.key) && !found.contains($0.key) }
                .map { "\($0.key) (\($0.value))" }.sorted()
        }
    }
}

/// The end of a storm: all devices and the source are to be the same.
struct Storm {
    let devices: [StormDevice]
    let source: SourceFolder
    let ledger: StormLedger

    /// Waits until everything is everywhere, and looks what is missing.
    func settle() async throws {
        for device in devices { await device.engine.resume() }
        let deadline = System.monotonic() + .seconds(180)
        while true {
            for device in devices { await device.engine.sync(nil, acceptDeletions: true, acceptLocalDeletions: true) }
            for device in devices { _ = await device.engine.waitUntilSettled(nil, timeout: .seconds(30)) }
            let difference = try difference()
            guard let difference else { break }
            guard System.monotonic() < deadline else { throw CommandFailure("never the same: \(difference)") }
        }
        // What only a server's own leftover holds is lost to everybody.
        let kept = try source.snapshot().filter { !Self.isLeftover($0.key) }
        let texts = kept.values.compactMap { $0 }.map { String(decoding: $0, as: UTF8.self) }
        let lost = ledger.lost(Set(texts))
        if !lost.isEmpty { throw CommandFailure("\(lost.count) lost: \(lost.prefix(20).joined(separator: "; "))") }
        let hidden = try hidden()
        if !hidden.isEmpty { throw CommandFailure("left hidden at the source: \(hidden.prefix(20))") }
        for device in devices { try await device.compareQueries() }
    }

    /// What differs between the source and the devices; nil when they are the same.
    private func difference() throws -> String? {
        let there = try source.snapshot().filter { !Self.isLeftover($0.key) }
        for device in devices {
            let status = device.engine.accountStatus()
            if status.state != "idle" || !status.errors.isEmpty {
                return "\(device.name) is \(status.state): \(status.errors.prefix(5))"
            }
            let here: [String: [UInt8]?]
            do {
                here = try device.snapshot().filter { !Self.isLeftover($0.key) }
            } catch {
                return "\(device.name): \(error)"
            }
            if here == there { continue }
            let names = Set(here.keys).symmetricDifference(there.keys).sorted()
            return "\(device.name): \(names.isEmpty ? "other bytes" : names.prefix(10).joined(separator: ", "))"
        }
        return nil
    }

    /// Apache's own leftovers are in its listings for a while, and rclone's stay in its folder.
    private static func isLeftover(_ path: String) -> Bool {
        path.contains(".davfs.tmp") || path.contains(".rclone_temp_put_")
    }

    /// Cove's own names at the source that are more than its own folders.
    private func hidden() throws -> [String] {
        guard let walker = FileManager.default.enumerator(atPath: source.path) else { return [] }
        return walker.compactMap { $0 as? String }.filter { path in
            let names = path.split(separator: "/")
            return names.first != ".cove" && names.contains { $0.contains(/^\.?cove-moving-/) }
        }
    }
}
