import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

extension Mounted {
    /// Random use of a mount, with remote changes, pauses and kills, against the model.
    struct MountedModelTests {
        @Test(arguments: ["", "passthrough"])
        func `random use of a mount agrees with the model`(way: String) async throws {
            let environment = ProcessInfo.processInfo.environment
            let seed = environment["COVE_MODEL_SEED"].flatMap(UInt64.init) ?? UInt64.random(in: 0...UInt64(UInt32.max))
            let steps = environment["COVE_MODEL_STEPS"].flatMap(Int.init) ?? (way.isEmpty ? 150 : 75)
            print("mounted model test: seed \(seed), \(steps) steps \(way)")
            try await mounted(options: way.isEmpty ? "log=debug" : "log=debug,\(way)") { account in
                // This process waits in the mount itself: a mount that hangs is killed from outside.
                let watchdog = try account.start("sleep \(60 + steps); $COVE unmount --lazy $mnt || umount -l $mnt")
                defer { watchdog.signal(SIGKILL) }
                try await ModelTest(ModelledMount(account), seed: seed).run(steps: steps)
                try account.expectWay(way)
            }
        }
    }
}

/// A mounted account as the model test drives it; a pause stands for a spell offline.
private final class ModelledMount: AccountUnderTest {
    private let account: MountedAccount
    private let crashes = Atomic(0)
    let tree: MountedTree

    init(_ account: MountedAccount) {
        self.account = account
        tree = MountedTree(account.mount)
    }

    var source: String { account.source.path }

    func settle() async throws {
        let sync = "$COVE sync --wait --timeout 60 --accept-deletions --accept-local-deletions --state $STATE"
        try account.shell("\(sync); \(sync)", deadline: 130)
    }

    func evict(_ path: String) async -> Bool { (try? account.shell("$COVE evict '\(path)'")) != nil }

    func download(_ path: String) async throws { try account.shell("$COVE download --wait '\(path)'") }

    func setOffline(_ offline: Bool) async throws {
        try account.shell("$COVE \(offline ? "pause" : "resume") --state $STATE")
    }

    /// Half of the time only the daemon dies, and the mount stays.
    func crash() async throws {
        if crashes.add(1, ordering: .relaxed).newValue.isMultiple(of: 2) { return try account.killDaemon() }
        try account.crash()
        try account.start()
    }
}
