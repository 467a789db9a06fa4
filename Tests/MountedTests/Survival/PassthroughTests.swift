import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Files that the kernel reads and writes by itself.
    struct PassthroughTests {
        private static let options = "passthrough,settle=100ms"

        /// Prints one byte of the file `a`.
        private func byte(_ offset: Int) -> String { "dd if=a bs=1 skip=\(offset) count=1 status=none; " }

        private func expectOn(_ account: MountedAccount) throws {
            let log = try account.shell("cat $STATE/log")
            #expect(!log.contains("passthrough is off"), "\(log)")
        }

        /// `cove doctor` says so of a mount whose kernel does what it is to do.
        @Test func `bytes that are here pass by the daemon`() async throws {
            try await mounted(options: Self.options) { source in
                try source.save("a", Array(repeating: 0x61, count: 32 << 20))
            } _: { account in
                try account.shell("$COVE download --wait a")
                let before = try account.statistics()
                try account.shell("cmp a $src/a; dd if=/dev/zero of=a bs=4k count=4096 conv=notrunc status=none")
                let after = try account.statistics()
                #expect(after.fuseRequests - before.fuseRequests < 100)
                #expect(after.readHits == before.readHits)
                #expect(try account.cove("doctor --state $STATE || true").contains("the kernel reads and writes"))
                try account.expectSame()
                try expectOn(account)
            }
        }

        @Test func `a file stays in the mode of its first open until its last handle is closed`() async throws {
            try await mounted(options: Self.options) { source in
                for name in ["a", "b"] { try source.save(name, Array(repeating: 0x61, count: 300_000)) }
            } _: { account in
                try account.shell(
                    """
                    exec python3 -c '
                    import os, mmap
                    first = os.open("a", os.O_RDONLY)                     # without bytes
                    assert os.pread(first, 10, 100_000) == b"a" * 10
                    for mode in (os.O_RDWR, os.O_RDONLY, os.O_WRONLY | os.O_APPEND):
                        assert os.pread(first, 400_000, 0).startswith(b"a" * 300_000)
                        second = os.open("a", mode)
                        if mode == os.O_RDWR: os.pwrite(second, b"x", 300_000)
                        if mode & os.O_APPEND: os.write(second, b"y")
                        os.close(second)
                    assert os.pread(first, 10, 299_999) == b"axy"
                    m = mmap.mmap(first, 0, prot=mmap.PROT_READ)
                    os.close(first)
                    os.truncate("a", 100)                                 # mapped still
                    cut = os.open("a", os.O_WRONLY | os.O_TRUNC); os.write(cut, b"cut"); os.close(cut)
                    assert open("a").read() == "cut"
                    del m
                    cut = os.open("a", os.O_RDWR); os.write(cut, b"CUT"); os.close(cut)
                    new = os.open("b", os.O_RDWR | os.O_TRUNC)            # without bytes, and whole at once
                    os.write(new, b"new")
                    old = os.open("b", os.O_RDONLY)
                    assert os.pread(old, 9, 0) == b"new"
                    made = os.open("c", os.O_RDWR | os.O_CREAT); again = os.open("c", os.O_RDONLY)
                    os.write(made, b"made"); assert os.pread(again, 9, 0) == b"made"
                    made = os.open("d", os.O_RDONLY | os.O_CREAT); again = os.open("d", os.O_WRONLY)
                    os.write(again, b"made"); assert os.pread(made, 9, 0) == b"made"
                    '
                    """
                )
                try account.expectSame()
                #expect(try account.shell("cat $src/a $src/b $src/c $src/d") == "CUTnewmademade")
                try expectOn(account)
            }
        }

        @Test func `size and dates are those of what the kernel wrote`() async throws {
            try await mounted(options: Self.options) { source in
                try source.save("a", Array(repeating: 0x61, count: 100_000))
            } _: { account in
                try account.shell(
                    """
                    cat a > /dev/null
                    exec python3 -c '
                    import os, mmap, time
                    f = os.open("a", os.O_RDWR)
                    def moved(change):
                        before = os.stat("a").st_mtime_ns
                        while time.time_ns() - before < 20_000_000: pass
                        change()
                        after = os.stat("a").st_mtime_ns
                        assert before < after <= time.time_ns(), (before, after)
                    moved(lambda: os.pwrite(f, b"x", 5))
                    moved(lambda: os.pwrite(f, b"x", 150_000)); assert os.stat("a").st_size == 150_001
                    moved(lambda: os.ftruncate(f, 70_000)); assert os.stat("a").st_size == 70_000
                    os.pwrite(f, b"x" * 10, 80_000); os.ftruncate(f, 70_000); assert os.fstat(f).st_size == 70_000
                    moved(lambda: os.posix_fallocate(f, 0, 90_000)); assert os.stat("a").st_size == 90_000
                    m = mmap.mmap(f, 4096)
                    def write(): m[0] = 66
                    moved(write)
                    b = os.open("b", os.O_CREAT | os.O_RDWR)
                    assert os.copy_file_range(f, b, 90_000, 0, 0) == 90_000 and os.stat("b").st_size == 90_000
                    os.pwrite(b, b"last", 89_998); os.utime(b, ns=(5, 1_000_000_007)); os.close(b)
                    assert os.stat("b").st_mtime_ns == 1_000_000_007 and os.stat("b").st_size == 90_002
                    assert os.stat("a").st_blocks >= 90_000 // 512
                    '
                    """
                )
                try account.expectSame()
                #expect(try account.shell("stat -c '%s %.9Y' b $src/b") == "90002 1.000000007\n90002 1.000000007\n")
                // What it held before is here too, as a version.
                #expect(try account.statistics().residentBytes == 280_002)
                try account.shell("$COVE versions rm a --all")
                #expect(try account.statistics().residentBytes == 180_002)
            }
        }

        @Test func `a mapping that outlives its handle writes on, and all of it arrives`() async throws {
            try await mounted(options: Self.options) { source in
                try source.save("a", Array(repeating: 0x61, count: 100_000))
            } _: { account in
                try account.shell("cat a > /dev/null; mkfifo $tmp/go")
                let program = try account.start(
                    """
                    exec python3 -c '
                    import os, mmap
                    f = os.open("a", os.O_RDWR); m = mmap.mmap(f, 0); os.close(f); m[0] = 66
                    print("mapped", flush=True); open(os.environ["tmp"] + "/go").read()
                    m[50_000] = 67
                    print("written", flush=True); open(os.environ["tmp"] + "/go").read()
                    m[90_000] = 68
                    '
                    """
                )
                try waitUntil("it is mapped") { program.output == "mapped\n" || program.hasEnded(within: 0) }
                try account.shell("! $COVE evict a 2> $tmp/refusal; grep -q 'has it open' $tmp/refusal")
                try account.shell("echo > $tmp/go")
                try waitUntil("it is written") { program.output.hasSuffix("written\n") || program.hasEnded(within: 0) }
                // Another daemon follows it on.
                try account.killDaemon()
                #expect(try account.shell(byte(0) + byte(50_000)) == "BC")
                try account.shell("! $COVE evict a; echo > $tmp/go")
                #expect(try program.wait(deadline: 30).status == 0)
                try waitUntil("it is counted out") { try account.statistics().openHandles == 0 }
                try account.expectSame()
                #expect(try account.shell("$COVE evict a; cmp a $src/a; " + byte(90_000)) == "D")
            }
        }

        @Test func `a remote change does not take what an open file gets written`() async throws {
            try await mounted(options: Self.options) { source in
                try source.save("a", Array("old bytes".utf8))
            } _: { account in
                try account.shell("cat a; mkfifo $tmp/go")
                let program = try account.start(
                    """
                    exec python3 -c '
                    import os
                    f = os.open("a", os.O_RDWR); print("open", flush=True); open(os.environ["tmp"] + "/go").read()
                    assert os.pread(f, 99, 0) == b"old bytes"; os.pwrite(f, b"mine", 0)
                    assert os.pread(f, 99, 0) == b"minebytes"
                    '
                    """
                )
                try waitUntil("it is open") { program.output == "open\n" || program.hasEnded(within: 0) }
                try account.shell("echo theirs > $src/.new; mv $src/.new $src/a")
                try waitUntil("it has changed") { try account.shell("cat a") == "theirs\n" }
                try account.shell("echo > $tmp/go")
                let result = try program.wait(deadline: 30)
                #expect(result.status == 0, "\(result.error)")
                try account.expectSame()
                #expect(try account.shell("cat a; cat a\\ \\(conflict*") == "theirs\nmineb" + "ytes")
            }
        }

        @Test func `programs work`() async throws {
            try await mounted(options: "passthrough") { account in
                try account.shell(
                    """
                    git init -q r; cd r; git config user.name x; git config user.email x@y
                    for n in {1..30}; do echo $n > $n; git add .; git commit -qm $n; done
                    git gc -q; git fsck --strict; cd ..; git clone -q r clone; git -C clone fsck
                    for mode in wal delete truncate; do
                        sqlite3 $mode.db "PRAGMA journal_mode=$mode" 'CREATE TABLE t(x)' > /dev/null
                        for n in {1..20}; do sqlite3 $mode.db 'INSERT INTO t VALUES(randomblob(3000))'; done
                        [ "$(sqlite3 $mode.db 'SELECT count(*) FROM t; PRAGMA integrity_check')" = $'20\\nok' ]
                    done
                    seq 99 > doc
                    for n in 1 2 3; do vim -N -u NONE -i NONE -es -c "normal Goline $n" -c wq doc; done
                    [ $(wc -l < doc) = 102 ]
                    for engine in psync mmap; do
                        fio --name=$engine --filename=$engine.dat --size=16M --rw=randwrite --bs=4k --verify=crc32c \\
                            --do_verify=1 --verify_fatal=1 --ioengine=$engine --minimal > $tmp/log
                    done
                    """,
                    deadline: 120
                )
                try account.shell("$COVE sync --accept-local-deletions")
                try account.expectSame()
                try expectOn(account)
            }
        }

        @Test func `kills of the daemon are noticed by no program`() async throws {
            try await mounted(options: "passthrough") { account in
                let jobs = [
                    """
                    until [ -e $tmp/stop ]; do
                        fio --name=v --filename=fio.dat --size=16M --rw=randwrite --bs=4k --verify=crc32c --fsync=256 \\
                            --do_verify=1 --verify_fatal=1 --minimal > $tmp/fio.log
                    done
                    """,
                    """
                    n=0
                    until [ -e $tmp/stop ]; do
                        n=$((n+1)); seq $n 9999 > new.$n; cp -p new.$n copy.$n; cmp copy.$n new.$n
                        [ "$(stat -c %y copy.$n)" = "$(stat -c %y new.$n)" ]; echo more >> copy.$n; rm copy.$n
                        [ $((n%5)) = 0 ] || rm new.$n
                    done
                    """,
                    """
                    sqlite3 db 'CREATE TABLE t(x)'; n=0
                    until [ -e $tmp/stop ]; do n=$((n+1)); sqlite3 db 'INSERT INTO t VALUES(randomblob(3000))'; done
                    [ "$(sqlite3 db 'SELECT count(*) FROM t; PRAGMA integrity_check')" = $n$'\\nok' ]
                    """,
                ]
                let running = try jobs.map { try account.start($0) }
                for _ in 0..<30 {
                    try account.killDaemon()
                    for job in running where job.hasEnded(within: 0) {
                        let result = try job.wait(deadline: 0)
                        throw CommandFailure("exit \(result.status)\n\(result.error)\(result.output)")
                    }
                }
                try account.shell("touch $tmp/stop")
                for job in running {
                    let result = try job.wait(deadline: 60)
                    #expect(result.status == 0, "\(result.error)\(result.output)")
                }
                try account.shell("$COVE sync --accept-local-deletions")
                try account.expectSame()
                try expectOn(account)
            }
        }

        @Test func `what was written when everything was killed is there and is sent`() async throws {
            try await blocking {
                let account = try MountedAccount(options: Self.options)
                for name in ["a", "b"] { try account.source.save(name, Array(repeating: 0x61, count: 100_000)) }
                try account.start()
                let inode = try account.shell("cat a b > /dev/null; mkfifo $tmp/go; stat -c %i $src/b")
                // It goes on to write into what it has open while nothing is mounted, and after.
                let program = try account.start(
                    """
                    exec python3 -c '
                    import os
                    f = os.open("a", os.O_RDWR); os.pwrite(f, b"first", 0)
                    g = os.open("new", os.O_RDWR | os.O_CREAT); os.write(g, b"first")
                    b = os.open("b", os.O_RDWR)
                    print("written", flush=True); open(os.environ["tmp"] + "/go").read()
                    os.pwrite(f, b"second", 50_000); os.write(g, b"second")
                    print("again", flush=True); open(os.environ["tmp"] + "/go").read()
                    '
                    """
                )
                try waitUntil("it is written") { program.output == "written\n" || program.hasEnded(within: 0) }
                try account.crash()
                try account.start()
                #expect(try account.shell("head -c 6 a; cat new; [ $(stat -c %s a) = 100000 ]") == "firstafirst")
                try account.shell("echo > $tmp/go")
                try waitUntil("it is written again") {
                    program.output.hasSuffix("again\n") || program.hasEnded(within: 0)
                }
                try account.shell("echo > $tmp/go")
                #expect(try program.wait(deadline: 30).status == 0)
                try waitUntil("all is counted out") { try account.statistics().openHandles == 0 }
                try account.expectSame()
                let bytes = "cat $src/new; dd if=$src/a bs=1 skip=50000 count=6 status=none"
                #expect(try account.shell(bytes) == "firstsecondsecond")
                // What was open and not written to was not sent.
                #expect(try account.shell("stat -c %i $src/b") == inode)
                try account.end()
            }
        }

        @Test func `where the content files lie upon another file system, all works in the normal way`() async throws {
            try await blocking {
                let account = try MountedAccount(options: Self.options)
                try account.source.save("a", Array("hi\n".utf8))
                let disk = try LoopDisk(in: account.scratch.path, megabytes: 64)
                try account.shell(
                    """
                    cd $tmp/disk; mkdir lower upper work; mkdir -p $STATE
                    mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work cove-test $STATE
                    """
                )
                defer { _ = try? Command.run("umount", ["-l", account.scratch.appending("state")], mayFail: true) }
                try account.start()
                try account.shell("cat a; echo more >> a; cat a; cat a | cmp - a")
                #expect(try account.shell("cat $STATE/log").contains("passthrough is off: "))
                #expect(try account.cove("doctor --state $STATE || true").contains("it is off: "))
                try account.expectSame()
                try account.end()
                withExtendedLifetime(disk) {}
            }
        }
    }
}
