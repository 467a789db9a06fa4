import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// A network that comes and goes.
    struct NetworkTests {
        @Test func `what waits goes on as soon as the machine's network changes`() async throws {
            try await blocking {
                let cloud = try ScriptedCloud()
                let proxy = try FaultProxy(to: cloud.server.port)
                let address = cloud.source.replacingOccurrences(of: ":\(cloud.server.port)", with: ":\(proxy.port)")
                let account = try MountedAccount(options: "poll=300s,settle=50ms,log=debug", address: address)
                try account.start()
                try account.shell("echo one > file")
                try account.settle()
                proxy.set { $0.refuses = true }
                proxy.dropAll()
                try account.shell("echo two > file; $COVE sync --state $STATE || true")
                // After the fifth attempt it rests for 8 to 16 s.
                try waitUntil("the pauses are long", deadline: 60) {
                    try account.shell("grep -c 'connecting failed' $STATE/log || true").hasPrefix("5")
                }
                proxy.set { $0.refuses = false }
                let start = ContinuousClock.now
                try account.shell("ip addr add 127.77.0.1/32 dev lo; ip addr del 127.77.0.1/32 dev lo")
                try waitUntil("it is sent", deadline: 60) { cloud.bytes("file") == Array("two\n".utf8) }
                #expect(ContinuousClock.now - start < .seconds(6))
                try account.end()
            }
        }
    }
}
