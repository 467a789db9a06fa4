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
