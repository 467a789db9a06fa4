import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// A source that has more of something than anybody wants to hear of.
    struct FloodTests {
        @Test func `so many bad names are a number in the status, and no lines of their own in the log`() async throws {
            try await blocking {
                let count = 20_000
                let cloud = try ScriptedCloud()
                cloud.makeFolder("bad")
                cloud.put("bad/good", Array("good".utf8))
                cloud.rewrite { request, reply in
                    let isListing = reply.statusLine.contains(" 207 ") && request.value("depth") == "1"
                    guard isListing, request.target.hasSuffix("/bad/") || request.target.hasSuffix("/bad") else {
                        return
                    }
                    reply.rewriteText { text in
                        let names = (0..<count).map { number in
                            """
                            <d:response><d:href>\(ScriptedCloud.home)/bad/\(number)%2F%0A2026-01-01T00:00:00Z%20error%20forged\
                            </d:href><d:propstat><d:prop><d:resourcetype/><d:getetag>"1"</d:getetag>\
                            <d:getcontentlength>1</d:getcontentlength></d:prop><d:status>HTTP/1.1 200 OK</d:status>\
                            </d:propstat></d:response>
                            """
                        }
                        return text.replacingOccurrences(
                            of: "</d:multistatus>",
                            with: names.joined() + "</d:multistatus>"
                        )
                    }
                }
                let account = try MountedAccount(options: "settle=50ms", address: cloud.source)
                try account.start()
                #expect(try account.shell("ls bad; cat bad/good") == "good\ngood")
                let status = try account.cove("status", as: AccountStatus.self)
                #expect(status.errorCount == count && (1...100).contains(status.errors.count))
                #expect(try account.cove("status").contains("and \(count - status.errors.count) more\n"))
                _ = try account.cove("sync")
                let log = try account.shell("cat $STATE/log")
                let lines = log.split(separator: "\n").filter { $0.contains("forged") }
                #expect((1...2000).contains(lines.count) && lines.allSatisfy { $0.contains(" notice bad/") })
                try account.end()
            }
        }

        @Test func `a listing that nobody waits for stops`() async throws {
            try await blocking {
                let cloud = try ScriptedCloud()
                cloud.makeFolder("slow")
                let head = "HTTP/1.1 207 Multi-Status\r\n\r\n<d:multistatus xmlns:d=\"DAV:\">"
                let row = """
                    <d:response><d:href>\(ScriptedCloud.home)/slow/again</d:href><d:propstat><d:prop><d:resourcetype/>\
                    <d:getetag>"1"</d:getetag><d:getcontentlength>1</d:getcontentlength></d:prop>\
                    <d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>
                    """
                // A row in each tenth of a second is progress, for hours.
                let rows = Array(String(repeating: row, count: 100_000).utf8)
                cloud.answer { request in
                    guard request.method == "PROPFIND", request.value("depth") == "1", request.target.contains("/slow")
                    else { return nil }
                    return .slow(Array(head.utf8), rows, step: row.utf8.count, rest: 100)
                }
                let account = try MountedAccount(options: "stall-limit=1s,poll=1h", address: cloud.source)
                try account.start()
                let names = try account.start("exec ls slow").wait(deadline: 60)
                #expect(names.status != 0 && names.error.contains("timed out"), "\(names.error)")
                try waitUntil("the server is asked no more", deadline: 100) { cloud.server.isIdle }
                try account.end()
            }
        }
    }
}
