import CoveCore
import CoveTestSupport
import Foundation

/// Where the driver is killed.
struct Point: Sendable, CustomStringConvertible {
    enum Mode: String, CaseIterable, Sendable { case before, after, half, late }

    var chapter: String
    /// The number of the call, among those that match.
    var number: Int
    var mode: Mode
    var match = "*"
    /// The calls of the starts that follow, at which these are killed too.
    var recovery: [Int] = []

    var description: String {
        "\(chapter) \(number) \(mode)" + (match == "*" ? "" : " of '\(match)'")
            + recovery.map { ", then at \($0) of the next start" }.joined()
    }
}

/// The driver, the library that ends it, and what became of a point.
final class Rig: Sendable {
    private let driver: String
    private let library: String
    private let place: TemporaryDirectory
    /// What is written goes past the engine, as with `-o passthrough`; the driver fails where it does not.
    private let isPassing: Bool

    /// Compiles the library; the driver lies beside the tests.
    init(isPassing: Bool = false) throws {
        self.isPassing = isPassing
        place = try TemporaryDirectory("cove-crash")
        library = place.appending("stop.so")
        driver = try Command.built("CrashDriver")
        let source = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("stop.c").path
        let options = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-o", library, source]
        try Command.run("gcc", options + ["-ldl"])
    }

    func chapters() throws -> [String] {
        try Command.run(driver, ["chapters"]).output.split(separator: "\n").map(String.init)
    }

    /// The calls of a chapter that nothing ends, as the library names them.
    func calls(of chapter: String) throws -> [String] {
        let root = try TemporaryDirectory("cove-crash")
        let stop = Point(chapter: chapter, number: 0, mode: .before)
        let result = try drive("run", root.path, chapter, stop)
        guard result.status == 0 else { throw CommandFailure("\(chapter): \(result.output)\(result.error)") }
        let trace = try String(contentsOfFile: root.appending("trace"), encoding: .utf8)
        return trace.split(separator: "\n").map(String.init)
    }

    /// What one point came to.
    struct Outcome: Sendable {
        var point: Point
        /// True when the driver got as far as the call.
        var isReached: Bool
        var problems: [String]
    }

    /// Runs, kills, starts again and checks.
    func attempt(_ point: Point, meddling: (String) throws -> Void = { _ in }) throws -> Outcome {
        let root = try TemporaryDirectory("cove-crash")
        var isReached = try died(try drive("run", root.path, point.chapter, point))
        for number in point.recovery {
            let again = Point(chapter: point.chapter, number: number, mode: point.mode)
            // Only one that reached every call counts.
            isReached = try died(try drive("check", root.path, point.chapter, again)) && isReached
        }
        try meddling(root.path)
        let check = try drive("check", root.path, point.chapter, nil)
        var problems = check.output.split(separator: "\n").map(String.init)
        if check.status != 0, problems.isEmpty { problems = ["the check ended with \(check.status): \(check.error)"] }
        problems += try StateCheck(state: root.appending("state")).problems()
        return Outcome(point: point, isReached: isReached, problems: problems)
    }

    private func died(_ result: CommandResult) throws -> Bool {
        if result.status == 128 + SIGKILL { return true }
        guard result.status == 0 else { throw CommandFailure("exit \(result.status)\n\(result.output)\(result.error)") }
        return false
    }

    private func drive(_ verb: String, _ root: String, _ chapter: String, _ stop: Point?) throws -> CommandResult {
        var environment: [String: String] = [:]
        if let stop {
            environment = [
                "LD_PRELOAD": library, "CRASH_ROOT": root, "CRASH_MATCH": stop.match, "CRASH_AT": "\(stop.number)",
                "CRASH_MODE": stop.mode.rawValue, "CRASH_TRACE": "\(root)/trace",
            ]
            if isPassing, verb == "run" { environment["CRASH_PASSTHROUGH"] = "1" }
        }
        return try Command.run(driver, [verb, root, chapter], environment: environment, deadline: 120, mayFail: true)
    }
}
