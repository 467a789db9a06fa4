import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

extension MountedInCompany {
    /// Random use of two devices on one real server, over lines that break and with clocks hours apart, against the model.
    struct CloudModelTests {
        /// COVE_MODEL_CLOUD names the one to repeat a walk on.
        private static let clouds = [Cloud.apache, .seaweedFS, .rcloneS3].filter { cloud in
            ProcessInfo.processInfo.environment["COVE_MODEL_CLOUD"].map { $0 == cloud.testDescription } ?? true
        }

        @Test(arguments: clouds)
        func `two devices over bad lines agree with the model`(cloud: Cloud) async throws {
            let environment = ProcessInfo.processInfo.environment
            let seed = environment["COVE_MODEL_SEED"].flatMap(UInt64.init) ?? UInt64.random(in: 0...UInt64(UInt32.max))
            let steps = environment["COVE_MODEL_STEPS"].flatMap(Int.init) ?? 60
            print("two devices on \(cloud.testDescription): seed \(seed), \(steps) steps")
            try await blocking {
                let devices = try TwoMounts(cloud, seed: seed)
                defer { devices.detach() }
                do {
                    try await ModelTest(devices, seed: seed).run(steps: steps)
                } catch {
                    throw CommandFailure("\(error)\n\(devices.logs)")
                }
                print("two devices on \(cloud.testDescription): \(devices.faults) faults")
                try devices.end()
            }
        }
    }
}

/// Two devices on one server: programs use the first, and what happens on the second is the other side.
private final class TwoMounts: AccountUnderTest {
    private let server: TestServer
    private let clock: WrongClock
    private let lines: [FaultProxy]
    private let mounts: [MountedAccount]
    private let random: Mutex<SeededGenerator>
    private let count = Atomic(0)
    let tree: MountedTree

    init(_ cloud: Cloud, seed: UInt64) throws {
        let server = try cloud.start()
        let lines = try (0..<2).map { _ in try FaultProxy(to: server.port) }
        let options = "poll=1h,settle=50ms,stall-limit=2s,log=debug"
        var random = SeededGenerator(seed: seed &+ 1)
        clock = try WrongClock(hours: Int.random(in: 1...12, using: &random) * (random.oneIn(2) ? 1 : -1))
        mounts = try [[:], clock.variables].enumerated().map { index, variables in
            try MountedAccount(options: options, address: cloud.address(lines[index].port), variables: variables)
        }
        self.server = server
        self.lines = lines
        self.random = Mutex(random)
        tree = MountedTree(mounts[0].mount)
        for mount in mounts { try mount.start() }
        for mount in mounts { try mount.shell("ls -a") }
    }

    var source: String { mounts[1].mount }

    /// How many faults there were.
    var faults: Int { count.load(ordering: .relaxed) }

    /// The last that each daemon said.
    var logs: String { mounts.map { (try? $0.shell("tail -40 $STATE/log")) ?? "" }.joined(separator: "\n---\n") }

    func end() throws { for mount in mounts { try mount.end() } }

    func detach() { for line in lines { line.dropAll() } }

    func settle() async throws {
        try misbehave()
        for mount in [mounts[0], mounts[1], mounts[0], mounts[1], mounts[0]] {
            // A claim whose request got no answer holds a bucket's key for a minute.
            try mount.shell(
                "$COVE sync --wait --timeout 150 --accept-deletions --accept-local-deletions --state $STATE",
                deadline: 200
            )
        }
    }

    /// Both try to sync over lines with one fault, which ends.
    private func misbehave() throws {
        let fault: (inout FaultProxy.Faults) -> Void = random.withLock { random in
            let status = [401, 412, 500, 503, 507].randomElement(using: &random) ?? 500
            let bytes = Int.random(in: 0...5000, using: &random)
            let every = Int.random(in: 1...3, using: &random)
            let kind = Int.random(in: 0..<6, using: &random)
            return { faults in
                faults.every = every
                switch kind {
                case 0: faults.refuses = true
                case 1: faults.isSilent = true
                case 2: faults.cutAfter = bytes
                case 3: faults.stallAfter = bytes
                default: faults.answer = "HTTP/1.1 \(status) Injected\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                }
            }
        }
        for line in lines {
            line.set(fault)
            line.dropAll()
        }
        count.add(1, ordering: .relaxed)
        let syncs = try mounts.map { try $0.start("$COVE sync --wait --timeout 3 --state $STATE || true") }
        for sync in syncs { _ = try sync.wait(deadline: 30) }
        for line in lines {
            line.set { $0 = FaultProxy.Faults() }
            line.dropAll()
        }
    }

    func evict(_ path: String) async -> Bool { (try? mounts[0].shell("$COVE evict '\(path)'")) != nil }

    func download(_ path: String) async throws { try mounts[0].shell("$COVE download --wait '\(path)'") }

    func setOffline(_ offline: Bool) async throws {
        lines[0].set { $0.refuses = offline }
        lines[0].dropAll()
        // An open for writing needs the base of what is to be changed only in part.
        if !offline { try mounts[0].shell("$COVE sync --state $STATE") }
    }

    func crash() async throws {
        if count.load(ordering: .relaxed).isMultiple(of: 2) { return try mounts[0].killDaemon() }
        try mounts[0].crash()
        try mounts[0].start()
    }
}
