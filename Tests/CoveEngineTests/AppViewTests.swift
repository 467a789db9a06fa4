import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// The programs of apps, known by their PID namespace; the tests make some, as root.
@Suite(.timeLimit(.minutes(2))) struct AppViewTests {
    /// A PID namespace of its own with one process that sleeps, while the body runs.
    private func inNamespace<Result>(_ body: (_ process: Int32, _ number: UInt64) throws -> Result) throws -> Result {
        let command = try Command("unshare", ["--pid", "--fork", "--kill-child", "sleep", "600"])
        defer { kill(-command.process, SIGKILL) }
        var child: Int32?
        try waitUntil("the namespace has its first process", deadline: 60) {
            let children = "/proc/\(command.process)/task/\(command.process)/children"
            child = (try? String(contentsOfFile: children, encoding: .utf8)).flatMap { text in
                text.split(separator: " ").first.flatMap { Int32($0) }
            }
            return child != nil
        }
        let first = try #require(child)
        let result = try body(first, try #require(AppViews.namespace(of: "/proc/\(first)/ns/pid")))
        // Its parent waits for it, and ends.
        kill(first, SIGKILL)
        _ = try command.wait(deadline: 60)
        try waitUntil("it has ended", deadline: 60) { AppViews.namespace(of: "/proc/\(first)/ns/pid") == nil }
        return result
    }

    @Test func `the number of a namespace that has ended is no other one's while it stands for an app`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let catalog = account.engine.catalog
            let views = try AppViews(catalog, Log(path: nil, echoToStandardError: false))
            let app = try #require(AppIdentifier("com.acme.app"))
            let (ended, known) = try inNamespace { process, number throws -> (UInt64, AppIdentifier?) in
                try views.enter(app, process: process)
                return (number, try views.app(of: process))
            }
            #expect(known == app)
            // The kernel gives the lowest number that is free.
            func expectOthers(_ count: Int) throws {
                guard count > 0 else { return }
                let (number, other) = try inNamespace { process, number throws -> (UInt64, AppIdentifier?) in
                    try expectOthers(count - 1)
                    return (number, try views.app(of: process))
                }
                #expect(number != ended && other == nil)
            }
            try expectOthers(6)
            try waitUntil("it stands for nothing any more", deadline: 60) {
                views.expire()
                return views.isEmpty
            }
            await account.stop()
        }
    }
}
