import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

extension MountedInCompany {
    /// Numbers that a server, a file or a client sends and no sum was made for: none ends the daemon.
    struct HostileNumberTests {
        /// Runs the body, and sees that the daemon from before it is the one after it.
        private static func unharmed(_ account: MountedAccount, _ body: () throws -> Void) throws {
            let daemon = try account.statistics().daemonPID
            try body()
            #expect(try account.statistics().daemonPID == daemon)
            let log = try account.shell("cat $STATE/log")
            #expect(!log.contains("keeper:"))
        }

        @Test(arguments: [
            "-9223372036854775808", "9223372036854775807", "-1", "99999999999999999999", "1e308", "nan", "",
            "Fri, 01 Jan 0001 00:00:00 GMT",
        ])
        func `a server asks for a rest of any length`(seconds: String) async throws {
            try await blocking {
                let cloud = try ScriptedCloud()
                cloud.put("f", Array("far away".utf8))
                let account = try MountedAccount(options: "settle=50ms,stall-limit=2s", address: cloud.source)
                try account.start()
                try Self.unharmed(account) {
                    try account.shell("ls")
                    for status in [429, 503] {
                        let refused = Mutex(0)
                        cloud.answer { request in
                            guard request.method == "GET" || request.method == "PUT" else { return nil }
                            if request.method == "PUT" { refused.withLock { $0 += 1 } }
                            return ScriptedServer.answer(status, ["Retry-After: \(seconds)"])
                        }
                        try account.shell("echo new > g")
                        try waitUntil("the upload is refused") {
                            _ = try account.cove("sync")
                            return refused.withLock { $0 > 0 }
                        }
                        let reader = try account.start("exec cat f").wait(deadline: 60)
                        #expect(reader.status == 1, "\(reader.output)")
                    }
                    cloud.answer(nil)
                    #expect(try account.shell("until cat f; do sleep 0.1; done") == "far away")
                    try waitUntil("what was changed is sent", deadline: 60) {
                        _ = try account.cove("sync")
                        return cloud.bytes("g") == Array("new\n".utf8)
                    }
                }
                try account.end()
            }
        }

        @Test(arguments: [
            "Mon, 01 Jan 0001 00:00:00 GMT", "Fri, 01 Jan 1700 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT",
        ])
        func `a server dates its files by any year, and versions by that alone`(date: String) async throws {
            try await blocking {
                let cloud = try ScriptedCloud()
                cloud.rewrite { _, reply in
                    // No entity tags, and one date for all.
                    for name in ["ETag", "OC-ETag"] { reply.set(name, nil) }
                    if reply.headers.contains(where: { $0.hasPrefix("Last-Modified") }) {
                        reply.set("Last-Modified", date)
                    }
                    guard reply.statusLine.contains(" 207 ") else { return }
                    reply.rewriteText { text in
                        text.replacing(#/<d:getetag>[^<]*</d:getetag>/#, with: "")
                            .replacing(#/<d:getlastmodified>[^<]*</#, with: "<d:getlastmodified>\(date)<")
                    }
                }
                let account = try MountedAccount(options: "settle=50ms", address: cloud.source)
                try account.start()
                try Self.unharmed(account) {
                    for text in ["one", "two", "six"] {
                        try account.shell("echo \(text) > f")
                        try waitUntil("it is sent") {
                            _ = try account.cove("sync")
                            return cloud.bytes("f") == Array("\(text)\n".utf8)
                        }
                    }
                }
                try account.end()
            }
        }

        @Test(arguments: ["1700-01-01", "1677-09-22", "0001-01-01", "2262-04-12", "9999-12-31"])
        func `the log of a database is dated by any year`(date: String) async throws {
            try await mounted(options: "settle=50ms") { account in
                try Self.unharmed(account) {
                    try account.shell(
                        "echo base > x.db; echo log > x.db-wal; touch -d \(date) x.db-wal; echo more >> x.db"
                    )
                    try account.shell("$COVE sync")
                    // A log from a time that is to come has not rested yet.
                    if date < "2000" { try waitUntil("it is sent") { try account.source.snapshot()["x.db"] != nil } }
                    try account.shell("rm x.db-wal")
                    try account.expectSame()
                }
            }
        }

        @Test func `a source's files are dated by any year`() async throws {
            try await blocking {
                let account = try MountedAccount(options: "settle=50ms")
                // Most disks keep only some centuries.
                try account.shell("cd /; mount -t tmpfs none $src")
                defer { _ = try? account.shell("cd /; umount -l $src") }
                let dates = ["0001-01-01", "1600-01-01", "1700-01-01", "1733-01-01", "2262-04-12", "9999-12-31"]
                try account.shell(
                    dates.map { "echo old > $src/\($0); touch -d \($0) $src/\($0)" }.joined(separator: "; ")
                )
                try account.start()
                try Self.unharmed(account) {
                    try account.shell("cat *; stat *; touch $src/seen; mkdir $src/d; touch -d 1600-01-01 $src/d")
                    try waitUntil("the folder is seen") { try account.shell("ls").contains("d\n") }
                    try account.shell("for f in [0-9]*; do echo new > $f; touch -d $f $f; mv $f d; done")
                    try account.expectSame()
                }
                try account.end()
            }
        }

        @Test func `clients name times of any length on the socket`() async throws {
            try await mounted { source in
                try source.save("a", Array("hi\n".utf8))
            } _: { account in
                try account.shell("cat a; rm a; $COVE sync --wait")
                try Self.unharmed(account) {
                    let answered = try account.shell(
                        """
                        exec python3 -c '
                        import json, os, socket
                        s = socket.socket(socket.AF_UNIX); s.connect(os.environ["STATE"] + "/cove.sock")
                        s.settimeout(30)
                        numbers = ["1e10", "-1", "1e308", "-1e308", "5e-324", "0", "9.3e9", "1.8e20", "1e999", "null",
                            "9223372036854775807", "-9223372036854775808", "99999999999999999999", "9223372036.854775807"]
                        calls = [("Sync", {"wait": True, "timeoutSeconds": 4711}), ("TrashEmpty", {"olderThanSeconds": 4711})]
                        for number in numbers:
                            for method, parameters in calls:
                                call = {"method": "io.cove.Account." + method, "parameters": parameters}
                                text = json.dumps(call).replace("4711", number)
                                s.send(text.encode() + bytes(1))
                                reply = b""
                                while not reply.endswith(bytes(1)):
                                    part = s.recv(65536)
                                    if not part: break
                                    reply += part
                                if number == "1e999":
                                    # No number at all: the connection ends.
                                    s.close(); s = socket.socket(socket.AF_UNIX)
                                    s.connect(os.environ["STATE"] + "/cove.sock")
                                assert reply, text
                        print("all")
                        '
                        """
                    )
                    #expect(answered == "all\n")
                    try account.shell(
                        "$COVE sync --wait --timeout 999999999 || true; $COVE trash empty --older-than 9999d"
                    )
                    for seconds in ["1e10", "99999999999999999999", "0.000000001"] {
                        try account.shell("echo x > f; $COVE coordinate --writing f --timeout \(seconds) true || true")
                    }
                }
            }
        }

        @Test func `options of any length`() async throws {
            try await blocking {
                for options in [
                    "settle=0", "settle=999999999,poll=999999999,stall-limit=999999999,open-timeout=999999999",
                    "stall-limit=0,presenter-timeout=0,open-timeout=0,poll=0,settle=1us",
                    "versions=99999d,cache-size=8E",
                ] {
                    let account = try MountedAccount(options: options)
                    try account.source.save("a", Array("hi\n".utf8))
                    let started = try account.start("cd /; exec $COVE mount $src $mnt --state $STATE -o \(options)")
                        .wait(
                            deadline: 60
                        )
                    guard started.status == 0 else {
                        #expect(
                            started.error.hasPrefix("cove: ") && !started.error.contains("fatal"),
                            "\(started.error)"
                        )
                        continue
                    }
                    try Self.unharmed(account) {
                        try account.shell("ls || true; timeout 5 cat a || true; echo b > b || true; $COVE status")
                    }
                    try account.end()
                }
            }
        }

        @Test func `a snapshot of a thousand folders in each other`() async throws {
            try await mounted { account in
                try account.shell("python3 -c '\(Self.nest("d", depth: 1200))'")
                try Self.unharmed(account) {
                    let listing = try account.shell(
                        """
                        $COVE coordinate --reading d --for-uploading sh -c 'python3 -m zipfile -l "$COVE_SNAPSHOT" | tail -n 1'
                        """
                    )
                    #expect(listing.contains("/deepest "))
                }
            }
        }

        @Test func `a snapshot with a path that no archive can hold`() async throws {
            try await mounted { account in
                let name = String(repeating: "n", count: 250)
                try account.shell("python3 -c '\(Self.nest(name, depth: 300))'; mv \(name) d")
                try Self.unharmed(account) {
                    let result = try account.start("$COVE coordinate --reading d --for-uploading true").wait(
                        deadline: 60
                    )
                    #expect(result.status == 1 && result.error.contains("File name too long"), "\(result.error)")
                }
                try account.shell("python3 -c 'import shutil; shutil.rmtree(\"d\")'")
            }
        }

        /// A program that makes folders of a name in each other and a file in the last.
        private static func nest(_ name: String, depth: Int) -> String {
            """
            import os
            for _ in range(\(depth)): os.mkdir("\(name)"); os.chdir("\(name)")
            open("deepest", "w").write("here")
            """
        }
    }
}
