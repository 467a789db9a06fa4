import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// When bytes come to this disk by themselves, and when they may leave it.
    struct PolicyTests {
        private static func account(
            _ body: @escaping @Sendable (MountedAccount) throws -> Void
        ) async throws {
            try await mounted(
                options: "settle=10ms",
                prepare: { source in
                    for name in ["d/a", "d/e/b", "d/e/g/c", "other/x", "other/y"] {
                        let path = source.path + "/" + name
                        try FileManager.default.createDirectory(
                            atPath: (path as NSString).deletingLastPathComponent,
                            withIntermediateDirectories: true
                        )
                        try Data("first \(name)".utf8).write(to: URL(fileURLWithPath: path))
                    }
                },
                body
            )
        }

        private static func isHere(_ name: String, _ account: MountedAccount) throws -> Bool {
            let item = try account.info(name)
            return item.state == "materialized" && item.localBytes == item.size
        }

        @Test func `a pinned directory has all that is in it, what comes later, and what others make of it`()
            async throws
        {
            try await Self.account { account in
                // Nothing below it was ever listed.
                try account.shell("$COVE pin d")
                for name in ["d/a", "d/e/b", "d/e/g/c"] {
                    try waitUntil("\(name) is here") { try Self.isHere(name, account) }
                }
                try account.shell("mkdir $src/d/new; echo new > $src/d/new/f; $COVE sync")
                try waitUntil("what is new is here") { (try? Self.isHere("d/new/f", account)) == true }
                try account.shell("echo second, and longer > $src/d/e/b; $COVE sync")
                try waitUntil("what was changed is here") {
                    try account.info("d/e/b").size == 19 && Self.isHere("d/e/b", account)
                }
                try account.expectRefused("$COVE evict d/e", "it is pinned")
                #expect(
                    try account.cove("policy d/new/f other") == "eagerly           d/new/f\nlazily-and-evict  other\n"
                )
                #expect(try account.shell("getfattr --only-values -n user.cove.policy d/a") == "eagerly")
                #expect(try account.info("other/x").state == "dataless")
                // One item of it is let go, and stays away.
                try account.shell("$COVE unpin d/e; $COVE evict d/e")
                #expect(try account.info("d/e/g/c").state == "dataless")
                #expect(try account.cove("policy d/e/b") == "lazily-and-evict  d/e/b\n")
                try account.shell("$COVE unpin d")
                #expect(try account.cove("policy d/a", as: [ItemStatus].self).map(\.isPinned) == [false])
                try account.shell("$COVE evict d")
            }
        }

        @Test func `a policy stays with a document, however a program saves it`() async throws {
            try await Self.account { account in
                try account.shell("cat other/x > /dev/null; $COVE pin other/x; cd other; $COVE sync --wait")
                for save in [
                    "mv x x~; echo 1 > x", "rm x; echo 2 > x", "echo 3 > x.new; mv x.new x", "echo 4 > x",
                    "vim -u NONE -es -c 's/$/5/' -c 'wq' x",
                ] {
                    try account.shell("cd other; \(save); $COVE sync --wait")
                    #expect(try account.cove("policy other/x") == "eagerly           other/x\n", "\(save)")
                    try account.expectRefused("$COVE evict other/x", "it is pinned")
                }
                #expect(try account.cove("policy other/x~") == "lazily-and-evict  other/x~\n")
            }
        }

        @Test func `lazily fetches again what was here, and the usual policy lets it go`() async throws {
            try await Self.account { account in
                try account.shell("$COVE policy --set lazily other; cat other/x d/a")
                try account.shell("for name in other/x other/y d/a; do echo second > $src/$name; done; $COVE sync")
                try waitUntil("all changes are known") {
                    try ["other/x", "other/y", "d/a"].allSatisfy { try account.info($0).size == 7 }
                }
                try waitUntil("it comes by itself") { try Self.isHere("other/x", account) }
                #expect(try account.info("other/y").state == "dataless")
                #expect(try account.info("d/a").state == "dataless")
                #expect(try account.shell("cat other/x d/a") == "second\nsecond\n")
                try account.shell("$COVE evict other/x; $COVE policy --set inherited other")
                #expect(try account.cove("policy other", as: [ItemStatus].self).map(\.policy) == ["lazily-and-evict"])
                try account.expectRefusal(
                    "$COVE policy --set sometimes other",
                    "--set sometimes: is no policy; write one of inherited, lazily, lazily-and-evict, eagerly",
                    status: 2
                )
            }
        }

        @Test func `the mount point's policy holds for all, and outlives the daemon`() async throws {
            try await Self.account { account in
                try account.shell("$COVE policy --set lazily-and-evict other; $COVE policy --set eagerly .")
                for name in ["d/a", "d/e/b", "d/e/g/c"] {
                    try waitUntil("\(name) is here") { try Self.isHere(name, account) }
                }
                try account.killDaemon()
                try account.shell("echo new > $src/d/f; echo new > $src/other/f; $COVE sync")
                try waitUntil("what is new is here") { (try? Self.isHere("d/f", account)) == true }
                #expect(try account.info("other/f").state == "dataless")
                try account.shell("$COVE unpin .; $COVE evict d")
            }
        }
    }
}
