import CoveTestSupport
import Foundation

/// A clock of the day that is hours wrong, for programs that are started with its variables while it is there.
struct WrongClock {
    /// What makes a program use it.
    let variables: [String: String]
    private let folder: TemporaryDirectory

    /// Ahead by so many hours; fails when a program does not see it.
    init(hours: Int) throws {
        folder = try TemporaryDirectory("clock")
        let source = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("clock.c").path
        let library = folder.appending("clock.so")
        try Command.run("gcc", ["-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"])
        variables = ["LD_PRELOAD": library, "COVE_CLOCK_AHEAD": "\(hours * 3600)"]
        let told = try Command.run("date", ["+%s"], environment: variables).output
        let seconds = Double(told.trimmingCharacters(in: .whitespacesAndNewlines)) ?? 0
        guard abs(seconds - Date().timeIntervalSince1970 - Double(hours * 3600)) < 60 else {
            throw CommandFailure("the clock is not wrong: \(told)")
        }
    }
}
