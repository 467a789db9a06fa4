import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// Bookmarks and references where a program of somebody else's is the cloud; the numbers are those of the acceptance checklist.
    struct ProviderBookmarkTests {
        /// The example in memory, which keeps its tree in a file: what is in the file `move` it moves by itself, `A` to `B`.
        private static let kept = """
            def hello(self, parameters, call):
                if os.path.exists(here + "/dead"):
                    os._exit(7)
                with open(here + "/pid", "w") as file:
                    file.write(str(os.getpid()))
                return super().hello(parameters, call)
            def find(self, path):
                import pickle
                sys.modules["provider"] = module
                if os.path.exists(here + "/kept") and not hasattr(self, "isRead"):
                    with open(here + "/kept", "rb") as file:
                        self.root, used = pickle.load(file)
                    module.Node.counter = module.itertools.count(used + 1)
                self.isRead = True
                if os.path.exists(here + "/move"):
                    with open(here + "/move") as file:
                        former, path_after = file.read().strip().split(" ")
                    source, _, name = former.rpartition("/")
                    folder, _, new = path_after.rpartition("/")
                    target = self.root
                    for part in folder.split("/"):
                        target = target.children.setdefault(part, module.Node("directory"))
                    target.children[new] = super().find(source).children.pop(name)
                    self.keep()
                    os.remove(here + "/move")
                return super().find(path)
            def keep(self):
                import pickle
                sys.modules["provider"] = module
                with open(here + "/kept.new", "wb") as file:
                    pickle.dump((self.root, next(module.Node.counter)), file)
                os.rename(here + "/kept.new", here + "/kept")
            def create(self, parameters, call):
                result = super().create(parameters, call)
                note("made", text(parameters["directory"]["path"]) + "/" + text(parameters["name"]))
                with self.lock:
                    self.keep()
                return result
            def modify(self, parameters, call):
                result = super().modify(parameters, call)
                with self.lock:
                    self.keep()
                return result
            def move(self, parameters, call):
                result = super().move(parameters, call)
                note("made", text(parameters["directory"]["path"]) + "/" + text(parameters["name"]))
                with self.lock:
                    self.keep()
                return result
            def delete(self, parameters, call):
                super().delete(parameters, call)
                with self.lock:
                    self.keep()
            def persistentIdentifier(self, parameters, call):
                note("named", text(parameters["item"]["path"]))
                result = super().persistentIdentifier(parameters, call)
                if os.path.exists(here + "/long"):
                    result = {"identifier": "x" * 501}
                return result
            def itemForPersistentIdentifier(self, parameters, call):
                note("asked", text(parameters["identifier"]))
                with self.lock:
                    self.find("")
                if os.path.exists(here + "/lie"):
                    with open(here + "/lie") as file:
                        return {"path": file.read()}
                if os.path.exists(here + "/silent"):
                    wait("never")
                return super().itemForPersistentIdentifier(parameters, call)
            """

        private func given(
            _ options: String = "",
            _ body: @escaping @Sendable (MountedAccount) throws -> Void
        ) async throws {
            try await ScriptedProvider.account(
                Self.kept,
                options: "poll=100ms,settle=10ms" + (options.isEmpty ? "" : "," + options)
            ) { account in
                try account.addApp("a", document: "report.txt", "original\n")
                try account.addApp("b", document: "own.txt", "own\n")
                try account.settle()
                try body(account)
            }
        }

        private func make(_ path: String, _ account: MountedAccount, for app: String) throws -> String {
            String(try account.cove("bookmark create '\(path)' --app com.\(app).app").dropLast())
        }

        private func resolve(_ token: String, _ account: MountedAccount, for app: String) throws
            -> AccessInterface.ResolveReply
        {
            try account.cove("bookmark resolve '\(token)' --app com.\(app).app", as: AccessInterface.ResolveReply.self)
        }

        /// The complaint of one that does not resolve.
        private func refusal(_ token: String, _ account: MountedAccount, for app: String) throws -> String {
            let result = try account.start("$COVE bookmark resolve '\(token)' --app com.\(app).app").wait(deadline: 60)
            return result.status == 1 && result.output.isEmpty ? result.error : "it resolves: \(result.output)"
        }

        /// How often the provider was asked where something is.
        private func asked(_ account: MountedAccount) throws -> Int {
            try account.shell("cat $tmp/here/asked 2> /dev/null || true").split(separator: "\n").count
        }

        /// Has the provider move something by itself; paths are those at the provider.
        private func move(_ former: String, _ latter: String, _ account: MountedAccount) throws {
            try account.shell("echo '\(former) \(latter)' > $tmp/here/order; mv $tmp/here/order $tmp/here/move")
            try waitUntil("it is moved there") { try account.shell("ls $tmp/here").contains("move") == false }
        }

        @Test func `90. a bookmark has what the provider calls its document, and finds that wherever it was moved`()
            async throws
        {
            try await given { account in
                let token = try make("a/Documents/report.txt", account, for: "b")
                #expect(try account.shell("cat $tmp/here/named") == "com.a.box/Documents/report.txt\n")
                let before = try account.statistics().downloadsStarted
                let found = try resolve(token, account, for: "b")
                #expect(found.path == "\(account.mount)/a/Documents/report.txt" && !found.isStale)
                // The provider's process ends: neither is it needed for what is known here, nor does the next one forget.
                try account.shell("kill -9 $(cat $tmp/here/pid)")
                #expect(try resolve(token, account, for: "b").path == found.path)
                try move("com.a.box/Documents/report.txt", "com.a.box/Documents/never/listed/other.txt", account)
                try waitUntil("the former name is gone") {
                    try account.shell("ls a/Documents").contains("report") == false
                }
                let moved = try resolve(token, account, for: "b")
                #expect(moved.path == "\(account.mount)/a/Documents/never/listed/other.txt" && moved.isStale)
                #expect(try account.statistics().downloadsStarted == before)
                // What the app was given it has still, also with another daemon.
                try account.killDaemon()
                #expect(try resolve(token, account, for: "b").path == moved.path)
                try account.expectRefusal(
                    "$COVE bookmark resolve '\(token)' --app com.a.app 2>&1 | sed 's/cove: [^:]*/cove: it/' >&2; false",
                    "it: it is no bookmark of this account that the app may use; make a new one"
                )
            }
        }

        @Test func `90. a catalog that does not know the document asks the provider, which may be away or lie`()
            async throws
        {
            try await given("stall-limit=2s") { account in
                try account.shell("mkdir a/Documents/d; echo text > a/Documents/d/f; echo x > a/Documents/d/long")
                try account.settle()
                let token = try make("a/Documents/d/f", account, for: "a")
                // One that can't be one is none, and the bookmark does without.
                try account.shell("touch $tmp/here/long")
                let plain = try make("a/Documents/d/long", account, for: "a")
                try account.end()
                try account.shell("cd /; rm -r $STATE/catalog.db* $STATE/content; rm $tmp/here/long")
                try account.start()
                try account.shell("ls; ls a")
                try account.shell("touch $tmp/here/silent")
                let start = ContinuousClock.now
                #expect(try refusal(token, account, for: "a").contains("the source made no progress"))
                #expect(ContinuousClock.now - start < .seconds(30))
                try account.shell("rm $tmp/here/silent; touch $tmp/here/never")
                for (lie, words) in [
                    ("../../etc/passwd", "a name that can't be one"), ("", "no path of an item"),
                    ("com.a.box/nowhere/f", "nothing is"),
                ] {
                    try account.shell("printf %s '\(lie)' > $tmp/here/lie")
                    #expect(try refusal(token, account, for: "a").contains(words), "\(lie)")
                }
                try account.shell("rm $tmp/here/lie; touch $tmp/here/dead; kill -9 $(cat $tmp/here/pid)")
                try waitUntil("it is away") {
                    try refusal(token, account, for: "a").contains("the source can't be reached")
                }
                #expect(try refusal(token, account, for: "a").contains("the bookmark stays good"))
                try account.shell("rm $tmp/here/dead; $COVE sync || true")
                try waitUntil("it is found", deadline: 60) { (try? resolve(token, account, for: "a")) != nil }
                let found = try resolve(token, account, for: "a")
                #expect(found.path == "\(account.mount)/a/Documents/d/f" && !found.isStale)
                #expect(try account.info("a/Documents/d/f").localBytes == 0)
                // By its place alone.
                let asked = try asked(account)
                #expect(try resolve(plain, account, for: "a").path.hasSuffix("d/long"))
                #expect(try self.asked(account) == asked)
                // And one that is gone is gone, whatever has its name.
                try account.shell("rm a/Documents/d/f; $COVE sync --wait")
                #expect(try refusal(token, account, for: "a").contains("not there any more"))
                // As is one that the provider has in its trash.
                try account.shell("printf %s '.cove-trash/f' > $tmp/here/lie")
                #expect(try refusal(token, account, for: "a").contains("not there any more"))
            }
        }

        @Test func `90. nothing is written at the provider about what apps are given of its documents`() async throws {
            try await given { account in
                #expect(try account.pick("a/Documents/report.txt", for: "b") == "b/Documents/report.txt")
                try account.shell("echo mine > $tmp/moved.txt")
                try account.cove("pick --app com.b.app --mode move --file $tmp/moved.txt --choose a/Documents")
                try account.shell("echo through >> b/Documents/report.txt; mv b/Documents/report.txt b/Documents/r")
                try account.settle()
                func check() throws {
                    #expect(try account.shell("cat b/Documents/r b/Documents/moved.txt") == "original\nthrough\nmine\n")
                    // A sandbox can't begin under the number of one whose end is not known yet.
                    try waitUntil("the app reads both") {
                        try account.asApp("b", "cat Documents/r Documents/moved.txt") == "original\nthrough\nmine\n"
                    }
                    #expect(try account.cove("refs ls", as: [AccessInterface.Reference].self).count == 2)
                }
                try check()
                try account.killDaemon()
                try check()
                try account.end()
                try account.start()
                try account.shell("ls; ls b/Documents; $COVE sync --wait")
                try check()
                let made = try account.shell("cat $tmp/here/made")
                #expect(made.contains("_cove-drive/") && made.contains("a.box/Documents/moved.txt"), "\(made)")
                #expect(!made.contains("_cove-drive/references"), "\(made)")
                // What is taken back stays so.
                try account.shell("rm b/Documents/r; $COVE sync --wait")
                #expect(try account.cove("grants ls", as: [AccessInterface.Grant].self).count == 1)
                try account.killDaemon()
                try account.expectRefused("cat b/Documents/r", "No such file")
            }
        }
    }
}
