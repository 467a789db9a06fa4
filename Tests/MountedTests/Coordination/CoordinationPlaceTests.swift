import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Links, second names, places that change, and who holds up a claim.
    struct CoordinationPlaceTests {
        @Test func `what is said of a symbolic link is said of what it points at`() async throws {
            try await mounted { account in
                try CoordinationScripts.prepare(account)
                try account.shell("mkdir d; echo old > d/g; ln -s d e; ln -s e/g l; ln -s $tmp out; ln -s $mnt/d/g far")
                let (presenter, log) = try account.startPresenter("l")
                let output = try account.python(
                    """
                    session = Session(socket_path)
                    def places(*intents):
                        claim = session.claim(*intents)
                        print(*sorted(i["path"] for c in session.calls.call("List")["claims"] for i in c["intents"]))
                        session.release(claim)
                    places(("writing", "l"))
                    places(("reading", "e/g"))
                    places(("writing", "far"))
                    places(("writing", "e/new"))
                    places(("writing", "l", "forDeleting"))
                    places(("writing", "out"))
                    """
                )
                #expect(output == "d/g\nd/g\nd/g\nd/new\nl\nout\n")
                try account.shell("echo new > d/g")
                try waitUntil("the change is told") { try log().contains("didChange d/g") }
                try account.shell("touch $tmp/stop")
                #expect(try presenter.wait(deadline: 60).status == 0)
            }
        }

        @Test func `two names of one file exclude each other`() async throws {
            try await mounted { account in
                try CoordinationScripts.prepare(account)
                try account.shell("echo old > F; ln F L; echo alone > G")
                let output = try account.python(
                    """
                    one, two = Session(socket_path), Session(socket_path)
                    def trying(*intents):
                        try:
                            two.release(two.claim(*intents, timeout=0.3))
                            print("granted")
                        except Failed as failed:
                            print(failed.args[0])
                    writer = one.claim(("writing", "F"))
                    trying(("writing", "L"))
                    trying(("reading", "L", "withoutChanges"))
                    trying(("writing", "G"))
                    one.release(writer)
                    reader = one.claim(("reading", "L"))
                    trying(("reading", "F"))
                    trying(("writing", "F"))
                    trying(("writing", "F", "forDeleting"))
                    one.release(reader)
                    trying(("writing", "F"))
                    """
                )
                #expect(output == "110\n110\ngranted\ngranted\n110\n110\ngranted\n")
            }
        }

        @Test func `8. a directory is a package as long as its name or its attribute says so`() async throws {
            try await mounted { account in
                try CoordinationScripts.prepare(account)
                try account.shell("mkdir d; echo a > d/a; echo b > d/b")
                let (presenter, _) = try account.startPresenter("d")
                let output = try account.python(
                    """
                    import shutil
                    os.chdir(os.environ["mnt"])
                    attribute = "user.cove.package"
                    one, two = Session(socket_path), Session(socket_path)
                    def trying(name="d"):
                        first = one.claim(("writing", name + "/a"))
                        try:
                            two.release(two.claim(("writing", name + "/b"), timeout=0.3))
                            print("granted")
                        except Failed as failed:
                            print(failed.args[0])
                        one.release(first)
                    trying()
                    os.setxattr("d", attribute, b"1")
                    trying()
                    os.removexattr("d", attribute)
                    trying()
                    try:
                        os.removexattr("d", attribute)
                    except OSError as error:
                        print(os.strerror(error.errno))
                    os.rename("d", "d.rtfd")
                    trying("d.rtfd")
                    os.rename("d.rtfd", "d")
                    trying()
                    os.setxattr("d", attribute, b"1")
                    shutil.rmtree("d")
                    os.mkdir("d")
                    trying()
                    """
                )
                #expect(output == "granted\n110\ngranted\nNo data available\n110\ngranted\ngranted\n")
                try account.shell("touch $tmp/stop")
                #expect(try presenter.wait(deadline: 60).status == 0)
            }
        }

        @Test func `a command is told where its items are`() async throws {
            try await mounted { account in
                try account.shell("echo old > F; mkdir d; echo x > 'd/a b'; ln -s F l")
                let show = #"echo "$COVE_PATH""#
                #expect(
                    try account.shell("$COVE coordinate --writing l --reading 'd/a b' -- sh -c '\(show)'")
                        == "\(account.mount)/d/a b\n\(account.mount)/F\n"
                )
                let holder = try account.start(
                    "$COVE coordinate --moving F -- sh -c 'touch $tmp/held; until [ -e $tmp/go ]; do sleep 0.01; done; mv F d/H'"
                )
                try account.waitForMark("held")
                let waiter = try account.start("$COVE coordinate --writing F -- sh -c '\(show)'")
                try account.waitForWaiting(1)
                try account.shell("touch $tmp/go")
                #expect(try waiter.wait(deadline: 60).output == "\(account.mount)/d/H\n")
                #expect(try holder.wait(deadline: 60).status == 0)
            }
        }

        @Test func `who rests with a file open is told of when the claim is granted, and the holder's own are not`()
            async throws
        {
            try await mounted { account in
                try account.shell("echo old > F")
                let rester = try account.start(
                    "mkfifo $tmp/stop; exec bash -c 'exec 3>> F; : > $tmp/opened; read < $tmp/stop'"
                )
                try account.waitForMark("opened")
                let script = "exec 3>> F; $COVE claims --json; echo own >&3"
                let result = try account.start("$COVE coordinate --writing F -- bash -c '\(script)'").wait(deadline: 60)
                #expect(result.status == 0, "\(result.error)")
                struct List: Decodable { var claims: [Claim] }
                struct Claim: Decodable { var openFiles: [File]? }
                struct File: Decodable, Equatable { var path: String, process: Int32, program: String }
                let list = try JSONDecoder().decode(List.self, from: Data(result.output.utf8))
                #expect(list.claims.map(\.openFiles) == [[File(path: "F", process: rester.process, program: "bash")]])
                #expect(result.error.hasPrefix("cove: F: bash (\(rester.process)) has it open"), "\(result.error)")
                try account.shell("echo > $tmp/stop")
                #expect(try rester.wait(deadline: 60).status == 0)
                let free = try account.start("$COVE coordinate --writing F -- $COVE claims").wait(deadline: 60)
                #expect(free.error == "" && !free.output.contains("open"), "\(free.error)\(free.output)")
            }
        }

        @Test func `who has a file open is named, waited for, passed over or refused`() async throws {
            try await mounted { account in
                try account.shell("mkdir P.rtfd; echo old > P.rtfd/log")
                // It never rests.
                let logger = try account.start(
                    """
                    exec bash -c 'exec 3>> P.rtfd/log; touch $tmp/opened
                        until [ -e $tmp/stop ]; do echo line >&3; sleep 0.2; done'
                    """
                )
                try account.waitForMark("opened")
                let refused = try account.start("$COVE coordinate --open-files fail -E 9 --writing P.rtfd -- true")
                let refusal = try refused.wait(deadline: 60)
                let words = ["bash (\(logger.process))", "P.rtfd/log open for writing"]
                #expect(refusal.status == 9 && words.allSatisfy { refusal.error.contains($0) }, "\(refusal.error)")
                let late = try account.start("$COVE coordinate -w 1 -E 9 --writing P.rtfd -- true").wait(deadline: 60)
                #expect(late.status == 9 && words.allSatisfy { late.error.contains($0) }, "\(late.error)")
                let ignoring = try account.start(
                    "$COVE coordinate --open-files ignore --writing P.rtfd -- $COVE claims"
                )
                let ignored = try ignoring.wait(deadline: 60)
                let name = "bash (\(logger.process))"
                #expect(ignored.output.contains("\(name) has P.rtfd/log open"), "\(ignored.output)")
                let told = "cove: P.rtfd/log: \(name) has it open, and what it writes is not held back; end it, or"
                #expect(ignored.error.contains(told), "\(ignored.error)")
                let waiter = try account.start("$COVE coordinate --writing P.rtfd -- echo in")
                try account.waitForClaim("contents", of: "P.rtfd")
                let line = try account.cove("claims --state $STATE")
                #expect(line.contains("while bash (\(logger.process)) writes P.rtfd/log"), "\(line)")
                try account.shell("touch $tmp/stop")
                #expect(try waiter.wait(deadline: 60).output == "in\n")
            }
        }
    }
}
