import CoveTestSupport
import Testing

extension Mounted {
    /// What system calls say and do is what they say and do on the file system below.
    ///
    /// Each script runs in a native directory and in the mount and prints what it finds; both have to print the same.
    struct PosixTests {
        /// What each script begins with.
        private static let prelude = """
            import ctypes, errno, fcntl, mmap, os, socket, stat, subprocess, sys, time
            libc = ctypes.CDLL(None, use_errno=True)
            def tell(what, body):
                try: result = body()
                except OSError as error: result = errno.errorcode[error.errno]
                print(what + ":", result)
            def write(path, text="x", flags=os.O_CREAT | os.O_WRONLY | os.O_TRUNC):
                file = os.open(path, flags, 0o666)
                try: return os.write(file, text.encode())
                finally: os.close(file)
            def read(path): return open(path).read()
            def rename2(old, new, flags):
                if libc.renameat2(-100, old.encode(), -100, new.encode(), flags): raise OSError(ctypes.get_errno(), "")
            def as_nobody(body):
                sys.stdout.flush()
                child = os.fork()
                if child == 0:
                    os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
                    body(); sys.stdout.flush(); os._exit(0)
                assert os.waitpid(child, 0)[1] == 0
            os.umask(0o022)

            """

        func compare(_ script: String, options: String = "allow_other") async throws {
            try await mounted(options: options) { account in
                try account.shell("cat > $tmp/script <<'END'\n\(Self.prelude)\(script)\nEND\nmkdir $tmp/native")
                let native = try account.shell("cd $tmp/native; python3 $tmp/script")
                let ours = try account.shell("python3 $tmp/script")
                #expect(native.split(separator: "\n").count > 5)
                #expect(ours == native)
                try account.expectSame(without: ["fifo", "socket"])
            }
        }

        @Test func `names and errors`() async throws {
            try await compare(
                """
                write("file"); os.mkdir("dir"); os.mkdir("full"); write("full/x"); os.symlink("none", "dangling")
                os.symlink("loop", "loop")
                tell("exclusive", lambda: write("file", flags=os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                tell("exclusive, dangling", lambda: write("dangling", flags=os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                tell("through dangling", lambda: (write("dangling"), os.path.exists("none")))
                tell("long", lambda: write("n" * 256)); tell("longest", lambda: write("n" * 255))
                tell("long directory", lambda: os.mkdir("n" * 256))
                tell("long path", lambda: write("dir/" * 1100 + "x"))
                tell("long link", lambda: os.symlink("t" * 4096, "l"))
                tell("symlink", lambda: os.symlink("t" * 4000, "l"))
                tell("its size", lambda: (os.lstat("l").st_size, len(os.readlink("l"))))
                tell("loop", lambda: os.stat("loop"))
                tell("loop, nofollow", lambda: write("loop", flags=os.O_NOFOLLOW))
                tell("missing", lambda: os.stat("nothing")); tell("below a file", lambda: os.stat("file/x"))
                tell("slash", lambda: os.stat("file/")); tell("mkdir", lambda: os.mkdir("dir"))
                tell("rmdir full", lambda: os.rmdir("full")); tell("rmdir file", lambda: os.rmdir("file"))
                tell("rmdir dot", lambda: os.rmdir("dir/.")); tell("unlink directory", lambda: os.unlink("dir"))
                tell("file on dir", lambda: os.rename("file", "dir"))
                tell("dir on file", lambda: os.rename("dir", "file"))
                tell("dir on full", lambda: os.rename("dir", "full"))
                tell("into itself", lambda: os.rename("dir", "dir/a"))
                os.mkdir("empty"); tell("dir on empty", lambda: os.rename("full", "empty"))
                tell("moved", lambda: os.listdir("empty"))
                tell("write directory", lambda: write("dir", flags=os.O_WRONLY))
                tell("readlink", lambda: os.readlink("file"))
                tell("link directory", lambda: os.link("dir", "hard"))
                tell("link onto", lambda: os.link("file", "none"))
                tell("O_DIRECTORY", lambda: os.open("file", os.O_DIRECTORY))
                tell("truncate", lambda: os.truncate("dir", 0))
                tell("negative", lambda: os.truncate("file", -1)); tell("bytes", lambda: os.mkdir(b"\\xff\\xfe"))
                tell("odd names", lambda: [write(n) for n in ["a\\nb", "*", "-rf", " ", "é", "e\\u0301", "A", "a"]])
                tell("names", lambda: sorted(os.listdir(b".")))
                """
            )
        }

        @Test func `renames with flags, onto links and of directories`() async throws {
            try await compare(
                """
                write("a", "a"); write("b", "b"); os.mkdir("d"); write("d/c", "c")
                tell("noreplace", lambda: rename2("a", "b", 1)); tell("noreplace, free", lambda: rename2("a", "n", 1))
                tell("exchange", lambda: rename2("n", "b", 2)); tell("exchanged", lambda: read("n") + read("b"))
                tell("exchange, missing", lambda: rename2("n", "q", 2)); tell("both", lambda: rename2("n", "b", 3))
                tell("exchange with directory", lambda: rename2("n", "d", 2))
                tell("now", lambda: (os.listdir("n"), read("d")))
                tell("exchange with its child", lambda: rename2("n", "n/c", 2))
                os.link("b", "hard"); tell("same file", lambda: os.rename("b", "hard"))
                tell("both are there", lambda: sorted(os.listdir(".")))
                before = os.stat("b"); os.rename("b", "n/b"); after = os.stat("n/b")
                tell("identity", lambda: (before.st_ino == after.st_ino, after.st_nlink))
                tell("time", lambda: before.st_mtime_ns == after.st_mtime_ns)
                os.mkdir("p"); os.mkdir("q"); os.mkdir("p/s")
                tell("links", lambda: [os.stat(n).st_nlink for n in ("p", "q")]); os.rename("p/s", "q/s")
                tell("links then", lambda: [os.stat(n).st_nlink for n in ("p", "q", "q/s")])
                os.chdir("q/s"); os.rename("../../q", "../../r")
                tell("where", lambda: os.path.basename(os.path.dirname(os.getcwd())))
                """
            )
        }

        @Test func `links, and files without a name`() async throws {
            try await compare(
                """
                write("a", "text"); os.link("a", "b"); os.symlink("a", "s"); os.link("s", "s2", follow_symlinks=False)
                tell("links", lambda: [os.lstat(n).st_nlink for n in ("a", "b", "s", "s2")])
                tell("one file", lambda: os.stat("a").st_ino == os.stat("b").st_ino)
                write("b", "more", os.O_WRONLY | os.O_APPEND); tell("seen through the other", lambda: read("a"))
                os.chmod("b", 0o640); tell("mode", lambda: oct(os.stat("a").st_mode))
                file = os.open("a", os.O_RDWR); os.unlink("a"); tell("links left", lambda: os.fstat(file).st_nlink)
                os.unlink("b")
                tell("none left", lambda: os.fstat(file).st_nlink); tell("reads", lambda: os.pread(file, 99, 0))
                tell("writes", lambda: os.pwrite(file, b"later", 100_000)); tell("size", lambda: os.fstat(file).st_size)
                tell("truncates", lambda: (os.ftruncate(file, 4), os.pread(file, 99, 0)))
                tell("mode and time", lambda: (os.fchmod(file, 0o400), os.utime(file, (1, 2)), os.fstat(file).st_mtime))
                tell("name is free", lambda: write("a", "new", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                tell("old", lambda: os.pread(file, 99, 0))
                m = mmap.mmap(file, 4); os.close(file); m[0:1] = b"M"; tell("mapping", lambda: bytes(m[:])); m.close()
                os.mkdir("d"); d = os.open("d", os.O_RDONLY); listing = os.scandir("d"); os.rmdir("d")
                tell("create in removed", lambda: os.open("x", os.O_CREAT, dir_fd=d))
                tell("list removed", lambda: list(listing)); os.close(d)
                os.mkfifo("fifo"); tell("fifo", lambda: stat.S_ISFIFO(os.stat("fifo").st_mode))
                s = socket.socket(socket.AF_UNIX); s.bind("socket")
                tell("socket", lambda: stat.S_ISSOCK(os.stat("socket").st_mode))
                tell("names", lambda: sorted(os.listdir(".")))
                """
            )
        }

        @Test func `which times change`() async throws {
            try await compare(
                """
                def changed(what, paths, body):
                    for path in paths: os.utime(path, ns=(10**18, 10**18), follow_symlinks=False)
                    before = [os.lstat(path) for path in paths]
                    start = time.clock_gettime_ns(time.CLOCK_REALTIME)
                    while time.clock_gettime_ns(time.CLOCK_REALTIME) < start + 20_000_000: pass
                    body()
                    after = [os.lstat(path) for path in paths]
                    both = zip(after, before)
                    print(what + ":", [(a.st_mtime_ns > b.st_mtime_ns, a.st_ctime_ns > b.st_ctime_ns) for a, b in both])
                write("f"); os.mkdir("d"); os.mkdir("e"); os.symlink("f", "s"); write("g")
                changed("create", ["."], lambda: write("new")); changed("unlink", ["."], lambda: os.unlink("new"))
                changed("mkdir", [".", "d"], lambda: os.mkdir("d/n"))
                changed("rmdir", [".", "d"], lambda: os.rmdir("d/n"))
                changed("write", [".", "f"], lambda: write("f", "y", os.O_WRONLY))
                changed("read", [".", "f"], lambda: read("f"))
                changed("truncate", ["f"], lambda: os.truncate("f", 5))
                changed("open with truncation", ["f"], lambda: write("f", ""))
                changed("chmod", [".", "f"], lambda: os.chmod("f", 0o600))
                changed("chown", ["f"], lambda: os.chown("f", 1, 1))
                changed("link", ["f", "d", "."], lambda: os.link("f", "d/h"))
                changed("unlink one", ["f", "d", "."], lambda: os.unlink("d/h"))
                changed("rename directory", ["d", "."], lambda: (os.rename("d", "r"), os.rename("r", "d")))
                changed("symlink", ["d"], lambda: os.symlink("x", "d/s"))
                changed("xattr", ["f", "."], lambda: os.setxattr("f", "user.a", b"b"))
                changed("rename over", ["f", "."], lambda: (os.rename("g", "f"), write("g")))
                def mapped():
                    file = os.open("g", os.O_RDWR); m = mmap.mmap(file, 1); m[0] = 65; m.flush(); m.close()
                    os.close(file)
                changed("mapping", ["g"], mapped)
                os.utime("g", ns=(123_456_789_012_345_678, 223_456_789_012_345_678))
                tell("exact", lambda: (os.stat("g").st_atime_ns, os.stat("g").st_mtime_ns))
                os.utime("s", ns=(5, 6), follow_symlinks=False)
                tell("of a link", lambda: (os.lstat("s").st_mtime_ns, os.stat("s").st_mtime_ns > 6))
                os.utime("g", ns=(0, -5_000_000_000)); tell("before 1970", lambda: os.stat("g").st_mtime_ns)
                def kept():
                    file = os.open("g", os.O_WRONLY); os.write(file, b"long"); os.utime(file, (7, 8)); os.close(file)
                    return os.stat("g").st_mtime
                tell("set while open", kept)
                """
            )
        }

        @Test func `permissions, as another user meets them`() async throws {
            try await compare(
                """
                write("secret"); os.chmod("secret", 0o600); write("public"); os.mkdir("closed", 0o700)
                write("closed/x")
                os.mkdir("sticky"); os.chmod("sticky", 0o1777); write("sticky/root"); os.mkdir("open")
                os.chmod("open", 0o777)
                os.mkdir("group"); os.chown("group", 0, 65534); os.chmod("group", 0o2775); write("tool")
                os.chmod("tool", 0o6755)
                os.mkdir("execute"); write("execute/x"); os.chmod("execute", 0o711); os.mkdir("list"); write("list/x")
                os.chmod("list", 0o744)
                write("shared"); os.chmod("shared", 0o666); write("open/roots")
                def nobody():
                    tell("read secret", lambda: read("secret")); tell("read public", lambda: read("public"))
                    tell("write public", lambda: write("public"))
                    tell("append shared", lambda: write("shared", "y", os.O_WRONLY | os.O_APPEND))
                    tell("into closed", lambda: os.stat("closed/x")); tell("list closed", lambda: os.listdir("closed"))
                    tell("known name", lambda: os.stat("execute/x").st_size)
                    tell("list it", lambda: os.listdir("execute"))
                    tell("list only", lambda: os.listdir("list")); tell("stat in it", lambda: os.stat("list/x"))
                    tell("create", lambda: write("mine")); tell("mkdir", lambda: os.mkdir("m"))
                    tell("unlink", lambda: os.unlink("public"))
                    tell("own", lambda: write("sticky/own")); tell("unlink another's", lambda: os.unlink("sticky/root"))
                    tell("rename another's", lambda: os.rename("sticky/root", "sticky/z"))
                    tell("over it", lambda: os.rename("sticky/own", "sticky/root"))
                    tell("unlink own", lambda: os.unlink("sticky/own"))
                    tell("unlink in open", lambda: os.unlink("open/roots"))
                    tell("chmod", lambda: os.chmod("public", 0o777))
                    tell("chown", lambda: os.chown("public", 65534, 65534))
                    tell("times", lambda: os.utime("shared", (1, 1))); tell("times now", lambda: os.utime("shared"))
                    tell("not now", lambda: os.utime("public"))
                    write("open/own")
                    tell("own mode", lambda: (os.chmod("open/own", 0o4755), oct(os.stat("open/own").st_mode)))
                    tell("give away", lambda: os.chown("open/own", 0, 0))
                    tell("truncate", lambda: os.truncate("public", 0))
                    tell("access", lambda: [os.access(n, m) for n in ("secret", "public", "tool") for m in (4, 2, 1)])
                    tell("xattr", lambda: os.setxattr("public", "user.a", b"b"))
                    tell("trusted", lambda: os.setxattr("shared", "trusted.a", b"b"))
                    write("group/n"); os.mkdir("group/d")
                    made = [os.stat(n) for n in ("group/n", "group/d")]
                    tell("inherits", lambda: [(s.st_gid, oct(s.st_mode)) for s in made])
                as_nobody(nobody)
                os.chmod("tool", 0o6777); as_nobody(lambda: write("tool", "changed", os.O_WRONLY))
                tell("privileges", lambda: oct(os.stat("tool").st_mode))
                os.chmod("tool", 0o6755); os.chown("tool", 1, 1)
                tell("after chown", lambda: oct(os.stat("tool").st_mode))
                tell("owners", lambda: [(n, os.stat(n).st_uid) for n in ("open/own", "shared", "tool")])
                """
            )
        }

        @Test func `reading, writing, growing and locking`() async throws {
            try await compare(
                """
                def appenders(count):
                    children = []
                    for n in range(2):
                        child = os.fork()
                        if child == 0:
                            file = os.open("log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
                            for _ in range(count): os.write(file, (str(n) * 99 + "\\n").encode())
                            os._exit(0)
                        children.append(child)
                    return [os.waitpid(child, 0)[1] for child in children]
                tell("appenders", lambda: appenders(2000)); lines = read("log").split("\\n")[:-1]
                tell("lines", lambda: (len(lines), set(map(len, lines)), sorted(map(lines.count, set(lines)))))
                file = os.open("f", os.O_CREAT | os.O_RDWR)
                os.pwrite(file, b"end", 1_000_000)
                tell("hole", lambda: (os.fstat(file).st_size, os.pread(file, 4, 500_000)))
                tell("beyond", lambda: os.pread(file, 4, 2_000_000)); tell("short", lambda: os.pread(file, 10, 999_999))
                tell("truncate up", lambda: (os.ftruncate(file, 10), os.ftruncate(file, 20), os.pread(file, 30, 0)))
                tell("fallocate", lambda: (os.posix_fallocate(file, 0, 5000), os.fstat(file).st_size))
                tell("seek", lambda: (os.lseek(file, 0, os.SEEK_END), os.lseek(file, 0, os.SEEK_DATA)))
                tell("seek beyond", lambda: os.lseek(file, 5000, os.SEEK_DATA))
                tell("read only", lambda: os.write(os.open("f", os.O_RDONLY), b"x"))
                tell("write only", lambda: os.read(os.open("f", os.O_WRONLY), 1))
                tell("writev", lambda: (os.pwritev(file, [b"ab", b"cd"], 0), os.preadv(file, [bytearray(3)], 0)))
                other = os.open("f", os.O_RDWR); fcntl.flock(file, fcntl.LOCK_EX)
                tell("flock", lambda: fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB))
                fcntl.flock(file, fcntl.LOCK_UN)
                fcntl.lockf(file, fcntl.LOCK_EX, 10, 0)
                def locker():
                    def attempt(at):
                        try: fcntl.lockf(os.open("f", os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB, 10, at); return True
                        except BlockingIOError: return False
                    print("locked elsewhere:", attempt(0), attempt(10))
                sys.stdout.flush(); child = os.fork()
                if child == 0: locker(); sys.stdout.flush(); os._exit(0)
                os.waitpid(child, 0)
                target = os.open("g", os.O_CREAT | os.O_RDWR)
                tell("copy_file_range", lambda: os.copy_file_range(file, target, 100, 0, 50))
                tell("copied", lambda: os.pread(target, 200, 0))
                tell("sendfile", lambda: (os.sendfile(target, file, 0, 100), os.fstat(target).st_size))
                os.setxattr("g", "user.a", b"1"); os.setxattr("g", "user.b", b"")
                tell("xattrs", lambda: (sorted(os.listxattr("g")), os.getxattr("g", "user.a")))
                tell("create twice", lambda: os.setxattr("g", "user.a", b"2", os.XATTR_CREATE))
                tell("replace none", lambda: os.setxattr("g", "user.c", b"", os.XATTR_REPLACE))
                tell("remove", lambda: (os.removexattr("g", "user.a"), sorted(os.listxattr("g"))))
                tell("none", lambda: os.getxattr("g", "user.a"))
                tell("directory", lambda: os.read(os.open(".", os.O_RDONLY), 1))
                tell("names", lambda: sorted(os.listdir(".")))
                """
            )
        }
    }
}
