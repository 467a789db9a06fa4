import CoveTestSupport
import Foundation
import Testing

/// Folders and files of a remote of rclone's that are not what they were a moment ago, and what is said of them.
@Suite struct RemoteFolderTests {
    /// Runs a test of cove-rclone's calls, in which `files` is the folder of a remote, which `remote()` opens anew.
    private func run(_ test: String, setting: String = "type = alias\nremote = FILES") throws {
        let folder = try TemporaryDirectory("remote-folder")
        let files = folder.appending("files")
        try FileManager.default.createDirectory(atPath: files, withIntermediateDirectories: true)
        try FileManager.default.createDirectory(atPath: folder.appending("there"), withIntermediateDirectories: true)
        let lines = setting.replacingOccurrences(of: "FILES", with: files)
        try "[remote]\n\(lines)\n".write(toFile: folder.appending("rclone.conf"), atomically: true, encoding: .utf8)
        let script = """
            import os
            os.environ["RCLONE_CONFIG"] = "\(folder.appending("rclone.conf"))"
            \(providerModule("cove-rclone"))
            import time
            files, state, there = "\(files)", "\(folder.path)", "\(folder.appending("there"))"

            class Call:
                def __init__(self, *pieces):
                    self.pieces, self.got = pieces, b""
                def content(self):
                    for piece in self.pieces:
                        yield piece() if callable(piece) else piece
                def send(self, offset, data):
                    self.got += data
                    return offset + len(data)
                def check(self):
                    pass
                def say_alive(self, *arrived):
                    pass

            def remote(state=state, **more):
                made = module.Rclone()
                made.hello({"options": {"remote": "remote:"}, "state": state, **more}, None)
                return made

            def kind(body):
                try:
                    body()
                except module.Failed as error:
                    return error.kind
                return "done"

            def names(remote, folder=""):
                return [item["name"] for item in remote.list({"directory": {"path": folder}}, None)["items"]]

            def make(remote, name, *pieces, folder="", size=4):
                words = {"directory": {"path": folder}, "name": name, "kind": "file", "size": size}
                return remote.create(words, Call(*pieces))["item"]

            def directory(remote, name, folder=""):
                return remote.create({"directory": {"path": folder}, "name": name, "kind": "directory"}, Call())["item"]

            def lookup(remote, name, folder=""):
                return remote.lookup({"directory": {"path": folder}, "name": name}, None)["item"]

            \(test)
            """
        try Command.run("python3", ["-c", script])
    }

    private func crypt() throws -> String {
        "type = crypt\nremote = FILES\npassword = "
            + (try Command.run("rclone", ["obscure", "secret"]).output.trimmingCharacters(in: .whitespacesAndNewlines))
    }

    @Test(arguments: [false, true])
    func `an empty folder in the place of the mounted one, as of a disk that is away, is refused`(
        isCrypt: Bool
    ) throws {
        let test = """
            here = remote()
            make(here, "f", b"text")
            assert names(here) == ["f"]
            marks = [name for name in os.listdir(state) if name == "source-mark"]
            assert marks, os.listdir(state)
            os.rename(files, files + "-away")
            os.mkdir(files)
            assert kind(lambda: names(here)) == "serverUnreachable"
            assert kind(lambda: lookup(here, "f")) == "serverUnreachable"
            assert kind(lambda: make(here, "g", b"more")) == "serverUnreachable"
            assert kind(lambda: directory(here, "d")) == "serverUnreachable"
            assert kind(remote) == "serverUnreachable"
            assert os.listdir(files) == [], os.listdir(files)
            os.rmdir(files)
            os.rename(files + "-away", files)
            assert names(here) == ["f"] and names(remote()) == ["f"]
            count = len(os.listdir(files))
            other = remote(there)
            assert names(other) == ["f"] and len(os.listdir(files)) == count, os.listdir(files)
            """
        try run(test, setting: isCrypt ? try crypt() : "type = alias\nremote = FILES")
    }

    @Test func `what arrives in another folder than the mounted one has not arrived`() throws {
        try run(
            """
            here = remote()
            directory(here, "d")
            made = make(here, "f", b"text", folder="d")
            os.rename(files, files + "-away")
            os.makedirs(files + "/d")
            with open(files + "/d/g", "w") as file:
                file.write("text")
            assert kind(lambda: make(here, "h", b"more", folder="d")) == "serverUnreachable"
            assert kind(lambda: directory(here, "e", folder="d")) == "serverUnreachable"
            assert kind(lambda: here.delete({"item": {"path": "d/g"}}, Call())) == "serverUnreachable"
            assert os.listdir(files + "/d") == ["g"], os.listdir(files + "/d")
            """
        )
    }

    @Test func `a folder that was mounted before there were marks gets one when it has something in it`() throws {
        try run(
            """
            os.mkdir(state + "/spool")
            here = remote()
            assert names(here) == [] and os.listdir(files) == []
            make(here, "f", b"text")
            read_only = remote(readOnly=True)
            assert names(read_only) == ["f"] and os.listdir(files) == ["f"]
            assert names(remote()) == ["f"] and len(os.listdir(files)) == 2
            # What is known is looked for also where nothing may be changed.
            os.rename(files, files + "-away")
            os.mkdir(files)
            assert kind(lambda: remote(readOnly=True)) == "serverUnreachable"
            """
        )
    }

    @Test func `remotes that have their files on this machine are told from others`() throws {
        try run(
            """
            import cove_rclone_root as root
            settings = {
                "disk": {"type": "local"}, "web": {"type": "webdav", "url": "http://h/"},
                "one": {"type": "alias", "remote": "disk:a/b"}, "two": {"type": "crypt", "remote": "one:c"},
                "three": {"type": "alias", "remote": "web:/a"}, "four": {"type": "union", "upstreams": "web:a /b:ro"},
                "five": {"type": "combine", "upstreams": "a=web: b=two:"}, "loop": {"type": "alias", "remote": "loop:a"},
            }
            class Known:
                def call(self, call, /, **words):
                    return settings.get(words["name"], {})
            cases = {
                "/srv": True, "disk:": True, "web:a": False, "one:": True, "two:x": True, "three:": False, "four:": True,
                "five:": True, "loop:": False, "none:": False, ":local:/srv": True, ":webdav,url=x:": False,
            }
            found = {remote: root.is_on_disk(Known(), remote) for remote in cases}
            assert found == cases, found
            """
        )
    }

    @Test func `a folder in which another account is mounted keeps its mark as long as it stays`() throws {
        try run(
            """
            here = remote()
            directory(here, "d")
            upload = f"/d/.cove-upload-{int(time.time())}-ab12"
            for name in "/d/.cove-source-0123456789abcdef", upload:
                with open(files + name, "w") as file:
                    file.write("text")
            assert kind(lambda: here.delete({"item": {"path": "d"}, "version": ""}, Call())) == "directoryNotEmpty"
            assert len(os.listdir(files + "/d")) == 2
            """
        )
    }

    @Test func `a folder in which another account is mounted can be deleted when it shows nothing`() throws {
        try run(
            """
            here = remote()
            directory(here, "d")
            with open(files + "/d/.cove-source-0123456789abcdef", "w") as mark:
                mark.write("mark")
            assert names(here, "d") == []
            here.delete({"item": {"path": "d"}, "version": ""}, Call())
            assert names(here) == [] and not os.path.exists(files + "/d")
            """
        )
    }

    @Test func `a file that can't be read is the file's fault, not the remote's`() throws {
        try run(
            """
            here = remote()
            for name in "good", "bad":
                make(here, name, b"x" * 1000000, size=1000000)
            sealed = {os.stat(files + "/" + name).st_mtime_ns: name for name in os.listdir(files)}
            sealed = [sealed[date] for date in sorted(sealed) if not os.path.isdir(files + "/" + sealed[date])]
            with open(files + "/" + sealed[-1], "r+b") as file:
                file.seek(500000)
                byte = file.read(1)
                file.seek(500000)
                file.write(bytes([byte[0] ^ 1]))
            def fetch(name):
                call = Call()
                version = lookup(here, name)["contentVersion"]
                here.fetch({"item": {"path": name}, "version": version, "start": 0, "end": 1000000}, call)
                assert call.got == b"x" * 1000000
            found = {name: kind(lambda: fetch(name)) for name in ("good", "bad")}
            assert found == {"good": "done", "bad": "failed"}, found
            """,
            setting: try crypt()
        )
    }

    @Test func `an answer that is cut off goes on from where it was`() throws {
        try run(
            """
            here = remote()
            text = os.urandom(300000)
            make(here, "f", text, size=len(text))
            version = lookup(here, "f")["contentVersion"]
            class Short:
                def __init__(self, response):
                    self.response, self.left, self.status = response, 100000, response.status
                def read(self, count):
                    if self.left == 0:
                        raise OSError("cut")
                    piece = self.response.read(min(count, self.left))
                    self.left -= len(piece)
                    return piece
                def isclosed(self):
                    return False
            open_file = here.daemon.open
            opened = []
            def open_short(remote, path, start, end):
                opened.append(start)
                response, connection = open_file(remote, path, start, end)
                return Short(response), connection
            here.daemon.open = open_short
            call = Call()
            here.fetch_alone("f", version, 0, len(text), call)
            assert call.got == text and opened == [0, 100000, 200000], opened
            """
        )
    }

    @Test func `what keeps rclone from a file is not looked for in the file's name`() throws {
        try run(
            """
            import cove_rclone_daemon as daemon
            cases = {
                "open /srv/team/Unauthorised absences/june.ods: permission denied": "notPermitted",
                "mkdir /srv/unreachable hosts/x: permission denied": "notPermitted",
                "failed to copy: open /srv/quota 2026.ods: input/output error": "failed",
                "rename /srv/not empty: at all /srv/b: file exists": "failed",
                "write /srv/f: no space left on device": "insufficientQuota",
                "open /srv/f: no such file or directory": "noSuchItem",
                'Propfind "http://h/f": dial tcp 127.0.0.1:1: connect: connection refused': "serverUnreachable",
                "couldn't list files: Unauthorized: 401 Unauthorized": "notAuthenticated",
                "directory not found": "noSuchItem",
                'failed to list directory "Unauthorised": something odd': "failed",
                'mkdir "quota 2026" failed: sftp: "Permission denied" (SSH_FX_PERMISSION_DENIED)': "notPermitted",
                'error listing "not empty": EOF': "failed",
            }
            found = {message: daemon.failure(500, message).kind for message in cases}
            assert found == cases, {message: kind for message, kind in found.items() if cases[message] != kind}
            """
        )
    }

    @Test func `a folder that goes while a file for it arrives is not made again`() throws {
        try run(
            """
            here = remote()
            directory(here, "d")
            make(here, "other", b"text", folder="d")
            here.SLOW = -1
            def rename():
                os.rename(files + "/d", files + "/e")
                return b"text"
            assert kind(lambda: make(here, "new", rename, folder="d")) == "noSuchItem"
            assert sorted(name for name in os.listdir(files) if not name.startswith(".")) == ["e"]
            assert os.listdir(files + "/e") == ["other"]
            """
        )
    }

    @Test func `a file that is being replaced is shown, until another one has its name`() throws {
        try run(
            """
            here = remote()
            directory(here, "d")
            for name in "f", "g":
                make(here, name, b"text", folder="d")
            former = lookup(here, "f", "d")
            aside = files + f"/d/.cove-replaced-{int(time.time())}-ab12-f"
            os.rename(files + "/d/f", aside)
            assert lookup(here, "f", "d") == former
            assert names(here, "d") == ["f", "g"]
            assert kind(lambda: lookup(here, "other", "d")) == "noSuchItem"
            with open(files + "/d/f", "w") as file:
                file.write("longer")
            assert lookup(here, "f", "d")["size"] == 6 and names(here, "d") == ["f", "g"]
            os.unlink(files + "/d/f")
            os.unlink(aside)
            # It is found by the listing that looks whether it is aside, where it has come meanwhile.
            here.asides.listed.clear()
            stat, here.stat = here.stat, lambda path: None
            with open(files + "/d/f", "w") as file:
                file.write("longer still")
            assert lookup(here, "f", "d")["size"] == 12
            here.stat = stat
            os.unlink(files + "/d/f")
            # What was listed before it went does not count.
            assert kind(lambda: lookup(here, "f", "d")) in ("noSuchItem", "done")
            here.asides.listed.clear()
            assert kind(lambda: lookup(here, "f", "d")) == "noSuchItem"
            """
        )
    }

    @Test func `items whose paths are longer than an identifier are listed and found`() throws {
        try run(
            """
            here = remote()
            folder = ""
            seen = set()
            for _ in range(4):
                made = directory(here, "ж" * 100, folder)
                assert 0 < len(made["id"]) <= 500 and made["id"] not in seen
                seen.add(made["id"])
                assert lookup(here, "ж" * 100, folder)["id"] == made["id"]
                folder = f"{folder}/{made['name']}" if folder else made["name"]
            made = make(here, "f", b"text", folder=folder)
            listed = here.list({"directory": {"path": folder}}, None)["items"]
            assert [item["id"] for item in listed] == [made["id"]] and made["id"] not in seen
            """
        )
    }

    @Test func `a remote that dates only what is sent leaves the date to this device`() throws {
        try run(
            """
            here = remote()
            made = make(here, "f", b"text")
            call, words = here.daemon.call, []
            def answer(name, **parameters):
                if name != "core/command":
                    return call(name, **parameters)
                return {"error": True, "result": words[0]}
            here.daemon.call = answer
            change = {"item": {"path": "f"}, "version": made["contentVersion"], "metadata": {"modified": 10**18}}
            words.append("failed to touch: can't set modified time without deleting existing object")
            assert here.modify(change, Call())["item"] == made
            words[0] = "failed to touch: something else"
            assert kind(lambda: here.modify(change, Call())) == "failed"
            """
        )
    }
}
