import CoveCore
import CoveTestSupport
import Testing

extension Mounted {
    /// Files of `O_TMPFILE`, which get a name when they are whole, or none.
    struct UnnamedFileTests {
        /// Each way of using one that differs, printed as `PosixTests` does.
        private static let calls = """
            os.mkdir("dir"); os.chmod("dir", 0o2777); os.chown("dir", 0, 1234)
            def made(flags=os.O_RDWR, mode=0o666, place="dir"): return os.open(place, os.O_TMPFILE | flags, mode)
            def link(file, name, at=0x400):
                path = b"" if at == 0x1000 else b"/proc/self/fd/%d" % file
                if libc.linkat(file if at == 0x1000 else -100, path, -100, name.encode(), at):
                    raise OSError(ctypes.get_errno(), "")
                return read(name)
            def facts(file):
                status = os.fstat(file)
                return (oct(status.st_mode), status.st_nlink, status.st_size, status.st_uid, status.st_gid)
            before = os.stat("dir").st_mtime_ns
            file = made()
            print("new", facts(file), os.listdir("dir"), os.stat("dir").st_mtime_ns == before, os.stat("dir").st_nlink)
            print("write", os.write(file, b"some text"), os.pread(file, 99, 0), facts(file))
            os.ftruncate(file, 4); print("cut", os.pread(file, 99, 0), facts(file))
            os.setxattr(file, "user.a", b"b"); print("attribute", os.getxattr(file, "user.a"), os.listxattr(file))
            os.fchmod(file, 0o640); os.utime(file, (1, 2)); print("set", facts(file), os.fstat(file).st_mtime)
            os.fchown(file, 7, 8); print("owner", facts(file)); os.fchown(file, 0, 0)
            os.posix_fallocate(file, 0, 9000); print("allocated", facts(file))
            with mmap.mmap(file, 9000) as pages: pages[4:8] = b" abc"; pages.flush()
            os.ftruncate(file, 8); print("mapped", os.pread(file, 99, 0))
            number = os.fstat(file).st_ino; os.fsync(file)
            write("taken")
            tell("taken", lambda: link(file, "taken")); tell("missing", lambda: link(file, "none/x"))
            tell("link", lambda: link(file, "dir/name"))
            print("linked", facts(file), os.stat("dir/name").st_ino == number, os.getxattr("dir/name", "user.a"))
            print("moved on", os.stat("dir").st_mtime_ns > before, os.listdir("dir"))
            os.pwrite(file, b"more", 0); print("by the same file", read("dir/name"))
            tell("second", lambda: link(file, "dir/second")); print("two", facts(file))
            os.rename("dir/name", "taken"); print("renamed", read("taken"), sorted(os.listdir("dir")))
            os.unlink("taken"); os.unlink("dir/second"); print("gone", facts(file), os.pread(file, 99, 0))
            tell("too late", lambda: link(file, "dir/name")); os.close(file)
            file = made(os.O_WRONLY | os.O_EXCL); os.write(file, b"x")
            tell("exclusive", lambda: link(file, "dir/name")); os.close(file)
            file = made(); os.write(file, b"by number"); tell("empty path", lambda: link(file, "dir/empty", at=0x1000))
            os.close(file); print("closed", read("dir/empty"))
            file = made(os.O_WRONLY | os.O_APPEND); os.write(file, b"a"); os.lseek(file, 0, 0); os.write(file, b"b")
            tell("appended", lambda: link(file, "dir/appended")); os.close(file)
            tell("read only", lambda: made(os.O_RDONLY)); tell("on a file", lambda: made(place="dir/empty"))
            tell("nowhere", lambda: made(place="none/x"))
            file = made(mode=0); print("mode", facts(file)); tell("nobody's", lambda: link(file, "dir/closed")); os.close(file)
            folder = os.open("dir", os.O_DIRECTORY); os.mkdir("left"); left = os.open("left", os.O_DIRECTORY); os.rmdir("left")
            # Nothing can be named there. ext4 says EPERM, others ENOENT as to every other call.
            try: made(place="/proc/self/fd/%d" % left)
            except OSError as error: print("in a removed folder:", error.errno in (errno.EPERM, errno.ENOENT))
            os.mkdir("brief"); file = made(place="brief"); os.rmdir("brief"); os.write(file, b"folder is gone")
            tell("made in a removed folder", lambda: link(file, "dir/rescued")); os.close(file)
            many = [made() for _ in range(200)]
            for n, file in enumerate(many): os.write(file, b"%d" % n)
            os.mkdir("many")
            for n, file in enumerate(many):
                if n % 2: link(file, "many/%d" % n)
            for file in many: os.close(file)
            print("many", sorted((name, read("many/" + name)) for name in os.listdir("many")))
            child = made()
            if os.fork() == 0:
                os.write(child, b"a child's"); os._exit(0)
            os.wait(); tell("by another process", lambda: link(child, "dir/child")); os.close(child)
            os.mkdir("shut"); os.chmod("shut", 0o755)
            as_nobody(lambda: (tell("not allowed", lambda: made(place="shut")), tell("allowed", lambda: facts(made()))))
            subprocess.run(["setfacl", "-d", "-m", "u:7:rw", "dir"]); file = made()
            print("inherited", facts(file), subprocess.run(
                ["getfacl", "-cnp", "/proc/self/fd/%d" % file], pass_fds=[file], capture_output=True).stdout)
            print("at the end", sorted(os.listdir("dir")))
            """

        @Test(arguments: ["allow_other", "allow_other,passthrough"])
        func `they are what they are on a disk`(options: String) async throws {
            try await PosixTests().compare(Self.calls, options: options)
        }

        /// Makes many, gives each third its name and each third two, and says so in between.
        private static let program = """
            import ctypes, os, sys
            libc = ctypes.CDLL(None, use_errno=True)
            n = 0
            while not os.path.exists(sys.argv[1]):
                n += 1
                file = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o644)
                text = b"%d " % n * (n % 4000)
                assert os.write(file, text) == len(text)
                os.fsync(file)
                assert os.fstat(file).st_nlink == 0
                for name in ["a%d" % n, "b%d" % n][: n % 3]:
                    assert libc.linkat(-100, b"/proc/self/fd/%d" % file, -100, name.encode(), 0x400) == 0, ctypes.get_errno()
                    assert os.stat(name).st_ino == os.fstat(file).st_ino
                assert os.fstat(file).st_nlink == n % 3
                assert os.pread(file, len(text) + 1, 0) == text
                os.close(file)
                for name in ["a%d" % n, "b%d" % n][: n % 3]: assert open(name, "rb").read() == text
            print(n)
            """

        @Test(arguments: ["", "passthrough"])
        func `programs with such files go on when the daemon dies, and the cloud has what got a name`(
            options: String
        ) async throws {
            try await mounted(options: options) { account in
                try account.shell("cat > $tmp/program.py <<'END'\n\(Self.program)\nEND")
                let program = try account.start("exec python3 $tmp/program.py $tmp/stop")
                for round in 1...15 {
                    let made = (try? account.shell("ls | wc -l")) ?? ""
                    try waitUntil("round \(round) goes on") {
                        if program.hasEnded(within: 0) { throw CommandFailure("\(try program.wait(deadline: 1))") }
                        return try account.shell("ls | wc -l") != made
                    }
                    try account.killDaemon()
                }
                try account.shell("touch $tmp/stop")
                let result = try program.wait(deadline: 60)
                #expect(result.status == 0, "\(result)")
                try account.settle()
                try account.expectSame()
                let count = try #require(Int(try account.shell("ls | wc -l").dropLast()))
                #expect(count >= 15)
                // Nothing is left of those that got no name, neither a row nor bytes.
                let files = "$(stat -c %i * | sort -u | wc -l)"
                try waitUntil("nothing is left") {
                    try account.shell(
                        """
                        sqlite3 $STATE/catalog.db 'SELECT count(*) FROM unnamed' 'SELECT count(*) FROM items WHERE nlink = 0'
                        echo $(($(find $STATE/content -type f | wc -l) - \(files)))
                        """
                    ) == "0\n0\n0\n"
                }
            }
        }
    }
}
