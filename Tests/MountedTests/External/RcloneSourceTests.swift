import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Remotes of rclone's, mounted by their names.
    struct RcloneSourceTests {
        @Test func `what is in a remote is edited and followed as in any source`() async throws {
            try await SharedSource.remote.devices { here, there, files in
                try here.shell("mkdir d; echo one > d/f; head -c 9000000 /dev/urandom > big; : > empty")
                try here.shell("$COVE sync --wait; cmp big \(files)/big")
                #expect(try here.shell("cat \(files)/d/f; stat -c %s \(files)/empty") == "one\n0\n")
                try waitUntil("the other device has it") { (try? there.shell("cat d/f")) == "one\n" }
                try there.shell("cmp big \(files)/big; echo two > d/f; mv d e; $COVE sync --wait")
                try waitUntil("the first device has it") { (try? here.shell("cat e/f")) == "two\n" }
                try here.shell("echo three > \(files)/e/f; touch -d @1000000000.25 \(files)/big")
                for device in [here, there] {
                    try waitUntil("a change in the remote is seen") {
                        try device.shell("cat e/f; stat -c %Y big") == "three\n1000000000\n"
                    }
                }
                let status = try here.cove("status --state $STATE", as: AccountStatus.self)
                #expect(status.weaknesses.contains { $0.contains("can't refuse an outdated write") })
                #expect(try here.shell("$COVE doctor $mnt || true").contains("can't refuse an outdated write"))
                try here.shell(
                    "rm -r e big empty; $COVE sync --wait; test -z \"$(ls -A \(files) | grep -v ^.cove-source-)\""
                )
            }
        }

        @Test func `how far an upload is counts what the cloud has, not what rclone's program has taken`() async throws
        {
            try await blocking {
                let (owner, address, files) = try SharedSource.serverRemote.start()
                let server = try #require(owner as? TestServer)
                let line = try FaultProxy(to: server.port)
                let account = try MountedAccount(
                    options: "settle=50ms",
                    address: address,
                    variables: SharedSource.serverRemote.variables(line.port)
                )
                try account.start()
                try account.shell("echo one > f; $COVE sync --wait")
                // 64 KiB a step, so that all of it takes some seconds.
                line.set { $0.latency = 25 }
                line.dropAll()
                try account.shell("head -c 12000000 /dev/urandom > big")
                var seen: [Int] = []
                try waitUntil("it is seen how far it is: \(seen)", deadline: 120) {
                    let percent = try account.shell("getfattr --only-values -n user.cove.percent-uploaded big")
                    seen.append(try #require(Int(percent)))
                    return Set(seen.filter { (5...95).contains($0) }).count >= 2
                }
                #expect(seen == seen.sorted(), "\(seen)")
                line.set { $0.latency = 0 }
                try account.shell("$COVE sync --wait; cmp big \(files)/big")
                #expect(try account.shell("getfattr --only-values -n user.cove.percent-uploaded big") == "100")
                try account.end()
                withExtendedLifetime(owner) {}
            }
        }

        @Test func `a look that several share began after each of them came`() async throws {
            try await blocking {
                let seed = Int.random(in: 0..<1_000_000)
                print("seed \(seed)")
                let script = """
                    \(providerModule("cove-rclone"))
                    import random, threading, time
                    now, calls, wrong = [0], {"stat": 0, "list": 0}, []
                    def stat(path):
                        calls["stat"] += 1
                        seen = now[0]
                        time.sleep(0.001)
                        if path.endswith("bad"):
                            raise module.Failed("serverUnreachable")
                        return {"name": path.rpartition("/")[2], "seen": seen}
                    def listing(folder):
                        calls["list"] += 1
                        seen = now[0]
                        time.sleep(0.002)
                        if folder == "fail":
                            raise module.Failed("serverUnreachable")
                        return [{"name": f"f{number}", "seen": seen} for number in range(20)]
                    looks = module.Looks(stat, listing)
                    def work(seed):
                        choice = random.Random(seed)
                        for _ in range(100):
                            name = choice.choice([f"f{choice.randrange(20)}", "gone", "bad"])
                            before = now[0]
                            try:
                                found = looks.look(choice.choice(["a", "b/c", "fail"]) + "/" + name)
                                if found["seen"] < before or found["name"] != name:
                                    wrong.append((name, found, before))
                            except module.Failed:
                                if name != "bad":
                                    wrong.append(name)
                            now[0] += 1
                    threads = [threading.Thread(target=work, args=(\(seed) + number,), daemon=True) for number in range(16)]
                    for thread in threads:
                        thread.start()
                    for thread in threads:
                        thread.join(60)
                        assert not thread.is_alive(), "a look never ended"
                    assert not wrong, wrong[:5]
                    assert calls["list"] > 0 and calls["stat"] < 1600, calls
                    assert not looks.together.busy and not looks.together.waiting
                    """
                try Command.run("python3", ["-c", script])
            }
        }

        @Test func `bytes that several share are of the version that is said of them`() async throws {
            try await blocking {
                let seed = Int.random(in: 0..<1_000_000)
                print("seed \(seed)")
                let script = """
                    \(providerModule("cove-rclone"))
                    import os, random, tempfile, threading, time
                    lock, versions, calls, wrong = threading.Lock(), {}, {"copy": 0, "alone": 0, "shared": 0}, []
                    def bytes_of(path, version):
                        return f"{path} {version}".encode()
                    def size_of(name):
                        return 5 * module.Copies.LARGEST if name == "large" else None
                    def copy(paths, place, seconds):
                        calls["copy"] += 1
                        for path in sorted(paths):
                            time.sleep(0.0002)
                            with lock:
                                version = versions.get(path, 0)
                            name = path.rpartition("/")[2]
                            if name == "stuck":
                                raise module.Failed("serverUnreachable")
                            if name != "large":
                                os.makedirs(os.path.dirname(os.path.join(place, path)), exist_ok=True)
                                with open(os.path.join(place, path), "wb") as file:
                                    data = bytes_of(path, version)
                                    file.write(data[:3] if name == "half" else data)
                    def listing(folder):
                        if folder == "fail":
                            raise module.Failed("serverUnreachable")
                        with lock:
                            items = []
                            for name in names:
                                path = f"{folder}/{name}"
                                version = versions.get(path, 0)
                                size = size_of(name) or len(bytes_of(path, version))
                                items.append({"name": name, "kind": "file", "size": size, "contentVersion": version})
                            return items + [items[0]]
                    names = [f"f{number}" for number in range(20)] + ["large", "half"]
                    spool = tempfile.mkdtemp()
                    copies = module.Copies(copy, module.Looks(None, listing), spool)
                    def work(seed):
                        choice = random.Random(seed)
                        for _ in range(150):
                            folder = choice.choice(["a", "a", "b/c", "fail"])
                            path = folder + "/" + choice.choice(names + ["stuck", "gone"])
                            def alone():
                                calls["alone"] += 1
                                time.sleep(0.0005)
                            with lock:
                                before = versions.get(path, 0)
                            found = copies.read(path, alone, lambda found: found)
                            if found is not None:
                                item, data = found
                                # Whoever asks for a version knows it before the bytes are read.
                                is_wanted = item["contentVersion"] == before
                                if is_wanted and data != bytes_of(path, before) or item["contentVersion"] < before:
                                    wrong.append((path, found, before))
                                calls["shared"] += is_wanted
                                if path.endswith(("/f0", "/large", "/half", "/stuck", "/gone")) or folder == "fail":
                                    wrong.append((path, found))
                            if choice.randrange(3) == 0:
                                with lock:
                                    versions[path] = versions.get(path, 0) + 1
                    threads = [threading.Thread(target=work, args=(\(seed) + number,), daemon=True) for number in range(24)]
                    for thread in threads:
                        thread.start()
                    for thread in threads:
                        thread.join(60)
                        assert not thread.is_alive(), "a read never ended"
                    assert not wrong, wrong[:5]
                    assert calls["copy"] > 0 and calls["alone"] > 0 and calls["shared"] > 0, calls
                    assert not copies.together.busy and not copies.together.waiting
                    assert not os.listdir(spool), os.listdir(spool)
                    os.rmdir(spool)
                    """
                try Command.run("python3", ["-c", script])
            }
        }

        @Test func `small files that a program reads one after the other are asked for together`() async throws {
            try await blocking {
                let server = try TestServer.apache()
                let port = server.port
                let front = try ScriptedServer { _ in .handOn(port) }
                let place = try TemporaryDirectory("together")
                let password = try Command.run("rclone", ["obscure", TestServer.password]).output
                let configuration = """
                    [cloud]
                    type = webdav
                    url = http://127.0.0.1:\(front.port)
                    vendor = other
                    user = \(TestServer.user)
                    pass = \(password)
                    """
                let file = place.appending("rclone.conf")
                try configuration.write(toFile: file, atomically: false, encoding: .utf8)
                let count = 150
                let folder = URL(fileURLWithPath: server.files).appending(path: "d/e")
                try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
                for number in 0..<count {
                    // rclone looks into other folders for a name with braces: such a file is read by itself.
                    let name = number == 0 ? "{b{c}" : "[\(number)] (a) *?.txt"
                    try Data("in \(number)\n".utf8).write(to: folder.appending(path: name))
                }
                let other = URL(fileURLWithPath: server.files).appending(path: "d/other")
                try FileManager.default.createDirectory(at: other, withIntermediateDirectories: true)
                let account = try MountedAccount(
                    options: "poll=60s,log=debug",
                    address: "rclone:cloud:",
                    variables: ["RCLONE_CONFIG": file]
                )
                try account.start()
                try account.shell("ls -l d/e > /dev/null")
                let before = front.exchanges.count
                #expect(try account.shell("cat d/e/*") == account.shell("cat \(folder.path)/*"))
                let asked = front.exchanges.dropFirst(before)
                let gets = asked.filter { $0.request.method == "GET" }
                #expect(gets.count(where: { $0.status == 200 || $0.status == 206 }) == count)
                #expect(gets.count == count)
                #expect(!asked.contains { $0.request.target.contains("other") })
                let others = asked.count - gets.count
                #expect(others < count, "by itself each file takes a look before and one after it")
                print("\(count) files took \(others) looks")
                try account.end()
            }
        }

        @Test func `what a crypt remote has is plain in the mount and nowhere else`() async throws {
            try await blocking {
                let place = try TemporaryDirectory("crypt")
                let secret = try Command.run("rclone", ["obscure", "secret"]).output
                let files = place.appending("files")
                let configuration = "[safe]\ntype = crypt\nremote = \(files)\npassword = \(secret)\n"
                let file = place.appending("rclone.conf")
                try configuration.write(toFile: file, atomically: false, encoding: .utf8)
                try FileManager.default.createDirectory(atPath: files, withIntermediateDirectories: true)
                let account = try MountedAccount(
                    options: "poll=200ms,log=debug",
                    address: "rclone:safe:",
                    variables: ["RCLONE_CONFIG": file]
                )
                try account.start()
                try account.shell("echo 'a secret line' > letter; $COVE sync --wait")
                let found = try account.shell("ls \(files) | grep letter || true; grep -r secret \(files) || echo none")
                #expect(found == "none\n")
                let plain = try Command.run("rclone", ["--config", file, "cat", "safe:letter"]).output
                #expect(plain == "a secret line\n")
                try account.shell("$COVE evict letter; cat letter | grep -q 'a secret line'")
                try account.end()
            }
        }

        @Test func `a remote that is not there is refused in one line`() async throws {
            try await blocking {
                let account = try MountedAccount(
                    address: "rclone:none:",
                    variables: ["RCLONE_CONFIG": "/nonexistent/rclone.conf"]
                )
                let error = #expect(throws: CommandFailure.self) { try account.start() }
                #expect("\(String(describing: error))".contains("didn't find section in config file"))
            }
        }
    }
}
