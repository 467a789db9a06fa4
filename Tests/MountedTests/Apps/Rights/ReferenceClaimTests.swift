import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// Claims and presenters by the names that apps have for documents of others; numbers are those of the acceptance checklist.
    struct ReferenceClaimTests {
        private func given(
            readOnly: Bool = false,
            _ body: @escaping @Sendable (MountedAccount) throws -> Void
        ) async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.addApp("a", document: "n", "0\n")
                try account.addApp("b", document: "own.txt", "own\n")
                try account.settle()
                try account.pick("a/Documents/n", for: "b")
                try CoordinationScripts.prepare(account)
                try body(account)
            }
        }

        private func adding(_ name: String) -> String {
            "$COVE coordinate --writing \(name) -- sh -c 'v=$(cat \(name)); echo $((v + 1)) > \(name)'"
        }

        @Test func `75. who claims a document and who claims its reference wait for each other`() async throws {
            try await given { account in
                let (own, given) = ("a/Documents/n", "b/Documents/n")
                for (first, second) in [(own, given), (given, own)] {
                    try account.shell("echo 0 > a/Documents/n; rm -f $tmp/go; mkfifo $tmp/held")
                    let holder = try account.start(
                        "$COVE coordinate --writing \(first) -- sh -c 'v=$(cat \(first)); echo > $tmp/held; while [ ! -e $tmp/go ]; do sleep 0.05; done; echo $((v + 1)) > \(first)'"
                    )
                    try account.shell("read < $tmp/held")
                    let other = try account.start(adding(second))
                    try account.waitForWaiting(1)
                    try account.shell("touch $tmp/go; rm $tmp/held")
                    #expect(try holder.wait(deadline: 30).status == 0)
                    #expect(try other.wait(deadline: 30).status == 0)
                    #expect(try account.shell("cat a/Documents/n") == "2\n", "\(first)")
                }
                try account.shell("ln -s b/Documents/n link")
                let loops = try [own, given, "link"].map { name in
                    try account.start("for i in $(seq 8); do \(adding(name)); done")
                }
                for loop in loops { #expect(try loop.wait(deadline: 60).status == 0) }
                #expect(try account.shell("cat b/Documents/n") == "26\n")
            }
        }

        @Test func `75. what is claimed and presented by a reference is told by its name`() async throws {
            try await given { account in
                let said = try account.python(
                    """
                    heard = open(os.environ["tmp"] + "/heard", "a", buffering=1)
                    def answer(message):
                        heard.write(" ".join([message["kind"], message.get("path", ""),
                                              (message.get("newPath") or {}).get("path", "")]).strip() + "\\n")
                    name = "b/Documents/n"
                    session = Session(socket_path, answer)
                    session.calls.call("AddPresenter", session=session.token, path=name, messages=KINDS, observes=[])
                    def claim(path, *options):
                        granted = session.calls.call("Claim", session=session.token, coordinator="c",
                            intents=[{"kind": "writing", "path": path, "options": list(options)}])
                        print(*[item["path"] + " " + str("documentID" in item) for item in granted["items"]])
                        return granted["claim"]
                    one = claim(name)
                    listed = session.calls.call("List")["claims"]
                    print(*[intent["path"] for entry in listed for intent in entry["intents"]])
                    session.release(one)
                    # Who removes a reference leaves the document alone.
                    session.release(claim(name, "forDeleting"))
                    other = Session(socket_path)
                    other.release(other.claim(("writing", "a/Documents/n")))
                    def waits(line):
                        while line not in open(os.environ["tmp"] + "/heard").read().split("\\n"): time.sleep(0.01)
                    waits("didChange b/Documents/n")
                    waits("relinquishToWriter b/Documents/n")
                    os.chdir(os.environ["mnt"])
                    os.rename("a/Documents/n", "a/Documents/renamed")
                    os.rename("b/Documents/n", "b/Documents/m")
                    waits("didMove b/Documents/n b/Documents/m")
                    other.release(other.claim(("writing", "a/Documents/renamed")))
                    waits("didChange b/Documents/m")
                    print("a/" in open(os.environ["tmp"] + "/heard").read())
                    """
                )
                #expect(
                    said == """
                        b/Documents/n True
                        a/Documents/n
                        b/Documents/n False
                        False

                        """
                )
            }
        }

        /// A program that notes what it hears of `b/Documents/n`, and ends when `$tmp/stop` is there.
        private func listener(_ account: MountedAccount) throws -> (Command, heard: () throws -> [String]) {
            let command = try account.startPython(
                """
                heard = open(os.environ["tmp"] + "/heard", "a", buffering=1)
                def answer(message): heard.write(message["kind"] + " " + message.get("path", "") + "\\n")
                session = Session(socket_path, answer)
                session.calls.call("AddPresenter", session=session.token, path="b/Documents/n", messages=KINDS, observes=[])
                done("presents")
                until("stop")
                """
            )
            do { try account.waitForMark("presents") } catch {
                throw CommandFailure("\(error): \(command.error)")
            }
            return (command, { try account.shell("cat $tmp/heard").split(separator: "\n").map(String.init) })
        }

        @Test(arguments: [false, true])
        func `who presents a document by its reference hears no more of it when that is gone`(
            isRemoved: Bool
        ) async throws {
            try await given { account in
                let (program, heard) = try listener(account)
                try account.shell(adding("a/Documents/n"))
                try waitUntil("it hears of the document") { try heard().contains("didChange b/Documents/n") }
                if isRemoved {
                    try account.shell("rm b/Documents/n")
                } else {
                    let grants = try account.cove("grants ls", as: [AccessInterface.Grant].self)
                    for grant in grants { try account.cove("grants revoke \(grant.id)") }
                }
                let before = try heard().count
                try account.shell(adding("a/Documents/n"))
                try account.shell("cat a/Documents/n; touch $tmp/stop")
                #expect(try program.wait(deadline: 30).status == 0)
                let all = try heard()
                #expect(all.count == before, "\(all)")
            }
        }

        @Test func `75. who presents a document by its reference keeps that name when it is saved with a backup`()
            async throws
        {
            try await given { account in
                let (program, heard) = try listener(account)
                try account.shell("cd b/Documents; mv n n~; echo 7 > n; rm n~")
                try waitUntil("the document is saved", deadline: 30) { try account.shell("cat a/Documents/n") == "7\n" }
                let before = try heard().count
                try account.shell(adding("a/Documents/n"))
                try waitUntil("it hears of the next change") {
                    try heard().dropFirst(before).contains("didChange b/Documents/n")
                }
                try account.shell("touch $tmp/stop")
                #expect(try program.wait(deadline: 30).status == 0)
                let all = try heard()
                #expect(!all.contains { $0.hasSuffix("n~") }, "\(all)")
            }
        }

        @Test func `75. who presents a document by its reference does so when the daemon has died`() async throws {
            try await given { account in
                let presenter = try account.startPython(
                    """
                    def begin(token=None):
                        stream = Connection(socket_path)
                        stream.send("Attend", more=True, **({"resume": token, "keepsPresenters": True} if token else {}))
                        return stream, stream.receive()["session"]
                    stream, token = begin()
                    Connection(socket_path).call("AddPresenter", session=token, path="b/Documents/n", messages=["didChange"],
                                                 observes=[])
                    done("presents")
                    try: stream.receive()
                    except (EOFError, OSError): pass
                    while True:
                        try:
                            stream, token = begin(token)
                            break
                        except (EOFError, OSError, Failed): time.sleep(0.05)
                    done("again")
                    print(stream.receive()["message"]["path"])
                    """
                )
                try account.waitForMark("presents")
                try account.killDaemon()
                try account.waitForMark("again")
                try account.shell(adding("a/Documents/n"))
                #expect(try presenter.wait(deadline: 60).output == "b/Documents/n\n")
            }
        }

        /// Calls of an app's own program.
        private static let calls = """
            import json, os, socket
            s = socket.socket(socket.AF_UNIX)
            s.connect(os.getxattr(os.environ['COVE_SHARED'], 'user.cove.socket'))
            c = socket.socket(socket.AF_UNIX)
            c.connect(os.getxattr(os.environ['COVE_SHARED'], 'user.cove.coordination-socket'))
            def call(s, method, **parameters):
                s.send(json.dumps({'method': 'io.cove.' + method, 'parameters': parameters}).encode() + b'\\0')
                data = b''
                while not data.endswith(b'\\0'): data += s.recv(65536)
                reply = json.loads(data[:-1])
                print(method, *(options(parameters)), (reply['parameters'].get('errno') or reply['error']) if 'error' in reply else 'done')
                return reply['parameters']
            def options(parameters): return [o for i in parameters.get('intents', []) for o in [i['kind']] + i['options']]
            """

        @Test func `an app that may only read a document changes nothing of it by a call`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.addApp("a", document: "n", "0\n")
                try account.addApp("b", document: "own.txt", "own\n")
                try account.settle()
                let name = try account.readOnlyReference(to: "a/Documents/n", for: "b")
                let script = """
                    for method in ['SetThumbnail', 'RestoreVersion', 'RemoveVersions', 'ResolveConflicts']:
                        call(s, 'Item.' + method, path='b/Documents/\(name)', file='own.txt', version='1')
                    def claim(kind, *options):
                        path = 'b/Documents/\(name)'
                        reply = call(c, 'Coordination.Claim', timeout=5, intents=[{'kind': kind, 'path': path, 'options': list(options)}])
                        if 'claim' in reply: call(c, 'Coordination.Release', claim=reply['claim'])
                    claim('writing')
                    claim('writing', 'forReplacing')
                    claim('writing', 'forDeleting')
                    claim('reading')
                    call(s, 'Item.SetThumbnail', path='b/Documents/own.txt')
                    """
                let said = try account.asApp("b", "python3 - <<'END'\n\(Self.calls)\n\(script)\nEND")
                #expect(
                    said == """
                        Item.SetThumbnail 13
                        Item.RestoreVersion 13
                        Item.RemoveVersions 13
                        Item.ResolveConflicts 13
                        Coordination.Claim writing 13
                        Coordination.Claim writing forReplacing 13
                        Coordination.Claim writing forDeleting done
                        Coordination.Release done
                        Coordination.Claim reading done
                        Coordination.Release done
                        Item.SetThumbnail done

                        """,
                    "\(said)"
                )
            }
        }

        @Test func `an app sends nobody to a place of this machine`() async throws {
            try await given { account in
                try account.shell("echo root > r")
                let presenter = try account.startPython(
                    """
                    def answer(message):
                        print(message["kind"], message.get("path"), message.get("outside"), flush=True)
                    session = Session(socket_path, answer)
                    for path in ["r", ""]:
                        session.calls.call("AddPresenter", session=session.token, path=path, observes=[],
                                           messages=["didMove", "didChange", "subitemDidChange"])
                    done("presents")
                    until("stop")
                    """
                )
                try account.waitForMark("presents")
                let script = """
                    claim = call(c, 'Coordination.Claim', intents=[{'kind': 'writing', 'path': 'r', 'options': ['forMoving']}])['claim']
                    os.unlink(os.environ['COVE_SHARED'] + '/r')
                    call(c, 'Coordination.MovedOut', claim=claim, path='r', outside='/etc/passwd')
                    call(c, 'Coordination.Release', claim=claim)
                    """
                let said = try account.asApp("b", "python3 - <<'END'\n\(Self.calls)\n\(script)\nEND")
                #expect(said.hasSuffix("MovedOut done\nCoordination.Release done\n"), "\(said)")
                try waitUntil("who presents it, or its folder, is told that it is gone") {
                    presenter.output.contains("subitemDidChange r") && presenter.output.contains("didChange r None\n")
                }
                try account.shell("touch $tmp/stop")
                #expect(try !presenter.wait(deadline: 30).output.contains("/etc"))
            }
        }

        @Test func `what all apps have in common is changed by none`() async throws {
            try await given { account in
                try account.shell("$COVE pin a; chmod 755 .; setfattr -n user.mine -v 1 .")
                let before = try account.shell("stat -c %a .; getfattr --only-values -n user.cove.pinned a")
                let said = try account.asApp(
                    "b",
                    """
                    cd "$COVE_SHARED"
                    for call in 'setfattr -n user.cove.pinned -v 0 .' 'chmod 0 .' 'chmod 700 .' 'touch -d 2001-01-01 .' 'setfattr -n user.x -v 1 .' \\
                        'setfattr -x user.mine .' 'setfattr -n user.cove.content-policy -v eagerlyAndKeepDownloaded .' 'setfacl -m u:1:rwx .' \\
                        'chattr +A .' 'setfattr -n user.cove.tags -v x .'
                    do $call 2> /dev/null && echo "done: $call"; done
                    echo new > made && mv made renamed && setfattr -n user.x -v 1 renamed && chmod 600 renamed && rm renamed && echo names
                    """
                )
                #expect(said == "names\n", "\(said)")
                #expect(try account.shell("stat -c %a .; getfattr --only-values -n user.cove.pinned a") == before)
                #expect(try account.shell("getfattr --only-values -n user.mine .") == "1")
            }
        }
    }
}

extension MountedAccount {
    /// Gives an app a document that it may only read; the name of the reference in its `Documents`.
    fileprivate func readOnlyReference(to path: String, for app: String) throws -> String {
        try pick(path, for: app)
        try settle()
        // As another device makes it.
        let change =
            "import json, sys; f = sys.argv[1]; said = json.load(open(f)); said['isReadOnly'] = True; json.dump(said, open(f, 'w'))"
        try shell("python3 -c \"\(change)\" $src/_cove-drive/references/*")
        let last = path.split(separator: "/").last.map(String.init) ?? ""
        try waitUntil("it may only be read", deadline: 30) {
            try asApp(app, "echo x >> Documents/\(last) || echo refused").contains("refused")
        }
        return last
    }
}
