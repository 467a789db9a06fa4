import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// Names by which an app could go on having what it was given, or take it from the cloud.
    struct KeptNameTests {
        private func given(_ body: @escaping @Sendable (MountedAccount) throws -> Void) async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.addApp("a", document: "report.txt", "original\n")
                try account.addApp("b", document: "own.txt", "own\n")
                try account.settle()
                try account.pick("a/Documents/report.txt", for: "b")
                try body(account)
            }
        }

        static let saves: [(name: String, script: String)] = [
            ("over its name", "echo new > .new; ln .new spy; mv .new report.txt"),
            (
                "under the name that it left",
                "mv report.txt report.txt~; echo new > .new; ln .new spy; mv .new report.txt"
            ),
            (
                "made under the name that it left",
                """
                mv report.txt report.txt~; python3 -c 'import os
                f = os.open("report.txt", os.O_CREAT | os.O_WRONLY, 0o644); os.write(f, b"new\\n")
                os.link("report.txt", "spy"); os.close(f)'
                """
            ),
            (
                "as long as it is given no name",
                """
                python3 -c 'import os
                f = os.open(".", os.O_TMPFILE | os.O_RDWR); os.write(f, b"new\\n")
                for name in ("spy", ".new"): os.link(f"/proc/self/fd/{f}", name, src_dir_fd=os.open("/", 0))
                os.rename(".new", "report.txt")'
                """
            ),
        ]

        @Test(arguments: saves.indices)
        func `what an app saves over a document has no other name that outlives its grant`(_ index: Int) async throws {
            try await given { account in
                let save = Self.saves[index]
                let said = try account.asApp("b", "cd Documents; \(save.script)\nls -A")
                #expect(said.contains("spy"), "\(save.name): \(said)")
                #expect(try account.shell("cat a/Documents/report.txt") == "original\n", "\(save.name): \(said)")
                let grants = try account.cove("grants ls", as: [AccessInterface.Grant].self)
                #expect(grants.map(\.path) == ["a/Documents/report.txt"], "\(save.name)")
                for grant in grants { try account.cove("grants revoke \(grant.id)") }
                let written = try account.asApp("b", "echo spied >> Documents/spy; cat Documents/spy")
                #expect(written == "new\nspied\n", "\(save.name): \(written)")
                #expect(try account.shell("cat a/Documents/report.txt") == "original\n", "\(save.name)")
            }
        }

        @Test func `a save with no other name goes on as before`() async throws {
            try await given { account in
                let said = try account.asApp(
                    "b",
                    "cd Documents; echo new > .new; ln .new spy; mv .new report.txt && echo moved; rm spy; mv .new report.txt && echo moved"
                )
                #expect(said.contains("not permitted") && said.hasSuffix("\nmoved\n"), "\(said)")
                #expect(try account.shell("cat a/Documents/report.txt") == "new\n")
            }
        }

        static let moves: [(name: String, script: String)] = [
            ("a document", "echo shared > x; \(spying("x")); mv x a/Documents/x"),
            (
                "a folder",
                "mkdir d; echo shared > d/x; \(spying("d/x")); mv d/x d/y; mv d a/Documents/d; mv a/Documents/d/y a/Documents/x"
            ),
            (
                "a save",
                "echo old > a/Documents/x; echo shared > x; \(spying("x")); mv x a/Documents/x"
            ),
        ]

        private static func spying(_ name: String) -> String {
            "$COVE run --app com.b.app -- bash -c 'cd \"$COVE_SHARED\"; ln \(name) b/Documents/spy'"
        }

        @Test(arguments: moves.indices)
        func `what a person moves into an app's folder no other app keeps`(_ index: Int) async throws {
            try await given { account in
                let move = Self.moves[index]
                try account.shell(move.script)
                #expect(try account.shell("cat a/Documents/x b/Documents/spy") == "shared\nshared\n", "\(move.name)")
                #expect(try account.asApp("b", "echo spied > Documents/spy; cat Documents/spy") == "spied\n")
                #expect(try account.shell("cat a/Documents/x") == "shared\n", "\(move.name)")
                // What has all its names in one folder goes along with them.
                try account.shell(
                    "mkdir e; echo 1 > e/one; ln e/one e/two; python3 -c 'import os; os.rename(\"e\", \"a/Documents/e\")'"
                )
                #expect(try account.shell("stat -c %h a/Documents/e/one") == "2\n")
            }
        }

        static let excluded = [
            "echo new > .n; setfattr -n user.cove.excluded-from-sync -v 1 .n; mv .n report.txt",
            "mv report.txt report.txt~; echo new > .n; setfattr -n user.cove.excluded-from-sync -v 1 .n; mv .n report.txt",
            """
            mv report.txt report.txt~; python3 -c 'import os
            f = os.open("report.txt", os.O_CREAT | os.O_WRONLY, 0o644); os.write(f, b"new\\n")
            os.setxattr("report.txt", "user.cove.excluded-from-sync", b"1"); os.close(f)'
            """,
        ]

        @Test(arguments: excluded)
        func `what an app keeps out of the cloud takes nothing of others from there`(_ script: String) async throws {
            try await given { account in
                let said = try account.asApp("b", "cd Documents; \(script)")
                #expect(try account.shell("cat a/Documents/report.txt") == "original\n", "\(said)")
                try account.settle()
                #expect(try account.source.text("com.a.box/Documents/report.txt") == "original\n")
                #expect(
                    try account.shell("getfattr --only-values -n user.cove.excluded-from-sync a/Documents/report.txt")
                        == "0"
                )
            }
        }
    }
}
