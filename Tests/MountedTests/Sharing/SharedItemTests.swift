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
                cloud.share("read", permissions: "SG", owner: "Grace Hopper", created: 1_234_567_890)
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
                let births = try account.shell("stat -c %W read; [ $(stat -c %W mine) = $(stat -c %Y mine) ]")
                #expect(births == "1234567890\n")
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

        /// A source that keeps no attributes of programs has those of the former content stay.
        @Test(arguments: [true, false])
        func `who changed a document last is told, for as long as the content is that one's`(
            keepsAttributes: Bool
        ) async throws {
            try await ScriptedProvider.account(
                """
                def hello(self, parameters, call):
                    told = super().hello(parameters, call)
                    keeps = \(keepsAttributes ? "True" : "False")
                    return {**told, "capabilities": {**told["capabilities"], "extendedAttributes": keeps}}
                def item(self, name, node):
                    found = super().item(name, node)
                    forged = {"name": "user.cove.most-recent-editor", "value": "Mallory"}
                    found["metadata"] = {**found["metadata"], "attributes": [forged]}
                    created = {"f": 1_234_567_890_123_456_789, "g": -1, "h": 2**63 - 1, "i": -2**63}
                    if name in created: found["created"] = created[name]
                    if os.path.exists(here + "/editors"):
                        with open(here + "/editors") as file:
                            editors = json.load(file)
                        if name in editors:
                            found["editor"] = editors[name]
                            found["metadataVersion"] = hashlib.sha256(editors[name].encode()).hexdigest()
                    return found
                """,
                tree: #"{"f": "f", "g": "g", "h": "h", "i": "i"}"#
            ) { account in
                func editor(_ name: String) throws -> String {
                    let asked = "getfattr --only-values -n user.cove.most-recent-editor \(name) 2> $tmp/said"
                    return try account.shell("\(asked) || grep -o 'No such attribute' $tmp/said")
                        .trimmingCharacters(in: .newlines)
                }
                func found(_ predicate: String) throws -> String {
                    try account.shell("$COVE query '\(predicate)' | sed 's,.*/,,' | sort | tr '\\n' ' '")
                }
                // Nobody has told yet, and what a provider calls an attribute of the file is none of Cove's own.
                let none = "No such attribute"
                #expect(try account.shell("ls | wc -l") == "4\n")
                // Any date can be told, and is.
                let births = "1234567890.123456789\n-0.000000001\n9223372036.854775807\n-9223372036.854775808\n"
                let told = try account.shell("stat -c %.9W f g h i")
                #expect(told == births)
                #expect(try editor("f") == none)
                let long = "e" + String(repeating: "\u{301}", count: 500)
                let names = try JSONValue(encoding: ["f": "Grace", "g": "Ada\u{7}\n", "h": "", "i": long]).bytes
                let text = String(decoding: names, as: UTF8.self)
                try account.shell("echo '\(text)' > $tmp/n; mv $tmp/n $tmp/here/editors")
                // One after the other.
                try waitUntil("it is told", deadline: 30) {
                    try editor("f") == "Grace" && editor("g") != none && editor("i") != none
                }
                let hostile = try editor("g")
                #expect(hostile.hasPrefix("Ada") && !hostile.contains("\u{7}") && !hostile.contains("\n"), "\(hostile)")
                #expect(try editor("h") == none)
                #expect(try editor("i").unicodeScalars.count == 100)
                let key = "MostRecentEditorNameComponents"
                #expect(try found("\(key) == \"Grace\"") == "f ")
                #expect(try found("\(key) BEGINSWITH \"Ada\"") == "g ")
                #expect(try found("\(key) == NULL") == "h ")
                #expect(try found("\(key) != \"Grace\"") == "g h i ")
                let json = try account.shell("$COVE query 'FSName == \"f\"' --json --attributes \(key)")
                #expect(json.contains("\"\(key)\":\"Grace\""), "\(json)")
                #expect(try account.statistics().bytesDownloaded == 0)
                // No program sets it, no copy has it, and no list of attributes.
                try account.expectRefused(
                    "setfattr -n user.cove.most-recent-editor -v Mallory f",
                    "Operation not permitted"
                )
                #expect(try account.shell("cp -a f copy; getfattr -d -m - f copy") == "")
                #expect(try editor("copy") == none)
                // The content is another's now, who is not told.
                try account.shell(
                    """
                    echo '{"g": "Ada"}' > $tmp/n; mv $tmp/n $tmp/here/editors
                    echo '{"f": "theirs", "g": "g", "h": "h", "i": "i"}' > $tmp/n; mv $tmp/n $tmp/here/tree
                    """
                )
                try waitUntil("it is changed", deadline: 30) { (try? account.shell("cat f")) == "theirs" }
                #expect(try editor("f") == none)
                // That of the same content stays, though nobody tells any more.
                try account.shell("$COVE sync --wait")
                #expect(try editor("g") == "Ada" && editor("i").unicodeScalars.count == 100)
                // What this device sends is nobody's either, where the answer does not tell.
                try account.shell("echo '{}' > $tmp/n; mv $tmp/n $tmp/here/editors; echo mine > g; $COVE sync --wait")
                #expect(try editor("g") == none)
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
