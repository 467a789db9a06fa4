import CoveCore
import CoveTestSupport
import Foundation
import Testing

/// The power fails at any call of the write path; nothing that was synced is lost, and nothing torn replaces anything.
@Suite(.serialized)
struct PowerLossTests {
    /// What is compiled once.
    private struct Rig {
        let folder: TemporaryDirectory
        let library: String
        let driver: String

        init() throws {
            folder = try TemporaryDirectory("cove-power")
            library = folder.appending("power.so")
            let source = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "power.c").path
            try Command.run("gcc", ["-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"])
            guard let binary = ProcessInfo.processInfo.environment["COVE_BINARY"] else {
                throw CommandFailure("COVE_BINARY is not set; run mount-scripts/test")
            }
            driver = URL(fileURLWithPath: binary).deletingLastPathComponent().appending(path: "PowerLossDriver").path
        }

        /// One run, one loss, one look; the violations.
        func run(seed: UInt64, at call: Int, swallowing: String = "", passing: Bool = false) throws -> String {
            let place = try TemporaryDirectory("cove-power")
            let disk = try LoopDisk(in: place.path, megabytes: 64)
            let state = "\(disk.path)/state"
            for name in [state, place.appending("source")] {
                try FileManager.default.createDirectory(atPath: name, withIntermediateDirectories: true)
            }
            let arguments = [state, place.appending("source"), place.appending("steps")]
            _ = FileManager.default.createFile(atPath: place.appending("steps"), contents: nil)
            var environment = [
                "LD_PRELOAD": library, "COVE_POWER_DISK": disk.path, "COVE_POWER_AT": "\(call)",
                "COVE_POWER_SEED": "\(seed)", "COVE_POWER_SWALLOW": swallowing,
            ]
            // The driver ends with 3 where what it writes goes through the engine all the same.
            if passing { environment["COVE_POWER_PASSTHROUGH"] = "1" }
            let work = try Command.run(
                driver,
                ["work"] + arguments + ["\(seed)", "40"],
                environment: environment,
                mayFail: true
            )
            guard work.status == 99 || work.status == 98 && work.output.isEmpty else { throw CommandFailure("\(work)") }
            try disk.unmount()
            try disk.mount()
            let check = try Command.run(driver, ["check"] + arguments, deadline: 150, mayFail: true)
            try disk.unmount()
            guard !check.output.isEmpty else { return "" }
            let steps = (try? String(contentsOfFile: place.appending("steps"), encoding: .utf8)) ?? ""
            return "\(check.output)\(work.error)\(check.error)\(steps)"
        }
    }

    private static let environment = ProcessInfo.processInfo.environment

    @Test func `nothing synced is lost with the power, and nothing torn is sent`() async throws {
        try await blocking { try Self.expectNoLoss() }
    }

    @Test func `nothing synced is lost with the power where the kernel writes by itself`() async throws {
        try await blocking { try Self.expectNoLoss(passing: true, points: 10) }
    }

    /// Points from a seed on, a random one unless `COVE_POWER_SEED` gives it; `COVE_POWER_CALL` repeats one call of it.
    private static func expectNoLoss(passing: Bool = false, points usual: Int = 25) throws {
        let rig = try Rig()
        let only = Int(environment["COVE_POWER_CALL"] ?? "")
        let points = only == nil ? Int(environment["COVE_POWER_POINTS"] ?? "") ?? usual : 1
        let first = UInt64(environment["COVE_POWER_SEED"] ?? "") ?? UInt64.random(in: 1...UInt64(UInt32.max))
        print("power loss: \(points) points from COVE_POWER_SEED=\(first)")
        var violations = 0
        for seed in first..<(first + UInt64(points)) {
            var random = SeededGenerator(seed: seed)
            let call = only ?? Int.random(in: 1...600, using: &random)
            let found = try rig.run(seed: seed, at: call, passing: passing)
            if !found.isEmpty { violations += 1 }
            #expect(found.isEmpty, "COVE_POWER_SEED=\(seed) COVE_POWER_CALL=\(call)\n\(found)")
        }
        print("power loss: \(points) points tried, \(violations) violations")
    }

    @Test(arguments: ["content", "log"])
    func `a program that leaves out a sync is found out`(swallowed: String) async throws {
        try await blocking { try Self.expectFound(swallowing: swallowed) }
    }

    private static func expectFound(swallowing swallowed: String) throws {
        let rig = try Rig()
        var tried = 0
        for seed in UInt64(1)...60 {
            tried += 1
            var random = SeededGenerator(seed: seed)
            if try !rig.run(seed: seed, at: Int.random(in: 100...600, using: &random), swallowing: swallowed).isEmpty {
                print("power loss: without syncs of the \(swallowed), found out at point \(tried)")
                return
            }
        }
        Issue.record("\(tried) points without syncs of the \(swallowed), and nothing was found out")
    }
}
