import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// What must not cost a round trip each.
    struct CloudSpeedTests {
        @Test(arguments: ["grep -r text many | wc -l", "cat many/* | wc -l"])
        func `small files that a program reads one after the other are fetched ahead`(script: String) async throws {
            try await blocking {
                let cloud = try ScriptedCloud()
                let proxy = try FaultProxy(to: cloud.server.port)
                cloud.makeFolder("many")
                let count = 300
                for index in 0..<count { cloud.put("many/f\(1000 + index)", Array("text \(index)\n".utf8)) }
                let address = cloud.source.replacingOccurrences(of: ":\(cloud.server.port)", with: ":\(proxy.port)")
                let account = try MountedAccount(options: "poll=300s", address: address)
                try account.start()
                try account.shell("ls many > /dev/null")
                // Longer than all else that reading a file takes, however busy the machine is.
                let latency = 100.0
                proxy.set { $0.latency = Int32(latency) }
                proxy.dropAll()
                let start = ContinuousClock.now
                let lines = try account.shell(script, deadline: 100)
                let time = ContinuousClock.now - start
                #expect(lines == "\(count)\n")
                // One after the other would take a round trip each at least.
                let one = Duration.milliseconds(Int64(latency) * 2)
                print("\(script): \(count) files in \(time), one after the other at least \(one * count)")
                #expect(time < one * count / 3)
                try account.end()
            }
        }
    }
}
