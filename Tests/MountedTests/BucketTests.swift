import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// A mounted bucket.
    struct BucketTests {
        @Test(.timeLimit(.minutes(3)), arguments: [Cloud.seaweedFS])
        func `a big upload survives kill -9 again and again, and no part that was acknowledged is sent twice`(
            cloud: Cloud
        ) async throws {
            try await blocking {
                let server = try cloud.start()
                let port = server.port
                let front = try ScriptedServer { _ in .handOn(port) }
                func parts() -> [(number: Int, before: Int, at: Int)] {
                    front.exchanges.enumerated().compactMap { index, exchange in
                        guard exchange.request.method == "PUT", exchange.status == 200,
                            let place = exchange.request.target.firstRange(of: "partNumber="),
                            let number = Int(exchange.request.target[place.upperBound...].prefix { $0.isNumber })
                        else { return nil }
                        return (number, exchange.before, index)
                    }
                }
                let account = try MountedAccount(options: "settle=50ms", address: Cloud.s3Address(front.port))
                try account.start()
                try account.shell("head -c 400000000 /dev/urandom > $tmp/big; cp $tmp/big big", deadline: 120)
                for round in 1...3 {
                    try waitUntil("parts are sent", deadline: 60) { parts().count >= 5 * round }
                    try account.killDaemon()
                }
                try account.settle()
                let sent = parts()
                let again = sent.filter { part in sent.contains { $0.number == part.number && $0.at < part.before } }
                print("\(sent.count) parts acknowledged of 24, \(again.count) sent again after that")
                #expect(Set(sent.map(\.number)).count == 24 && again.isEmpty)
                try account.end()
                let other = try MountedAccount(address: Cloud.s3Address(port))
                try other.start()
                try account.shell("cmp $tmp/big \(other.mount)/big")
                try other.end()
            }
        }
    }
}
