import CoveCore
import CoveTestSupport
import Foundation
import Testing

/// A storm: its source, and what goes wrong in it.
struct Storm: Sendable, CustomTestStringConvertible {
    let source: SharedSource
    /// Daemons, and all processes of an account, are killed.
    var hasKills = false
    /// The source can't be reached for a while, or lines to it fail.
    var hasFaults = false

    var testDescription: String {
        let bad = (hasKills ? ["kills"] : []) + (hasFaults ? ["faults"] : [])
        return source.testDescription + (bad.isEmpty ? "" : " with \(bad.joined(separator: " and "))")
    }
}

extension Mounted {
    /// Several mounted devices at random on one source, and an account of every byte; `mount-scripts/soak storm` runs more.
    ///
    /// COVE_STORM_SECONDS says how long on each source, with and without faults. COVE_STORM_CLOUD, the beginning of a storm's
    /// name, says which alone. COVE_STORM_SEED repeats what each program chooses, not the timing between them. In the folder
    /// COVE_STORM_KEEP a storm that failed is kept: the states, the source, and what was done.
    struct StormTests {
        private static let environment = ProcessInfo.processInfo.environment
        private static let seconds = environment["COVE_STORM_SECONDS"].flatMap(Double.init)

        private static let storms: [Storm] = {
            var all = (SharedSource.all + [.program]).flatMap { source in
                [Storm(source: source), Storm(source: source, hasKills: true, hasFaults: true)]
            }
            // Where its folder is away, rclone makes another one in the moment of an upload.
            all += [Storm(source: .remote), Storm(source: .remote, hasKills: true)]
            all += [Storm(source: .serverRemote), Storm(source: .serverRemote, hasKills: true, hasFaults: true)]
            if let name = environment["COVE_STORM_CLOUD"] { return all.filter { $0.testDescription.hasPrefix(name) } }
            guard seconds == nil else { return all }
            return [Storm(source: .folder, hasKills: true), Storm(source: .apache, hasFaults: true)]
        }()

        @Test(arguments: storms)
        func `a storm of mounted devices loses nothing, leaves nothing hidden and tells nobody of stale names`(
            storm: Storm
        ) async throws {
            let seed = Self.environment["COVE_STORM_SEED"].flatMap(UInt64.init) ?? .random(in: 0...UInt64(UInt32.max))
            let seconds = Self.seconds ?? 2.5
            print("storm on \(storm.testDescription): seed \(seed), \(seconds) s")
            try await blocking {
                let (owner, address, files) = try storm.source.start()
                let ledger = StormLedger()
                let calls = StormCalls(ledger)
                let port = (owner as? TestServer)?.port
                let devices = try (0..<3).map { try Self.device($0, storm, address, port, calls) }
                try BlockingThread.start { calls.watch() }
                defer { calls.end() }
                for device in devices { try device.start() }
                let folder = port == nil ? files : nil
                let weather = StormWeather(devices, folder, ledger, storm, SeededGenerator(seed: seed))
                let account = StormEnd(devices: devices, files: files, ledger: ledger, calls: calls)
                let programs = devices.map { device in
                    let seed = seed &+ UInt64(device.index + 1) * 1000
                    let program = StormProgram(device, ledger, calls, SeededGenerator(seed: seed))
                    return (program, StormReader(device, ledger, calls, SeededGenerator(seed: seed &+ 1)))
                }
                let rounds = max(2, Int(seconds / 15))
                do {
                    for round in 1...rounds {
                        let end = System.monotonic() + .seconds(seconds / Double(rounds))
                        try await withThrowingTaskGroup(of: Void.self) { group in
                            for (program, reader) in programs {
                                group.addTask { try program.run(until: end) }
                                group.addTask { reader.run(until: end) }
                            }
                            group.addTask { try weather.run(until: end) }
                            try await group.waitForAll()
                        }
                        guard round < rounds, !calls.hasHung else { break }
                        // What goes on to come from elsewhere, and from the source, the queries tell as well.
                        weather.clear()
                        let problems = try account.queryProblemsInPause()
                        if !problems.isEmpty { throw CommandFailure(problems.joined(separator: "\n")) }
                        ledger.count("pauses")
                    }
                    weather.clear()
                    let start = System.monotonic()
                    let problems = try account.problems(deadline: .seconds(300))
                    let time = (System.monotonic() - start).milliseconds
                    let end = "settled in \(time) ms"
                    for line in ["\(ledger.summary); \(calls.summary)", end] + ledger.steps(with: "not yet the same") {
                        print("storm on \(storm.testDescription): \(line)")
                    }
                    guard problems.isEmpty else { throw CommandFailure(problems.joined(separator: "\n")) }
                } catch {
                    weather.clear()
                    Self.keep(storm, devices, files, ledger, "seed \(seed): \(error)")
                    throw CommandFailure("seed \(seed): \(error)")
                }
                #expect(ledger.writes > 0)
                if storm.hasKills {
                    #expect(ledger.count(of: "daemons killed") + ledger.count(of: "accounts killed") > 0)
                }
                if storm.hasFaults { #expect(ledger.count(of: "cuts") + ledger.count(of: "bad lines") > 0) }
                for device in devices { try device.end() }
                withExtendedLifetime(owner) {}
            }
        }

        /// A device, behind a line of its own where that may fail.
        private static func device(
            _ index: Int,
            _ storm: Storm,
            _ address: String,
            _ port: UInt16?,
            _ calls: StormCalls
        ) throws -> StormDevice {
            var (line, way, end): (FaultProxy?, String, UInt16?) = (nil, address, port)
            if storm.hasFaults, let port {
                let proxy = try FaultProxy(to: port)
                way = address.replacingOccurrences(of: "127.0.0.1:\(port)", with: "127.0.0.1:\(proxy.port)")
                (line, end) = (proxy, proxy.port)
            }
            // After a death a program has to start first, on a machine where three of them are at work.
            let limit = address.hasPrefix("exec:") || address.hasPrefix("rclone:") ? "10s" : "3s"
            let options = "poll=500ms,settle=50ms,stall-limit=\(limit),log=debug"
            let variables = try storm.source.variables(end ?? 0)
            let account = try MountedAccount(options: options, address: way, variables: variables)
            return StormDevice(index, account, line, mayBeCutOff: storm.hasFaults, calls)
        }

        /// Keeps what a storm left, to be looked into.
        private static func keep(
            _ storm: Storm,
            _ devices: [StormDevice],
            _ files: String,
            _ ledger: StormLedger,
            _ report: String
        ) {
            guard let folder = environment["COVE_STORM_KEEP"] else { return }
            let path = "\(folder)/\(storm.testDescription)"
            let manager = FileManager.default
            try? manager.createDirectory(atPath: path, withIntermediateDirectories: true)
            try? "\(report)\n\(ledger.history)\n".write(toFile: "\(path)/report", atomically: false, encoding: .utf8)
            if files.hasPrefix("http") {
                let names = (try? SharedSource.names(files)) ?? []
                try? names.joined(separator: "\n").write(toFile: "\(path)/objects", atomically: false, encoding: .utf8)
            } else {
                try? manager.copyItem(atPath: files, toPath: "\(path)/source")
            }
            for device in devices {
                try? device.account.die()
                let state = device.account.scratch.appending("state")
                // It has sockets, at which a copy would end.
                _ = try? Command.run("cp", ["-a", state, "\(path)/\(device.index)"])
            }
        }
    }
}
