import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// `cove query`, as a person and as a script has it.
    struct QueryCommandTests {
        @Test func `finds documents in a cloud of which nothing is here`() async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.shell(
                    "mkdir -p $src/Documents/old; echo one > $src/Documents/old/a.txt; echo three > $src/b.TXT"
                )
                try account.shell(
                    "head -c 5000 /dev/zero > $src/Documents/plan.pdf; touch -d 2020-05-05T12:00Z $src/b.TXT"
                )
                try account.start()
                let query = { (text: String) in try account.shell("$COVE query \(text) | sed \"s,^$mnt/,,\"") }
                #expect(try query("'FSName LIKE[c] \"*.txt\"' --sort Path") == "Documents/old/a.txt\nb.TXT\n")
                #expect(try query("'FSSize > 1000' $mnt/Documents") == "Documents/plan.pdf\n")
                #expect(try query("'Kind == \"file\"' --scope data,external") == "b.TXT\n")
                #expect(try query("'FSContentChangeDate < \"2020-05-05T12:00:01Z\"'") == "b.TXT\n")
                #expect(try query("'TRUEPREDICATE' --count") == "5\n")
                let lines = try query("'FSName ENDSWITH \"pdf\"' --json").split(separator: "\n")
                #expect(lines.count == 1)
                let result = try JSONValue(parsing: Array(lines[0].utf8)).decode(as: QueryResultMessage.self)
                #expect(result.path.path == "Documents/plan.pdf" && result.values[.size] == .number(5000))
                #expect(result.values[.downloadingStatus] == .string("NotDownloaded"))
                #expect(result.values[.contentType] == .string("application/pdf"))
                #expect(result.values[.path] == .string("\(account.mount)/Documents/plan.pdf"))
                let few = try query("'FSName == \"b.TXT\"' --json --attributes FSSize,kMDItemFSName")
                #expect(
                    try JSONValue(parsing: Array(few.dropLast().utf8))["values"]
                        == .object(["FSSize": .integer(6), "FSName": .string("b.TXT")])
                )
                #expect(try account.statistics().downloadsStarted == 0)
                #expect(throws: CommandFailure.self) { try account.shell("$COVE query TRUEPREDICATE $mnt/none") }
                // What is made here is found at once, and says that it waits.
                try account.shell("$COVE pause; echo new > new.txt")
                #expect(try query("'IsUbiquitous == TRUE AND IsUploaded == FALSE' --listed-only") == "new.txt\n")
                try account.shell("$COVE resume; $COVE sync --wait")
                #expect(try query("'IsUbiquitous == TRUE AND IsUploaded == FALSE'") == "")
                #expect(try query("TRUEPREDICATE | head -1").split(separator: "\n").count == 1)
                try account.end()
            }
        }

        @Test func `3. a flat file, a package and any bytes are one result each, and the same on another device`()
            async throws
        {
            try await SharedSource.folder.devices { here, there, _ in
                try here.shell(
                    """
                    mkdir -p Documents/note.rtfd/parts Documents/world; setfattr -n user.cove.package -v 1 Documents/world
                    echo text > Documents/flat.txt; echo rich > Documents/note.rtfd/TXT.rtf
                    head -c 100000 /dev/urandom > Documents/note.rtfd/parts/a.png
                    head -c 50001 /dev/urandom > Documents/game; head -c 5000 /dev/urandom > Documents/world/map
                    $COVE sync --wait
                    """
                )
                try there.shell("$COVE sync --wait")
                let found = "$COVE query TRUEPREDICATE --scope documents --sort Path | sed \"s,^$mnt/Documents/,,\""
                let sums = "cd Documents; find . -type f -exec sha256sum {} + | sort"
                for device in [here, there] {
                    try waitUntil("each is found once", deadline: 60) {
                        try device.shell(found) == "flat.txt\ngame\nnote.rtfd\nworld\n"
                    }
                }
                #expect(try there.shell(sums) == here.shell(sums))
                // Who asks for what is in one finds that.
                let inside = "$COVE query 'Kind == \"file\"' $mnt/Documents/note.rtfd | sed 's,.*note.rtfd/,,' | sort"
                #expect(try there.shell(inside) == "TXT.rtf\nparts/a.png\n")
            }
        }

        @Test func `goes on, over daemons, until the mount ends`() async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.shell("mkdir $src/d; echo one > $src/d/a.txt")
                try account.start()
                let text = try account.start("exec $COVE query 'FSName ENDSWITH \".txt\"' --follow")
                let json = try account.start(
                    "exec $COVE query 'FSName ENDSWITH \".txt\"' --follow --json --attributes FSSize"
                )
                let count = try account.start("exec $COVE query 'FSName ENDSWITH \".txt\"' --follow --count")
                for query in [text, json, count] {
                    try waitUntil("all is gathered") { query.error.contains("1 found; end it with Ctrl-C") }
                }
                let mount = account.mount
                func lines() -> [String] {
                    text.output.split(separator: "\n").map { $0.replacingOccurrences(of: mount + "/", with: "") }
                }
                #expect(lines() == ["+ d/a.txt"])
                try account.shell("$COVE pause; echo two > b.txt")
                try waitUntil("a new file is told") { lines().contains("+ b.txt") }
                try account.shell("mv d e")
                try waitUntil("a moved folder is told") { lines().contains("~ e/a.txt") }
                try account.killDaemon()
                try account.shell("$COVE resume; $COVE sync --wait; rm b.txt; echo three > c.txt")
                try waitUntil("what goes and comes is told") {
                    lines().contains("- b.txt") && lines().contains("+ c.txt")
                }
                #expect(lines().filter { $0.hasPrefix("+") } == ["+ d/a.txt", "+ b.txt", "+ c.txt"])
                #expect(lines().filter { $0.hasPrefix("-") } == ["- b.txt"])
                try account.shell("echo four > $src/e/z.txt; $COVE upgrade; $COVE sync --wait")
                try waitUntil("what another device has is told") { lines().contains("+ e/z.txt") }
                try waitUntil("the others have it too") {
                    json.output.contains("e/z.txt") && count.output.hasSuffix("3\n")
                }
                let events = try json.output.split(separator: "\n").map { try JSONValue(parsing: Array($0.utf8)) }
                #expect(events.contains { $0["event"] == .string("gathered") && $0["unlisted"] == .integer(0) })
                let moved = events.first { $0["from"] == .string("d/a.txt") }
                #expect(moved?["path"] == .string("e/a.txt") && moved?["event"] == .string("changed"))
                #expect(moved?["values"] == .object(["FSSize": .integer(4)]))
                let head = try account.start("$COVE query TRUEPREDICATE --follow --interval 0 | head -n 1")
                // It sees that nobody reads any more though there is nothing to tell.
                #expect(try head.wait(deadline: 30).output.split(separator: "\n").count == 1)
                for wrong in ["--sort FSName", "--interval -1", "--interval many"] {
                    let result = try account.start("$COVE query TRUEPREDICATE --follow \(wrong)").wait(deadline: 30)
                    #expect(result.status == 2, "\(wrong): \(result)")
                }
                try account.end()
                for query in [text, json, count] { #expect(try query.wait(deadline: 60).status == 0, "\(query.error)") }
            }
        }

        @Test func `says what is wrong with a predicate, and where`() async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.start()
                let wrong = { (text: String) -> (status: Int32, error: String) in
                    let result = try account.start("$COVE query \(text)").wait(deadline: 60)
                    return (result.status, result.error)
                }
                for (text, words) in [
                    ("'FSName = '", "at character 10: FSName is compared with a string in quotes"),
                    ("'Size > 3'", "at character 1: \"Size\" is no key"), ("", "PREDICATE is missing"),
                    ("TRUEPREDICATE --scope home", "home is no scope"), ("TRUEPREDICATE --sort Name", "Name is no key"),
                ] {
                    let result = try wrong(text)
                    #expect(result.status == 2 && result.error.contains(words), "\(text): \(result)")
                    #expect(result.error.split(separator: "\n").count == 1)
                }
                #expect(try account.shell("$COVE query --keys").contains("FSName                  string"))
                // Whoever calls the socket is told as much.
                let call = """
                    python3 - "$(getfattr --only-values -n user.cove.socket .)" <<'END'
                    import json, socket, sys
                    link = socket.socket(socket.AF_UNIX)
                    link.connect(sys.argv[1])
                    for predicate in ("FSName ==", '{"and": [{"key": "FSName", "is": "==", "value": "none"}]}', '{"key": 1}'):
                        message = {"method": "io.cove.Query.Run", "parameters": {"predicate": predicate}}
                        link.sendall(json.dumps(message).encode() + b"\\0")
                        answer = b""
                        while not answer.endswith(b"\\0"):
                            answer += link.recv(4096)
                        print(answer[:-1].decode())
                    END
                    """
                let answers = try account.shell(call).split(separator: "\n")
                #expect(
                    answers.count == 3 && answers[0].contains("at character 10")
                        && answers[1].contains("\"results\":[]")
                )
                #expect(answers[2].contains("key: must be a key"), "\(answers)")
                try account.end()
            }
        }
    }
}
