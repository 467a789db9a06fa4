import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

extension MountedInCompany {
    /// Servers that say anything while they are tried out, and the truth from then on: nothing of it may stick.
    ///
    /// `HostileSourceTests` says how to make each a longer one.
    struct HostileProbeTests {
        /// What changes the answers, while there is somebody to believe them.
        private final class Hostility: Sendable {
            private let mutator = Mutex<Mutator?>(nil)

            /// Now and then only: the first mount ends at the first lie that it notices.
            func begin(_ seed: UInt64) { mutator.withLock { $0 = Mutator(seed: seed, oneIn: seed % 2 == 0 ? 4 : 20) } }
            func end() { mutator.withLock { $0 = nil } }
            func refuses() -> ScriptedServer.Answer? { mutator.withLock { $0 }?.refuses() }
            func change(_ reply: inout ScriptedServer.Reply) { mutator.withLock { $0 }?.change(&reply) }
        }

        @Test func `a WebDAV server says anything at first`() async throws {
            try await blocking {
                let hostility = Hostility()
                let cloud = try ScriptedCloud()
                cloud.answer { _ in hostility.refuses() }
                cloud.rewrite { _, reply in hostility.change(&reply) }
                try Self.mountOften("WebDAV", cloud.source, hostility)
            }
        }

        @Test func `an S3 server says anything at first`() async throws {
            try await blocking {
                let hostility = Hostility()
                let server = try Cloud.seaweedFS.start()
                let port = server.port
                let front = try ScriptedServer { _ in
                    hostility.refuses() ?? .changed(port) { hostility.change(&$0) }
                }
                try Self.mountOften("S3", Cloud.s3Address(front.port), hostility)
                withExtendedLifetime(server) {}
            }
        }

        /// Mounts new accounts for a while: each writes one file, which all see at the end.
        private static func mountOften(_ kind: String, _ address: String, _ hostility: Hostility) throws {
            let seed = HostileSourceTests.seed
            let end = ContinuousClock.now + .seconds(HostileSourceTests.seconds)
            var expected = ""
            var failures = 0
            var number = 0
            while ContinuousClock.now < end {
                number += 1
                let account = try MountedAccount(options: "settle=50ms,poll=1s,stall-limit=2s", address: address)
                hostility.begin(seed &+ UInt64(number))
                let first = try account.start(
                    "cd /; export COVE_PASSWORD=\(TestServer.password); exec $COVE mount '\(address)' $mnt --state $STATE"
                )
                let hasEnded = first.hasEnded(within: 2)
                hostility.end()
                let result = try first.wait(deadline: 130)
                if result.status == 0 {
                    let isMounted = try account.shell("mountpoint -q $mnt && echo yes || echo no") == "yes\n"
                    #expect(isMounted, "round \(number) of seed \(seed)")
                } else {
                    failures += 1
                    let lines = result.error.split(separator: "\n")
                    #expect(
                        lines.count == 1 && result.error.hasPrefix("cove: "),
                        "round \(number) of seed \(seed), which \(hasEnded ? "ended" : "did not end"): \(result.error)"
                    )
                    // Now it tells the truth.
                    try account.start()
                }
                let daemon = try account.statistics().daemonPID
                try account.shell("echo content \(number) > t\(number)")
                do { try account.settle() } catch {
                    throw CommandFailure("round \(number) of seed \(seed): \(error)")
                }
                #expect(try account.statistics().daemonPID == daemon)
                #expect(try !account.shell("cat $STATE/log").contains("keeper:"))
                try account.end()
                expected += "content \(number)\n"
            }
            let account = try MountedAccount(options: "poll=1s", address: address)
            try account.start()
            #expect(try account.shell("ls -v | xargs cat") == expected)
            try account.end()
            print("\(kind): \(number) first mounts, \(failures) failed at first, seed \(seed)")
        }
    }
}
