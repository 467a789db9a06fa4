import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// What providers can do and tell besides files, and what they don't keep.
    struct ActionTests {
        @Test func `a provider's actions are listed, carried out, and refused where they don't fit`() async throws {
            try await ScriptedProvider.account(
                """
                def hello(self, parameters, call):
                    actions = [
                        {"id": "share", "name": "Make a link", "kinds": ["file"]},
                        {"id": "shout", "name": "Shout", "several": True},
                        {"id": "no id", "name": "nothing"},
                    ]
                    return {**super().hello(parameters, call), "actions": actions}
                def perform(self, parameters, call):
                    items = [text(item["id"]) for item in parameters["items"]]
                    if parameters["action"] == "share":
                        return {"message": "https://example.org/" + items[0]}
                    if os.path.exists(here + "/refuse"):
                        raise Failed("notPermitted", "be quiet")
                    with open(here + "/new", "w") as file:
                        json.dump({"f": "F!", "g": "G!"}, file)
                    os.rename(here + "/new", here + "/tree")
                    return {}
                """,
                tree: "{\"f\": \"f\", \"g\": \"g\"}"
            ) { account in
                #expect(try account.cove("action ls f") == "share  Make a link\nshout  Shout\n")
                try account.shell("mkdir d; $COVE sync --wait")
                #expect(try account.cove("action ls d", as: [ProviderAction].self).map(\.id) == ["shout"])
                #expect(try account.cove("action run share f") == "https://example.org/f\n")
                #expect(try account.cove("action run shout f g") == "")
                try waitUntil("what it changed is here") { (try? account.shell("cat f g")) == "F!G!" }
                try account.expectRefusal("$COVE action run share f g", "f: share takes one item at a time")
                try account.expectRefusal("$COVE action run share d", "d: share is not for a directory")
                try account.expectRefusal("$COVE action run whisper f", "f: the source has no action whisper")
                try account.expectRefused("touch $tmp/here/refuse; $COVE action run shout f", "be quiet")
                try account.expectRefused(
                    "$COVE pause; echo more > new; $COVE action run shout new",
                    "cove sync --wait"
                )
                try account.shell("$COVE resume; $COVE sync --wait")
            }
        }

        @Test func `with whom an item is shared is told, and is no attribute of it`() async throws {
            try await ScriptedProvider.account(
                """
                def hello(self, parameters, call):
                    told = super().hello(parameters, call)
                    return {**told, "capabilities": {**told["capabilities"], "extendedAttributes": True}}
                def item(self, name, node):
                    found = super().item(name, node)
                    if name == "f":
                        found["metadata"] = {**found["metadata"], "attributes": []}
                        found.update(sharing={"role": "participant", "permissions": "readOnly", "owner": "Grace"})
                    if name == "g":
                        forged = {"name": "user.cove.sharing", "value": '{"role":"owner","permissions":"readOnly"}'}
                        found["metadata"] = {**found["metadata"], "attributes": [forged]}
                    return found
                """,
                tree: "{\"f\": \"f\", \"g\": \"g\"}"
            ) { account in
                let told =
                    "for key in is-shared role permissions owner-name; do getfattr --only-values -n user.cove.$key f; done"
                let found = try account.shell("ls > /dev/null; \(told)")
                #expect(found == "1participantreadOnlyGrace")
                #expect(try account.shell("getfattr -m - f g") == "")
                #expect(try account.shell("getfattr --only-values -n user.cove.is-shared g") == "0")
            }
        }

        @Test func `marks for file managers are told, and change with the item`() async throws {
            try await ScriptedProvider.account(
                """
                def hello(self, parameters, call):
                    told = super().hello(parameters, call)
                    return {**told, "capabilities": {**told["capabilities"], "extendedAttributes": True}}
                def item(self, name, node):
                    found = super().item(name, node)
                    if name == "f":
                        found["metadata"] = {"attributes": [], **found["metadata"]}
                        label = "theirs" if os.path.exists(here + "/theirs") else "ours"
                        found.update(metadataVersion=label, decorations=[{"id": "s", "badge": "emblem-shared", "label": label}])
                    return found
                """,
                tree: "{\"f\": \"f\", \"g\": \"g\"}"
            ) { account in
                let told = "getfattr --only-values -n user.cove.decorations f"
                #expect(
                    try account.shell("ls > /dev/null; \(told)")
                        == #"[{"badge":"emblem-shared","id":"s","label":"ours"}]"#
                )
                try account.expectRefused("getfattr -n user.cove.decorations g", "No such attribute")
                try account.expectRefused("setfattr -n user.cove.decorations -v x f", "Operation not permitted")
                try account.shell("touch $tmp/here/theirs; $COVE sync --wait")
                try waitUntil("the other mark is told") { try account.shell(told).contains("theirs") }
                #expect(try account.shell("getfattr -m - f") == "")
                // What the source says is not sent back to it, and what it does not keep stays.
                try account.shell("setfattr -n user.mine -v kept f; echo more > f; $COVE sync --wait")
                #expect(try account.shell("getfattr --only-values -n user.mine f; cat f") == "keptmore\n")
            }
        }

        @Test func `what a source does not keep of a file stays with it when others change its content`() async throws {
            try await ScriptedProvider.account("", tree: "{\"f\": \"first\"}") { account in
                try account.shell(
                    """
                    chmod 750 f; setfattr -n user.a -v b f; setfattr -n user.cove.tags -v red f; $COVE sync --wait
                    echo '{"f": "second"}' > $tmp/here/new; mv $tmp/here/new $tmp/here/tree
                    """
                )
                try waitUntil("it is changed") { (try? account.shell("cat f")) == "second" }
                #expect(
                    try account.shell(
                        "stat -c %a f; getfattr --only-values -n user.a f; getfattr --only-values -n user.cove.tags f"
                    ) == "750\nbred"
                )
            }
        }
    }
}
