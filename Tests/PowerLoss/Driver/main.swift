import CoveCore
import CoveEngine
import CoveTestSupport
import Foundation

// power-loss-driver work STATE SOURCE LOG SEED STEPS    random work, to be cut off
// power-loss-driver check STATE SOURCE LOG              what is there afterwards; prints violations

/// What a driver process does.
func drive() async throws -> Int32 {
    let arguments = CommandLine.arguments
    let (state, source, log) = (arguments[2], arguments[3], arguments[4])
    if arguments[1] == "work" {
        for (file, path, count) in Workload.source {
            let words = Array(repeating: Word.make(file: file, step: 0), count: count)
            try SourceFolder(source).makeDirectory("d")
            try SourceFolder(source).save(path, Word.bytes(words))
        }
        let tree = try Tree(state: state, source: source)
        _ = try await tree.files()
        do {
            var workload = try await Workload(tree, log: log, seed: UInt64(arguments[5]) ?? 1)
            try await workload.run(steps: Int(arguments[6]) ?? 1)
        } catch let error as Tree.Unpassed {
            print("does not pass by the engine: \(error)")
            return 3
        } catch {
            // In the moment of the loss this is no wonder.
            print("failed: \(error)")
        }
        // Where the rig has not cut the power yet, it does now.
        _ = mkdir((state as NSString).deletingLastPathComponent + "/power-off", 0o700)
        return 1
    }
    var check = try Check(log: log)
    let tree = try Tree(state: state, source: source)
    try await tree.settle()
    var files: [String: [UInt8]] = [:]
    for path in try await tree.files() { files[path] = try await tree.read(path) }
    check.compare(tree: files, source: try SourceFolder(source).snapshot().compactMapValues { $0 })
    var violations = check.violations
    for finding in await tree.engine.diagnose() where finding.level == "problem" { violations.append(finding.message) }
    await tree.engine.stop()
    let report = try CatalogRepair(stateDirectory: state, log: Log(path: nil, echoToStandardError: true)).run()
    for finding in report.findings { violations.append("\(finding)") }
    for violation in violations { print(violation) }
    return violations.isEmpty ? 0 : 2
}

exit(
    await blocking {
        do { return try await drive() } catch {
            print("failed: \(error)")
            return 3
        }
    }
)
