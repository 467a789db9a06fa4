import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// With whom items are shared, as a Nextcloud tells; by a server that follows its public protocol.
    struct SharedItemTests {
        private func values(_ account: MountedAccount, _ path: String) throws -> [String] {
            try ["is-shared", "role", "permissions", "owner-name"].map { key in
                let asked = "getfattr --only-values -n user.cove.\(key) \(path) 2> $tmp/said"
                return try account.shell("\(asked) || grep -o 'No such attribute' $tmp/said")
                    .trimmingCharacters(in: .newlines)
            }
        }

        @Test func `who owns a shared item, and what the user may do with it, is told without its bytes`() async throws
        {
            try await blocking {
                let cloud = try ScriptedCloud()
                _ = cloud.sharesFiles()
                for name in ["mine", "given", "got", "read"] { cloud.put(name, Array("text".utf8)) }
                cloud.makeFolder("team")
                cloud.put("team/plan", Array("text".utf8))
                cloud.share("mine", permissions: "RGDNVW")
                cloud.share("given", permissions: "RGDNVW", isGiven: true)
                cloud.share("got", permissions: "SRGDNVW", owner: "Grace\u{85}Hopper")
                cloud.share("read", permissions: "SG", owner: "Grace Hopper")
                cloud.share("team", permissions: "SRGDNVCK", owner: "Grace Hopper")
                let account = try MountedAccount(options: "settle=50ms,poll=200ms", address: cloud.source)
                try account.start()
                let none = "No such attribute"
                #expect(try values(account, "mine") == ["0", "owner", "readWrite", none])
                #expect(try values(account, "given") == ["1", "owner", "readWrite", none])
                #expect(try values(account, "read") == ["1", "participant", "readOnly", "Grace Hopper"])
                #expect(try values(account, "team") == ["1", "participant", "readWrite", "Grace Hopper"])
                let got = try values(account, "got")
                #expect(
                    got.prefix(3) == ["1", "participant", "readWrite"] && !got[3].contains("\u{85}")
                        && got[3].hasPrefix("Grace"),
                    "\(got)"
                )
                let query = "IsShared == TRUE AND CurrentUserRole == \"participant\""
                let found = try account.shell(
                    "$COVE query '\(query)' | sed \"s,.*/,,\" | sort; $COVE query 'IsShared == FALSE' --count"
                )
                #expect(found == "got\nread\nteam\n2\n", "\(found)")
                #expect(try account.statistics().bytesDownloaded == 0)
                // No program sets it, and no copy has it.
                try account.expectRefused("setfattr -n user.cove.is-shared -v 1 mine", "Operation not permitted")
                #expect(try account.shell("cp -a got copy; getfattr -d -m - copy") == "")
                // An edit tells nothing of it, and changes nothing of it.
                try account.shell("echo more >> got; $COVE sync --wait")
                #expect(try values(account, "got").prefix(3) == ["1", "participant", "readWrite"])
                // It is taken away, and another one is given, though tags and dates stay.
                cloud.share("got", permissions: "RGDNVW")
                cloud.share("mine", permissions: "RGDNVW", isGiven: true)
                try account.shell("$COVE sync")
                try waitUntil("what was changed is told", deadline: 60) {
                    try values(account, "got")[0] == "0" && values(account, "mine")[0] == "1"
                }
                try account.end()
            }
        }

        @Test func `where nobody tells, everything is the user's own`() async throws {
            try await mounted { account in
                try account.shell("echo text > f")
                #expect(try values(account, "f") == ["0", "owner", "readWrite", "No such attribute"])
            }
        }
    }
}
