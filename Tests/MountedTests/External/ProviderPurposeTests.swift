import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// What a provider's own program writes to the mount; the number is that of the acceptance checklist.
    struct ProviderPurposeTests {
        /// Files of the source have the date and permissions of before, whatever becomes of them.
        private static let noting = """
            def hello(self, parameters, call):
                result = super().hello(parameters, call)
                result["capabilities"]["permissions"] = True
                return {**result, "purpose": "org.example.cloud"}
            def item(self, name, node):
                node.metadata = {"modified": 10**18, "permissions": 0o644}
                return super().item(name, node)
            def create(self, parameters, call):
                note("called", "create " + text(parameters["name"]))
                return super().create(parameters, call)
            def modify(self, parameters, call):
                note("called", ("modify " if "size" in parameters else "attributes ") + text(parameters["item"]["path"]))
                return super().modify(parameters, call)
            """

        private func given(_ body: @escaping @Sendable (MountedAccount) throws -> Void) async throws {
            try await ScriptedProvider.account(
                Self.noting,
                tree: "{\"f\": \"one\", \"g\": \"one\", \"h\": \"one\"}",
                options: "poll=3600s,settle=10ms",
                body
            )
        }

        /// The calls that changed something at the source since they were asked for last.
        private func calls(_ account: MountedAccount) throws -> [String] {
            try account.settle()
            let said = try account.shell("cat $tmp/here/called 2> /dev/null || true; rm -f $tmp/here/called")
            return said.split(separator: "\n").map { String($0) }
        }

        /// Gives the source other files, as the cloud does by itself.
        private func put(_ tree: String, _ account: MountedAccount) throws {
            try account.shell("echo '\(tree)' > $tmp/here/new; mv $tmp/here/new $tmp/here/tree")
        }

        private func write(_ script: String, to name: String, as purpose: String, _ account: MountedAccount) throws {
            try account.shell("$COVE coordinate --purpose \(purpose) --writing \(name) -- sh -c 'umask 022; \(script)'")
        }

        @Test func `88. what the provider's own program writes is not sent to it where it has that already`()
            async throws
        {
            try await given { account in
                #expect(try account.shell("cat f g h") == "oneoneone")
                try put("{\"f\": \"two\", \"g\": \"one\", \"h\": \"one\", \"n\": \"new\"}", account)
                try write("printf two > f; touch f", to: "f", as: "org.example.cloud", account)
                try write("printf new > n~; mv n~ n", to: "n", as: "org.example.cloud", account)
                let first = try calls(account)
                #expect(first == [])
                #expect(try account.shell("cat f n; ls") == "twonewf\ng\nh\nn\n")
                #expect(try account.statistics().dirtyItems == 0)
                // It is known still by the next daemon.
                try account.shell("$COVE pause")
                try put("{\"f\": \"six\", \"g\": \"one\", \"h\": \"one\", \"n\": \"new\"}", account)
                try write("printf six > f", to: "f", as: "org.example.cloud", account)
                try account.killDaemon()
                try account.shell("$COVE resume")
                let second = try calls(account)
                #expect(second == [])
                #expect(try account.shell("cat f; ls") == "sixf\ng\nh\nn\n")
                // What others write is told as ever, under whatever purpose.
                try write("printf ten > f", to: "f", as: "org.example.other", account)
                #expect(try calls(account) == ["modify f"])
                try account.shell("printf 11 > f")
                #expect(try calls(account) == ["modify f"])
                #expect(try account.shell("$COVE evict f; cat f") == "11")
            }
        }

        @Test func `88. what is written while a file stays open is told, whoever wrote before`() async throws {
            try await given { account in
                #expect(try account.shell("cat f g h") == "oneoneone")
                try account.shell("mkfifo $tmp/go")
                let viewer = try account.start("exec 3< f; echo open > $tmp/open; read -r line < $tmp/go")
                try waitUntil("it is open") { try account.shell("cat $tmp/open || true") == "open\n" }
                try put("{\"f\": \"two\", \"g\": \"one\", \"h\": \"one\"}", account)
                try write("printf two 1<> f", to: "f", as: "org.example.cloud", account)
                #expect(try calls(account) == [])
                try account.shell("printf TEN 1<> f")
                #expect(try calls(account) == ["modify f"])
                try account.shell("echo go > $tmp/go")
                #expect(try viewer.wait(deadline: 30).status == 0)
                #expect(try account.shell("$COVE evict f; cat f") == "TEN")
            }
        }

        @Test func `88. nothing is lost by a provider whose program writes what it has not`() async throws {
            try await given { account in
                #expect(try account.shell("cat f g h") == "oneoneone")
                // It has the version of before yet, or nothing.
                try write("printf lie > f", to: "f", as: "org.example.cloud", account)
                try write("printf lie > n", to: "n", as: "org.example.cloud", account)
                #expect(try calls(account).sorted() == ["create n", "modify f"])
                #expect(try account.shell("$COVE evict f n; cat f n") == "lielie")
                // It has something else.
                try put("{\"f\": \"one\", \"g\": \"own\", \"h\": \"one\"}", account)
                try write("printf lie > g", to: "g", as: "org.example.cloud", account)
                _ = try calls(account)
                try waitUntil("both are there") { try account.shell("ls | wc -l") == "5\n" }
                #expect(try account.shell("cat g*").count == 6)
                #expect(try account.shell("cat g*").contains("own") && account.shell("cat g*").contains("lie"))
                // Other permissions than the source has are somebody else's, and sent by themselves.
                try put("{\"f\": \"one\", \"g\": \"own\", \"h\": \"new\"}", account)
                _ = try calls(account)
                try account.shell("$COVE pause")
                try write("printf new > h", to: "h", as: "org.example.cloud", account)
                try account.shell("chmod 600 h; $COVE resume")
                #expect(try calls(account) == ["attributes h"])
            }
        }
    }
}
