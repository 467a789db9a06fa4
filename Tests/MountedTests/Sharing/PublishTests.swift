import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Links to files; the numbers are those of the acceptance checklist.
    struct PublishTests {
        private struct Published: Decodable {
            var url: String
            var expires: String
            var version: String
        }

        @Test func `68. a link to a file in a bucket does not follow later edits, and has an end`() async throws {
            try await blocking {
                let server = try TestServer.seaweedFS()
                try expectLink(Cloud.s3Address(server.port), keepsCopy: true)
            }
        }

        @Test func `68. where the bucket keeps versions, the link is to one`() async throws {
            try await blocking {
                let server = try TestServer.seaweedFS()
                try server.keepVersions()
                try expectLink(Cloud.s3Address(server.port), keepsCopy: false)
            }
        }

        @Test func `68. a link to a file in a Nextcloud does not follow later edits`() async throws {
            try await blocking {
                let cloud = try ScriptedCloud()
                _ = cloud.sharesFiles()
                try expectLink(cloud.source, keepsCopy: true)
            }
        }

        private func expectLink(_ address: String, keepsCopy: Bool) throws {
            let account = try MountedAccount(options: "settle=50ms", address: address)
            try account.start()
            try account.shell("echo 'as it was' > letter; mkdir d p.rtfd; ln -s letter link; echo p > p.rtfd/TXT.rtf")
            try account.settle()
            let made = try account.cove("publish letter --expires 2h", as: Published.self)
            #expect(try account.shell("curl -sSf '\(made.url)'") == "as it was\n")
            #expect(made.version == (try account.info("letter").contentVersion))
            let end = try #require(ISO8601DateFormatter().date(from: made.expires))
            #expect(abs(end.timeIntervalSinceNow - 7200) < 120)
            #expect(made.url.contains(".cove-published") == (keepsCopy && made.url.contains("X-Amz-")))
            try account.shell("echo 'another text' > letter; $COVE sync --wait; cat letter")
            #expect(try account.shell("curl -sSf '\(made.url)'") == "as it was\n")
            // What is made later is of what is there then; and nothing of all that is to be seen.
            #expect(try account.shell("curl -sSf \"$($COVE publish letter)\"") == "another text\n")
            #expect(try account.shell("ls -A") == "d\nletter\nlink\np.rtfd\n")
            #expect(try account.shell("! grep -q X-Amz-Signature $STATE/log && echo none") == "none\n")
            let folder = "only a file can be published; pack the folder first"
            for name in ["d", "p.rtfd"] { try account.expectRefusal("$COVE publish \(name)", "\(name): \(folder)") }
            try account.expectRefusal("$COVE publish link", "link: only a file can be published, and this is none")
            try account.expectRefusal("$COVE publish none", "none: no such item; check the name")
            try account.expectRefusal(
                "$COVE publish letter --expires soon",
                "--expires soon: is no duration; write for instance 90m, 12h or 7d",
                status: 2
            )
            try account.expectRefusal(
                "$COVE pause; echo new > letter; $COVE publish letter",
                "letter: what was changed here is still waiting to be sent; run `cove sync --wait` first"
            )
            try account.shell("$COVE resume")
            try account.settle()
            try account.end()
        }

        @Test func `a source that makes no links says so, and one that is away too`() async throws {
            try await mounted(prepare: { try $0.save("f", Array("x".utf8)) }) { account in
                try account.expectRefusal(
                    "cat f > /dev/null; $COVE publish f",
                    "f: this source gives no links to files; copy it to a bucket or a Nextcloud"
                )
            }
            try await blocking {
                let server = try TestServer.seaweedFS()
                let line = try FaultProxy(to: server.port)
                let account = try MountedAccount(
                    options: "settle=50ms,stall-limit=1s",
                    address: Cloud.s3Address(line.port)
                )
                try account.start()
                try account.shell("echo x > f")
                try account.settle()
                line.set { $0.refuses = true }
                line.dropAll()
                let result = try account.start("$COVE publish f").wait(deadline: 60)
                #expect(result.status == 1 && result.error.contains("the source can't be reached"))
                line.set { $0.refuses = false }
                try account.end()
            }
        }
    }
}
