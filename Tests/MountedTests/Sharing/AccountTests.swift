import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// All that an account holds, at once; the numbers are those of the acceptance checklist.
    struct AccountTests {
        private struct Exported: Decodable {
            var exported: Int
            var bytes: Int
            var present: Int
            var failures: [String: String]
        }

        @Test func `2. an export has every document, with modes and dates, and can be given again`() async throws {
            try await mounted(options: "settle=50ms,cache-size=4M") { account in
                try account.shell(
                    """
                    mkdir -p d/e; printf one > f; chmod 640 f; for i in 1 2 3; do head -c 3000000 /dev/urandom > d/e/big$i; done
                    ln -s ../f d/link; : > empty; chmod 750 d; setfattr -n user.note -v hi f; mkfifo pipe
                    touch -h -d '2020-01-02 03:04:05.5' f d/e/big1 d/link d/e d; $COVE sync --wait; $COVE evict d
                    """
                )
                let first = try account.cove("account export $tmp/out", as: Exported.self)
                #expect(first.exported == 6 && first.bytes == 9_000_003 && first.failures.isEmpty, "\(first)")
                let listing =
                    "find . ! -name pipe ! -name .cove-export -printf '%P %y %m %l %T@ %s\\n' | grep -v '^ ' | sed 's/ d \\(.*\\) [0-9]*$/ d \\1/' | sort"
                #expect(try account.shell("cd $tmp/out; \(listing)") == (try account.shell(listing)))
                #expect(
                    try account.shell("getfattr --only-values -n user.note $tmp/out/f; cd $tmp/out; ls")
                        == "hid\nempty\nf\n"
                )
                try account.shell(
                    "for i in 1 2 3; do cmp d/e/big$i $src/d/e/big$i; cmp $tmp/out/d/e/big$i $src/d/e/big$i; done"
                )
                // What was fetched for it alone has left.
                try account.shell("$COVE evict d; rm -r $tmp/out/d/e/big2; printf changed > f; $COVE sync --wait")
                let second = try account.cove("account export $tmp/out", as: Exported.self)
                #expect(second.exported == 2 && second.present == 4 && second.failures.isEmpty, "\(second)")
                for number in 1...3 { #expect(try account.info("d/e/big\(number)").state == "dataless") }
                #expect(try account.shell("cat $tmp/out/f; cmp $tmp/out/d/e/big2 $src/d/e/big2") == "changed")
                try account.expectRefusal(
                    "$COVE account export d",
                    "d: it is in an account itself; name a folder outside of Cove's mounts"
                )
            }
        }

        @Test func `2. an export has what is in containers that nobody is shown`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.addApp("b", document: "shown.txt", "shown\n")
                try account.cove("container create com.a.box --app com.a.app --name Private")
                try account.shell("echo hidden > Private/Documents/h.txt; echo data > Private/data.db; echo one > f")
                #expect(try account.shell("ls") == "b\nf\n")
                let report = try account.cove("account export $tmp/out", as: Exported.self)
                #expect(report.exported == 4 && report.failures.isEmpty, "\(report)")
                #expect(
                    try account.shell(
                        "cd $tmp/out; find . -type f ! -name .cove-export | sort | xargs tail -n +1 | grep -v '^$'"
                    )
                        == """
                        ==> ./Private/Documents/h.txt <==
                        hidden
                        ==> ./Private/data.db <==
                        data
                        ==> ./b/Documents/shown.txt <==
                        shown
                        ==> ./f <==
                        one

                        """
                )
            }
        }

        @Test func `2. an export says what could not be had, and a later one has it`() async throws {
            try await blocking {
                let server = try TestServer.seaweedFS()
                let line = try FaultProxy(to: server.port)
                let account = try MountedAccount(
                    options: "settle=50ms,stall-limit=1s",
                    address: Cloud.s3Address(line.port)
                )
                try account.start()
                try account.shell(
                    "mkdir d; echo far > d/far; echo near > near; $COVE sync --wait; ls . d; $COVE evict d"
                )
                line.set { $0.refuses = true }
                line.dropAll()
                let result = try account.start("$COVE account export $tmp/out").wait(deadline: 60)
                #expect(result.status == 1 && result.error.contains("d/far: the source can't be reached"), "\(result)")
                #expect(
                    result.output.hasSuffix("1 written (5B), 0 there already, 1 could not be had\n"),
                    "\(result.output)"
                )
                line.set { $0.refuses = false }
                try waitUntil("the rest is had") {
                    try account.start("$COVE account export $tmp/out").wait(deadline: 60).status == 0
                }
                #expect(try account.shell("cat $tmp/out/d/far $tmp/out/near") == "far\nnear\n")
                try account.end()
            }
        }

        @Test func `2. an export to a disk that takes one name for another replaces nothing`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.shell(
                    "mkdir -p Docs docs; echo large > Docs/a; echo small > docs/a; echo one > f; echo two > g"
                )
                try account.cove("account export $tmp/out")
                // As a disk that does not tell capital letters from small ones.
                try account.shell(
                    "cd $tmp/out; mount --bind Docs docs; mount --bind f g; echo other > Docs/a"
                )
                let said = try account.shell("$COVE account export $tmp/out --json || true")
                let report: Exported = try JSONDecoder().decode(Exported.self, from: Data(said.utf8))
                let seen = try account.shell("cd $tmp/out; umount -l docs g; cat Docs/a f")
                #expect(
                    report.failures == [
                        "docs": "the disk takes it for Docs, which is there already",
                        "g": "the disk takes it for f, which is there already",
                    ]
                )
                #expect(seen == "large\none\n")
            }
        }

        @Test func `2. an export replaces nothing that a disk has under another name from before`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.shell("mkdir $tmp/disk $tmp/out; echo text > README")
                let disk = try account.start(
                    "exec rclone mount --vfs-case-insensitive --vfs-cache-mode full --vfs-write-back 0s $tmp/disk $tmp/out"
                )
                defer { disk.signal(SIGTERM) }
                try waitUntil("the disk is there") {
                    (try? account.shell("mountpoint -q $tmp/out && echo yes")) == "yes\n"
                }
                try account.shell("$COVE account export $tmp/out; mv README readme; echo other > readme")
                let said = try account.shell("$COVE account export $tmp/out --json || true")
                let report: Exported = try JSONDecoder().decode(Exported.self, from: Data(said.utf8))
                let words = "the disk takes it for another name, which is there already"
                #expect(report.failures == ["readme": words], "\(said)")
                #expect(try account.shell("cat $tmp/out/README; umount $tmp/out") == "text\n")
            }
        }

        @Test func `2. an export has all that was there, though the mount is taken away meanwhile`() async throws {
            try await blocking {
                let server = try TestServer.seaweedFS()
                let line = try FaultProxy(to: server.port)
                let account = try MountedAccount(options: "settle=50ms", address: Cloud.s3Address(line.port))
                try account.start()
                try account.shell("mkdir d; echo far > d/far; echo near > near; $COVE sync --wait; $COVE evict d")
                line.set { $0.latency = 1000 }
                line.dropAll()
                let export = try account.start("$COVE account export $tmp/out")
                let begun = account.scratch.appending("out/d/.far.cove-save-0")
                try waitUntil("it waits for the source", deadline: 30) { FileManager.default.fileExists(atPath: begun) }
                try Command.run("umount", ["-l", account.mount])
                let result = try export.wait(deadline: 60)
                #expect(result.status == 0 && result.output.hasPrefix("2 written (9B)"), "\(result)")
                #expect(try account.shell("cd /; cat $tmp/out/d/far $tmp/out/near") == "far\nnear\n")
            }
        }

        private struct Erased: Decodable {
            var deleted: Int
        }

        /// Fills an account, and erases it on one of its two devices; the names that are left at the source.
        private func expectErasure(_ address: String, names: () throws -> String) throws {
            let options = "settle=50ms,poll=500ms"
            let (here, there) = (
                try MountedAccount(options: options, address: address),
                try MountedAccount(options: options, address: address)
            )
            try here.start()
            try there.start()
            // More than what any device would delete without asking.
            try here.shell(
                "mkdir -p d/e; for i in $(seq 150); do echo $i > d/e/f$i; done; echo one > f; ln -s f l; echo gone > g"
            )
            try here.settle()
            try here.shell("rm g; echo two > f")
            try here.settle()
            try there.settle()
            try there.shell(
                "cat f d/e/f1 d/e/f2 > /dev/null; echo theirs > own; $COVE sync --wait; echo more > own; $COVE sync --wait"
            )
            try here.settle()
            try here.expectRefusal(
                "$COVE account erase < /dev/null",
                "account erase: deletes everything for good; say --yes if that is meant",
                status: 2
            )
            #expect(try here.shell("cat own") == "more\n")
            let erased = try here.cove("account erase --yes", as: Erased.self)
            #expect(erased.deleted >= 152)
            for device in [here, there] {
                let state = { (try? device.shell("ls -A; $COVE status; tail -15 $STATE/log")) ?? "" }
                try waitUntil("everything is gone: \(state())", deadline: 60) { try device.shell("ls -A") == "" }
                try device.settle()
                let kept = { (try? device.shell("$COVE trash ls | head -3; tail -15 $STATE/log")) ?? "" }
                try waitUntil("the trash is empty, too: \(kept())", deadline: 60) { try device.cove("trash ls") == "" }
                let status = try device.cove("status", as: AccountStatus.self)
                #expect(status.state == "idle" && status.queuedOperations == 0, "\(status)")
                let statistics = try device.statistics()
                #expect(statistics.dirtyItems == 0 && statistics.residentBytes == 0, "\(statistics)")
            }
            // A device may have said just then that it is there.
            let left = try names().replacing(".cove-news\n", with: "")
            #expect(left == ".cove-erased\n", "\(left)")
            // The account goes on, and a new device does, too.
            try there.shell("echo new > new; $COVE sync --wait")
            try waitUntil("the other one has it", deadline: 60) { (try? here.shell("cat new")) == "new\n" }
            try here.end()
            try there.end()
        }

        @Test func `2. an erasure empties a folder and all devices, which do not ask`() async throws {
            try await blocking {
                let shared = try TemporaryDirectory("erased")
                try expectErasure("dir://\(shared.path)") { try Command.run("ls", ["-A", shared.path]).output }
            }
        }

        @Test func `2. an erasure empties a cloud and all devices, which do not ask`() async throws {
            try await blocking {
                let cloud = try ScriptedCloud()
                try expectErasure(cloud.source) { cloud.names().map { "\($0)\n" }.joined() }
            }
        }

        @Test(arguments: [Cloud.seaweedFS, .juiceFS])
        func `2. an erasure empties a bucket and all devices, which do not ask`(cloud: Cloud) async throws {
            try await blocking {
                let server = try cloud.start()
                try expectErasure(cloud.address(server.port)) {
                    let text = try Command.run(
                        "curl",
                        [
                            "-sSf", "--aws-sigv4", "aws:amz:us-east-1:s3", "-u",
                            "\(TestServer.user):\(TestServer.password)",
                            "http://127.0.0.1:\(server.port)/\(TestServer.bucket)?list-type=2",
                        ]
                    ).output
                    return text.matches(of: /<Key>(.*?)<\/Key>/).map { "\($0.output.1)\n" }.joined()
                }
            }
        }

        @Test func `an erasure that is given up is none`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.cove("container create com.a.box --app com.a.app --name Private")
                try account.shell("echo one > f; $COVE sync --wait")
                #expect(try account.shell("ls") == "f\n")
                let script = """
                    import json, os, socket
                    s = socket.socket(socket.AF_UNIX)
                    s.connect(os.getxattr('.', 'user.cove.socket'))
                    s.send(json.dumps({'method': 'io.cove.Account.BeginErasure'}).encode() + b'\\0')
                    data = b''
                    while not data.endswith(b'\\0'): data += s.recv(65536)
                    print(data[:-1].decode(), sorted(os.listdir('.')))
                    """
                let said = try account.shell("python3 - <<'END'\n\(script)\nEND")
                #expect(!said.contains("error") && said.contains("Private"), "\(said)")
                try waitUntil("what is hidden is so again") { try account.shell("ls") == "f\n" }
                // Nobody heeds what is so old.
                try waitUntil("the note is taken back") {
                    try account.shell("cat $src/.cove-erased 2> /dev/null || true").hasSuffix(" 0")
                }
                #expect(try account.shell("cat f") == "one\n")
            }
        }

        @Test func `an erasure that a daemon's death ended is taken back`() async throws {
            try await mounted { account in
                try account.shell("echo one > f; $COVE sync --wait")
                let script = """
                    import json, os, signal, socket
                    s = socket.socket(socket.AF_UNIX)
                    s.connect(os.getxattr('.', 'user.cove.socket'))
                    s.send(json.dumps({'method': 'io.cove.Account.BeginErasure'}).encode() + b'\\0')
                    data = b''
                    while not data.endswith(b'\\0'): data += s.recv(65536)
                    note = open(os.environ['src'] + '/.cove-erased').read()
                    os.kill(\(try account.statistics().daemonPID), signal.SIGKILL)
                    print(note)
                    """
                let said = try account.shell("python3 - <<'END'\n\(script)\nEND")
                #expect(said.hasPrefix("cove-erased ") && !said.hasSuffix(" 0\n\n"), "\(said)")
                try waitUntil("the note is taken back") {
                    try account.shell("cat $src/.cove-erased 2> /dev/null || true").hasSuffix(" 0")
                }
                #expect(try account.shell("cat f") == "one\n")
            }
        }

        @Test func `an erasure of before a device was there excuses no loss that it sees`() async throws {
            try await blocking {
                let shared = try TemporaryDirectory("erased")
                let first = try MountedAccount(options: "settle=50ms", address: "dir://\(shared.path)")
                try first.start()
                try first.shell("echo one > f; $COVE account erase --yes")
                try first.end()
                // The note tells whole seconds.
                let noted = time(nil)
                try waitUntil("it is another second") { time(nil) > noted + 1 }
                let later = try MountedAccount(options: "settle=50ms,poll=500ms", address: "dir://\(shared.path)")
                try later.start()
                try later.shell("mkdir d; for i in $(seq 150); do echo $i > d/f$i; done; echo x > d/x")
                try later.settle()
                // All at once: of what goes one after the other, the first ones go before it asks.
                let away = try TemporaryDirectory("away")
                try later.shell("mv '\(shared.path)'/d '\(away.path)'")
                try waitUntil("it asks", deadline: 60) {
                    try later.cove("status", as: AccountStatus.self).state == "waiting-for-approval"
                }
                #expect(try later.shell("ls d | wc -l; cat d/x") == "151\nx\n")
                try later.shell("$COVE sync --wait --accept-deletions; [ -z \"$(ls -A)\" ]")
                try later.end()
            }
        }

        @Test func `a source that can't tell of an erasure is not erased, and one that is away neither`() async throws {
            try await ScriptedProvider.account("", tree: "{\"f\": \"f\"}") { account in
                try account.expectRefused("$COVE account erase --yes", "this source can't tell other devices of it")
                #expect(try account.shell("cat f") == "f")
            }
            try await blocking {
                let server = try TestServer.seaweedFS()
                let line = try FaultProxy(to: server.port)
                let account = try MountedAccount(
                    options: "settle=50ms,stall-limit=1s",
                    address: Cloud.s3Address(line.port)
                )
                try account.start()
                try account.shell("echo x > f; $COVE sync --wait; ls")
                line.set { $0.refuses = true }
                line.dropAll()
                try account.expectRefused("$COVE account erase --yes", "the source can't be reached")
                #expect(try account.shell("cat f") == "x\n")
                line.set { $0.refuses = false }
                try account.end()
            }
        }
    }
}
