import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Programs that claim, programs that present, and programs that know nothing of either.
    ///
    /// The numbers are those of the acceptance checklist.
    struct CoordinationTests {
        private static func coordinated(
            openTimeout: Int = 20,
            settle: String = "2s",
            _ body: @escaping @Sendable (MountedAccount) throws -> Void
        ) async throws {
            try await mounted(options: "presenter-timeout=3,open-timeout=\(openTimeout),settle=\(settle)") { account in
                try CoordinationScripts.prepare(account)
                try account.shell("echo old > F; mkdir d; echo sibling > d/g; echo beside > G")
                try body(account)
                try account.shell("touch $tmp/stop")
            }
        }

        /// Holds F until a file is made.
        private static let holding = """
            $COVE coordinate --writing F -- sh -c 'touch $tmp/held; while [ ! -e $tmp/go ]; do sleep 0.01; done'
            """

        @Test func `an open waits for a writer, its siblings don't`() async throws {
            try await Self.coordinated { account in
                // In one step: a reader may find any other file empty for a moment.
                let holder = try account.start(Self.holding + "; echo new > n; mv n F")
                try waitUntil("it is held") { try account.shell("ls $tmp").contains("held") }
                let reader = try account.start("cat F")
                try account.waitForWaiting(1)
                #expect(
                    try account.shell("cat G d/g; ls; stat -c %s F; ls d > /dev/null")
                        == "beside\nsibling\nF\nG\nd\n4\n"
                )
                #expect(reader.output.isEmpty)
                try account.shell("touch $tmp/go")
                #expect(try reader.wait(deadline: 20).output.hasSuffix("\n"))
                #expect(try holder.wait(deadline: 20).status == 0)
            }
        }

        @Test func `an editor works under a claim for longer than others wait`() async throws {
            try await Self.coordinated(openTimeout: 8) { account in
                try account.shell("printf 'edit F\\nnormal Gonew\\n' > $tmp/edits")
                let holder = try account.start(
                    """
                    $COVE coordinate --writing F -- sh -c 'touch $tmp/held; while [ ! -e $tmp/go ]; do sleep 0.01; done;
                        vim -u NONE -es -c "normal Gonew" -c wq F; vim -u NONE -es -c "normal Goagain" -c wq F'
                    """
                )
                try waitUntil("it is held") { try account.shell("ls $tmp").contains("held") }
                let late = try account.start("cat F")
                let result = try late.wait(deadline: 40)
                #expect(result.status == 1 && result.error.contains("Connection timed out"))
                let reader = try account.start("cat F")
                try account.waitForWaiting(1)
                try account.shell("touch $tmp/go")
                #expect(try holder.wait(deadline: 20).status == 0)
                #expect(try reader.wait(deadline: 20).output == "old\nnew\nagain\n")
            }
        }

        @Test func `18. after the end of a holder others go on within a second`() async throws {
            try await Self.coordinated { account in
                let holder = try account.start("exec $COVE coordinate --writing F -- sh -c 'touch $tmp/held; sleep 60'")
                try waitUntil("it is held") { try account.shell("ls $tmp").contains("held") }
                let reader = try account.start("cat F")
                try account.waitForWaiting(1)
                let start = ContinuousClock.now
                kill(holder.process, SIGKILL)
                #expect(try reader.wait(deadline: 20).output == "old\n")
                #expect(ContinuousClock.now - start < .seconds(1))
            }
        }

        @Test func `19. a presenter that is stopped holds nobody up beyond the time-out`() async throws {
            try await Self.coordinated { account in
                let (presenter, _) = try account.startPresenter("F")
                presenter.signal(SIGSTOP)
                let start = ContinuousClock.now
                try account.shell("$COVE coordinate --writing F -- true")
                #expect(ContinuousClock.now - start < .seconds(10))
                presenter.signal(SIGKILL)
                let again = ContinuousClock.now
                try account.shell("$COVE coordinate --writing F -- true")
                #expect(ContinuousClock.now - again < .seconds(3))
            }
        }

        @Test func `22. a snapshot does not change and goes with its claim`() async throws {
            try await Self.coordinated { account in
                let output = try account.shell(
                    """
                    $COVE coordinate --reading F --for-uploading -- sh -c \
                        'echo changed > F; cat "$COVE_SNAPSHOT"; echo "$COVE_SNAPSHOT" > $tmp/where'
                    cat F; test ! -e "$(cat $tmp/where)"
                    mkdir P.rtfd; echo one > P.rtfd/1; mkdir P.rtfd/in; head -c 70000 /dev/zero > P.rtfd/in/2
                    $COVE coordinate --reading P.rtfd --for-uploading -- sh -c 'cp "$COVE_SNAPSHOT" $tmp/p.zip'
                    python3 -m zipfile -t $tmp/p.zip; python3 -m zipfile -e $tmp/p.zip $tmp/out
                    diff -r $tmp/out/P.rtfd P.rtfd
                    """
                )
                #expect(output == "old\nchanged\nDone testing\n")
            }
        }

        @Test func `23. what a program has not saved is saved before others read it`() async throws {
            // Of what was sent a version would be kept, and told of.
            try await Self.coordinated(settle: "1h") { account in
                let (presenter, log) = try account.startPresenter("F", unsaved: "edited")
                #expect(try account.shell("cat F") == "edited")
                try waitUntil("it heard the end") { try log().last == "reacquire F" }
                let lines = try log()
                #expect(lines == ["ready", "relinquishToReader F", "saveChanges F", "reacquire F"])
                presenter.signal(SIGTERM)
            }
        }

        @Test func `who reads what is saved already has nobody save`() async throws {
            try await Self.coordinated { account in
                let (presenter, log) = try account.startPresenter("F", unsaved: "edited")
                let read = "$COVE coordinate --reading F --without-changes"
                #expect(
                    try account.shell("\(read) cat F; \(read) --for-uploading -- sh -c 'cat $COVE_SNAPSHOT'")
                        == "old\nold\n"
                )
                try waitUntil("it heard the end") { try log().count { $0 == "reacquire F" } == 2 }
                #expect(try !log().contains("saveChanges F"))
                #expect(try account.shell("$COVE coordinate --reading F cat F") == "edited")
                #expect(try log().contains("saveChanges F"))
                presenter.signal(SIGTERM)
            }
        }

        @Test func `24. what other programs do is told`() async throws {
            try await Self.coordinated { account in
                let (presenter, log) = try account.startPresenter("F")
                let (other, above) = try account.startPresenter("d")
                try account.shell("sed -i s/old/other/ F")
                try waitUntil("the save is told") { try log().contains("didChange F") }
                #expect(!(try log().contains { $0.hasPrefix("didMove") || $0.hasPrefix("accommodate") }))
                try account.shell("echo new > d/h; mv d/h d/i; rm d/i")
                try waitUntil("the end is told") { try above().contains("subitemDidChange d/i") }
                #expect(try above().contains("subitemDidAppear d/h"))
                #expect(try above().contains("subitemDidMove d/h d/i"))
                #expect(try above().contains("accommodateSubitemDeletion d/i"))
                try account.shell("mv F H")
                try waitUntil("the move is told") { try log().contains("didMove F H") }
                try account.shell("echo again >> H")
                try waitUntil("it is known where it is") { try log().contains("didChange H") }
                try account.shell("rm H")
                try waitUntil("the deletion is told") { try log().contains("accommodateDeletion H") }
                for command in [presenter, other] { command.signal(SIGTERM) }
            }
        }

        @Test func `26. an open that waits ends at once by Ctrl-C and leaves nothing`() async throws {
            try await Self.coordinated { account in
                let holder = try account.start(Self.holding)
                try waitUntil("it is held") { try account.shell("ls $tmp").contains("held") }
                let reader = try account.start("exec cat F")
                try account.waitForWaiting(1)
                let start = ContinuousClock.now
                reader.signal(SIGINT)
                #expect(try reader.wait(deadline: 5).status == 128 + SIGINT)
                #expect(ContinuousClock.now - start < .seconds(1))
                try account.waitForWaiting(0)
                try account.shell("touch $tmp/go")
                #expect(try holder.wait(deadline: 20).status == 0)
            }
        }

        @Test func `calls that would hold up a directory fail, cutting waits, O_NONBLOCK does not`() async throws {
            try await Self.coordinated { account in
                let holder = try account.start(Self.holding)
                try waitUntil("it is held") { try account.shell("ls $tmp").contains("held") }
                try account.expectBusy("rm F")
                try account.expectBusy("mv F H")
                try account.expectBusy("mv G F")
                try account.expectBusy("chmod 600 F")
                try account.shell(
                    """
                    python3 - <<'END'
                    import errno, os
                    try: os.open("F", os.O_RDONLY | os.O_NONBLOCK)
                    except OSError as error: assert error.errno == errno.EAGAIN, error
                    else: raise SystemExit("it was opened")
                    END
                    """
                )
                let cuts = try [
                    "echo cut > F", "exec python3 -c 'import os; os.truncate(\"F\", 2)'",
                    "exec dd of=F if=/dev/null status=none",
                ].map {
                    try account.start($0)
                }
                try account.waitForWaiting(3)
                #expect(try account.shell("echo x > new; rm new; ls") == "F\nG\nd\n")
                try account.shell("touch $tmp/go")
                for cut in cuts { #expect(try cut.wait(deadline: 20).status == 0) }
                #expect(try holder.wait(deadline: 20).status == 0)
                try account.waitForWaiting(0)
            }
        }

        @Test func `a cutting open that waits for too long times out, and leaves nothing behind`() async throws {
            try await Self.coordinated(openTimeout: 2) { account in
                let holder = try account.start(Self.holding)
                try waitUntil("it is held") { try account.shell("ls $tmp").contains("held") }
                for script in ["echo cut > F", "exec python3 -c 'import os; os.truncate(\"F\", 2)'"] {
                    let result = try account.start(script).wait(deadline: 10)
                    #expect(result.status != 0 && result.error.contains("timed out"), "\(result.error)")
                }
                try account.shell(
                    """
                    python3 - <<'END'
                    import errno, os
                    file = os.open("F", os.O_PATH)
                    try: os.open(f"/proc/self/fd/{file}", os.O_WRONLY | os.O_TRUNC)
                    except OSError as error: assert error.errno == errno.EBUSY, error
                    else: raise SystemExit("it was opened")
                    END
                    """
                )
                try account.waitForWaiting(0)
                let killed = try account.start("exec dd of=F if=/dev/null status=none")
                try account.waitForWaiting(1)
                killed.signal(SIGKILL)
                try account.waitForWaiting(0)
                try account.shell("touch $tmp/go")
                #expect(try holder.wait(deadline: 20).status == 0)
                let start = ContinuousClock.now
                try account.shell("$COVE coordinate --writing F -- sh -c 'cat F; echo new > F'; echo more >> F; cat F")
                #expect(ContinuousClock.now - start < .seconds(2))
                #expect(try account.cove("claims --state $STATE").isEmpty)
            }
        }

        @Test func `claims and presenters go where their items go, also for the next daemon`() async throws {
            try await Self.coordinated { account in
                let (presenter, log) = try account.startPresenter("d/g")
                try account.shell("mkdir e; mv d e/d")
                try waitUntil("the move is told") { try log().contains("didMove d/g e/d/g") }
                let holder = try account.start(
                    """
                    $COVE coordinate --writing e/d/g -- sh -c 'mv e/d e/f; mv e/f/g e/h; touch $tmp/held;
                        while [ ! -e $tmp/go ]; do sleep 0.01; done; echo new > e/h'
                    """
                )
                try waitUntil("it is held") { try account.shell("ls $tmp").contains("held") }
                try waitUntil("the move is told") { try log().contains("didMove e/f/g e/h") }
                let before = try account.cove("claims --state $STATE").split(separator: "\n").first
                #expect(before?.hasSuffix("writing e/h") == true)
                try account.killDaemon()
                #expect(try account.cove("claims --state $STATE").split(separator: "\n").first == before)
                let reader = try account.start("cat e/h")
                try account.waitForWaiting(1)
                try account.shell("touch $tmp/go")
                #expect(try reader.wait(deadline: 20).output == "new\n")
                #expect(try holder.wait(deadline: 20).status == 0)
                presenter.signal(SIGTERM)
            }
        }

        @Test func `a command that waits for a claim waits on when the daemon is replaced`() async throws {
            try await Self.coordinated { account in
                let holder = try account.start(Self.holding)
                try waitUntil("it is held") { try account.shell("ls $tmp").contains("held") }
                let waiter = try account.start("$COVE coordinate --writing F -- echo mine")
                try account.waitForWaiting(1)
                try account.killDaemon()
                try account.waitForWaiting(1)
                try account.shell("touch $tmp/go")
                #expect(try waiter.wait(deadline: 20).output == "mine\n")
                #expect(try holder.wait(deadline: 20).status == 0)
            }
        }

        @Test func `a claim outlives the daemon`() async throws {
            try await Self.coordinated { account in
                let holder = try account.start(Self.holding + "; cat $tmp/go")
                try waitUntil("it is held") { try account.shell("ls $tmp").contains("held") }
                let before = try account.cove("claims --state $STATE")
                try account.killDaemon()
                #expect(try account.cove("claims --state $STATE") == before)
                let reader = try account.start("cat F")
                try account.waitForWaiting(1)
                // Beyond the time in which it could have come back.
                #expect(!reader.hasEnded(within: 11))
                try account.shell("touch $tmp/go")
                #expect(try reader.wait(deadline: 20).output == "old\n")
                #expect(try holder.wait(deadline: 20).status == 0)
                #expect(try account.cove("claims --state $STATE").isEmpty)
            }
        }
    }
}
