import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Who may say what of whose claims.
    struct CoordinationSpeakerTests {
        /// Has another process print the errno of each call.
        private static let trying = """
            def trying(name, body):
                try:
                    body()
                    print(name, "done")
                except Failed as failed:
                    print(name, failed.args[0])
            """

        @Test func `a session of one program can't end the claim of another session of it`() async throws {
            try await mounted { account in
                try CoordinationScripts.prepare(account)
                try account.shell("echo old > F")
                let output = try account.python(
                    Self.trying + """

                        one, other = Session(socket_path), Session(socket_path)
                        claim = one.claim(("writing", "F"))
                        call = other.calls.call
                        trying("release", lambda: call("Release", claim=claim, session=other.token))
                        trying("still", lambda: other.claim(("writing", "F"), timeout=0))
                        trying("its program", lambda: call("Release", claim=claim))
                        intents = [{"kind": "writing", "path": "F", "options": []}]
                        trying("no presenter", lambda: call("Claim", session=one.token, presenter="none", intents=intents))
                        """
                )
                #expect(output == "release 13\nstill 110\nits program done\nno presenter 22\n")
            }
        }

        @Test func `a session can release, name and speak for its own alone`() async throws {
            try await mounted { account in
                try CoordinationScripts.prepare(account)
                try account.shell("echo old > F; echo beside > G")
                let holder = try account.startPython(
                    """
                    session = Session(socket_path)
                    claim = session.claim(("writing", "F"))
                    presenter = session.calls.call("AddPresenter", session=session.token, path="G", messages=["didMove"],
                                                   observes=[])["presenter"]
                    open(os.environ["tmp"] + "/names", "w").write(" ".join([session.token, claim, presenter]))
                    done("held")
                    until("go")
                    session.release(claim)
                    """
                )
                try account.waitForMark("held")
                let output = try account.python(
                    Self.trying + """

                        theirs, claim, presenter = open(os.environ["tmp"] + "/names").read().split()
                        session = Session(socket_path)
                        call = session.calls.call
                        intents = [{"kind": "writing", "path": "G", "options": []}]
                        trying("release", lambda: call("Release", claim=claim))
                        trying("moved", lambda: call("Moved", claim=claim, path="F", newPath={"path": "G"}))
                        trying("presenter", lambda: call("Claim", session=session.token, presenter=presenter, intents=intents))
                        trying("cancel", lambda: call("Cancel", session=session.token, coordinator="x"))
                        trying("remove", lambda: call("RemovePresenter", session=session.token, presenter=presenter))
                        trying("still", lambda: session.claim(("writing", "F"), timeout=0))
                        trying("in its name", lambda: call("Release", claim=claim, session=theirs))
                        trying("free", lambda: session.claim(("writing", "F"), timeout=10))
                        """
                )
                #expect(
                    output == """
                        release 13
                        moved 13
                        presenter 22
                        cancel done
                        remove 116
                        still 110
                        in its name done
                        free done

                        """
                )
                try account.shell("touch $tmp/go")
                // The claim that it had is gone.
                #expect(try holder.wait(deadline: 60).status != 0)
            }
        }

        @Test func `a move is believed from one who writes there, and if it is so`() async throws {
            try await mounted { account in
                try CoordinationScripts.prepare(account)
                try account.shell("echo old > F; echo beside > G")
                let output = try account.python(
                    Self.trying + """

                        session = Session(socket_path)
                        call = session.calls.call
                        def moved(claim, old, new):
                            return lambda: call("Moved", claim=claim, path=old, newPath={"path": new})
                        def places():
                            print(*[i["path"] for c in call("List")["claims"] for i in c["intents"]])
                        os.chdir(os.environ["mnt"])
                        reader = session.claim(("reading", "F"))
                        trying("reader", moved(reader, "F", "G"))
                        session.release(reader)
                        writer = session.claim(("writing", "F"))
                        trying("elsewhere", moved(writer, "G", "H"))
                        trying("to nowhere", moved(writer, "F", "H"))
                        trying("not moved", moved(writer, "F", "G"))
                        places()
                        os.rename("F", "H")
                        trying("moved", moved(writer, "F", "H"))
                        places()
                        """
                )
                #expect(
                    output == """
                        reader 22
                        elsewhere 22
                        to nowhere done
                        not moved done
                        F
                        moved done
                        H

                        """
                )
            }
        }

        @Test func `9. a coordinator has one purpose`() async throws {
            try await mounted { account in
                try CoordinationScripts.prepare(account)
                try account.shell("echo old > F; echo beside > G")
                let output = try account.python(
                    Self.trying + """

                        session = Session(socket_path)
                        first = session.claim(("writing", "F"), coordinator="x", purpose="p")
                        trying("again", lambda: session.claim(("writing", "F"), coordinator="x", purpose="p"))
                        trying("other", lambda: session.claim(("writing", "G"), coordinator="x", purpose="q"))
                        trying("beside", lambda: session.claim(("writing", "G"), coordinator="y", purpose="q"))
                        trying("empty", lambda: session.claim(("reading", "G"), coordinator="z", purpose=""))
                        trying("nobody's answer", lambda: session.claim(("reading", "G"), answering=["c1"]))
                        """
                )
                #expect(output == "again done\nother 22\nbeside done\nempty 22\nnobody's answer 22\n")
            }
        }

        @Test func `9. a presenter's claims have its purpose, and no other one`() async throws {
            try await mounted { account in
                try CoordinationScripts.prepare(account)
                try account.shell("echo old > F; echo beside > G")
                let output = try account.python(
                    Self.trying + """

                        session, other, third = (Session(socket_path) for _ in range(3))
                        call = session.calls.call
                        def presenter(**more):
                            return call("AddPresenter", session=session.token, path="G", messages=[], observes=[], **more)
                        own = presenter(purpose="p")["presenter"]
                        trying("beside", lambda: session.claim(("writing", "F"), presenter=own, purpose="q"))
                        trying("the same", lambda: session.claim(("writing", "F"), presenter=own, purpose="p"))
                        first = session.claim(("writing", "F"), coordinator="x", presenter=own)
                        trying("its own", lambda: session.claim(("writing", "F"), coordinator="y", presenter=own))
                        trying("one of it", lambda: other.claim(("writing", "F"), coordinator="z", purpose="p"))
                        trying("second", lambda: session.claim(("writing", "G"), coordinator="x", purpose="q"))
                        trying("others", lambda: third.claim(("writing", "F"), timeout=0))
                        trying("empty", lambda: presenter(purpose=""))
                        """
                )
                let expected = [
                    "beside 22", "the same 22", "its own done", "one of it done", "second 22", "others 110", "empty 22",
                ]
                #expect(output == expected.map { $0 + "\n" }.joined())
            }
        }

        @Test func `42. nested claims of different coordinators that wait for each other fail`() async throws {
            try await mounted { account in
                try CoordinationScripts.prepare(account)
                try account.shell("echo old > F; echo beside > G")
                // A claim inside another one of the same program, each by a coordinator of its own.
                let script = """
                    session = Session(socket_path)
                    outer = session.claim(("writing", OWN), coordinator="a")
                    done(OWN)
                    until(OTHER)
                    try:
                        inner = session.claim(("writing", OTHER), coordinator="b")
                        print("both")
                        session.release(inner)
                    except Failed as failed:
                        print(failed.args[0])
                    session.release(outer)
                    try:
                        outer = session.claim(("writing", OWN), coordinator="a")
                        session.claim(("reading", OWN), coordinator="b")
                    except Failed as failed:
                        print("itself", failed.args[0])
                    """
                let programs = try [("F", "G"), ("G", "F")].map { own, other in
                    try account.startPython("OWN, OTHER = \"\(own)\", \"\(other)\"\n" + script)
                }
                let outputs = try programs.map { try $0.wait(deadline: 60).output }
                #expect(Set(outputs) == ["both\nitself 35\n", "35\nitself 35\n"], "\(outputs)")
            }
        }
    }
}
