import CoveTestSupport
import Foundation
import Testing

/// What tests of coordination run as programs of their own: what a process does is never asked of itself.
enum CoordinationScripts {
    /// A client of the control socket, written from the interface's definition alone.
    private static let client = """
        import json, os, socket, sys, threading, time

        class Failed(Exception):
            pass

        class Connection:
            def __init__(self, path):
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.connect(path)
                self.rest = b""

            def send(self, method, more=False, **parameters):
                call = {"method": "io.cove.Coordination." + method, "parameters": parameters}
                if more:
                    call["more"] = True
                self.socket.sendall(json.dumps(call).encode() + b"\\0")

            def receive(self):
                while b"\\0" not in self.rest:
                    part = self.socket.recv(65536)
                    if not part:
                        raise EOFError
                    self.rest += part
                message, self.rest = self.rest.split(b"\\0", 1)
                reply = json.loads(message)
                if "error" in reply:
                    raise Failed(reply["parameters"].get("errno"), reply)
                return reply["parameters"]

            def call(self, method, **parameters):
                self.send(method, **parameters)
                return self.receive()

        class Session:
            def __init__(self, path, answer=None):
                self.path = path
                self.stream = Connection(path)
                self.stream.send("Attend", more=True)
                self.token = self.stream.receive()["session"]
                self.calls = Connection(path)
                self.replies = Connection(path)
                self.answer = answer
                threading.Thread(target=self.listen, daemon=True).start()

            def listen(self):
                while True:
                    message = self.stream.receive()["message"]
                    if self.answer:
                        self.answer(message)
                    if message["wantsReply"]:
                        self.replies.call("Reply", session=self.token, message=message["number"])

            def claim(self, *intents, **more):
                wanted = [{"kind": k, "path": p, "options": list(o)} for k, p, *o in intents]
                return self.calls.call("Claim", session=self.token, intents=wanted, **more)["claim"]

            def release(self, claim):
                self.calls.call("Release", claim=claim)

        KINDS = ["relinquishToReader", "relinquishToWriter", "reacquire", "saveChanges", "accommodateDeletion",
                 "accommodateSubitemDeletion", "accommodateEviction", "didMove", "didChange", "subitemDidAppear",
                 "subitemDidMove", "subitemDidChange", "didGainVersion", "didResolveVersion"]

        def done(name):
            open(os.environ["tmp"] + "/" + name, "w").close()

        def until(name):
            while not os.path.exists(os.environ["tmp"] + "/" + name):
                time.sleep(0.005)

        socket_path = os.getxattr(os.environ["mnt"], "user.cove.coordination-socket").decode()
        """

    /// Presents argv[1], logs what it hears to argv[2], and saves argv[3] when it is asked to.
    private static let presenter = """
        from client import *
        unsaved = sys.argv[3] if len(sys.argv) > 3 else None
        log = open(sys.argv[2], "a", buffering=1)
        saver = Connection(socket_path)

        def answer(message):
            global unsaved
            if message["kind"] == "saveChanges" and unsaved is not None:
                claim = saver.call("Claim", session=session.token, presenter=presenter,
                                   intents=[{"kind": "writing", "path": sys.argv[1], "options": []}])["claim"]
                with open(os.environ["mnt"] + "/" + sys.argv[1], "w") as file:
                    file.write(unsaved)
                unsaved = None
                saver.call("Release", claim=claim)
            log.write(" ".join([message["kind"], message.get("path", ""),
                                (message.get("newPath") or {}).get("path", "")]).strip() + "\\n")

        session = Session(socket_path, answer)
        presenter = session.calls.call("AddPresenter", session=session.token, path=sys.argv[1], messages=KINDS,
                                       observes=[])["presenter"]
        log.write("ready\\n")
        until("stop")
        """

    /// Puts the scripts where an account's programs find them.
    static func prepare(_ account: MountedAccount) throws {
        for (name, text) in [("client.py", client), ("presenter.py", presenter)] {
            try text.write(toFile: account.scratch.appending(name), atomically: false, encoding: .utf8)
        }
    }
}

extension MountedAccount {
    /// Starts a script in Python that uses the client.
    func startPython(_ script: String) throws -> Command {
        let name = "script-\(UInt32.random(in: 0...UInt32.max)).py"
        let text = "from client import *\n" + script
        try text.write(toFile: scratch.appending(name), atomically: false, encoding: .utf8)
        return try start("exec python3 $tmp/\(name)")
    }

    /// Runs a script in Python that uses the client.
    @discardableResult
    func python(_ script: String, deadline: Double = 60) throws -> String {
        let result = try startPython(script).wait(deadline: deadline)
        guard result.status == 0 else { throw CommandFailure("exit \(result.status)\n\(result.error)\(result.output)") }
        return result.output
    }

    /// Starts a program that presents a file; returns when it does.
    func startPresenter(_ path: String, unsaved: String? = nil) throws -> (Command, log: () throws -> [String]) {
        let log = scratch.appending("log-\(UInt32.random(in: 0...UInt32.max))")
        let command = try start("exec python3 $tmp/presenter.py \(path) \(log) \(unsaved.map { "'\($0)'" } ?? "")")
        let read = { () throws -> [String] in
            ((try? String(contentsOfFile: log, encoding: .utf8)) ?? "").split(separator: "\n").map(String.init)
        }
        try waitUntil("a presenter is there") { try read().contains("ready") }
        return (command, read)
    }

    /// Waits until so many claims wait for others.
    func waitForWaiting(_ count: Int) throws {
        try waitUntil("\(count) claims wait") {
            try cove("claims --state $STATE").split(separator: "\n").count { $0.contains("  waiting") } == count
        }
    }

    /// Waits until a claim of an item is in a state.
    func waitForClaim(_ state: String, of item: String) throws {
        try waitUntil("a claim is \(state)") {
            try cove("claims --state $STATE").split(separator: "\n").contains {
                $0.hasPrefix("c") && $0.contains("  \(state)") && $0.contains(" \(item)")
            }
        }
    }

    /// Waits until a command has made a file of the scratch folder.
    func waitForMark(_ name: String) throws {
        try waitUntil("\(name) is made") { try shell("ls $tmp").split(separator: "\n").contains(Substring(name)) }
    }

    /// A command that must fail because something else uses the item.
    func expectBusy(_ script: String, location: SourceLocation = #_sourceLocation) throws {
        let result = try start(script).wait(deadline: 60)
        #expect(
            result.status != 0 && result.error.contains("busy"),
            "\(script): \(result.error)",
            sourceLocation: location
        )
    }
}
