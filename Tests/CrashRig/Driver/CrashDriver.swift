import CoveCore
import CoveTestSupport
import Foundation

/// The program that the crash rig kills: `run ROOT CHAPTER`, then `check ROOT CHAPTER`; `chapters` lists those there are.
@main enum CrashDriver {
    static func main() async {
        let arguments = CommandLine.arguments.dropFirst()
        do {
            if arguments == ["chapters"] { return print(Chapter.all.map(\.name).joined(separator: "\n")) }
            guard arguments.count == 3, let root = arguments.dropFirst().first,
                let chapter = arguments.last.flatMap({ Chapter.named($0) })
            else {
                throw Account.Failure(description: "usage: CrashDriver chapters | (run | check) ROOT CHAPTER")
            }
            let isRun = arguments.first == "run"
            let problems = try await blocking {
                if isRun {
                    try await run(root, chapter)
                    return [String]()
                }
                return try await Check(root: root, chapter: chapter).run()
            }
            for problem in problems { print(problem) }
            exit(problems.isEmpty ? 0 : 1)
        } catch {
            print("failed: \(error)")
            exit(1)
        }
    }

    private static func run(_ root: String, _ chapter: Chapter) async throws {
        let account = try Account(root: root)
        account.start()
        for step in chapter.before { try await account.perform(step) }
        let log = try StepLog(path: "\(root)/steps")
        try log.write("begin")
        StopPoint.arm()
        for (number, step) in chapter.steps.enumerated() {
            try log.write("step \(number)")
            do {
                try await account.perform(step)
            } catch {
                throw Account.Failure(description: "\(step): \(error)")
            }
            try log.write("done \(number)")
        }
        await account.stop()
        try log.write("stopped")
    }
}
