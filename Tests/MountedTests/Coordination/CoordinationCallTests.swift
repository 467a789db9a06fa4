import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Which calls of programs meet claims, and which programs a claim waits for.
    struct CoordinationCallTests {
        private static func holding(_ claim: String) -> String {
            "$COVE coordinate \(claim) -- sh -c 'touch $tmp/held; until [ -e $tmp/go ]; do sleep 0.01; done'"
        }

        @Test func `every call that makes a name or changes a file asks the claims`() async throws {
            let names = ["ln -s x", "mkfifo", "ln G", "mkdir", "touch", "ln F", "cp -l G", "cp -s $PWD/G"]
            let calls =
                ["N", "d/n"].flatMap { name in names.map { "\($0) \(name)" } } + [
                    "ln F L", "chmod 600 F", "chown 0:0 F", "touch -c F", "touch -ca F", "setfattr -n user.x -v 2 F",
                    "setfattr -x user.x F", "rm F", "mv F d2", "mv G F", "rmdir d", "mv d e", "mv G d/g", "ln -sf x F",
                ]
            let folder = "echo old > F; echo beside > G; mkdir d; setfattr -n user.x -v 1 F"
            try await mounted { account in
                let holder = try Self.hold(calls, account, in: folder)
                let busy = try Self.ends(account).symmetricDifference(calls.map { "\($0): Device or resource busy" })
                #expect(busy.isEmpty, "\(busy.sorted())")
                let unchanged = try account.shell(
                    """
                    for number in {1..\(calls.count)}; do
                        cd $mnt/t$number; ls; cat G; touch G; ln -s x ok; rm ok; mkfifo ok; rm ok; ln G ok; rm ok
                    done
                    """
                )
                #expect(unchanged == String(repeating: "F\nG\nd\nbeside\n", count: calls.count))
                try account.shell("touch $tmp/go")
                #expect(try holder.wait(deadline: 60).status == 0)
                try account.shell("cd t1; ln -s x N; ln F L; mkfifo d/n; touch F")
            }
        }

        /// Makes a folder for each call, and claims what is in all of them; returns when that is granted.
        private static func hold(_ calls: [String], _ account: MountedAccount, in folder: String) throws -> Command {
            try (calls.joined(separator: "\n") + "\n")
                .write(toFile: account.scratch.appending("calls"), atomically: false, encoding: .utf8)
            try account.shell(
                "for number in {1..\(calls.count)}; do mkdir $mnt/t$number; cd $mnt/t$number; \(folder); done"
            )
            let claims = (1...calls.count).map { "--writing t\($0)/F --writing t\($0)/N --deleting t\($0)/d" }
            let holder = try account.start(holding(claims.joined(separator: " ")))
            try account.waitForMark("held")
            return holder
        }

        /// How the calls end.
        private static func ends(_ account: MountedAccount) throws -> Set<String> {
            Set(try account.shell(all).split(separator: "\n").map(String.init))
        }

        /// One call for each way of changing something; `d` is a directory with the file `f`, G and `e` nobody claims.
        private static let changes = [
            "touch N", ": > N", "mkdir N", "mkfifo N", "ln -s x N", "ln G N", "cp -l G N", "mv G N",
            "mv -T e N", "touch d/n", "mkdir d/n", "ln -s x d/n", "mkfifo d/n", "ln G d/n", "mv G d/n",
            "rm d/f", "mv d/f H", "mv d H", "rm d/f; mv -T e d", "chmod 700 d", "touch -cm d",
            "setfattr -n user.x -v 2 d", "setfattr -n user.cove.package -v 1 d", "setfattr -x user.cove.tags d",
            "ln F L", "rm F", "mv F H", "mv G F", "ln -sf x F", "chmod 600 F", "chown 0:0 F", "chgrp 0 F",
            "touch -c F", "touch -ca F", "touch -cm F", "touch -cd 2001-02-03 F", "touch -cmd 2001-02-03 F",
            "touch -cad 2001-02-03 F", "setfattr -n user.x -v 2 F", "setfattr -x user.x F",
            "setfattr -n user.cove.tags -v t F", "exchange F G", "exchange G F", "exchange e d", "exchange d e",
        ]

        /// Runs each line of `calls` in a folder of its own, all at once, and prints how they ended.
        private static let all = #"""
            exchange() {
                python3 -c 'import ctypes, os, sys; libc = ctypes.CDLL(None, use_errno=True)
            if libc.renameat2(-100, sys.argv[1].encode(), -100, sys.argv[2].encode(), 2):
                sys.exit(os.strerror(ctypes.get_errno()))' "$1" "$2"
            }
            number=0
            while read -r call; do
                number=$((number + 1))
                ( cd $mnt/t$number; if said=$(eval "$call" 2>&1); then said=done; fi; echo "$call: ${said##*: }" ) &
            done < $tmp/calls
            wait
            """#

        @Test func `each call that changes something waits for a claim and fails, and goes on after it`() async throws {
            let folder = """
                mkdir d e; echo old | tee F G d/f > /dev/null
                setfattr -n user.x -v 1 F; setfattr -n user.cove.tags -v 1 d
                """
            try await mounted { account in
                let holder = try Self.hold(Self.changes, account, in: folder)
                let busy = try Self.ends(account)
                    .symmetricDifference(Self.changes.map { "\($0): Device or resource busy" })
                #expect(busy.isEmpty, "\(busy.sorted())")
                #expect(try account.shell("cat t*/G | sort -u; ls t1") == "old\nF\nG\nd\ne\n")
                try account.shell("touch $tmp/go")
                #expect(try holder.wait(deadline: 60).status == 0)
                let done = try Self.ends(account).symmetricDifference(Self.changes.map { "\($0): done" })
                #expect(done.isEmpty, "\(done.sorted())")
            }
        }

        /// Calls on a file that is open, of which each says how it ended.
        private static let calls = """
            import errno, os, sys, time
            file = os.open("F", os.O_RDWR)
            other = os.open("G", os.O_RDWR)
            os.write(file, b"mine")
            def mark(name):
                open(os.environ["tmp"] + "/" + name, "w").close()
            def until(name):
                while not os.path.exists(os.environ["tmp"] + "/" + name):
                    time.sleep(0.01)
            def call(name, body):
                try:
                    body()
                    print(name, "done")
                except OSError as error:
                    print(name, errno.errorcode[error.errno])
            mark("opened")
            until("held")
            call("fallocate", lambda: os.posix_fallocate(file, 0, 100))
            call("ftruncate", lambda: os.ftruncate(file, 50))
            call("copy", lambda: os.copy_file_range(other, file, 3, 0, 0))
            call("fchmod", lambda: os.fchmod(file, 0o600))
            call("futimens", lambda: os.utime(file, (1, 1)))
            call("fsetxattr", lambda: os.setxattr(file, "user.x", b"2"))
            mark("called")

            """

        @Test func `a file that rests open changes under no claim but by writing`() async throws {
            try await mounted { account in
                try account.shell("echo old > F; echo beside > G")
                try Self.calls.write(toFile: account.scratch.appending("calls.py"), atomically: false, encoding: .utf8)
                let program = try account.start("exec python3 $tmp/calls.py")
                try account.waitForMark("opened")
                let holder = try account.start(Self.holding("--writing F"))
                let names = ["fallocate", "ftruncate", "copy", "fchmod", "futimens", "fsetxattr"]
                #expect(
                    try program.wait(deadline: 60).output == names.map { "\($0) EBUSY\n" }.joined()
                )
                try account.shell("touch $tmp/go")
                #expect(try holder.wait(deadline: 60).status == 0)
                #expect(try account.shell("cat F") == "mine")
            }
        }

        @Test func `a program goes on with what it has open while a claim waits for it`() async throws {
            try await mounted { account in
                try account.shell("echo old > F; echo beside > G")
                // It writes on and on, so that it never rests.
                let script = Self.calls.replacingOccurrences(
                    of: "until(\"held\")",
                    with: """
                        import threading
                        def write():
                            while not os.path.exists(os.environ["tmp"] + "/called"):
                                os.pwrite(file, b"mine", 0)
                                time.sleep(0.05)
                        threading.Thread(target=write, daemon=True).start()
                        until("waits")
                        """
                )
                try script.write(toFile: account.scratch.appending("calls.py"), atomically: false, encoding: .utf8)
                let program = try account.start("exec python3 $tmp/calls.py")
                try account.waitForMark("opened")
                let holder = try account.start("$COVE coordinate --writing F -- true")
                try account.waitForClaim("contents", of: "F")
                try account.shell("touch $tmp/waits")
                let names = ["fallocate", "ftruncate", "copy", "fchmod", "futimens", "fsetxattr"]
                #expect(try program.wait(deadline: 60).output == names.map { "\($0) done\n" }.joined())
                #expect(try holder.wait(deadline: 60).status == 0)
            }
        }

        /// Writes to P.rtfd/a again and again, and at last whole.
        private static let slowly = """
            exec 3> P.rtfd/a; touch $tmp/opened; until [ -e $tmp/end ]; do echo part >&3; sleep 0.1; done; echo whole >&3
            """

        @Test(arguments: [
            "--reading P.rtfd", "--writing P.rtfd", "--writing P.rtfd/b", "--writing P.rtfd/new", "--deleting P.rtfd",
            "--moving .", "--reading P.rtfd --for-uploading", "--reading . --for-uploading",
        ]) func `a claim waits for programs that write inside`(claim: String) async throws {
            try await mounted { account in
                try account.shell("mkdir P.rtfd; echo old | tee P.rtfd/a P.rtfd/b")
                let writer = try account.start(Self.slowly)
                try account.waitForMark("opened")
                let see = #"if [ -n "$COVE_SNAPSHOT" ]; then unzip -p "$COVE_SNAPSHOT" "*/a"; else cat P.rtfd/a; fi"#
                let holder = try account.start("$COVE coordinate \(claim) -- sh -c '\(see)'")
                try account.waitForClaim("contents", of: claim.split(separator: " ")[1] == "." ? "" : "P.rtfd")
                try account.shell("touch $tmp/end")
                #expect(try writer.wait(deadline: 60).status == 0)
                let result = try holder.wait(deadline: 60)
                #expect(result.output.hasSuffix("whole\n"), "\(result.error)")
            }
        }

        @Test func `a holder's parent is not exempt from its claim`() async throws {
            try await mounted { account in
                try CoordinationScripts.prepare(account)
                try account.shell("echo old > F; echo beside > G")
                let output = try account.python(
                    """
                    import subprocess
                    session = Session(socket_path)
                    own = session.claim(("writing", "G"))
                    holding = "touch $tmp/held; until [ -e $tmp/go ]; do sleep 0.01; done"
                    child = subprocess.Popen([os.environ["COVE"], "coordinate", "--writing", "F", "--", "sh", "-c", holding])
                    until("held")
                    try:
                        session.claim(("writing", "F"), timeout=0.5)
                        print("granted")
                    except Failed as failed:
                        print(failed.args[0])
                    # What it holds itself is its child's too.
                    inside = [os.environ["COVE"], "coordinate", "-w", "0.5", "--writing", "G", "--", "cat", "G"]
                    print(subprocess.run(inside, stdout=subprocess.PIPE, text=True).stdout, end="")
                    done("go")
                    print(child.wait())
                    session.claim(("writing", "F"), timeout=10)
                    """
                )
                #expect(output == "110\nbeside\n0\n")
            }
        }
    }
}
