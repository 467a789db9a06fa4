import CoveCore
import CoveTestSupport
import Foundation
import Synchronization

/// One of the devices of a storm: an account that is mounted, and what was done to its processes.
final class StormDevice: Sendable {
    let index: Int
    let account: MountedAccount
    /// The line to the source, where there is one.
    let line: FaultProxy?
    /// Held while a program writes in a file, or reads one whole: what others have written by half is no torn read.
    let contents = Mutex(())
    private let mayBeCutOff: Bool
    private let calls: StormCalls
    private let state = Mutex<(tree: StormTree?, daemon: Int, query: StormQuery?)>((nil, 0, nil))

    init(_ index: Int, _ account: MountedAccount, _ line: FaultProxy?, mayBeCutOff: Bool, _ calls: StormCalls) {
        self.index = index
        self.account = account
        self.line = line
        self.mayBeCutOff = mayBeCutOff
        self.calls = calls
    }

    /// The mount; nil while there is none.
    var tree: StormTree? { state.withLock { $0.tree } }

    /// What is followed in the mount.
    var query: StormQuery? { state.withLock { $0.query } }

    /// Mounts.
    func start() throws {
        try account.start()
        let tree = try StormTree(device: index, mount: account.mount, mayBeCutOff: mayBeCutOff, calls: calls)
        let daemon = try account.statistics().daemonPID
        let query = try StormQuery(account, device: index)
        state.withLock { $0 = (tree, daemon, query) }
    }

    /// Kills the daemon; the keeper starts another one, and programs are to notice nothing.
    func killDaemon() throws {
        try account.killDaemon()
        let daemon = try account.statistics().daemonPID
        state.withLock { $0.daemon = daemon }
    }

    /// Kills everything of the account, and mounts it again.
    func crash() throws {
        state.withLock { state in
            state.tree?.die()
            (state.tree, state.query) = (nil, nil)
        }
        try account.crash()
        try start()
    }

    /// Unmounts.
    func end() throws {
        state.withLock { ($0.tree, $0.query) = (nil, nil) }
        try account.end()
    }

    /// Runs `cove` and tells what it complained of when it failed.
    ///
    /// Throws when it takes too long.
    func cove(_ words: String, deadline: Double = 100) throws -> String? {
        let result = try account.start("cd /; exec $COVE \(words) --state $STATE").wait(deadline: deadline)
        return result.status == 0 ? nil : "device \(index): cove \(words): \(result.error)\(result.output)"
    }

    /// What is wrong with its daemon: it must be the one that was there after the last kill.
    func daemonProblem() throws -> String? {
        let (now, known) = (try account.statistics().daemonPID, state.withLock { $0.daemon })
        return now == known ? nil : "device \(index): daemon \(known) died by itself, and \(now) serves"
    }
}
