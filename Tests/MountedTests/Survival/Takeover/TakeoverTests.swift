import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// The daemon dies, or is replaced, and programs go on.
    struct TakeoverTests {
        /// Names made, moved and removed again and again; every call must do what it says, once.
        private static let names = """
            import os, sys
            n = 0
            os.mkdir("names"); os.chdir("names")
            while not os.path.exists(sys.argv[1]):
                n += 1
                d, f, g, h = f"d{n}", f"f{n}", f"g{n}", f"h{n}"
                os.mkdir(d)
                os.close(os.open(f, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                os.link(f, g)
                os.symlink("f", h)
                os.rename(g, d + "/" + g)
                assert os.stat(d + "/" + g).st_nlink == 2
                os.rename(f, d + "/" + g + "x")
                os.unlink(d + "/" + g)
                os.setxattr(d, "user.x", b"1", os.XATTR_CREATE)
                os.removexattr(d, "user.x")
                os.unlink(d + "/" + g + "x")
                os.unlink(h)
                os.rmdir(d)
            assert os.listdir(".") == []
            print(n)
            """

        /// Asks the daemon all the time, and prints the longest answer in milliseconds at the end.
        private static let prober = """
            import os, sys, time
            longest = 0
            while not os.path.exists(sys.argv[1]):
                start = time.monotonic()
                os.statvfs(".")
                longest = max(longest, time.monotonic() - start)
                time.sleep(0.001)
            print(round(longest * 1000))
            """

        private static func prepare(_ account: MountedAccount) throws {
            try account.shell(
                """
                cd $tmp; mkdir tree; cd tree; mkdir d{00..29}
                for d in *; do for f in {00..19}; do echo $d $f > $d/$f; done; done
                tar -cf ../tree.tar *; cd ..
                git init -q repo; cd repo; git config user.name x; git config user.email x@y
                cp -r ../tree .; git add .; git commit -qm one; seq 9999 > big; git add .; git commit -qm two
                printf '%s\\n' "set backup" "edit note" > $tmp/rc
                """
            )
            for (name, text) in [("names.py", names), ("prober.py", prober)] {
                try text.write(toFile: account.scratch.appending(name), atomically: false, encoding: .utf8)
            }
        }

        @Test func `the doctor tells of a keeper that has died`() async throws {
            try await mounted { account in
                let doctor = "$COVE doctor --state $STATE || true"
                let keeper = pid_t(try account.statistics().keeperPID)
                #expect(try account.shell(doctor).contains("process \(keeper)"))
                #expect(kill(keeper, SIGKILL) == 0)
                try waitUntil("the doctor says so") { try account.shell(doctor).contains("the keeper of") }
            }
        }

        @Test func `a hundred kills of the daemon are noticed by no program`() async throws {
            try await mounted { account in
                try Self.prepare(account)
                let jobs = [
                    "exec python3 $tmp/names.py $tmp/stop",
                    """
                    mkdir untar; n=0
                    until [ -e $tmp/stop ]; do
                        n=$((n+1)); mkdir untar/$n; tar -xf $tmp/tree.tar -C untar/$n
                        diff -r untar/$n $tmp/tree; [ $((n%3)) = 0 ] || rm -r untar/$n
                    done
                    """,
                    """
                    n=0
                    until [ -e $tmp/stop ]; do
                        n=$((n+1)); git clone -q --no-hardlinks $tmp/repo clone.$n
                        git -C clone.$n fsck --strict 2>&1; git -C clone.$n status --porcelain
                        diff -r clone.$n/tree $tmp/tree; [ $((n%3)) = 0 ] || rm -rf clone.$n
                    done
                    """,
                    """
                    until [ -e $tmp/stop ]; do
                        fio --name=v --filename=fio.dat --size=16M --rw=randwrite --bs=4k --verify=crc32c --fsync=256 \\
                            --do_verify=1 --verify_fatal=1 --minimal > $tmp/fio.log
                    done
                    """,
                    """
                    n=0; echo 0 > note
                    until [ -e $tmp/stop ]; do
                        n=$((n+1)); vim -nu NONE -i NONE -es -c 'set backup backupdir=.' -c "s/.*/$n/" -c wq note
                        [ "$(cat note)" = $n ]
                    done
                    """,
                ]
                let running = try jobs.map { try account.start($0) }
                let probe = try account.start("exec python3 $tmp/prober.py $tmp/stop")
                for _ in 0..<100 {
                    try account.killDaemon()
                    for job in running + [probe] where job.hasEnded(within: 0) {
                        let result = try job.wait(deadline: 0)
                        throw CommandFailure("exit \(result.status)\n\(result.error)\(result.output)")
                    }
                }
                try account.shell("touch $tmp/stop")
                for job in running {
                    let result = try job.wait(deadline: 100)
                    #expect(result.status == 0, "\(result.error)\(result.output)")
                }
                let stall = try probe.wait(deadline: 30)
                print("a hundred kills: the longest stall was \(stall.output.dropLast()) ms")
                #expect(stall.status == 0 && Int(stall.output.dropLast()) ?? .max < 10_000)
                try account.shell("$COVE sync --accept-local-deletions")
                try account.expectSame(without: ["*~"])
                // Nothing is left of what was on its way, but what is in the trash.
                #expect(try account.shell("cd $src; find . -name '.cove-*' ! -path './.cove-trash*'") == "")
            }
        }

        @Test func `directories that are open stay what they are when they have been removed`() async throws {
            try await mounted(options: "poll=100ms") { source in
                try source.makeDirectory("theirs")
            } _: { account in
                // Both are asked for afresh: the kernel has what it was told before.
                let ask = "stat -L --cached=never -c '%h %a %U' /proc/self/fd/3 /proc/self/fd/4"
                try account.shell("mkfifo $tmp/go")
                let program = try account.start(
                    """
                    ls theirs; exec 3< theirs; mkdir -m 751 own; exec 4< own; rmdir own $src/theirs
                    until [ "$(stat -L -c %h /proc/self/fd/3)" = 0 ]; do sleep 0.05; done
                    \(ask); touch $tmp/ready; read x < $tmp/go; \(ask); ls /proc/self/fd/4/
                    """
                )
                try waitUntil("both are removed") {
                    program.hasEnded(within: 0) || (try? account.shell("test -e $tmp/ready")) != nil
                }
                for _ in 0..<2 { try account.killDaemon() }
                try account.shell("echo > $tmp/go")
                let result = try program.wait(deadline: 60)
                let both = "0 755 root\n0 751 root\n"
                #expect(result.output == both + both, "\(result.error)")
            }
        }

        @Test func `files that are open stay open, with a name or without`() async throws {
            try await mounted { source in
                // More than an open brings: what is deleted while all of it is here keeps its bytes here.
                try source.save("remote", Array(repeating: 0x72, count: 3_000_000))
            } _: { account in
                try account.shell("mkfifo $tmp/go")
                let program = try account.start(
                    """
                    exec python3 -c '
                    import os, mmap
                    f = os.open("lost", os.O_CREAT | os.O_RDWR); os.write(f, b"a" * 100_000); os.unlink("lost")
                    r = os.open("remote", os.O_RDONLY); os.unlink("remote")
                    g = os.open("mapped", os.O_CREAT | os.O_RDWR); os.ftruncate(g, 100_000); m = mmap.mmap(g, 0)
                    m[:50_000] = b"m" * 50_000
                    d = os.open(".", os.O_RDONLY)
                    print("ready", flush=True)
                    open(os.environ["tmp"] + "/go").read()
                    os.write(f, b"b" * 100_000)
                    assert os.pread(f, 300_000, 0) == b"a" * 100_000 + b"b" * 100_000
                    assert os.fstat(f).st_nlink == 0
                    assert os.pread(r, 4_000_000, 0) == b"r" * 3_000_000
                    m[50_000:] = b"n" * 50_000; m.flush()
                    assert os.listdir(d) == ["mapped"], os.listdir(d)
                    '
                    """
                )
                try waitUntil("the files are open") { program.output == "ready\n" || program.hasEnded(within: 0) }
                for _ in 0..<2 { try account.killDaemon() }
                #expect(try account.statistics().openHandles == 3)
                try account.shell("echo > $tmp/go")
                let result = try program.wait(deadline: 60)
                #expect(result.status == 0, "\(result.error)")
                try waitUntil("all handles are closed") { try account.statistics().openHandles == 0 }
                try account.expectSame()
                #expect(try account.shell("tr -d m < mapped | tr -d n | wc -c; ls $src") == "0\nmapped\n")
                // The bytes of what has no name are gone with its last handle.
                try waitUntil("one content file is left") {
                    try account.shell("find $STATE/content -type f | wc -l") == "1\n"
                }
            }
        }

        @Test func `a mount that is used from its first moment on can be taken over`() async throws {
            try await blocking {
                for _ in 0..<5 {
                    let account = try MountedAccount()
                    try account.source.save("a", Array("hi\n".utf8))
                    let users = try (0..<4).map { _ in
                        try account.start("cd /; until [ -e $tmp/stop ]; do stat -f $mnt; ls $mnt; done > $tmp/log.$$")
                    }
                    try account.start()
                    try account.killDaemon()
                    #expect(try account.shell("cat a; touch $tmp/stop") == "hi\n")
                    for user in users { #expect(try user.wait(deadline: 30).status == 0) }
                    let log = try account.shell("cat $STATE/log")
                    #expect(log.split(separator: "\n").count { $0.contains(" mounted at ") } == 1)
                    #expect(!log.contains("flags"))
                    try account.end()
                }
            }
        }

        @Test func `a program that waits for the source goes on waiting, and gets its bytes`() async throws {
            try await mounted(options: "simulate-latency=1s") { source in
                try source.save("a", Array(repeating: 0x61, count: 3_000_000))
            } _: { account in
                let reader = try account.start("exec cmp a $src/a")
                try waitUntil("it waits") { try account.statistics().parkedRequests > 0 }
                try account.killDaemon()
                #expect(try reader.wait(deadline: 60).status == 0)
                let killed = try account.start("exec cat new/name")
                #expect(!killed.hasEnded(within: 0.2))
                try account.killDaemon()
                killed.signal(SIGKILL)
                #expect(killed.hasEnded(within: 5))
            }
        }

        /// One that is sent again is then known to have been carried out.
        @Test func `a call that waited for a listing is noted with its number`() async throws {
            try await mounted(options: "simulate-latency=200ms") { source in
                try source.makeDirectory("d")
            } _: { account in
                try account.shell("$COVE pause; rmdir d")
                let noted = "sqlite3 $STATE/catalog.db 'SELECT request IS NOT NULL FROM changes WHERE kind = 2'"
                #expect(try account.shell(noted) == "1\n")
            }
        }

        @Test func `a daemon that can not start any more is given up, and nothing hangs`() async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.source.save("a", Array("hi\n".utf8))
                try account.start()
                try account.shell("cat a")
                // Its next daemon finds a directory where the catalog was.
                try account.shell("cd $STATE; rm catalog.db*; mkdir catalog.db")
                let statistics = try account.statistics()
                #expect(kill(pid_t(statistics.daemonPID), SIGKILL) == 0)
                // Whoever asked meanwhile hears that the connection was given up, whoever asks later that there is none.
                let lost = try account.start("cd /; cat $mnt/other || true; exec cat $mnt/other").wait(deadline: 30)
                #expect(lost.error.hasSuffix("/other: Transport endpoint is not connected\n"))
                #expect(try account.shell("cd /; tail -n 1 $STATE/log").contains("the mount is given up"))
                try account.shell("cd /; rmdir $STATE/catalog.db; $COVE unmount $mnt")
            }
        }

        @Test func `upgrade replaces the daemon in the middle of a large copy`() async throws {
            try await mounted { account in
                try account.shell("$COVE pause; head -c 2G /dev/zero | tr '\\0' x > $tmp/big; printf y >> $tmp/big")
                let copy = try account.start("exec cp $tmp/big big")
                try waitUntil("a part is there") {
                    try account.shell("find $STATE/content -type f -size +100M") != ""
                }
                try account.shell(
                    """
                    mkdir $tmp/new; cp "$COVE" "$(dirname "$COVE")/cove-keeper" $tmp/new
                    """
                )
                struct Report: Decodable {
                    var program: String
                    var formerPID: Int
                    var daemonPID: Int
                }
                let text = try account.shell("$tmp/new/cove upgrade --state $STATE --json")
                let report = try JSONDecoder().decode(Report.self, from: Data(text.utf8))
                #expect(report.program == account.scratch.appending("new/cove") && report.formerPID != report.daemonPID)
                #expect(try copy.wait(deadline: 120).status == 0)
                try account.shell("cmp big $tmp/big; rm big; $COVE resume")
                // From here on the new program is the one that is started again.
                try account.killDaemon()
                let daemon = try account.statistics().daemonPID
                #expect(try account.shell("readlink /proc/\(daemon)/exe") == "\(account.scratch.path)/new/cove\n")
            }
        }

        @Test func `an upgrade to a program that fails leaves the mount with the former one`() async throws {
            try await mounted { source in
                try source.save("a", Array("hi\n".utf8))
            } _: { account in
                try account.shell("cat a; cp /bin/false $tmp/cove")
                try account.upgrade(to: "$tmp/cove")
                #expect(try account.shell("cat a; ls; stat -c %s a; echo more > new; cat new") == "hi\na\n3\nmore\n")
                let log = try account.shell("cat $STATE/log")
                #expect(log.contains("keeper: the new program does not serve: back to the former one"))
            }
        }
    }
}
