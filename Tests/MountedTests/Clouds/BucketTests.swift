import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// A mounted bucket.
    struct BucketTests {
        @Test func `which device changed a file last is told once its bytes have come`() async throws {
            try await blocking {
                let server = try Cloud.seaweedFS.start()
                let front = try ScriptedServer { _ in .handOn(server.port) }
                let asked = "getfattr --only-values -n user.cove.most-recent-editor"
                let one = try MountedAccount(options: "settle=50ms", address: Cloud.s3Address(front.port))
                try one.start()
                let host = try one.shell("uname -n").trimmingCharacters(in: .newlines)
                try one.shell("echo text > f; echo text > other; $COVE sync --wait")
                #expect(try one.shell("\(asked) f") == host)
                let query = "MostRecentEditorNameComponents == \"\(host)\""
                #expect(try one.shell("$COVE query '\(query)' --count") == "2\n")
                try one.end()
                let two = try MountedAccount(options: "settle=50ms", address: Cloud.s3Address(front.port))
                try two.start()
                try two.shell("ls")
                try two.expectRefused("\(asked) f", "No such attribute")
                let follow = try two.start("exec $COVE query '\(query)' --follow --interval 0")
                try waitUntil("it goes on", deadline: 30) { follow.error.contains("0 found") }
                let before = front.exchanges.count
                #expect(try two.shell("cat f") == "text\n")
                try waitUntil("it is told", deadline: 30) { (try? two.shell("\(asked) f")) == host }
                try waitUntil("who asked before is told", deadline: 30) { follow.output.hasSuffix("/f\n") }
                follow.signal(SIGINT)
                #expect(try two.shell("$COVE query '\(query)' | sed 's,.*/,,'") == "f\n")
                // It came along with the bytes: nothing else was asked of the file.
                let requests = front.exchanges.dropFirst(before).map(\.request).filter { $0.target.contains("/f") }
                #expect(requests.allSatisfy { $0.method == "GET" }, "\(requests.map { "\($0.method) \($0.target)" })")
                try two.end()
            }
        }

        /// COVE_UPLOAD_BYTES and COVE_UPLOAD_KILLS make it a longer one.
        @Test(arguments: [Cloud.seaweedFS])
        func `a big upload survives kill -9 again and again, and no part that was acknowledged is sent twice`(
            cloud: Cloud
        ) async throws {
            let environment = ProcessInfo.processInfo.environment
            let size = environment["COVE_UPLOAD_BYTES"].flatMap(Int.init) ?? 240_000_000
            let kills = environment["COVE_UPLOAD_KILLS"].flatMap(Int.init) ?? 3
            let seed = environment["COVE_MODEL_SEED"].flatMap(UInt64.init) ?? UInt64.random(in: 0...UInt64(UInt32.max))
            let count = (size + (16 << 20) - 1) / (16 << 20)
            print("an upload of \(size) bytes, killed \(kills) times: seed \(seed)")
            try await blocking {
                var random = SeededGenerator(seed: seed)
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
                // All of one version: what is sent before cp has closed it has another date.
                try account.shell("head -c \(size) /dev/urandom > $tmp/big", deadline: 600)
                try account.shell("$COVE pause; cp $tmp/big big; $COVE resume", deadline: 600)
                var crashes: [Int] = []
                for round in 1...kills {
                    // Some time after that many parts, in the middle of others or of looking at those that are there.
                    let least = (count - 4) * round / (kills + 1)
                    try waitUntil("parts are sent", deadline: 120) { parts().count >= least }
                    usleep(UInt32.random(in: 0...300_000, using: &random))
                    print("kill \(round): \(parts().count) of \(count) parts acknowledged")
                    #expect(parts().count < count)
                    crashes.append(front.exchanges.count)
                    try account.crash()
                    try account.start()
                }
                try waitUntil("all parts are sent", deadline: 600) { Set(parts().map(\.number)).count == count }
                try account.settle()
                let sent = parts()
                // What was on its way at a crash was acknowledged to nobody, and may arrive after the next daemon has looked.
                let known = sent.filter { part in !crashes.contains { part.before <= $0 && $0 <= part.at } }
                let again = sent.filter { part in known.contains { $0.number == part.number && $0.at < part.before } }
                print("\(sent.count) parts acknowledged of \(count), \(again.count) sent again after that")
                #expect(Set(sent.map(\.number)).count == count)
                if !again.isEmpty {
                    // What else was asked, and the log, tell why.
                    let others = front.exchanges.enumerated().filter { !sent.map(\.at).contains($0.offset) }
                    let lines = others.map { "\($0) \($1.request.method) \($1.request.target) \($1.status)" }
                    let log = try account.shell("tail -60 $STATE/log")
                    Issue.record("crashes at \(crashes): \(again)\n\(lines.joined(separator: "\n"))\n\(log)")
                }
                try account.end()
                let other = try MountedAccount(address: Cloud.s3Address(port))
                try other.start()
                try account.shell("cmp $tmp/big \(other.mount)/big", deadline: 600)
                try other.end()
            }
        }
    }
}
