import CLinux
import CoveCore
import CoveTestSupport
import Foundation
import Testing

/// Tests of real programs on a real mount, one after the other; `mount-scripts/test` builds what they mount.
@Suite(.serialized) enum Mounted {}

/// Tests on mounts that mostly wait, for servers or for times to be over: several at once, beside all other tests.
///
/// They measure no time, need little of the machine, and change nothing of it.
@Suite enum MountedInCompany {}

/// A folder mounted by a daemon in its own process.
final class MountedAccount: Sendable {
    /// Where the test keeps what is not on the mount.
    let scratch: TemporaryDirectory
    /// The folder that is the cloud.
    let source: SourceFolder
    let mount: String
    private let state: String
    private let binary: String
    private let options: String
    private let address: String
    private let variables: [String: String]

    /// Makes the folders, where nothing is mounted yet; with an address that is the cloud instead of a folder.
    ///
    /// The daemon gets further environment variables.
    init(options: String = "", address: String? = nil, variables: [String: String] = [:]) throws {
        guard let binary = ProcessInfo.processInfo.environment["COVE_BINARY"] else {
            throw CommandFailure("COVE_BINARY is not set; run mount-scripts/test")
        }
        self.binary = binary
        self.variables = variables
        // The whole suite can be run with further options, such as passthrough.
        let further = ProcessInfo.processInfo.environment["COVE_MOUNT_OPTIONS"] ?? ""
        self.options = [options, further].filter { !$0.isEmpty }.joined(separator: ",")
        scratch = try TemporaryDirectory("m")
        source = SourceFolder(scratch.appending("source"))
        self.address = address ?? "dir://\(source.path)"
        mount = scratch.appending("mnt")
        state = scratch.appending("state")
        for path in [source.path, mount] {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        }
    }

    deinit { detach() }

    /// Mounts; returns when programs can use it.
    func start(password: String? = TestServer.password) throws {
        var arguments = ["mount", address, mount, "--state", state]
        if !options.isEmpty { arguments += ["-o", options] }
        try Command.run(binary, arguments, environment: secrets(password))
    }

    /// A home of its own, so that no login of the machine's user counts.
    private func secrets(_ password: String?) -> [String: String] {
        var secrets = variables
        secrets["HOME"] = scratch.path
        if let password { secrets["COVE_PASSWORD"] = password }
        return secrets
    }

    /// Unmounts; fails when something still uses the mount.
    func end() throws { try Command.run(binary, ["unmount", mount]) }

    /// Ends every process of the account at once, as a crash does, and takes the dead mount away.
    func crash() throws {
        try die()
        detach()
    }

    /// Ends every process of the account at once, and leaves the dead mount where it is.
    func die() throws {
        let statistics = try statistics()
        let (keeper, daemon) = (pid_t(statistics.keeperPID), pid_t(statistics.daemonPID))
        let helpers = try String(contentsOfFile: "/proc/\(daemon)/task/\(daemon)/children", encoding: .utf8)
        // The keeper first, which would start another daemon.
        let processes = [keeper, daemon] + helpers.split(separator: " ").compactMap { pid_t($0) }
        let handles = processes.map { cove_pidfd_open($0) }
        defer { handles.forEach { System.close($0) } }
        for process in processes where kill(process, SIGKILL) != 0 { throw Errno.current }
        for handle in handles {
            var entry = pollfd(fd: handle, events: Int16(POLLIN), revents: 0)
            guard try System.retry({ poll(&entry, 1, 10_000) }) == 1 else { throw Errno.timedOut }
        }
    }

    /// Kills the daemon alone; returns when another one serves the mount.
    func killDaemon() throws {
        let daemon = try pid_t(statistics().daemonPID)
        guard kill(daemon, SIGKILL) == 0 else { throw Errno.current }
        try waitUntil("another daemon serves") { (try? statistics()).map { pid_t($0.daemonPID) != daemon } ?? false }
    }

    private func detach() { _ = try? Command.run("umount", ["-l", mount], deadline: 10, mayFail: true) }

    /// What shell scripts find their places by.
    var environment: [String: String] {
        [
            "mnt": mount, "src": source.path, "tmp": scratch.path, "HOME": scratch.path, "COVE": binary, "STATE": state,
            "LC_ALL": "C.UTF-8", "TERM": "dumb",
        ]
    }

    /// Starts a bash script in the mount; `$mnt`, `$src` and `$tmp` are mount, source and a place that is neither.
    func start(_ script: String) throws -> Command {
        try Command("bash", ["-euo", "pipefail", "-c", "cd $mnt\n" + script], environment: environment)
    }

    /// Runs a bash script as `start` does and returns what it printed; throws when it fails.
    @discardableResult
    func shell(_ script: String, deadline: Double = 60) throws -> String {
        let result = try start(script).wait(deadline: deadline)
        guard result.status == 0 else {
            let log = (try? String(contentsOfFile: state + "/log", encoding: .utf8)) ?? ""
            let last = log.split(separator: "\n").suffix(8).joined(separator: "\n")
            throw CommandFailure("exit \(result.status)\n\(result.error)\(result.output)\nof\n\(script)\n\(last)")
        }
        return result.output
    }

    /// Sends and fetches everything, and fails if something is left.
    func settle() throws {
        try Command.run(binary, ["sync", "--wait", "--timeout", "100", "--state", state], deadline: 120)
    }

    /// Settles, and sees that mount and source have the same names and bytes, but for names that stay here.
    func expectSame(without local: [String] = [], location: SourceLocation = #_sourceLocation) throws {
        try settle()
        let options = ["-r", "--no-dereference", "--exclude=.cove*"] + local.map { "--exclude=\($0)" }
        let result = try Command.run("diff", options + [mount, source.path], deadline: 120, mayFail: true)
        #expect(result.status == 0, "\(result.error)\(result.output)", sourceLocation: location)
    }

    /// With `passthrough`, bytes of a file do pass by the daemon: it is not asked for what is read past the kernel's cache.
    func expectWay(_ way: String, location: SourceLocation = #_sourceLocation) throws {
        guard way.contains("passthrough") else { return }
        let before = try statistics().readHits
        try shell("head -c 1M /dev/zero > passing; dd if=passing of=$tmp/passed bs=1M iflag=direct status=none")
        let asked = try statistics().readHits - before
        try shell("cmp passing $tmp/passed; rm passing")
        #expect(asked == 0, "the daemon was asked \(asked) times", sourceLocation: location)
        let log = try shell("cat $STATE/log")
        #expect(!log.contains("passthrough is off"), "\(log)", sourceLocation: location)
    }

    func statistics() throws -> Statistics {
        let text = try Command.run(binary, ["stats", "--json", "--state", state]).output
        return try JSONDecoder().decode(Statistics.self, from: Data(text.utf8))
    }

    func info(_ name: String) throws -> ItemStatus {
        let text = try Command.run(binary, ["info", "--json", "\(mount)/\(name)"]).output
        return try JSONDecoder().decode(ItemStatus.self, from: Data(text.utf8))
    }
}

/// Runs a test's body where it may block, with an account that it may have filled before it is mounted.
func mounted(
    options: String = "",
    prepare: @escaping @Sendable (SourceFolder) throws -> Void = { _ in },
    _ body: @escaping @Sendable (MountedAccount) async throws -> Void
) async throws {
    try await blocking {
        let account = try MountedAccount(options: options)
        try prepare(account.source)
        try account.start()
        try await body(account)
        try account.end()
    }
}
