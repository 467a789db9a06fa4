import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// What a provider of somebody else's can rely on; the numbers are those of the acceptance checklist.
    struct ProviderChecklistTests {
        @Test func `86: the steps of an open are told in their order, and those of a change`() async throws {
            try await ScriptedProvider.account("", tree: "{\"f\": \"bytes\", \"other\": \"none\"}") { account in
                try account.shell("ls")
                let all = try account.start("cd /; exec $COVE trace $mnt --json")
                let one = try account.start("cd /; exec $COVE trace $mnt/f")
                for trace in [all, one] { try waitUntil("it follows") { trace.error.contains("ready") } }
                #expect(try account.shell("cat f") == "bytes")
                try waitUntil("the file is closed") { all.output.contains("close") }
                var steps: [TraceEvent] = []
                for line in all.output.split(separator: "\n") {
                    steps.append(try JSONValue(parsing: Array(line.utf8)).decode(as: TraceEvent.self))
                }
                // How the fetch ended is told when it is known: nobody waits for that.
                #expect(
                    steps.map(\.step).filter { $0 != "provided" && $0 != "stop" } == [
                        "open", "claim", "provide", "contents", "grant", "close",
                    ]
                )
                #expect(steps.allSatisfy { $0.path.path == "f" && $0.lost == nil })
                #expect(steps.filter { $0.program == "cat" }.map(\.step) == ["open", "claim", "grant"])
                #expect(steps.map(\.time) == steps.map(\.time).sorted())
                // What a program changes is sent; of another file nothing is told to who asked for one.
                try account.shell("echo new > f; cat other; $COVE sync --wait")
                try waitUntil("it is sent") {
                    one.output.contains(" sent ") && all.output.contains("other")
                }
                let words = one.output.split(separator: "\n").compactMap { $0.split(separator: " ").dropFirst().first }
                    .filter { $0 != "provided" && $0 != "stop" }
                #expect(
                    words == [
                        "open", "claim", "provide", "contents", "grant", "close", "open", "claim", "grant", "close",
                        "send",
                        "sent",
                    ]
                )
                #expect(!one.output.contains("other"))
                // Neither another daemon nor the account's end is a failure of those who follow.
                try account.shell("$COVE upgrade")
                for trace in [all, one] { #expect(try trace.wait(deadline: 30).status == 0, "\(trace.error)") }
                // Behind head(1) it ends by itself, and being in the mount it is not in the way of an unmount.
                let head = try account.start("$COVE trace f | head -n 1")
                let last = try account.start("exec $COVE trace f")
                for trace in [head, last] { try waitUntil("it follows") { trace.error.contains("ready") } }
                try account.shell("cat f")
                let first = try head.wait(deadline: 30).output
                #expect(first.contains(" open ") && first.split(separator: "\n").count == 1, "\(first)")
                try account.end()
                #expect(try last.wait(deadline: 30).status == 0, "\(last.error)")
                try account.start()
            }
        }

        @Test func `87: a crash fails the waiting open with its errno, and the next attempt works`() async throws {
            try await ScriptedProvider.account(
                """
                def fetch(self, parameters, call):
                    note("fetched", "f")
                    if os.path.exists(here + "/refuse"):
                        raise Failed("notPermitted", "not for you")
                    if os.path.exists(here + "/die"):
                        os._exit(7)
                    return super().fetch(parameters, call)
                """,
                tree: "{\"f\": \"bytes\"}"
            ) { account in
                try account.shell("ls; touch $tmp/here/die")
                try account.expectRefused("cat f", "No route to host")
                try account.shell("rm $tmp/here/die")
                try waitUntil("the next attempt works") { (try? account.shell("cat f")) == "bytes" }
                try account.shell("touch $tmp/here/refuse; $COVE evict f")
                try account.expectRefused("cat f", "Operation not permitted")
                try account.shell("rm $tmp/here/refuse")
                #expect(try account.shell("cat f") == "bytes")
            }
        }

        @Test func `88: a write returns before the provider has taken it, which is told again after a crash`()
            async throws
        {
            try await ScriptedProvider.account(
                """
                def modify(self, parameters, call):
                    note("called", "modify")
                    if once("first"):
                        os._exit(7)
                    wait("go")
                    content = b"".join(call.content())
                    note("taken", content.decode())
                    raise Failed("failed", "only the test is interested")
                """,
                tree: "{\"f\": \"one\"}"
            ) { account in
                // It returns though nobody has taken it, nor will before the test lets go.
                try account.shell("echo two > f")
                let calls = {
                    try account.shell("cat $tmp/here/called 2> /dev/null || true").split(separator: "\n").count
                }
                try waitUntil("it is told again after its crash") { try calls() >= 2 }
                // And by the next daemon, which may do so before the death has been seen here.
                let before = try calls()
                try account.killDaemon()
                try waitUntil("the next daemon tells it") { try calls() > before }
                #expect(try account.shell("cat f") == "two\n")
                try account.shell("touch $tmp/here/go")
                try waitUntil("it is taken") { (try? account.shell("cat $tmp/here/taken"))?.contains("two") == true }
            }
        }

        @Test func `89: what was let go and evicted is a placeholder with the same stat`() async throws {
            try await ScriptedProvider.account("", tree: "{\"f\": \"bytes\"}") { account in
                let stat = "stat -c '%i %s %y %a %u %g %h' f"
                let before = try account.shell(stat)
                #expect(try account.shell("cat f") == "bytes")
                try account.shell("mkfifo $tmp/pipe")
                let holder = try account.start("exec 3< f; touch $tmp/open; read x < $tmp/pipe || true")
                try waitUntil("has it open") { (try? account.shell("test -e $tmp/open")) != nil }
                try account.expectRefused("$COVE evict f", "has it open")
                try account.shell("echo > $tmp/pipe || true")
                _ = try holder.wait(deadline: 30)
                try account.shell("$COVE evict f")
                #expect(try account.shell(stat) == before)
                #expect(try account.info("f").localBytes == 0)
            }
        }

        @Test func `89: the provider hears when the last program has let go of a file, until it has taken it`()
            async throws
        {
            try await ScriptedProvider.account(
                """
                def hello(self, parameters, call):
                    result = super().hello(parameters, call)
                    result["capabilities"]["releases"] = True
                    return result
                def released(self, parameters, call):
                    note("released", text(parameters["item"]["path"]))
                    if once("first"):
                        os._exit(7)
                    wait("go")
                    return {}
                """,
                tree: "{\"f\": \"bytes\", \"g\": \"others\"}"
            ) { account in
                let told = {
                    try account.shell("cat $tmp/here/released 2> /dev/null || true").split(separator: "\n").map {
                        String($0)
                    }
                }
                let stat = "stat -c '%i %s %y %a %u %g %h' f"
                let before = try account.shell(stat)
                try account.shell("touch $tmp/here/go; mkfifo $tmp/pipe")
                let holder = try account.start("exec 3< f; cat <&3; touch $tmp/open; read x < $tmp/pipe || true")
                try waitUntil("has it open") { (try? account.shell("test -e $tmp/open")) != nil }
                // Its process dies of it, and hears it again.
                #expect(try account.shell("cat g") == "others")
                try waitUntil("it is told of g") { try told() == ["g", "g"] }
                try account.shell("rm $tmp/here/go; echo > $tmp/pipe")
                _ = try holder.wait(deadline: 30)
                try waitUntil("it is told of f") { try told() == ["g", "g", "f"] }
                // It has not answered: the next daemon tells it again, and once only.
                try account.killDaemon()
                try waitUntil("the next daemon tells it") { try told() == ["g", "g", "f", "f"] }
                try account.shell("touch $tmp/here/go; $COVE evict f; rm $tmp/here/released")
                #expect(try account.shell(stat) == before)
                // A use after that is another one.
                #expect(try account.shell("cat f") == "bytes")
                try waitUntil("it is told of the second use") { try told() == ["f"] }
                try account.shell("$COVE evict g")
                #expect(try account.shell("cat g") == "others")
                try waitUntil("and of no other again") { try told() == ["f", "g"] }
            }
        }

        @Test func `91: pages, changes and an anchor that has expired give the exact tree`() async throws {
            try await ScriptedProvider.account(
                """
                def list(self, parameters, call):
                    module.PAGE = 2
                    note("pages", "page" if "page" in parameters else "first")
                    return super().list(parameters, call)
                def changes(self, parameters, call):
                    with open(here + "/events") as file:
                        lines = file.read().splitlines()
                    if "anchor" not in parameters:
                        return {"events": [], "anchor": str(len(lines))}
                    if os.path.exists(here + "/expired"):
                        os.remove(here + "/expired")
                        raise Failed("anchorExpired")
                    known = int(text(parameters["anchor"]))
                    events = []
                    for name in lines[known : known + 1]:
                        node = self.find("").children.get(name)
                        events.append({"updated": self.item(name, node), "directory": ""} if node else {"removed": name})
                    return {"events": events, "anchor": str(known + len(events)), "more": known + len(events) < len(lines)}
                def hello(self, parameters, call):
                    open(here + "/events", "a").close()
                    return {**super().hello(parameters, call), "signals": True}
                """,
                tree: "{\"a\": \"1\", \"b\": \"2\", \"c\": \"3\", \"d\": \"4\", \"e\": \"5\"}"
            ) { account in
                #expect(try account.shell("ls; cat *") == "a\nb\nc\nd\ne\n12345")
                #expect(try account.shell("head -3 $tmp/here/pages") == "first\npage\npage\n")
                try account.shell(
                    """
                    echo '{"a": "1", "c": "3!", "d": "4", "e": "5", "f": "6"}' > $tmp/here/new
                    mv $tmp/here/new $tmp/here/tree
                    printf 'b\\nc\\nf\\n' >> $tmp/here/events
                    $COVE sync --wait
                    """
                )
                try waitUntil("the changes are here") { (try? account.shell("ls; cat *")) == "a\nc\nd\ne\nf\n13!456" }
                try account.shell(
                    """
                    echo '{"c": "3?", "d": "4", "g": "7"}' > $tmp/here/new
                    mv $tmp/here/new $tmp/here/tree
                    touch $tmp/here/expired
                    $COVE sync --wait
                    """
                )
                try waitUntil("all of it is here again") { (try? account.shell("ls; cat *")) == "c\nd\ng\n3?47" }
            }
        }

        @Test func `92: an outdated base keeps both contents, and so does a name that is taken`() async throws {
            try await ScriptedProvider.account(
                """
                def place(self, parameters):
                    if text(parameters["name"]) == "g" and once("taken"):
                        self.root.children["g"] = module.Node("file", b"theirs")
                    return super().place(parameters)
                def modify(self, parameters, call):
                    if once("changed"):
                        with self.lock:
                            self.root.children["f"].replace(b"theirs", None)
                    return super().modify(parameters, call)
                """,
                tree: "{\"f\": \"one\"}"
            ) { account in
                try account.shell("printf mine > f; printf mine > g; $COVE sync --wait")
                try waitUntil("both sides of both are there") { try account.shell("ls | wc -l") == "4\n" }
                let all = try account.shell("for name in *; do cat \"$name\"; echo; done | sort")
                #expect(all == "mine\nmine\ntheirs\ntheirs\n")
            }
        }

        @Test func `93: a small read of a large file asks for a part, and another version is stale`() async throws {
            try await ScriptedProvider.account(
                """
                def list(self, parameters, call):
                    result = super().list(parameters, call)
                    for item in result["items"]:
                        item.update(size=1 << 30, contentVersion="changed" if os.path.exists(here + "/changed") else "v")
                    return result
                def lookup(self, parameters, call):
                    result = super().lookup(parameters, call)
                    result["item"].update(size=1 << 30, contentVersion="changed" if os.path.exists(here + "/changed") else "v")
                    return result
                def fetch(self, parameters, call):
                    start, end = parameters["start"], parameters["end"]
                    note("ranges", f"{start} {end}")
                    if os.path.exists(here + "/changed") and text(parameters["version"]) == "v":
                        raise Failed("versionNoLongerAvailable")
                    offset = start
                    while offset < end:
                        offset = call.send(offset, bytes([offset >> 20 & 255]) * min(1 << 20, end - offset, (1 << 20) - offset % (1 << 20)))
                    return {}
                """,
                tree: "{\"big\": \"x\"}"
            ) { account in
                let offset = 777 << 20 | 12345
                let read = "import os; f = os.open('big', os.O_RDONLY); print(set(os.pread(f, 4096, \(offset))))"
                #expect(try account.shell("python3 -c \"\(read)\"") == "{\(777 & 255)}\n")
                let ranges = try account.shell("cat $tmp/here/ranges").split(separator: "\n").map { line in
                    line.split(separator: " ").compactMap { Int($0) }
                }
                for range in ranges { #expect(range[0] % 4096 == 0 && range[1] % 4096 == 0, "\(range)") }
                #expect(ranges.map { $0[1] - $0[0] }.reduce(0, +) <= 16 << 20, "\(ranges)")
                #expect(ranges.contains { $0[0] <= offset && $0[1] >= offset + 4096 })
                try account.shell(
                    """
                    cat > $tmp/stale.py <<'E'
                    import errno, os, sys
                    file = os.open("big", os.O_RDONLY)
                    os.pread(file, 4096, 0)
                    open(sys.argv[1] + "/changed", "w").close()
                    try:
                        os.pread(file, 4096, 500 << 20)
                        sys.exit("it was read")
                    except OSError as error:
                        sys.exit(0 if error.errno == errno.ESTALE else str(error))
                    E
                    python3 $tmp/stale.py $tmp/here
                    """
                )
                try waitUntil("who opens it now has the new one") {
                    (try? account.shell("python3 -c \"\(read)\"")) == "{\(777 & 255)}\n"
                }
            }
        }

        @Test func `94: a refused deletion comes back; what is gone there goes here, unless it was edited`()
            async throws
        {
            try await ScriptedProvider.account(
                """
                def delete(self, parameters, call):
                    if text(parameters["item"]["path"]) == "kept":
                        raise Failed("notPermitted", "it is kept")
                    return super().delete(parameters, call)
                def modify(self, parameters, call):
                    wait("go")
                    return super().modify(parameters, call)
                """,
                tree: "{\"kept\": \"1\", \"clean\": \"2\", \"edited\": \"3\"}"
            ) { account in
                #expect(try account.shell("cat *") == "231")
                try account.shell("rm kept; test ! -e kept")
                try waitUntil("it is back") { (try? account.shell("cat kept")) == "1" }
                try account.shell(
                    """
                    printf mine > edited
                    echo '{"kept": "1"}' > $tmp/here/new; mv $tmp/here/new $tmp/here/tree
                    touch $tmp/here/go
                    """
                )
                try waitUntil("the clean one is gone") { (try? account.shell("test ! -e clean")) != nil }
                try account.shell("$COVE sync --wait")
                #expect(try account.shell("ls; cat edited") == "edited\nkept\nmine")
            }
        }

        @Test func `95: without a server operations wait, and without room the bytes stay and say so`() async throws {
            try await ScriptedProvider.account(
                """
                def create(self, parameters, call):
                    for kind in ["serverUnreachable", "notAuthenticated", "insufficientQuota"]:
                        if os.path.exists(f"{here}/{kind}"):
                            note("refused", kind)
                            raise Failed(kind, "because of the test")
                    return super().create(parameters, call)
                """
            ) { account in
                for (kind, error) in [
                    ("serverUnreachable", "waits"), ("notAuthenticated", "waits"), ("insufficientQuota", "has no room"),
                ] {
                    try account.shell("touch $tmp/here/\(kind); echo \(kind) > f-\(kind)")
                    try waitUntil("it was refused: \(kind)") {
                        (try? account.shell("grep -c \(kind) $tmp/here/refused")) != nil
                    }
                    #expect(try account.shell("cat f-\(kind)") == "\(kind)\n")
                    try waitUntil("the account says so: \(kind)") {
                        let status = try account.info("f-\(kind)")
                        let all = try account.cove("status --state $STATE")
                        if error == "waits" { return status.error == nil && all.contains("because of the test") }
                        return status.error?.contains("because of the test") == true
                    }
                    try account.shell("rm $tmp/here/\(kind); $COVE sync --wait --timeout 60", deadline: 90)
                }
                #expect(try account.shell("cat *").split(separator: "\n").count == 3)
            }
        }

        @Test func `96: what is pinned downloads by itself and is not evicted, and a folder says what refused`()
            async throws
        {
            try await ScriptedProvider.account("", tree: "{\"f\": \"1\", \"g\": \"2\", \"h\": \"3\"}") { account in
                try account.shell("ls; $COVE pin g")
                try waitUntil("it is here") {
                    try account.info("g").localBytes == 1
                }
                try account.expectRefused("$COVE evict g", "it is pinned")
                try account.shell("cat f h")
                try account.expectRefused("$COVE evict .", "g: it is pinned")
                #expect(try account.info("f").localBytes == 0)
                try account.shell("$COVE unpin g; $COVE evict g")
                #expect(try account.info("g").localBytes == 0)
            }
        }
    }
}

extension MountedAccount {
    /// Runs a script whose last command must fail, and looks for words in its complaint.
    func expectRefused(_ script: String, _ words: String, location: SourceLocation = #_sourceLocation) throws {
        let result = try start(script).wait(deadline: 60)
        #expect(
            result.status != 0 && result.error.contains(words),
            "\(result.error)\(result.output)",
            sourceLocation: location
        )
    }
}
