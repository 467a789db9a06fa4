import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Programs that ask for too much, or wrongly, or stop in the middle.
    struct CoordinationFloodTests {
        /// What every script here begins with.
        private static let tools = """
            def batch(connection, method, calls):
                whole = b""
                for parameters in calls:
                    call = {"method": "io.cove.Coordination." + method, "parameters": parameters}
                    whole += json.dumps(call).encode() + b"\\0"
                connection.socket.sendall(whole)
                refused = 0
                for _ in calls:
                    try:
                        connection.receive()
                    except Failed as error:
                        assert error.args[0] == 87, error
                        refused += 1
                return refused

            def enough():
                return os.path.exists(os.environ["tmp"] + "/enough")

            """

        /// Opens a file that nobody claims; prints the median and the longest time in ms.
        private static let opening = """
            times = []
            for _ in range(300):
                start = time.monotonic()
                os.close(os.open(os.environ["mnt"] + "/free", os.O_RDONLY))
                times.append((time.monotonic() - start) * 1000)
                time.sleep(0.002)
            times.sort()
            print(times[len(times) // 2], times[-1])
            """

        @Test func `floods, half messages and 100,000 presenters hold up no open and take bounded memory`() async throws
        {
            try await mounted(options: "presenter-timeout=3") { account in
                try CoordinationScripts.prepare(account)
                try account.shell("mkdir d; for n in $(seq 200); do echo $n > d/$n; done; echo x > free")
                let before = try account.statistics().memoryBytes
                let crowd = try account.startPython(
                    Self.tools + """
                        sessions = [Session(socket_path) for _ in range(11)]
                        refusals = []
                        for session in sessions:
                            added = 0
                            refused = 0
                            while not refused:
                                refused = batch(session.calls, "AddPresenter", [
                                    {"session": session.token, "path": "d/%d" % (n % 200), "messages": ["didChange"], "observes": []}
                                    for n in range(500)])
                                added += 500 - refused
                            refusals.append(added)
                        print(refusals)
                        done("crowded")
                        until("enough")
                        """
                )
                try waitUntil("all presenters are there", deadline: 200) {
                    crowd.hasEnded(within: 0.05)
                        || FileManager.default.fileExists(atPath: account.scratch.appending("crowded"))
                }
                let after = try account.statistics().memoryBytes
                let noisy = try [
                    // Asks and asks, and reads no reply.
                    """
                    call = b'{"method": "io.cove.Coordination.List", "more": true}\\0' * 100
                    while not enough():
                        deaf = Connection(socket_path)
                        deaf.socket.settimeout(0.2)
                        try:
                            while not enough():
                                deaf.socket.sendall(call)
                        except OSError:
                            pass
                    """,
                    // Claims and releases as fast as it can.
                    """
                    session = Session(socket_path)
                    while not enough():
                        session.release(session.claim(("writing", "other"), ("reading", "free")))
                    """,
                    // Stops in the middle of messages.
                    """
                    halves = []
                    while not enough():
                        halves = halves[-100:] + [Connection(socket_path)]
                        halves[-1].socket.sendall(b'{"method": "io.cove.Coordination.Cl')
                    """,
                    // Sends what is no message at all.
                    """
                    import random
                    while not enough():
                        broken = Connection(socket_path)
                        try:
                            broken.socket.sendall(random.randbytes(2000) + b"\\0")
                            broken.socket.sendall(b"[" * (1 << 20))
                            while broken.socket.recv(65536):
                                pass
                        except OSError:
                            pass
                    """,
                    // Changes what hundreds present, and takes no message itself.
                    """
                    mute = Connection(socket_path)
                    mute.send("Attend", more=True)
                    token = mute.receive()["session"]
                    path = os.environ["mnt"] + "/d/1"
                    while not enough():
                        open(path, "a").close()
                        os.utime(path)
                    """,
                ].map { try account.startPython(Self.tools + $0) }
                let times = try account.python(Self.tools + Self.opening, deadline: 200).split(separator: " ").map {
                    Double($0.trimmingCharacters(in: .newlines)) ?? .infinity
                }
                let flooded = try account.statistics().memoryBytes
                try account.shell("touch $tmp/enough")
                // The limits of a session and of the account.
                let result = try crowd.wait(deadline: 30)
                let counts = result.output.split { !$0.isNumber }.compactMap { Int($0) }
                #expect(
                    counts.count == 11 && counts.prefix(9).allSatisfy { $0 == 10_000 },
                    "\(result.output)\(result.error)"
                )
                #expect(counts.reduce(0, +) == 100_000)
                for program in noisy { #expect(try program.wait(deadline: 30).status == 0) }
                print(
                    "opens beside a flood: median \(times[0]) ms, longest \(times[1]) ms;",
                    "memory \(before >> 20) MiB, with presenters \(after >> 20), with the flood \(flooded >> 20)"
                )
                // Five programs and other tests keep the processors busy too: a soak on a quiet machine asks for less.
                let limit = ProcessInfo.processInfo.environment["COVE_OPEN_LIMIT"].flatMap { Double($0) } ?? 250
                #expect(times[0] < limit)
                #expect(times[1] < 5000)
                // A presenter takes less than 2 KiB; the rest is what connections and calls in flight take.
                #expect(after - before < 100_000 * 2048 + 64 << 20)
                #expect(flooded - after < 128 << 20)
                try waitUntil("all have gone") { try account.cove("claims --state $STATE") == "" }
            }
        }

        @Test func `a session that takes no messages is told that it is over, and its program begins another one`()
            async throws
        {
            try await mounted { account in
                try CoordinationScripts.prepare(account)
                try account.shell("mkdir d; echo x > d/f")
                let output = try account.python(
                    Self.tools + """
                        mute = Connection(socket_path)
                        mute.send("Attend", more=True)
                        token = mute.receive()["session"]
                        calls = Connection(socket_path)
                        for _ in range(20):
                            assert batch(calls, "AddPresenter", [
                                {"session": token, "path": "d/f", "messages": ["didMove"], "observes": []}
                                for _ in range(500)]) == 0
                        places = [os.environ["mnt"] + "/d", os.environ["mnt"] + "/e"]
                        for turn in range(6):
                            os.rename(places[turn % 2], places[1 - turn % 2])
                        # It takes them now, late: the stream has an end.
                        mute.socket.settimeout(60)
                        count = 0
                        while "message" in mute.receive():
                            count += 1
                        assert count < 60000, count
                        try:
                            calls.call("Claim", session=token, intents=[{"kind": "writing", "path": "d/f", "options": []}])
                        except Failed as error:
                            print(error.args[0])
                        session = Session(socket_path)
                        session.release(session.claim(("writing", "d/f")))
                        print("again")
                        """,
                    deadline: 200
                )
                #expect(output == "116\nagain\n")
            }
        }

        @Test func `one connection too many is told so, and others go on`() async throws {
            try await mounted { account in
                try CoordinationScripts.prepare(account)
                try account.shell("echo x > F")
                let output = try account.python(
                    """
                    import resource
                    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
                    session = Session(socket_path)
                    crowd = []
                    refusal = None
                    while refusal is None and len(crowd) < 2000:
                        crowd.append(Connection(socket_path))
                        try:
                            crowd[-1].send("Release", claim="c1")
                        except BrokenPipeError:
                            pass
                        try:
                            crowd[-1].receive()
                        except Failed as error:
                            if error.args[1]["error"] == "io.cove.TooManyConnections":
                                refusal = error.args[1]["parameters"]["message"]
                    session.release(session.claim(("writing", "F")))
                    print(refusal)
                    """
                )
                #expect(output == "1024 connections are open; end some, or use one for many calls\n")
                try waitUntil("there is room again") { (try? account.cove("claims --state $STATE")) == "" }
            }
        }

        @Test func `wrong calls fail with what to do, and the connection goes on`() async throws {
            try await mounted { account in
                try CoordinationScripts.prepare(account)
                try account.shell("echo x > F")
                let output = try account.python(
                    """
                    session = Session(socket_path)
                    def wrong(method, **parameters):
                        try:
                            session.calls.call(method, **parameters)
                            print("accepted")
                        except Failed as error:
                            told = error.args[1]
                            print(told["error"].split(".")[-1], error.args[0] or told["parameters"].get("parameter"),
                                  told["parameters"].get("message", "-"))
                    def claim(path, **more):
                        wrong("Claim", session=session.token, intents=[{"kind": "writing", "options": [], "path": path}], **more)
                    claim("../etc")
                    claim("a\\u0000b")
                    claim("x/" * 3000)
                    claim("F", coordinator="c" * 300)
                    claim("F", purpose="")
                    wrong("Claim", session=session.token, intents=[])
                    wrong("Claim", session=session.token, intents=[{"kind": "erasing", "options": [], "path": "F"}])
                    wrong("Claim", session="nobody", intents=[{"kind": "writing", "options": [], "path": "F"}])
                    wrong("AddPresenter", session=session.token, path="F", messages=[], observes=["o" * 600, "p" * 600])
                    wrong("Release", claim="c999")
                    wrong("Attend")
                    wrong("Nothing")
                    session.release(session.claim(("writing", "F")))
                    """
                )
                #expect(
                    output == """
                        InvalidParameter path -
                        InvalidParameter path -
                        Failed 36 path is longer than 4096 bytes
                        Failed 36 coordinator is longer than 255 bytes
                        Failed 22 an empty purpose
                        Failed 22 no intent
                        InvalidParameter intents.0.kind -
                        Failed 116 the session is over; begin a new one
                        Failed 36 observes is longer than 1024 bytes
                        Failed 116 the claim is gone: its holder did not answer in time, or ended
                        ExpectedMore None -
                        MethodNotFound None -

                        """
                )
            }
        }
    }
}
