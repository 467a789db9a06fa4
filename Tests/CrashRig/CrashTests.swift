import CoveTestSupport
import Foundation
import Testing

/// Kills at the points of a sample; what they have in common is that nothing may be lost.
@Suite(.serialized) struct CrashTests {
    private static func setting(_ name: String) -> String? { ProcessInfo.processInfo.environment[name] }

    private let seed = setting("COVE_CRASH_SEED").flatMap(UInt64.init) ?? UInt64.random(in: 0...UInt64(UInt32.max))

    @Test func `what was acknowledged survives a kill at any call`() async throws {
        let rig = try await blocking { try Rig() }
        var points: [Point] = []
        if let only = CrashTests.setting("COVE_CRASH_POINT") {
            points = [try point(only)]
        } else {
            points = try await blocking { try rig.chapters().flatMap { try everyPoint(of: $0, rig) } }
            points = sample(points, CrashTests.setting("COVE_CRASH_POINTS") ?? "40")
        }
        try await expectNoProblems(points, rig)
    }

    /// The driver ends with a failure, which is thrown here, as soon as a new file goes through the engine.
    @Test func `what was acknowledged survives a kill at any call, with passthrough`() async throws {
        let rig = try await blocking { try Rig(isPassing: true) }
        let points = try await blocking { try ["saves", "deletions"].flatMap { try everyPoint(of: $0, rig) } }
        let count = CrashTests.setting("COVE_CRASH_POINTS")
        try await expectNoProblems(sample(points, count ?? "16"), rig)
    }

    @Test func `a start that is killed leaves all to the next`() async throws {
        let rig = try await blocking { try Rig() }
        var random = SeededGenerator(seed: seed &+ 1)
        var points = try await blocking { try rig.chapters().flatMap { try everyPoint(of: $0, rig) } }
        for index in points.indices {
            // A start makes some forty calls before it has nothing left to mend.
            points[index].recovery = (0..<Int.random(in: 1...2, using: &random)).map { _ in
                Int.random(in: 1...40, using: &random)
            }
        }
        let count = CrashTests.setting("COVE_CRASH_POINTS").map { $0 == "all" ? "600" : $0 }
        try await expectNoProblems(sample(points, count ?? "12"), rig)
    }

    /// Calls at which something was lost once.
    private static let once: [Point] = [
        // A cut that took local bytes was taken for none, and zeros came in their place.
        Point(chapter: "dataless", number: 3, mode: .after, match: "ftruncate state/content/*"),
        Point(chapter: "saves", number: 1, mode: .after, match: "ftruncate state/content/*"),
        // Content files of what was deleted or evicted stayed.
        Point(chapter: "deletions", number: 1, mode: .before, match: "unlink state/content/*"),
        Point(chapter: "deletions", number: 1, mode: .after, match: "syncfs *"),
        Point(chapter: "dataless", number: 1, mode: .before, match: "unlink state/content/*"),
        // What had arrived just before it was renamed or deleted here came back under its old name.
        Point(chapter: "names", number: 1, mode: .late, match: "mkdirat source/f"),
        Point(chapter: "names", number: 1, mode: .late, match: "renameat2 source/u"),
        Point(chapter: "names", number: 1, mode: .late, match: "renameat2 source/t"),
        Point(chapter: "names", number: 1, mode: .late, match: "mkdirat source/q"),
        Point(chapter: "names", number: 1, mode: .late, match: "symlinkat source/l"),
        // What a save had sent was taken for another device's when a newer save had followed.
        Point(chapter: "names", number: 1, mode: .late, match: "renameat2 source/v"),
        Point(chapter: "saves", number: 1, mode: .late, match: "renameat2 source/c"),
        // What stood aside was lost sight of, with all that was in it.
        Point(chapter: "names", number: 1, mode: .after, match: "renameat2 source/.cove-moving-*"),
        Point(chapter: "names", number: 2, mode: .after, match: "renameat2 source/.cove-moving-*"),
        // So was a deleted directory, whose name nothing took in the end.
        Point(chapter: "stepping aside", number: 1, mode: .late, match: "renameat2 source/.cove-moving-*"),
        // A directory moved out of a deleted one became its own conflict.
        Point(chapter: "names", number: 1, mode: .after, match: "renameat2 source/*f/g/deep"),
    ]

    @Test func `what was lost once is not lost again`() async throws {
        try await expectNoProblems(CrashTests.once, blocking { try Rig() }, insisting: true)
    }

    @Test func `the rig notices what is lost`() async throws {
        let rig = try await blocking { try Rig() }
        func problems(_ meddling: @escaping @Sendable (String) throws -> Void) async throws -> [String] {
            try await blocking {
                let point = Point(chapter: "saves", number: 1, mode: .after, match: "renameat2 source/new")
                return try rig.attempt(point, meddling: meddling).problems
            }
        }
        #expect(try await problems { _ in }.isEmpty)
        #expect(
            try await !problems { root in
                let change = "UPDATE items SET size = size - 1 WHERE kind = 0 AND size > 1; DELETE FROM journal"
                try Command.run("sqlite3", ["\(root)/state/catalog.db", change])
            }.isEmpty
        )
        #expect(
            try await !problems { root in
                let content = FileManager.default.enumerator(atPath: "\(root)/state/content")
                while let name = content?.nextObject() as? String {
                    let file = FileHandle(forUpdatingAtPath: "\(root)/state/content/\(name)")
                    try file?.write(contentsOf: Data([0x55, 0x55]))
                }
            }.isEmpty
        )
        #expect(
            try await !problems { root in
                try SourceFolder("\(root)/source").save(".cove-left", [1])
            }.isEmpty
        )
    }

    // MARK: Points

    /// Every call of a chapter, before and after it, and in the middle where it writes.
    private func everyPoint(of chapter: String, _ rig: Rig) throws -> [Point] {
        try rig.calls(of: chapter).enumerated().flatMap { index, call in
            let isWrite = ["commit", "pwrite", "write", "copy_file_range"].contains { call.contains(" \($0) ") }
            let isOther = call.contains(" source/")
            let modes: [Point.Mode] = [.before, .after] + (isWrite ? [.half] : []) + (isOther ? [.late] : [])
            return modes.map { Point(chapter: chapter, number: index + 1, mode: $0) }
        }
    }

    private func sample(_ points: [Point], _ count: String) -> [Point] {
        guard let count = Int(count) else { return points }
        var random = SeededGenerator(seed: seed)
        return Array(points.shuffled(using: &random).prefix(count))
    }

    private func point(_ text: String) throws -> Point {
        let fields = text.split(separator: " ").map(String.init)
        guard fields.count >= 3, let number = Int(fields[fields.count - 2]),
            let mode = fields.last.flatMap({ Point.Mode(rawValue: $0) })
        else {
            throw CommandFailure("COVE_CRASH_POINT is not 'CHAPTER NUMBER MODE': \(text)")
        }
        return Point(chapter: fields.dropLast(2).joined(separator: " "), number: number, mode: mode)
    }

    /// Tries the points, four at a time; with `insisting`, each until its call is reached.
    private func expectNoProblems(_ points: [Point], _ rig: Rig, insisting: Bool = false) async throws {
        let outcomes = try await withThrowingTaskGroup(of: [Rig.Outcome].self) { group in
            for lane in 0..<4 {
                let share = stride(from: lane, to: points.count, by: 4).map { points[$0] }
                group.addTask {
                    try await blocking { try share.map { try self.attempt($0, rig, times: insisting ? 10 : 1) } }
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        for outcome in outcomes where !outcome.problems.isEmpty {
            Issue.record("\(outcome.point): \(outcome.problems.joined(separator: "\n  "))")
        }
        let reached = outcomes.count(where: \.isReached)
        let violations = outcomes.count { !$0.problems.isEmpty }
        print("crash rig: seed \(seed), \(outcomes.count) points, \(reached) reached, \(violations) violations")
        // No two runs are quite alike: some end before their call comes.
        #expect(insisting ? reached == outcomes.count : reached * 2 > outcomes.count)
    }

    private func attempt(_ point: Point, _ rig: Rig, times: Int) throws -> Rig.Outcome {
        for _ in 1..<times {
            let outcome = try rig.attempt(point)
            if outcome.isReached || !outcome.problems.isEmpty { return outcome }
        }
        return try rig.attempt(point)
    }
}
