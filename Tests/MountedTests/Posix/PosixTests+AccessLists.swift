import CoveCore
import CoveTestSupport
import Testing

extension Mounted.PosixTests {
    /// What scripts about lists begin with.
    private static let lists = """
        import struct
        os.umask(0o027)
        access, default = "system.posix_acl_access", "system.posix_acl_default"
        def run(*command):
            done = subprocess.run(command, capture_output=True, text=True)
            return (done.returncode, done.stdout.split("\\n") if command[0] == "getfacl" else done.stdout)
        def show(name): print(name, oct(os.stat(name).st_mode), run("getfacl", "-cnpE", name)[1])
        def facl(*words): tell(" ".join(words), lambda: run("setfacl", *words)[0])
        def acl(*entries): return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries)
        none = 0xffffffff

        """

    @Test(arguments: ["allow_other", ""])
    func `access control lists`(options: String) async throws {
        try await compare(
            Self.lists + """
                write("f"); os.mkdir("d"); os.mkdir("d/e")
                facl("-m", "u:65534:rw,g:1234:r", "f"); show("f"); os.chmod("f", 0o604); show("f"); os.chmod("f", 0o670); show("f")
                tell("names", lambda: sorted(os.listxattr("f")))
                facl("-x", "u:65534", "f"); show("f"); facl("-b", "f"); show("f"); tell("names", lambda: os.listxattr("f"))
                facl("-m", "u::rw,g::r,o::-", "f"); show("f"); tell("plain", lambda: os.listxattr("f"))
                facl("-d", "-m", "u:65534:rwx,g::rx,o::r", "d"); show("d"); show("d/e")
                write("d/n"); show("d/n"); os.mkdir("d/m"); show("d/m"); os.mkdir("d/m/m"); show("d/m/m")
                os.mknod("d/p", 0o666 | stat.S_IFIFO); show("d/p"); os.remove("d/p")
                os.symlink("n", "d/s"); tell("link", lambda: os.listxattr("d/s", follow_symlinks=False))
                os.close(os.open("d/x", os.O_CREAT | os.O_WRONLY, 0o711)); show("d/x"); os.mkdir("d/y", 0o700); show("d/y")
                os.mkdir("q"); os.setxattr("q", default, acl((1, 7, none), (4, 5, none), (32, 4, none)))
                write("q/n"); show("q/n"); os.mkdir("q/m"); show("q/m"); tell("not extended", lambda: os.listxattr("q/n"))
                facl("-k", "d"); show("d"); write("d/plain"); show("d/plain"); facl("-k", "d"); facl("-k", "f")
                facl("-d", "-m", "u:1:r", "f"); os.link("d/n", "hard"); facl("-m", "u:7:rwx", "hard"); show("d/n")
                os.rename("d/n", "f"); show("f"); os.chown("f", 3, 4); show("f")
                tell("remove none", lambda: os.removexattr("d/plain", access)); tell("none", lambda: os.getxattr("d/plain", access))
                tell("default of a file", lambda: os.getxattr("f", default))
                before = os.stat("d/m"); facl("-m", "u:9:r", "d/m")
                tell("time", lambda: os.stat("d/m").st_ctime_ns >= before.st_ctime_ns)
                """,
            options: options
        )
    }

    @Test func `what lists let others do`() async throws {
        try await compare(
            Self.lists + """
                for name in ("read", "write", "masked", "barred", "group"): write(name); os.chmod(name, 0o640)
                facl("-m", "u:65534:r", "read"); facl("-m", "u:65534:rw", "write"); facl("-m", "u:65534:rw", "masked")
                os.chmod("masked", 0o600); os.chmod("barred", 0o644); facl("-m", "u:65534:-", "barred")
                facl("-m", "g:65534:rw", "group"); os.mkdir("open", 0o700); facl("-m", "u:65534:rwx", "open"); write("open/x")
                os.mkdir("shut", 0o755); facl("-m", "u:65534:-", "shut"); write("shut/x"); os.mkdir("own"); os.chmod("own", 0o777)
                write("sgid"); os.chown("sgid", 65534, 1234); os.chmod("sgid", 0o2755)
                def nobody():
                    for name in ("read", "write", "masked", "barred", "group"):
                        tell("read " + name, lambda: read(name))
                        tell("write " + name, lambda: write(name, "y", os.O_WRONLY))
                        tell("access", lambda: [os.access(name, mode) for mode in (4, 2, 1)])
                    tell("open", lambda: (os.listdir("open"), os.mkdir("open/m"), oct(os.stat("open/x").st_mode)))
                    tell("shut", lambda: os.listdir("shut")); tell("in shut", lambda: os.stat("shut/x"))
                    tell("set another's", lambda: os.setxattr("read", access, acl((1, 6, none), (4, 6, none), (32, 6, none))))
                    tell("remove another's", lambda: os.removexattr("read", access))
                    write("own/f"); facl("-m", "u:1:rw", "own/f"); show("own/f")
                    facl("-m", "u:1:rwx", "sgid"); show("sgid")
                as_nobody(nobody); show("read"); show("write")
                facl("-x", "u:65534", "read"); as_nobody(lambda: tell("taken", lambda: read("read")))
                facl("-m", "u:65534:r", "read"); as_nobody(lambda: tell("given", lambda: read("read")))
                """
        )
    }

    @Test(arguments: ["allow_other", ""])
    func `lists that are none`(options: String) async throws {
        try await compare(
            Self.lists + """
                write("f"); os.mkdir("d"); good = [(1, 6, none), (4, 4, none), (32, 0, none)]
                def attempt(what, value, name="f", kind=access): tell(what, lambda: os.setxattr(name, kind, value)); show(name)
                attempt("empty", b""); attempt("short", b"\\2\\0"); attempt("header", struct.pack("<I", 2))
                for version in (0, 1, 3, none): attempt("version", struct.pack("<I", version) + acl(*good)[4:])
                attempt("cut", acl(*good)[:-1]); attempt("longer", acl(*good) + b"x")
                attempt("order", acl(*reversed(good))); attempt("no others", acl(*good[:2])); attempt("no owner", acl(*good[1:]))
                attempt("tag", acl(*good, (64, 7, none))); attempt("tag 0", acl((0, 7, none), *good))
                attempt("permissions", acl((1, 8, none), *good[1:])); attempt("all bits", acl((1, 0xffff, none), *good[1:]))
                attempt("no mask", acl(good[0], (2, 6, 5), *good[1:])); attempt("twice", acl(good[0], *good))
                attempt("two masks", acl(*good[:2], (16, 7, none), (16, 7, none), good[2]))
                attempt("nobody's", acl(good[0], (2, 6, none), good[1], (16, 7, none), good[2]))
                attempt("unsorted", acl(good[0], (2, 6, 9), (2, 4, 5), good[1], (16, 7, none), good[2]))
                attempt("same again", acl(good[0], (2, 6, 9), (2, 4, 9), good[1], (16, 7, none), good[2]))
                attempt("mask alone", acl(*good[:2], (16, 2, none), good[2])); attempt("good", acl(*good))
                attempt("default", acl(*good), kind=default); attempt("empty default", acl(), "d", default)
                attempt("bad default", acl(*good[:2]), "d", default); attempt("default", acl(*good), "d", default)
                many = lambda count: acl(good[0], *[(2, 6, n + 1) for n in range(count)], good[1], (16, 7, none), good[2])
                try: os.setxattr("f", access, many(8000)); print("taken")
                except OSError as error: print("too long", error.errno in (errno.E2BIG, errno.ENOSPC))
                show("f")
                tell("many", lambda: (os.setxattr("f", access, many(200)), os.getxattr("f", access) == many(200)))
                tell("other", lambda: os.setxattr("f", "system.posix_acl_other", b"x"))
                """,
            options: options
        )
    }

    @Test(arguments: ["allow_other", ""])
    func `copies with their lists`(options: String) async throws {
        try await compare(
            Self.lists + """
                there = os.environ["tmp"] + "/lists"
                subprocess.run(["rm", "-rf", there]); os.makedirs(there + "/d")
                for name in (there + "/f", there + "/d/g"): write(name); os.chmod(name, 0o600)
                facl("-m", "u:65534:rw,g:7:r", there + "/f"); facl("-m", "u:5:r,g::-", there + "/d/g")
                facl("-d", "-m", "u:65534:rwx", there + "/d")
                def all(top):
                    for name in ("f", "d", "d/g"): show(top + "/" + name)
                def go(what, *command): tell(what, lambda: run(*command)); print(what)
                go("cp -a", "cp", "-a", there, "cp"); all("cp"); go("cp -p", "cp", "-p", there + "/f", "p"); show("p")
                go("rsync", "rsync", "-aA", there + "/", "rsync"); all("rsync")
                go("tar", "tar", "--acls", "-C", there, "-cf", "t.tar", "."); os.mkdir("tar")
                go("untar", "tar", "--acls", "-C", "tar", "-xpf", "t.tar"); all("tar"); os.remove("t.tar")
                subprocess.run(["rm", "-rf", there + "-back"]); go("back", "cp", "-a", "cp", there + "-back")
                same = lambda a, b: [run("getfacl", "-cn", a + "/" + n) == run("getfacl", "-cn", b + "/" + n) for n in ("f", "d/g")]
                tell("the same", lambda: same(there, there + "-back"))
                """,
            options: options
        )
    }

    @Test func `capabilities and other security attributes`() async throws {
        try await compare(
            Self.lists + """
                def caps(name): return run("getcap", name)[1].replace(" =", "")
                def changed(what, body):
                    write("f"); run("setcap", "cap_net_raw+ep", "f"); before = caps("f"); body()
                    print(what, before, caps("f"), "security.capability" in os.listxattr("f"))
                changed("read", lambda: read("f")); changed("write", lambda: write("f", "y", os.O_WRONLY))
                changed("cut", lambda: os.truncate("f", 0)); changed("open with cut", lambda: write("f"))
                changed("chown", lambda: os.chown("f", 5, -1)); changed("chown to none", lambda: os.chown("f", -1, -1))
                changed("chmod", lambda: os.chmod("f", 0o700)); changed("link", lambda: os.link("f", "g"))
                changed("rename", lambda: (os.rename("f", "h"), os.rename("h", "f")))
                changed("removed", lambda: run("setcap", "-r", "f"))
                def twice():
                    file = os.open("f", os.O_WRONLY); os.write(file, b"1"); run("setcap", "cap_net_raw+ep", "f")
                    os.write(file, b"2"); os.close(file)
                changed("between writes", twice)
                tell("bad", lambda: os.setxattr("f", "security.capability", b"xxxx"))
                tell("own", lambda: os.setxattr("f", "security.x", b"1")); tell("get", lambda: os.getxattr("f", "security.x"))
                tell("nameless", lambda: os.setxattr("f", "security.", b"1"))
                write("n"); os.chmod("n", 0o666); os.chown("n", 65534, 65534)
                def nobody():
                    tell("capability", lambda: os.setxattr("n", "security.capability", b"\\1\\0\\0\\2" + b"\\0" * 16))
                    tell("other", lambda: os.setxattr("n", "security.x", b"1"))
                    tell("reads", lambda: os.getxattr("f", "security.x"))
                as_nobody(nobody)
                """
        )
    }

    @Test func `lists stay here, through all that happens to a file, and send no bytes`() async throws {
        try await mounted(
            prepare: { source in try source.write("f", "first") },
            { account in
                func list(_ name: String) throws -> String { try account.shell("getfacl -cnE \(name)") }
                try account.shell("cat f > /dev/null; setfacl -m u:65534:rw,m::rw f; setcap cap_net_raw+ep f; mkdir d")
                try account.shell("setfacl -d -m u:65534:r d; setfacl -m u:65534:r d")
                try account.settle()
                let (file, folder) = (try list("f"), try list("d"))
                #expect(file.contains("user:65534:rw-") && folder.contains("default:user:65534:r--"))
                #expect(try account.statistics().bytesUploaded == 0)
                #expect(try account.shell("getfattr -m - $src/f; getfacl -cn $src/f").contains("65534") == false)
                try account.killDaemon()
                #expect(try list("f") == file)
                try account.cove("evict f")
                try account.cove("download --wait f")
                #expect(try list("f") == file)
                #expect(try account.shell("getcap f").contains("cap_net_raw"))
                try account.shell("mv f d/g; mv d e")
                #expect(try list("e/g") == file)
                #expect(try list("e") == folder)
                try account.settle()
                // Whoever else has changed it is nobody to hand capabilities on.
                try account.shell("echo another text > $src/e/g")
                try waitUntil("the change is seen") { try account.shell("cat e/g") == "another text\n" }
                #expect(try list("e/g") == file)
                #expect(try account.shell("getcap e/g").isEmpty)
                #expect(try account.statistics().bytesUploaded == 0)
            }
        )
    }

    @Test func `a list that was set where nobody else was let in is enforced where others are`() async throws {
        try await mounted { account in
            func attempt(_ name: String) throws -> String {
                try account.shell("setpriv --reuid 65534 --clear-groups cat \(name) 2>&1 || true")
            }
            try account.shell(
                "chmod 755 $tmp; umask 077; for name in e f g; do echo $name > $name; done; chmod 644 e g"
            )
            #expect(try account.shell("ls -l | cut -c 11 | uniq") == "\n \n")
            #expect(try account.shell("setfacl -m u:65534:r,m::r f; stat -c %a f; setfacl -m u:65534:- g") == "640\n")
            try account.killDaemon()
            #expect(try account.shell("ls -l | cut -c 11 | tr '\\n' .") == ". .+.+.")
            #expect(try attempt("f").contains("Permission denied"))
            try account.shell("cd /; $COVE unmount $mnt; $COVE mount dir://$src $mnt --state $STATE -o allow_other")
            for isTakenOver in [false, true] {
                if isTakenOver {
                    try account.killDaemon()
                    try account.shell("setfacl -m u:65534:- f; setfacl -m u:65534:r g")
                }
                #expect(try attempt(isTakenOver ? "g" : "f").count == 2)
                #expect(try attempt(isTakenOver ? "f" : "g").contains("Permission denied"))
                #expect(try attempt("e") == "e\n")
            }
        }
    }

    @Test func `ls asks for no list where others are not let in, and once where they are`() async throws {
        for (options, limits) in [("", [100, 100]), ("allow_other", [600, 100])] {
            try await mounted(
                options: options,
                prepare: { source in for number in 0..<500 { try source.write("f\(number)", "text") } },
                { account in
                    try account.shell("ls > /dev/null")
                    for limit in limits {
                        let before = try account.statistics().fuseRequests
                        #expect(try account.shell("ls -l | wc -l") == "501\n")
                        let asked = try account.statistics().fuseRequests - before
                        #expect(asked < limit, "-o \(options)")
                    }
                }
            )
        }
    }
}
