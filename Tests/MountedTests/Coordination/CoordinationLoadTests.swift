import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Many programs at once, and programs nobody here wrote.
    ///
    /// The numbers are those of the acceptance checklist.
    struct CoordinationLoadTests {
        @Test func `40. two processes that ask in both orders never deadlock`() async throws {
            try await mounted { account in
                try CoordinationScripts.prepare(account)
                try account.shell("echo a > A; echo b > B")
                let scripts = [("A", "B"), ("B", "A")].map { first, second in
                    """
                    session = Session(socket_path)
                    for n in range(1000):
                        session.release(session.claim(("writing", "\(first)"), ("writing", "\(second)")))
                    print("done")
                    """
                }
                let commands = try scripts.map { try account.startPython($0) }
                for command in commands { #expect(try command.wait(deadline: 100).output == "done\n") }
            }
        }

        @Test func `25. appending programs and a claiming one lose nothing, and no reader sees a part`() async throws {
            try await mounted { account in
                try CoordinationScripts.prepare(account)
                try account.shell("printf '' > F")
                let shells = try ["a", "b"].map { name in
                    try account.start("for n in $(seq 150); do echo \(name)-$n-end >> F; done")
                }
                let writer = try account.startPython(
                    """
                    session = Session(socket_path)
                    for n in range(40):
                        claim = session.claim(("writing", "F"))
                        with open(os.environ["mnt"] + "/F", "a") as file:
                            for part in ["c-", str(n + 1)]:
                                file.write(part)
                                file.flush()
                            file.write("-end\\n")
                        session.release(claim)
                    """
                )
                let reader = try account.startPython(
                    """
                    session = Session(socket_path)
                    while not os.path.exists(os.environ["tmp"] + "/enough"):
                        claim = session.claim(("reading", "F"))
                        text = open(os.environ["mnt"] + "/F").read()
                        session.release(claim)
                        for line in text.splitlines(True):
                            assert line.endswith("-end\\n"), repr(line)
                    """
                )
                for command in shells + [writer] {
                    let result = try command.wait(deadline: 100)
                    #expect(result.status == 0, "\\(result.error)")
                }
                try account.shell("touch $tmp/enough")
                let result = try reader.wait(deadline: 20)
                #expect(result.status == 0, "\(result.error)")
                let expected =
                    ["a", "b"].flatMap { name in (1...150).map { "\(name)-\($0)-end" } }
                    + (1...40).map { "c-\($0)-end" }
                #expect(
                    try account.shell("cat F").split(separator: "\n").map(String.init).sorted() == expected.sorted()
                )
            }
        }

        @Test func `the varlink package of PyPI lists, claims and releases`() async throws {
            try await mounted { account in
                let output = try account.shell(
                    """
                    echo x > F
                    python3 - <<'END'
                    import os, varlink
                    path = os.getxattr(".", "user.cove.socket").decode()
                    with varlink.Client.new_with_address("unix:" + path) as client:
                        print(sorted(client.get_interfaces()) if hasattr(client, "get_interfaces") else "")
                        with client.open("io.cove.Coordination") as cove:
                            intents = [{"kind": "writing", "path": "F", "options": []}]
                            claim = cove.Claim(None, None, None, None, intents, 5.0)
                            print(claim["items"][0]["path"], [c["state"] for c in cove.List()["claims"]])
                            cove.Release(claim["claim"])
                            print(cove.List()["claims"])
                    END
                    """
                )
                #expect(output.contains("io.cove.Coordination"))
                #expect(output.hasSuffix("F ['granted']\n[]\n"))
            }
        }

        @Test func `clients that flood, stop halfway or never answer hold up nobody else`() async throws {
            try await mounted(options: "presenter-timeout=3") { account in
                try CoordinationScripts.prepare(account)
                try account.shell("mkdir d; for n in $(seq 200); do echo $n > d/$n; done")
                let flood = try account.startPython(
                    """
                    session = Session(socket_path)
                    count = 0
                    try:
                        while count < 100000:
                            session.calls.call("AddPresenter", session=session.token, path="d/%d" % (count % 200),
                                               messages=KINDS, observes=[])
                            count += 1
                    except Failed as error:
                        print(error.args[0])
                    for n in range(50):
                        half = Connection(socket_path)
                        half.socket.sendall(b'{"method": "io.cove.Coordination.Cl')
                        globals()["half%d" % n] = half
                    done("flooded")
                    until("stop")
                    """
                )
                try waitUntil("it has flooded", deadline: 100) { try account.shell("ls $tmp").contains("flooded") }
                let slowest = try account.shell(
                    """
                    python3 - <<'END'
                    import os, time
                    open("free", "w").close()
                    slowest = []
                    for n in range(300):
                        start = time.monotonic()
                        os.close(os.open("free", os.O_RDONLY))
                        slowest.append(time.monotonic() - start)
                    print(sorted(slowest)[-6] < 0.01)
                    END
                    """
                )
                #expect(slowest == "True\n")
                #expect(flood.output == "87\n")
                try account.shell("touch $tmp/stop")
                #expect(try flood.wait(deadline: 20).status == 0)
            }
        }
    }
}
