internal import CLinux
public import CoveCore
import Foundation

/// What a program printed and how it ended.
public struct CommandResult: Sendable {
    /// The exit status; 128 and the number for one that a signal ended.
    public let status: Int32
    /// What it wrote to its standard output.
    public let output: String
    /// What it wrote to its standard error.
    public let error: String
}

/// A program that was ended because it took too long, or that failed where it must not.
public struct CommandFailure: Error, CustomStringConvertible {
    /// Which, and what it said.
    public let description: String

    /// Names the failure.
    public init(_ description: String) { self.description = description }
}

/// A program that a test runs, in a process group of its own that ends with its deadline.
///
/// It is waited for by its process id alone, so that what it leaves in the background delays nothing. What it prints goes
/// to unnamed files.
public final class Command {
    /// Its process id, which is its group's too.
    public let process: Int32
    private let name: String
    private let pidfd: Int32
    private let files: [Int32]
    private var status: Int32?

    /// Starts a program of the PATH.
    public init(_ program: String, _ arguments: [String] = [], environment: [String: String] = [:]) throws(Errno) {
        name = ([program] + arguments).joined(separator: " ")
        files = try [Self.unnamedFile(), Self.unnamedFile()]
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_adddup2(&actions, files[0], 1)
        posix_spawn_file_actions_adddup2(&actions, files[1], 2)
        // A file that another test is just writing would stay open in it, and could not be run.
        _ = cove_spawn_closes_from(&actions, 3)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // The threads of a test block signals that programs are to obey.
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        sigfillset(&signals)
        posix_spawnattr_setsigdefault(&attributes, &signals)
        let flags = Int32(POSIX_SPAWN_SETPGROUP) | Int32(POSIX_SPAWN_SETSIGMASK) | Int32(POSIX_SPAWN_SETSIGDEF)
        posix_spawnattr_setflags(&attributes, Int16(flags))
        let variables = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        let list = ([program] + arguments).map { strdup($0) } + [nil]
        let values = variables.map { strdup("\($0)=\($1)") } + [nil]
        defer { (list + values).forEach { free($0) } }
        var child = pid_t()
        let error = posix_spawnp(&child, program, &actions, &attributes, list, values)
        guard error == 0 else {
            files.forEach { System.close($0) }
            throw Errno(error)
        }
        process = child
        pidfd = cove_pidfd_open(child)
    }

    deinit {
        if status == nil {
            signal(SIGKILL)
            _ = hasEnded(within: 5)
        }
        (files + [pidfd]).forEach { System.close($0) }
    }

    /// What it printed so far.
    public var output: String { text(files[0]) }

    /// What it complained of so far.
    public var error: String { text(files[1]) }

    /// Sends a signal to it and to all it started.
    public func signal(_ number: Int32) { kill(-process, number) }

    /// True when it ends within so many seconds.
    public func hasEnded(within seconds: Double) -> Bool {
        if status != nil { return true }
        var entry = pollfd(fd: pidfd, events: Int16(POLLIN), revents: 0)
        let milliseconds = Int32(seconds * 1000)
        guard let count = try? System.retry({ poll(&entry, 1, milliseconds) }), count > 0 else { return false }
        var ending: Int32 = 0
        guard waitpid(process, &ending, 0) == process else { return false }
        status = ending & 0x7F == 0 ? (ending >> 8) & 0xFF : 128 + (ending & 0x7F)
        return true
    }

    /// Waits for its end; throws when that takes longer than so many seconds, after killing it.
    public func wait(deadline: Double) throws(CommandFailure) -> CommandResult {
        guard hasEnded(within: deadline), let status else {
            signal(SIGKILL)
            let isStuck = !hasEnded(within: 5)
            throw CommandFailure(
                "\(name): not done after \(deadline) s\(isStuck ? ", and can't be killed" : "")\n\(error)\(output)"
            )
        }
        return CommandResult(status: status, output: output, error: error)
    }

    /// Runs a program to its end; throws when it takes too long or, unless told otherwise, fails.
    @discardableResult
    public static func run(
        _ program: String,
        _ arguments: [String] = [],
        environment: [String: String] = [:],
        deadline: Double = 60,
        mayFail: Bool = false
    ) throws -> CommandResult {
        let command = try Command(program, arguments, environment: environment)
        let result = try command.wait(deadline: deadline)
        guard mayFail || result.status == 0 else {
            throw CommandFailure("\(command.name): exit \(result.status)\n\(result.error)\(result.output)")
        }
        return result
    }

    private static func unnamedFile() throws(Errno) -> Int32 {
        try System.open(NSTemporaryDirectory(), O_RDWR | Int32(COVE_O_TMPFILE))
    }

    private func text(_ file: Int32) -> String {
        guard let size = try? System.fstat(file).st_size, size > 0 else { return "" }
        var bytes = [UInt8](repeating: 0, count: Int(size))
        let count = bytes.withUnsafeMutableBytes { (try? System.pread(file, $0, 0)) ?? 0 }
        return String(decoding: bytes[..<count], as: UTF8.self)
    }
}

/// Asks again and again, with a pause between, until something is so; throws after so many seconds.
///
/// `what` is looked at then only, and tells how far things are.
public func waitUntil(
    _ what: @autoclosure () throws -> String,
    deadline: Double = 60,
    _ isSo: () throws -> Bool
) throws {
    let end = ContinuousClock.now + .seconds(deadline)
    while try !isSo() {
        guard ContinuousClock.now < end else { throw CommandFailure("after \(deadline) s still not: \(try what())") }
        _ = poll(nil, 0, 10)
    }
}
