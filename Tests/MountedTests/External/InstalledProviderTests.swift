import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Providers that have a manifest, and the commands about them.
    struct InstalledProviderTests {
        private struct Known: Decodable {
            var name: String
            var enabled: Bool
            var confined: Bool?
            var network: Bool?
            var problem: String?
        }

        private static let folder = "$HOME/.local/share/cove/providers"

        /// A new provider in Python, installed for its user alone, and mounted.
        private static func installed(_ body: @escaping @Sendable (MountedAccount) throws -> Void) async throws {
            try await blocking {
                let account = try MountedAccount(options: "poll=200ms,log=debug", address: "exec:mine")
                try account.shell("mkdir -p \(folder); $COVE provider new \(folder)/mine")
                try account.start()
                do { try body(account) } catch {
                    let words = (try? account.shell("cat $STATE/provider.log; tail -50 $STATE/log")) ?? ""
                    throw CommandFailure("\(error)\n\(words)")
                }
                try account.end()
            }
        }

        @Test func `a provider that is turned off is not asked, and what is here stays`() async throws {
            try await Self.installed { account in
                try account.shell("ls; echo one > f; $COVE sync --wait")
                let known = try account.cove("provider ls", as: [Known].self)
                let mine = try #require(known.first { $0.name == "mine" })
                #expect(mine.enabled && mine.confined == true && mine.network == true)
                #expect(known.contains { $0.name == "cove-zip" && $0.confined == true })
                #expect(known.contains { $0.name == "cove-rclone" && $0.confined == false })
                #expect(try account.cove("provider disable mine") == "mine is off\n")
                #expect(try account.cove("provider ls").contains("mine         off"))
                try waitUntil("its process is ended") {
                    try account.cove("provider log --state $STATE").contains("it is turned off")
                }
                try account.shell("echo two > g; cat f g")
                try waitUntil("the account says so") {
                    try account.cove("status --state $STATE").contains("cove provider enable mine")
                }
                #expect(try account.shell("cat f g") == "one\ntwo\n")
                #expect(try account.cove("provider enable mine", as: Known.self).enabled)
                try account.shell("$COVE sync --wait --timeout 60", deadline: 90)
                // Its next process has forgotten what the first one had.
                #expect(try account.shell("ls; cat g") == "g\ntwo\n")
            }
        }

        @Test func `what a provider says of picking holds`() async throws {
            try await Self.installed { account in
                func say(_ members: String) throws {
                    try account.shell(
                        "sed -i 's/\"modes.*\"network\"/\"network\"/; s/\"network\"/\(members)\"network\"/' \(Self.folder)/mine.json"
                    )
                }
                try account.shell("echo text > f.txt; echo picture > f.png")
                let pick = "$COVE pick --app com.b.app --choose"
                #expect(try account.shell("cat \"$(\(pick) f.png --mode import)\"") == "picture\n")
                try say("\"modes\":[\"import\"],\"types\":[\"public.plain-text\"],")
                try account.expectRefused("\(pick) f.txt --mode open", "mine: it takes part in import only")
                try account.expectRefused("\(pick) f.png --mode import", "is not of a type that its provider offers")
                #expect(try account.shell("cat \"$(\(pick) f.txt --mode import)\"") == "text\n")
                let screen = try TerminalScreen(account, columns: 80, rows: 24)
                try screen.run("$COVE pick --app com.b.app --mode import --state $STATE")
                try screen.wait(for: "2 of 2")
                try screen.type("png")
                try screen.wait("it is found") { $0.contains { $0.hasPrefix("> f.png") } }
                try screen.press("Enter")
                try screen.wait(for: "com.b.app can't use ite")
                try screen.press("C-c")
                try screen.wait(for: "cancelled")
                try say("\"modes\":[],")
                try account.expectRefused("\(pick) f.txt --mode import", "mine: nothing is picked of it")
                // A mistake is told.
                try say("\"modes\":[\"steal\"],")
                #expect(
                    try account.cove("provider ls").contains("modes has steal; known are import, open, export, move")
                )
                try say("\"modes\":[\"open\"],\"types\":[\"nonsense\"],")
                #expect(try account.cove("provider ls").contains("types has nonsense"))
                try say("")
            }
        }

        @Test func `70. the menu has the providers that are on and take part in mode and type`() async throws {
            try await Self.installed { account in
                let plain = try MountedAccount()
                try plain.start()
                try plain.cove("container create com.b.box --app com.b.app --name b")
                let screen = try TerminalScreen(account, columns: 100, rows: 40)
                try screen.run("cd \(plain.mount); clear")
                /// Whether the provider's account is among the places.
                func isOffered(_ words: String, _ members: String = "") throws -> Bool {
                    try account.shell(
                        "sed -Ei 's/\"(modes|types)\".*\"network\"/\"network\"/; s/\"network\"/\(members)\"network\"/' \(Self.folder)/mine.json"
                    )
                    try screen.run("clear; $COVE pick --app com.b.app \(words)")
                    var isOffered = false
                    try screen.wait("the places are shown") { lines in
                        isOffered = lines.contains { $0 == "  mine/" || $0.hasPrefix("  mine – \(account.mount)/") }
                        return lines.contains { $0.hasPrefix("> source") || $0.hasPrefix("source") }
                    }
                    try screen.press("C-c")
                    try screen.wait(for: "cancelled")
                    return isOffered
                }
                #expect(try isOffered("--mode import"))
                let text = "\"types\":[\"public.plain-text\"],"
                #expect(try isOffered("--mode import --type public.text", text))
                #expect(try !isOffered("--mode import --type public.png --type public.zip-archive", text))
                #expect(try isOffered("--mode export --file /etc/hostname", text))
                #expect(try isOffered("--mode import", "\"modes\":[\"import\"],"))
                #expect(try !isOffered("--mode export --file /etc/hostname", "\"modes\":[\"import\"],"))
                // What is opened in place is a reference in the app's container beside it.
                #expect(try !isOffered("--mode open"))
                try account.cove("container create com.b.box --app com.b.app --name b")
                #expect(try isOffered("--mode open"))
                try account.cove("provider disable mine")
                #expect(try !isOffered("--mode import"))
                try account.expectRefused(
                    "$COVE pick --app com.b.app --mode import --state $STATE",
                    "mine: it is turned off"
                )
                try account.cove("provider enable mine")
                #expect(try isOffered("--mode import"))
                try screen.run("cd /; clear; echo left")
                try screen.wait("the shell has left") { $0.first == "left" }
                try plain.end()
            }
        }

        @Test func `a provider that asks for a login gets the one that is kept for it`() async throws {
            try await blocking {
                let account = try MountedAccount(options: "log=debug", address: "exec:mine?user=ada")
                try account.shell(
                    """
                    mkdir -p \(Self.folder); $COVE provider new \(Self.folder)/mine
                    sed -i 's/"network"/"secrets":true,"network"/' \(Self.folder)/mine.json
                    sed -i '/def hello/a\\        if (parameters.get("credentials") or {}).get("password") != "right": raise Failed("notAuthenticated", "wrong")' \(Self.folder)/mine
                    """
                )
                try account.expectRefused(
                    "echo wrong | $COVE login 'exec:mine?user=ada'",
                    "refuses this user and password"
                )
                let error = #expect(throws: CommandFailure.self) { try account.start(password: nil) }
                #expect("\(String(describing: error))".contains("cove login"))
                #expect(
                    try account.shell("echo right | $COVE login 'exec:mine?user=ada'").contains(
                        "ada is logged in to exec:mine"
                    )
                )
                try account.start(password: nil)
                try account.shell("echo one > f; $COVE sync --wait; ! grep -r right $STATE")
                try account.end()
            }
        }

        @Test func `a turned off provider is not mounted, and is told to be off`() async throws {
            try await blocking {
                let account = try MountedAccount(address: "exec:cove-memory")
                try account.shell("$COVE provider disable cove-memory")
                let error = #expect(throws: CommandFailure.self) { try account.start() }
                #expect("\(String(describing: error))".contains("cove provider enable cove-memory"))
            }
        }

        @Test func `a manifest with a mistake is listed with it, and mounts nothing`() async throws {
            try await blocking {
                let account = try MountedAccount(address: "exec:wrong")
                try account.shell("mkdir -p \(Self.folder); echo '{\"program\": 1}' > \(Self.folder)/wrong.json")
                let known = try account.cove("provider ls", as: [Known].self)
                let problem = try #require(known.first { $0.name == "wrong" }?.problem)
                #expect(problem.contains("program must be a text"))
                #expect(try account.cove("provider ls").contains("wrong        bad"))
                let error = #expect(throws: CommandFailure.self) { try account.start() }
                #expect("\(String(describing: error))".contains("program must be a text"))
                try account.expectRefusal(
                    "$COVE provider enable nobody",
                    "nobody: no provider of that name is installed; see `cove provider ls`"
                )
            }
        }

        @Test(arguments: [
            ("python", "true"),
            ("swift", "swiftc -static-stdlib mine.swift -o mine"),
            ("go", "env GOCACHE=$HOME/go GOFLAGS=-p=2 go build -o mine mine.go"),
        ])
        func `what a provider begins with does all that Cove relies on`(language: String, build: String) async throws {
            try await blocking {
                let account = try MountedAccount()
                let check = try account.shell(
                    """
                    mkdir $tmp/new; cd $tmp/new
                    $COVE provider new --language \(language) mine
                    \(build)
                    $COVE provider check exec:./mine
                    """,
                    deadline: 240
                )
                #expect(!check.contains("FAILED"))
                #expect(check.split(separator: "\n").filter { $0.hasPrefix("ok ") }.count >= 15, "\(check)")
                try account.expectRefusal(
                    "cd $tmp/new; $COVE provider new --language \(language) mine",
                    "$tmp/new/mine\(["swift": ".swift", "go": ".go"][language] ?? ""): it is there already; choose another name"
                )
            }
        }
    }
}
