import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// A document that one app was given, and that is then moved into the hidden container of a third app.
    ///
    /// The numbers are those of the semantics.
    struct HiddenMoveTests {
        @Test func `what is revoked goes by all names that the app has for it`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.addApp("a", document: "one.txt", "one\n")
                try account.addApp("b", document: "own.txt", "own\n")
                try account.shell("echo two > a/Documents/two.txt; $COVE sync --wait")
                for name in ["one.txt", "two.txt"] { try account.pick("a/Documents/\(name)", for: "b") }
                // One document takes the place of the other: both names are the app's for it.
                try account.shell("mv a/Documents/two.txt a/Documents/one.txt")
                #expect(try account.asApp("b", "cat Documents/one.txt Documents/two.txt") == "two\ntwo\n")
                // One name less is no other document less.
                try account.shell("mv b/Documents/one.txt b/Documents/uno.txt; rm b/Documents/two.txt")
                #expect(try account.asApp("b", "cat Documents/uno.txt") == "two\n")
                try account.pick("a/Documents/one.txt", for: "b")
                try account.shell("echo three > a/Documents/three.txt; $COVE sync --wait")
                try account.pick("a/Documents/three.txt", for: "b")
                try account.shell("mv a/Documents/three.txt a/Documents/one.txt")
                let grants = try account.cove("grants ls", as: [AccessInterface.Grant].self)
                #expect(grants.count == 1, "\(grants)")
                for grant in grants { try account.cove("grants revoke \(grant.id)") }
                #expect(try account.shell("ls b/Documents; $COVE refs ls; $COVE grants ls") == "own.txt\n")
                let said = try account.asApp(
                    "b",
                    "cd Documents; for n in one uno three; do cat $n.txt; mv $n.txt $n.txt~; echo evil > $n.txt; cat $n.txt~; done"
                )
                #expect(!said.contains("three\n"), "\(said)")
                try account.settle()
                #expect(try account.shell("cat a/Documents/one.txt") == "three\n")
            }
        }

        /// An app that was given a document by a reference and a bookmark, and a hidden container with one that nobody was given.
        private func given(
            _ body: @escaping @Sendable (MountedAccount, _ token: String) throws -> Void
        ) async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.addApp("a", document: "report.txt", "original\n")
                try account.addApp("b", document: "own.txt", "own\n")
                try account.addApp("c", document: "secret.txt", "c-secret\n")
                try account.cove("container hide com.c.box")
                try account.shell("printf '%s' '\(Self.asking)' > ask.py")
                try account.settle()
                try account.pick("a/Documents/report.txt", for: "b")
                let token = try account.cove("bookmark create a/Documents/report.txt --app com.b.app").dropLast()
                try body(account, String(token))
            }
        }

        /// Tells where a bookmark leads, and which calls about some paths are answered.
        private static let asking = """
            import json, os, socket, sys
            shared = os.environ["COVE_SHARED"]
            for name in ("user.cove.socket", "user.cove.coordination-socket"):
                s = socket.socket(socket.AF_UNIX); s.connect(os.getxattr(shared, name))
                def call(method, **parameters):
                    s.send(json.dumps({"method": "io.cove." + method, "parameters": parameters}).encode() + b"\\0")
                    data = b""
                    while not data.endswith(b"\\0"): data += s.recv(65536)
                    return json.loads(data[:-1])
                found = call("Access.ResolveBookmark", bookmark=sys.argv[1])["parameters"]
                print("leads to", found.get("path"), found.get("reference"), found.get("isStale"))
                for path in ("c", "c/Documents", "c/Documents/moved.txt", "c/Documents/secret.txt"):
                    for method in ("Item.Info", "Item.List", "Item.Versions", "Access.CreateBookmark"):
                        reply = call(method, path=path)
                        if "error" not in reply: print("answered", method, path, reply)

            """

        /// All that a program can try, in one script.
        private static func trying(_ token: String) -> String {
            """
            cat Documents/report.txt
            for p in "$COVE_SHARED/c" "$COVE_CONTAINER/../c" /proc/self/root"$COVE_SHARED"/c; do
                ls "$p" "$p/Documents"; cat "$p"/Documents/*.txt
                ln -sfn "$p/Documents/secret.txt" link; cat link; ln "$p/Documents/moved.txt" hard; cat hard; rm -f link hard
            done 2>/dev/null
            python3 "$COVE_SHARED/ask.py" '\(token)'
            """
        }

        @Test func `6.6, 7.3 and 9.3. what was given goes along into a hidden container, and nothing beside it`()
            async throws
        {
            try await given { account, token in
                // One that has it open, and one that is in its view, before it is moved.
                let program = try account.start(
                    """
                    $COVE run --app com.b.app -- bash -c 'exec 3<>Documents/report.txt; echo ready
                        until [ -e "$COVE_SHARED/go" ]; do read -t 0.05 < /dev/zero || true; done
                        cat <&3; cat /proc/self/fd/3; cat Documents/report.txt; echo more >&3
                        cat "$COVE_SHARED"/c/Documents/*.txt; echo over'
                    """
                )
                try waitUntil("it has it open", deadline: 30) { program.output.contains("ready") }
                try account.shell("mv a/Documents/report.txt c/Documents/moved.txt; touch go")
                let result = try program.wait(deadline: 60)
                #expect(result.output == "ready\noriginal\noriginal\noriginal\nover\n", "\(result)")
                #expect(try account.shell("cat c/Documents/moved.txt") == "original\nmore\n")
                let said = try account.asApp("b", Self.trying(token))
                let lead = "leads to c/Documents/moved.txt b/Documents/report.txt True\n"
                #expect(said == "original\nmore\n\(lead)\(lead)", "\(said)")
                // It is written through the reference, in place and by a save.
                _ = try account.asApp("b", "echo saved > Documents/.t; mv Documents/.t Documents/report.txt")
                #expect(try account.shell("cat c/Documents/moved.txt") == "saved\n")
                // Its new owner saves it as before.
                #expect(
                    try account.asApp(
                        "c",
                        "cat Documents/moved.txt; echo theirs > Documents/.t; mv Documents/.t Documents/moved.txt"
                    )
                        == "saved\n"
                )
                #expect(try account.asApp("b", "cat Documents/report.txt") == "theirs\n")
                // It can be given to nobody there.
                #expect(throws: (any Error).self) { try account.pick("c/Documents/moved.txt", for: "a") }
                #expect(throws: (any Error).self) {
                    try account.cove("bookmark create c/Documents/moved.txt --app com.a.app")
                }
                // A device that comes to know it only there can't tell that it was given, and shows it to nobody.
                try account.settle()
                let second = try MountedAccount(options: "settle=50ms", address: "dir://\(account.source.path)")
                try second.start()
                try second.shell("ls -R . > /dev/null; cat c/Documents/*")
                try waitUntil("it has the reference", deadline: 30) {
                    try second.cove("refs ls").contains("report.txt")
                }
                try second.settle()
                #expect(try !second.asApp("b", "cat Documents/*").contains("theirs"))
                try second.end()
                try account.cove("refs rm b/Documents/report.txt")
                #expect(try account.cove("grants ls").isEmpty)
                let after = try account.asApp("b", Self.trying(token))
                #expect(!after.contains("theirs") && !after.contains("c/Documents"), "\(after)")
            }
        }

        static let replacements: [(what: String, script: String, isHeard: Bool)] = [
            ("another document over it", "mv c/Documents/secret.txt c/Documents/moved.txt", false),
            (
                "removed, then another one",
                "rm c/Documents/moved.txt; mv c/Documents/secret.txt c/Documents/moved.txt", false
            ),
            ("at the source", "mv $src/com.c.box/Documents/secret.txt $src/com.c.box/Documents/moved.txt", false),
            (
                "a slow save",
                "cp c/Documents/secret.txt c/Documents/.moved.txt.1; $COVE sync --wait; mv c/Documents/.moved.txt.1 c/Documents/moved.txt",
                true
            ),
            ("a save", "cp c/Documents/secret.txt c/Documents/new; mv c/Documents/new c/Documents/moved.txt", true),
        ]

        @Test(arguments: replacements.indices)
        func `9.1. what nobody was given stays hidden when it takes the place of what was`(_ index: Int) async throws {
            let replacement = Self.replacements[index]
            try await given { account, token in
                try account.shell("mv a/Documents/report.txt c/Documents/moved.txt; $COVE sync --wait")
                try account.shell(replacement.script)
                try waitUntil("it is there", deadline: 30) {
                    (try? account.shell("cat c/Documents/moved.txt")) == "c-secret\n"
                }
                let said = try account.asApp("b", Self.trying(token))
                #expect(said.contains("c-secret") == replacement.isHeard, "\(replacement.what): \(said)")
                #expect(!said.contains("answered"), "\(said)")
                let grants = try account.cove("grants ls", as: [AccessInterface.Grant].self)
                #expect(grants.map(\.path) == [replacement.isHeard ? "c/Documents/moved.txt" : nil])
                // Its owner has it, of course.
                #expect(try account.asApp("c", "cat Documents/moved.txt") == "c-secret\n")
            }
        }
    }
}
