import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Clients that are killed in the middle of something: whoever comes next gets in within a second.
    struct CoordinationDeathTests {
        enum Moment: String, CaseIterable {
            case queued, asking, settling, snapshot, held, releasing, replaced, lateReplaced
        }

        @Test(arguments: Moment.allCases) func `18. a client may die at any moment`(moment: Moment) async throws {
            try await mounted(options: "presenter-timeout=30,open-timeout=20") { account in
                try CoordinationScripts.prepare(account)
                try account.shell("echo old > F; mkdir P.rtfd; head -c 50000000 /dev/zero > P.rtfd/zeros")
                var others: [Command] = []
                var isFreed: () throws -> Void = {}
                switch moment {
                case .queued:
                    let holder = try account.start(Self.program("F", "touch $tmp/held; sleep 100"))
                    try account.waitForClaim("granted", of: "F")
                    others.append(holder)
                    isFreed = { holder.signal(SIGKILL) }
                case .asking:
                    let (presenter, _) = try account.startPresenter("F")
                    presenter.signal(SIGSTOP)
                    others.append(presenter)
                    isFreed = { presenter.signal(SIGCONT) }
                case .settling:
                    let writer = try account.start("exec 3>> F; echo started; sleep 100")
                    try waitUntil("it has the file open") { writer.output == "started\n" }
                    others.append(writer)
                    isFreed = { writer.signal(SIGKILL) }
                case .snapshot, .held, .releasing, .replaced, .lateReplaced: break
                }
                let item = moment == .snapshot ? "P.rtfd" : "F"
                let dying = try account.start(Self.dying(item, moment))
                switch moment {
                case .queued: try account.waitForClaim("waiting", of: item)
                case .asking: try account.waitForClaim("presenters", of: item)
                case .settling, .snapshot: try account.waitForClaim("contents", of: item)
                case .held, .replaced, .lateReplaced: try account.waitForClaim("granted", of: item)
                case .releasing: #expect(try dying.wait(deadline: 20).status == 128 + SIGKILL)
                }
                if moment == .replaced { dying.signal(SIGSTOP) }
                if moment == .replaced || moment == .lateReplaced { try account.killDaemon() }
                dying.signal(SIGKILL)
                let start = ContinuousClock.now
                try isFreed()
                #expect(try account.shell("$COVE coordinate --writing \(item) -- echo next") == "next\n")
                #expect(ContinuousClock.now - start < .seconds(1), "\(moment)")
                for other in others { other.signal(SIGKILL) }
                try waitUntil("nothing is left") { try account.cove("claims --state $STATE").isEmpty }
            }
        }

        @Test func `a snapshot outlives the daemon, and its claim holds nobody up`() async throws {
            try await mounted(options: "open-timeout=20") { account in
                try CoordinationScripts.prepare(account)
                try account.shell("echo old > F")
                let script = """
                    touch $tmp/held; while [ ! -e $tmp/go ]; do sleep 0.01; done; cat "$COVE_SNAPSHOT"
                    """
                let reader = try account.start("$COVE coordinate --reading F --for-uploading -- sh -c '\(script)'")
                try waitUntil("it is made") { try account.shell("ls $tmp").contains("held") }
                try account.killDaemon()
                let writing = "$COVE coordinate --writing F --timeout 10 -- sh -c 'echo new > F'; touch $tmp/go"
                try account.shell(writing)
                #expect(try reader.wait(deadline: 20).output == "old\n")
                #expect(try account.shell("cat F; ls $STATE/snapshots | wc -l") == "new\n0\n")
            }
        }

        @Test(arguments: [false, true]) func `a name that is left for a backup is kept over the daemon's death`(
            isTaken: Bool
        ) async throws {
            try await mounted(options: "open-timeout=60") { account in
                try CoordinationScripts.prepare(account)
                try account.shell("echo old > F; mkdir P.rtfd; echo old > P.rtfd/F")
                let holder = try account.start(
                    """
                    $COVE coordinate --writing F --writing P.rtfd -- bash -c 'mv F F.orig; mv P.rtfd P2.rtfd; touch $tmp/left
                        \(isTaken ? "echo half > F; mkdir P.rtfd; echo half > P.rtfd/F; touch $tmp/taken" : ":")
                        until [ -e $tmp/go ]; do sleep 0.01; done
                        \(isTaken ? ":" : "echo half > F; mkdir P.rtfd; echo half > P.rtfd/F"); touch $tmp/half
                        until [ -e $tmp/end ]; do sleep 0.01; done; echo whole >> F; echo whole >> P.rtfd/F'
                    """
                )
                try account.waitForMark(isTaken ? "taken" : "left")
                try account.killDaemon()
                // What others do with the name waits, and with the backup, too, which is the claimed file meanwhile.
                let maker = try account.start("$COVE coordinate --writing F -- sh -c 'cat F; echo more >> F'")
                try account.waitForWaiting(1)
                try account.shell("touch $tmp/go")
                try account.waitForMark("half")
                let reader = try account.start("cat F P.rtfd/F")
                try account.waitForWaiting(2)
                #expect(try account.shell("cat F.orig P2.rtfd/F") == "old\nold\n")
                try account.shell("touch $tmp/end")
                #expect(try maker.wait(deadline: 60).output == "half\nwhole\n")
                #expect(try reader.wait(deadline: 60).output.hasPrefix("half\nwhole\n"))
                #expect(try holder.wait(deadline: 60).status == 0)
            }
        }

        @Test func `the next daemon tells a program which claims it has, and whose those are`() async throws {
            try await mounted(options: "presenter-timeout=20,open-timeout=20") { account in
                try CoordinationScripts.prepare(account)
                try account.shell("mkdir d; echo old > F")
                let program = try account.startPython(
                    """
                    def attend(**more):
                        while True:
                            try:
                                stream = Connection(socket_path)
                                stream.send("Attend", more=True, **more)
                                return stream, stream.receive()
                            except (OSError, EOFError):
                                time.sleep(0.01)

                    stream, reply = attend()
                    token = reply["session"]
                    calls = Connection(socket_path)
                    def add(path):
                        return calls.call("AddPresenter", session=token, path=path, messages=KINDS, observes=[])["presenter"]
                    own, folder, file = add("d/new"), add("d"), add("F")
                    def claim(path, **more):
                        intents = [{"kind": "writing", "path": path, "options": []}]
                        calls.send("Claim", session=token, intents=intents, **more)
                    claim("d/new", presenter=own)
                    making = calls.receive()["claim"]
                    open(os.environ["mnt"] + "/d/new", "w").close()
                    claim("F")
                    question = stream.receive()["message"]
                    assert question["presenter"] == file, question
                    answers = Connection(socket_path)
                    answers.call("Reply", session=token, message=question["number"])
                    letting = calls.receive()["claim"]
                    done("made")
                    until("killed")
                    stream, reply = attend(resume=token, keepsPresenters=True)
                    assert sorted(reply["claims"]) == sorted([making, letting]), reply
                    assert reply["letIn"] == [letting], reply
                    assert sorted(reply["presenters"]) == sorted([own, folder, file]), reply
                    calls = Connection(socket_path)
                    for name in [making, letting]:
                        calls.call("Release", claim=name)
                    while True:
                        message = stream.receive()["message"]
                        assert message["presenter"] != own, message
                        if message["kind"] in ["subitemDidAppear", "subitemDidChange"]:
                            print(message["kind"], message["path"], message["presenter"] == folder)
                        if message["kind"] == "reacquire":
                            print("reacquire", message["presenter"] == file)
                            break
                    """
                )
                try account.waitForMark("made")
                try account.killDaemon()
                try account.shell("touch $tmp/killed")
                let result = try program.wait(deadline: 60)
                #expect(result.output == "subitemDidAppear d/new True\nreacquire True\n", "\(result.error)")
            }
        }

        @Test(arguments: ["echo new > F", "python3 -c 'import os; os.truncate(\"F\", 0)'"])
        func `a program that waits to cut a file waits on when the daemon is replaced`(script: String) async throws {
            try await mounted(options: "open-timeout=60") { account in
                try CoordinationScripts.prepare(account)
                try account.shell("echo old > F")
                let waiting = "until [ -e $tmp/go ]; do sleep 0.01; done; cat F > $tmp/seen"
                let holder = try account.start(Self.program("F", waiting))
                try account.waitForClaim("granted", of: "F")
                let program = try account.start(script)
                try account.waitForWaiting(1)
                try account.killDaemon()
                try account.waitForWaiting(1)
                try account.killDaemon()
                try account.waitForWaiting(1)
                try account.shell("touch $tmp/go")
                let result = try program.wait(deadline: 30)
                #expect(result.status == 0, "\(result.error)")
                #expect(try holder.wait(deadline: 30).status == 0)
                #expect(try account.shell("cat $tmp/seen") == "old\n")
                #expect(try account.shell("cat F") == (script.contains("new") ? "new\n" : ""))
            }
        }

        private static func program(_ item: String, _ script: String) -> String {
            "exec $COVE coordinate --writing \(item) -- sh -c '\(script)'"
        }

        private static func dying(_ item: String, _ moment: Moment) -> String {
            switch moment {
            case .snapshot: return "exec $COVE coordinate --reading \(item) --for-uploading -- sleep 100"
            case .releasing:
                return """
                    exec python3 - <<'END'
                    import os, signal, sys
                    sys.path.insert(0, os.environ["tmp"])
                    from client import *
                    session = Session(socket_path)
                    claim = session.claim(("writing", "\(item)"))
                    session.calls.send("Release", claim=claim)
                    os.kill(os.getpid(), signal.SIGKILL)
                    END
                    """
            default: return program(item, "sleep 100")
            }
        }
    }
}
