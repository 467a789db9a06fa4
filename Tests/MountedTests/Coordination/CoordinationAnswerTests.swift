import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Presenters that are stopped, slow, or save as any program does.
    struct CoordinationAnswerTests {
        private static func presented(
            _ options: String,
            _ body: @escaping @Sendable (MountedAccount) throws -> Void
        ) async throws {
            try await mounted(options: options) { account in
                try CoordinationScripts.prepare(account)
                try account.shell("echo old > F; echo beside > G")
                try body(account)
                try account.shell("touch $tmp/stop")
            }
        }

        @Test func `a stopped presenter holds opens up once, and makes no call fail for ever`() async throws {
            try await Self.presented("presenter-timeout=3,open-timeout=60") { account in
                let (presenter, _) = try account.startPresenter("F", unsaved: "edited")
                presenter.signal(SIGSTOP)
                #expect(try account.shell("cat F") == "old\n")
                // The next ones do not wait for it again.
                try account.shell("chmod 600 F; sed -i s/old/new/ F; mv F H; mv H F; echo more >> F; ln F L; rm L")
                try account.shell("$COVE coordinate --writing F -- cat F > /dev/null")
                presenter.signal(SIGCONT)
                try waitUntil("it answers again") { try account.shell("cat F") == "edited" }
                presenter.signal(SIGKILL)
            }
        }

        @Test(arguments: ["presenter-timeout=60,open-timeout=6", "presenter-timeout=6,open-timeout=6"])
        func `a stopped presenter makes no open fail, whichever time is the longer`(options: String) async throws {
            try await Self.presented(options) { account in
                let (presenter, _) = try account.startPresenter("F", unsaved: "edited")
                presenter.signal(SIGSTOP)
                #expect(try account.shell("cat F") == "old\n")
                #expect(try account.shell("echo more >> F; cat F") == "old\nmore\n")
                presenter.signal(SIGKILL)
            }
        }

        @Test(arguments: ["rm F", "chmod 600 F", "sed -i s/old/new/ F", "mv G F"]) func `no call fails for ever`(
            call: String
        ) async throws {
            try await Self.presented("presenter-timeout=3,open-timeout=60") { account in
                let (presenter, _) = try account.startPresenter("F")
                presenter.signal(SIGSTOP)
                try account.shell("until \(call) 2> /dev/null; do echo again; done")
                presenter.signal(SIGKILL)
            }
        }

        /// Presents F, needs time to agree, and says what it heard.
        private static let slow = """
            heard = []
            def answer(message):
                heard.append(message["kind"])
                if message["wantsReply"]:
                    time.sleep(1.5)
            session = Session(socket_path, answer)
            presenter = session.calls.call("AddPresenter", session=session.token, path="F", messages=KINDS,
                                           observes=[])["presenter"]
            done("ready")
            until("stop")
            print(" ".join(heard))
            """

        @Test func `a call that was refused goes on with what a slow presenter answered meanwhile`() async throws {
            try await Self.presented("presenter-timeout=60,open-timeout=120") { account in
                let presenter = try account.startPython(Self.slow)
                try account.waitForMark("ready")
                try account.expectBusy("rm F")
                try account.shell("until rm F 2> /dev/null; do sleep 0.1; done; test ! -e F; touch $tmp/stop")
                let heard = try presenter.wait(deadline: 60).output
                #expect(heard.hasPrefix("relinquishToWriter accommodateDeletion"), "\(heard)")
                #expect(heard.components(separatedBy: "relinquishToWriter").count == 2, "\(heard)")
            }
        }

        @Test func `a preparation ends with its time where a presenter does not answer`() async throws {
            try await Self.presented("presenter-timeout=60") { account in
                let (presenter, _) = try account.startPresenter("F", unsaved: "edited")
                presenter.signal(SIGSTOP)
                let output = try account.python(
                    """
                    session = Session(socket_path)
                    intents = [{"kind": "reading", "path": "F", "options": []}]
                    start = time.monotonic()
                    try:
                        session.calls.call("Prepare", session=session.token, intents=intents, timeout=0.5)
                        print("prepared")
                    except Failed as failed:
                        print(failed.args[0], 0.4 < time.monotonic() - start < 40)
                    """
                )
                #expect(output == "110 True\n")
                presenter.signal(SIGKILL)
            }
        }

        /// Presents F, looks at it whenever it is asked for anything, and saves by plain calls.
        private static let plain = """
            unsaved = ["edited"]
            path = os.environ["mnt"] + "/F"
            def answer(message):
                if message["wantsReply"]:
                    open(path).read()
                if message["kind"] == "saveChanges" and unsaved:
                    SAVE
                    unsaved.clear()
            session = Session(socket_path, answer)
            presenter = session.calls.call("AddPresenter", session=session.token, path="F", messages=KINDS,
                                           observes=[])["presenter"]
            done("ready")
            until("stop")
            """

        @Test(arguments: [
            "open(path, 'w').write('edited')",
            "open(path + '-', 'w').write('edited'); os.rename(path + '-', path)",
            "os.rename(path, path + '.bak'); open(path, 'w').write('edited')",
            "os.unlink(path); open(path, 'w').write('edited')",
            "file = open(path, 'r+'); file.write('edited'); file.truncate(); os.fsync(file.fileno()); file.close()",
        ]) func `a presenter that is asked to save may save and read as any program does`(save: String) async throws {
            try await Self.presented("presenter-timeout=30,open-timeout=60") { account in
                for asking in [
                    "cat F", "$COVE coordinate --reading F -- cat F",
                    #"$COVE coordinate --reading F --for-uploading -- sh -c 'cat "$COVE_SNAPSHOT"'"#,
                ] {
                    try account.shell("rm -f $tmp/stop $tmp/ready")
                    let script = Self.plain.replacingOccurrences(of: "SAVE", with: save)
                    let presenter = try account.startPython(script)
                    try account.waitForMark("ready")
                    #expect(try account.shell(asking) == "edited", "\(asking)")
                    try account.shell("touch $tmp/stop")
                    let end = try presenter.wait(deadline: 60)
                    #expect(end.status == 0, "\(end.error)")
                    try account.shell("echo old > F")
                }
            }
        }

        @Test func `who opens without blocking waits for a presenter all the same`() async throws {
            try await Self.presented("presenter-timeout=30,open-timeout=60") { account in
                let (presenter, log) = try account.startPresenter("F", unsaved: "edited")
                try account.shell("tar cf $tmp/archive F G")
                #expect(try account.shell("tar xOf $tmp/archive F") == "edited")
                try account.shell("truncate -s 3 F; dd if=F of=$tmp/copy iflag=nonblock status=none")
                #expect(try account.shell("cat $tmp/copy") == "edi")
                #expect(try log().contains("relinquishToWriter F"))
                presenter.signal(SIGKILL)
            }
        }

        @Test func `nobody is told that a document goes which changes places with another one`() async throws {
            try await Self.presented("settle=50ms") { account in
                try account.shell("mkdir A.rtfd B.rtfd; echo a > A.rtfd/a; echo b > B.rtfd/b")
                try account.settle()
                let presenters = try ["F", "G", "A.rtfd", "B.rtfd"].map { try account.startPresenter($0) }
                try account.shell(
                    """
                    python3 - <<'END'
                    import ctypes, os
                    for one, other in (b"F", b"G"), (b"A.rtfd", b"B.rtfd"):
                        assert ctypes.CDLL(None).renameat2(-100, one, -100, other, 2) == 0
                    END
                    """
                )
                #expect(try account.shell("cat F G; ls A.rtfd B.rtfd") == "beside\nold\nA.rtfd:\nb\n\nB.rtfd:\na\n")
                for (presenter, log) in presenters {
                    try waitUntil("its presenter knows") { try log().contains { $0.hasPrefix("didChange") } }
                    #expect(try log().contains { $0.hasPrefix("relinquishToWriter") })
                    #expect(try log().filter { $0.hasPrefix("accommodate") || $0.hasPrefix("didMove") } == [])
                    presenter.signal(SIGKILL)
                }
            }
        }
    }
}
