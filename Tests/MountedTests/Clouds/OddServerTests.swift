import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Servers that can't bear some names.
    struct OddServerTests {
        @Test func `a server that breaks off at one name has all others`() async throws {
            try await blocking {
                let cloud = try ScriptedCloud()
                cloud.put("there", Array("there".utf8))
                cloud.answer { request in
                    let isAsked =
                        request.target.contains("poison") || request.value("destination")?.contains("poison") == true
                    return isAsked ? .hangUp : nil
                }
                let account = try MountedAccount(options: "settle=50ms,poll=1s", address: cloud.source)
                try account.start()
                // Names of a folder that was listed are known here.
                try account.shell("ls; echo bad > poison; for n in 1 2 3; do echo good > good$n; done")
                try waitUntil("the others are sent", deadline: 60) {
                    _ = try account.cove("sync")
                    return (1...3).allSatisfy { cloud.bytes("good\($0)") == Array("good\n".utf8) }
                }
                try waitUntil("the one says why it waits", deadline: 60) {
                    let status = try account.cove("status", as: AccountStatus.self)
                    return status.state != "offline" && status.errors.contains { $0.path.hasSuffix("poison") }
                }
                #expect(try account.shell("cat there poison; echo more >> good1") == "therebad\n")
                try waitUntil("work goes on", deadline: 60) {
                    _ = try account.cove("sync")
                    return cloud.bytes("good1") == Array("good\nmore\n".utf8)
                }
                cloud.answer(nil)
                try account.settle()
                #expect(cloud.bytes("poison") == Array("bad\n".utf8))
                try account.end()
            }
        }

        @Test func `names that a server would change are told, and shown once`() async throws {
            try await blocking {
                let cloud = try ScriptedCloud()
                cloud.changeNames { path in
                    path.split(separator: "/").map { $0.prefix { $0 != ";" } }.joined(separator: "/")
                }
                let account = try MountedAccount(options: "settle=50ms,poll=1s", address: cloud.source)
                try account.start()
                try account.shell("echo one > 'a;b'; echo two > plain")
                try waitUntil("it is told", deadline: 60) {
                    _ = try account.cove("sync")
                    return try account.cove("status 'a;b'").contains("a semicolon")
                }
                try waitUntil("the other is sent", deadline: 60) { cloud.bytes("plain") == Array("two\n".utf8) }
                #expect(try account.shell("ls; cat 'a;b'") == "a;b\nplain\none\n")
                #expect(cloud.names().filter { $0 != ".cove-news" } == ["plain"])
                try account.end()
            }
        }
    }
}
