import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Large files on their way to a server that takes chunks.
    struct ChunkTests {
        @Test(.timeLimit(.minutes(3)))
        func `a big upload survives kill -9 again and again, and no chunk that was acknowledged is sent twice`()
            async throws
        {
            try await blocking {
                let cloud = try ScriptedCloud()
                func chunks() -> [(number: Int, before: Int, at: Int)] {
                    cloud.server.exchanges.enumerated().compactMap { index, exchange in
                        let parts = exchange.request.target.split(separator: "/")
                        guard exchange.request.method == "PUT", exchange.status == 201, parts.contains("uploads"),
                            !exchange.request.lines.contains("OC-Total-Length: 1"),
                            let number = parts.last.flatMap({ Int($0) })
                        else { return nil }
                        return (number, exchange.before, index)
                    }
                }
                let account = try MountedAccount(options: "settle=50ms,poll=300s", address: cloud.source)
                try account.start()
                // All of one version: what is sent before cp has closed it has another date.
                try account.shell("ls; head -c 200000000 /dev/urandom > $tmp/big", deadline: 120)
                try account.shell("$COVE pause; cp $tmp/big big; $COVE resume", deadline: 120)
                for round in 1...3 {
                    try waitUntil("chunks are sent", deadline: 60) { chunks().count >= 3 * round }
                    try account.killDaemon()
                }
                try account.settle()
                let sent = chunks()
                let again = sent.filter { chunk in sent.contains { $0.number == chunk.number && $0.at < chunk.before } }
                print("\(sent.count) chunks acknowledged of 12, \(again.count) sent again after that")
                #expect(Set(sent.map(\.number)).count == 12 && again.isEmpty)
                let local = try Data(contentsOf: URL(fileURLWithPath: account.scratch.appending("big")))
                #expect(cloud.bytes("big").map { Data($0) } == local)
                #expect(try account.shell("ls $STATE/uploads") == "owner\n")
                try account.end()
            }
        }
    }
}
