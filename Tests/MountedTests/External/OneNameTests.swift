import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Clouds whose names are not those of a file system.
    struct OneNameTests {
        /// A cloud that goes by ids, and lets any number of items in a folder have one name.
        private static let drive = """
            def hello(self, parameters, call):
                self.files = {"id1": ["report.txt", b"first"], "id2": ["report.txt", b"second"], "id3": ["REPORT.txt", b"third"]}
                self.keep()
                return super().hello(parameters, call)
            def keep(self):
                with open(here + "/new", "w") as file:
                    json.dump({id: [name, content.decode()] for id, (name, content) in self.files.items()}, file)
                os.rename(here + "/new", here + "/files")
            def described(self, id):
                name, content = self.files[id]
                version = hashlib.sha256(content).hexdigest()
                return {"id": id, "name": name, "kind": "file", "size": len(content), "contentVersion": version}
            def shown(self):
                return distinct_names([self.described(id) for id in self.files])
            def one(self, id):
                return next(item for item in self.shown() if item["id"] == id)
            def list(self, parameters, call):
                return {"items": self.shown()}
            def lookup(self, parameters, call):
                for item in self.shown():
                    if item["name"] == text(parameters["name"]):
                        return {"item": item}
                raise Failed("noSuchItem")
            def known(self, parameters):
                id = text(parameters["item"]["id"])
                if id not in self.files:
                    raise Failed("noSuchItem")
                if parameters.get("version", "-") not in ("-", self.described(id)["contentVersion"]):
                    raise Failed("conflict", item=self.one(id))
                return id
            def fetch(self, parameters, call):
                content = self.files[self.known(parameters)][1]
                call.send(parameters["start"], content[parameters["start"]:parameters["end"]])
                return {"atEnd": True}
            def create(self, parameters, call):
                content = self.content(parameters, call)
                with self.lock:
                    if any(item["name"] == text(parameters["name"]) for item in self.shown()):
                        raise Failed("filenameCollision")
                    id = f"id{len(self.files) + 10}"
                    self.files[id] = [text(parameters["name"]), content]
                    self.keep()
                    return {"item": self.one(id)}
            def modify(self, parameters, call):
                content = self.content(parameters, call) if "size" in parameters else None
                with self.lock:
                    id = self.known(parameters)
                    if content is not None:
                        self.files[id][1] = content
                    self.keep()
                    return {"item": self.one(id)}
            def move(self, parameters, call):
                with self.lock:
                    id = self.known(parameters)
                    self.files[id][0] = text(parameters["name"])
                    self.keep()
                    return {"item": self.one(id)}
            def delete(self, parameters, call):
                with self.lock:
                    del self.files[self.known(parameters)]
                    self.keep()
                    return {}
            """

        @Test func `two files of one name, and one that differs in case, are all edited without loss`() async throws {
            try await ScriptedProvider.account(Self.drive) { account in
                let names = try account.shell("ls").split(separator: "\n").map(String.init)
                #expect(names.count == 3 && names.contains("report.txt") && names.contains("REPORT.txt"), "\(names)")
                let other = try #require(names.first { !["report.txt", "REPORT.txt"].contains($0) })
                #expect(other.hasPrefix("report (") && other.hasSuffix(").txt"))
                #expect(try account.shell("cat report.txt '\(other)' REPORT.txt") == "firstsecondthird")
                try account.shell(
                    """
                    printf one > report.txt; printf two > '\(other)'; printf three > REPORT.txt; printf four > four
                    $COVE sync --wait
                    """
                )
                let kept =
                    "python3 -c \"import json, os; print(sorted(map(tuple, json.load(open(os.environ['tmp'] + '/here/files')).values())))\""
                #expect(
                    try account.shell(kept)
                        == "[('REPORT.txt', 'three'), ('four', 'four'), ('report.txt', 'one'), ('report.txt', 'two')]\n"
                )
                // The one that is left has the name by itself.
                try account.shell("rm report.txt; $COVE sync --wait")
                try waitUntil("the other one has its name") { (try? account.shell("cat report.txt")) == "two" }
                try account.shell("mv report.txt second.txt; $COVE sync --wait")
                #expect(
                    try account.shell(kept) == "[('REPORT.txt', 'three'), ('four', 'four'), ('second.txt', 'two')]\n"
                )
                #expect(try account.shell("ls; cat *") == "REPORT.txt\nfour\nsecond.txt\nthreefourtwo")
            }
        }

        @Test func `names that differ in case alone are two through rclone, and both are edited`() async throws {
            try await blocking {
                let account = try MountedAccount(
                    options: "poll=200ms,settle=10ms",
                    address: "rclone::local:\(try Self.folder())"
                )
                try account.start()
                try account.shell(
                    """
                    printf 1 > Name; printf 2 > name; mkdir Dir dir; printf 3 > Dir/f; printf 4 > dir/f; $COVE sync --wait
                    printf 5 > name; mv Dir/f Dir/F; $COVE sync --wait; $COVE evict . > /dev/null || true
                    test "$(cat Name name Dir/F dir/f)" = 1534
                    """
                )
                try account.end()
            }
        }

        private static func folder() throws -> String {
            let path = NSTemporaryDirectory() + "case-\(UUID().uuidString)"
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            return path
        }

        @Test func `where rclone goes by names, none of several items of one name is changed`() async throws {
            try await blocking {
                let script = """
                    \(providerModule("cove-rclone"))
                    calls = []
                    class Daemon:
                        def call(self, name, **parameters):
                            calls.append(name)
                            entry = {"Name": "f", "Path": "f", "Size": 1, "ModTime": "2026-01-01T00:00:00Z", "IsDir": False}
                            return {"list": [entry, dict(entry)], "item": entry}
                    remote = module.Rclone()
                    remote.remote, remote.daemon, remote.hash, remote.precision = "drive:", Daemon(), None, 1
                    remote.can, remote.listings, remote.moves, remote.doubles = {"DuplicateFiles", "Move"}, {}, {}, {}
                    remote.names = module.Names(False)
                    remote.root, remote.asides = module.Root(remote.daemon, "drive:", None), module.Asides(remote.entries)
                    shown = remote.list({"directory": {"path": ""}}, None)["items"]
                    assert [item["name"] for item in shown] == ["f"], shown
                    item = {"path": "f", "id": "/f", "isFile": True}
                    version = shown[0]["contentVersion"]
                    for call, more in [("modify", {"size": 1}), ("delete", {}), ("move", {"directory": {"path": ""}, "name": "g"})]:
                        calls.clear()
                        try:
                            getattr(remote, call)({"item": item, "version": version, **more}, None)
                            sys.exit(f"{call} did something")
                        except module.Failed as error:
                            assert "rclone dedupe rename drive:" in error.message, error.message
                        assert set(calls) <= {"operations/list", "operations/stat"}, calls
                    """
                try Command.run("python3", ["-c", script])
            }
        }
    }
}
