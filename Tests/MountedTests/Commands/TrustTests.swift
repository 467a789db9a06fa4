import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Who may do what, and who is believed.
    struct TrustTests {
        /// Runs the rest of a shell's line as another user, who is nobody here.
        private static let stranger = "setpriv --reuid 33 --regid 33 --clear-groups"

        @Test func `root believes no daemon but that of the mount's owner`() async throws {
            try await mounted { account in
                // Another user's state directory leads to the daemon of root's own account.
                try account.shell("mkdir $tmp/led; ln -s $STATE/cove.sock $tmp/led/cove.sock; chown 33 $tmp/led")
                for words in ["stats", "pause", "upgrade"] {
                    try account.expectRefusal(
                        "cd /; exec $COVE \(words) --state $tmp/led",
                        "$tmp/led: a service of user 0 answers at $tmp/led/cove.sock, who is not the mount's owner; "
                            + "ask who made that mount"
                    )
                }
                #expect(try account.cove("status").contains("state:      idle"))
            }
        }

        @Test func `root uses another user's daemon`() async throws {
            try await mounted { account in
                // A service counts as whose it was when it began to listen.
                let service = try account.start(
                    """
                    mkdir $tmp/theirs; chown 33 $tmp/theirs
                    exec python3 -c '
                    import json, os, socket
                    s = socket.socket(socket.AF_UNIX)
                    s.bind(os.environ["tmp"] + "/theirs/cove.sock")
                    os.setuid(33)
                    s.listen()
                    line = s.accept()[0]
                    line.recv(4096)
                    failure = {"error": "io.cove.Account.Failed", "parameters": {"message": "it is believed"}}
                    line.sendall(json.dumps(failure).encode() + bytes(1))
                    line.recv(1)
                    '
                    """
                )
                try waitUntil("it listens") {
                    try account.shell("ss -xlH src $tmp/theirs/cove.sock | wc -l") == "1\n"
                }
                try account.expectRefusal("cd /; exec $COVE pause --state $tmp/theirs", "$tmp/theirs: it is believed")
                #expect(try service.wait(deadline: 30).status == 0)
            }
        }

        @Test func `no number that another user's daemon tells ends a command of root's`() async throws {
            try await mounted { account in
                let service = try account.start(
                    """
                    mkdir $tmp/theirs; chown 33 $tmp/theirs
                    exec python3 -c '
                    import json, os, socket
                    least, most = -2**63, 2**63 - 1
                    transfers = [
                        {"path": "f", "direction": "upload", "doneBytes": done, "totalBytes": total, "bytesPerSecond": rate}
                        for done, total, rate in [(most, 1, 1e300), (least, 1, -1e300), (most, most, 0), (1, least, 1)]]
                    late = [{"path": "f", "reason": "r", "seconds": seconds} for seconds in [-1e300, 1e300]]
                    status = {
                        "account": "a", "source": "s", "mountpoint": "/m", "stateDirectory": "/s", "state": "idle",
                        "queuedOperations": least, "transfers": transfers, "conflicts": most, "errorCount": least,
                        "errors": [{"path": "f", "message": "m", "retryInSeconds": r} for r in [-1e300, 1e300]],
                        "residentBytes": least, "cacheLimit": most, "weaknesses": [], "heldUp": late, "standstill": late[0]}
                    names = "downloads_started bytes_downloaded content_updates bytes_uploaded deletions moves \
                        provider_requests fuse_requests read_hits read_misses parked_requests announcements thumbnails_fetched \
                        thumbnails_made thumbnails_sent resident_bytes \
                        open_handles conflicts dirty_items queued_operations items memory_bytes daemon_pid keeper_pid"
                    statistics = {name: most for name in names.split()}
                    s = socket.socket(socket.AF_UNIX)
                    s.bind(os.environ["tmp"] + "/theirs/cove.sock")
                    os.setuid(33)
                    s.listen()
                    while True:
                        line = s.accept()[0]
                        while asked := line.recv(4096):
                            method = json.loads(asked[:-1])["method"].rpartition(".")[2]
                            reply = {"Status": {"status": status}, "Statistics": {"statistics": statistics},
                                "Diagnose": {"findings": []}, "Sync": {"status": status}}[method]
                            more = method == "Sync"
                            line.sendall(json.dumps({"parameters": reply, "continues": more}).encode() + bytes(1))
                            if more: line.sendall(json.dumps({"parameters": {"report": {
                                "isSettled": False, "remaining": least, "errors": status["errors"]}}}).encode() + bytes(1))
                    '
                    """
                )
                defer { service.signal(SIGTERM) }
                try waitUntil("it listens") {
                    try account.shell("ss -xlH src $tmp/theirs/cove.sock | wc -l") == "1\n"
                }
                for words in ["status", "status --json", "stats", "doctor", "sync --wait"] {
                    let told = try account.start("cd /; exec $COVE \(words) --state $tmp/theirs").wait(deadline: 60)
                    #expect(told.status == 0 || told.status == 1, "\(words): \(told.error)")
                    #expect(!told.output.isEmpty || !told.error.isEmpty, "\(words)")
                    #expect(!told.error.contains("use the same version"), "\(words): \(told.error)")
                }
            }
        }

        @Test func `the socket for coordination gives nothing else away`() async throws {
            try await mounted { account in
                let script = """
                    python3 - <<'END'
                    import json, os, socket
                    def ask(line_path, method, **parameters):
                        line = socket.socket(socket.AF_UNIX); line.connect(line_path)
                        line.sendall(json.dumps({"method": method, "parameters": parameters}).encode() + bytes(1))
                        reply = b""
                        while not reply.endswith(bytes(1)): reply += line.recv(65536)
                        reply = json.loads(reply[:-1])
                        return reply.get("error") or reply["parameters"].get("interfaces") or "done"
                    for name in "user.cove.coordination-socket", "user.cove.socket":
                        path = os.getxattr(".", name).decode()
                        print(ask(path, "org.varlink.service.GetInfo"))
                        print(ask(path, "io.cove.Account.Upgrade", program="/nowhere"))
                        print(ask(path, "io.cove.Item.Info", path=""))
                        print(ask(path, "io.cove.Coordination.List"))
                        print(ask(path, "io.cove.Access.Grants"))
                        print(ask(path, "io.cove.Access.StopScope", scope="0"))
                    END
                    """
                let answers = try account.shell(script).split(separator: "\n")
                let missing = "org.varlink.service.InterfaceNotFound"
                #expect(
                    answers.prefix(6) == [
                        "['org.varlink.service', 'io.cove.Access', 'io.cove.Coordination']", missing[...], missing[...],
                        "done", "io.cove.Access.Failed", "io.cove.Access.Failed",
                    ]
                )
                #expect(
                    answers.dropFirst(6) == [
                        "['org.varlink.service', 'io.cove.Access', 'io.cove.Account', 'io.cove.Item', 'io.cove.Query']",
                        "io.cove.Account.Failed", "done",
                        missing[...], "done", "done",
                    ]
                )
            }
        }

        @Test func `a sandbox that has that socket coordinates, and can do no more`() async throws {
            try await mounted { source in
                try source.save("f", Array("text\n".utf8))
            } _: { account in
                let script = """
                    mkdir $tmp/kept; mount --bind $STATE/coordination $tmp/kept; mount -t tmpfs none $STATE
                    mkdir $STATE/coordination; mount --bind $tmp/kept $STATE/coordination
                    exec unshare --user --map-user=$user bash -euc '
                        $COVE coordinate --reading f -- cat f
                        $driver "read $mnt/f"
                        $COVE stats 2>&1 || true
                    '
                    """
                try script.write(toFile: account.scratch.appending("script"), atomically: true, encoding: .utf8)
                // As root of the sandbox, and as some user of it.
                for user in ["0", "1000"] {
                    let result = try account.start(
                        """
                        export user=\(user) driver=\(try Command.built("CoveKitDriver"))
                        exec unshare --mount bash -eu $tmp/script
                        """
                    ).wait(deadline: 60)
                    #expect(result.status == 0, "\(result.error)")
                    let lines = result.output.split(separator: "\n")
                    try #require(lines.count == 3, "\(result.output)")
                    #expect(lines[0] == "text" && lines[1].hasSuffix("text"), "\(result.output)")
                    #expect(lines[2].hasPrefix("cove: .: no daemon answers at"))
                    try account.shell("rmdir $tmp/kept")
                }
            }
        }

        @Test func `an item is pinned by its owner, not by whoever may write to it`() async throws {
            try await mounted(options: "allow_other") { account in
                try account.shell("mkdir -m 777 open; mkdir theirs; chown 33 theirs; touch file; chmod 666 file")
                for name in ["open", "file"] {
                    let refused = try account.start(
                        "exec \(Self.stranger) setfattr -n user.cove.pinned -v 1 \(name)"
                    ).wait(deadline: 10)
                    #expect(refused.status == 1 && refused.error.contains("Operation not permitted"))
                    #expect(try account.info(name).isPinned == false)
                }
                try account.shell("\(Self.stranger) setfattr -n user.cove.tags -v red open")
                try account.shell("\(Self.stranger) setfattr -n user.cove.pinned -v 1 theirs")
                try account.shell("setfattr -n user.cove.pinned -v 1 open")
                for name in ["theirs", "open"] { #expect(try account.info(name).isPinned) }
            }
        }
    }
}
