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
                try here.shell("rm -r e big empty; $COVE sync --wait; test -z \"$(ls -A \(files))\"")
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
                    assert not looks.busy and not looks.waiting
                    """
                try Command.run("python3", ["-c", script])
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
