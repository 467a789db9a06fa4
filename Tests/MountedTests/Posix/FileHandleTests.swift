import CoveCore
import CoveTestSupport
import Testing

extension Mounted {
    /// Handles of name_to_handle_at(2), by which NFS servers and backup programs find a file again.
    struct FileHandleTests {
        private static let functions = """
            import ctypes, errno, os
            libc = ctypes.CDLL(None, use_errno=True)
            class Handle(ctypes.Structure):
                _fields_ = [("size", ctypes.c_uint32), ("kind", ctypes.c_int32), ("bytes", ctypes.c_ubyte * 128)]
            def handle(name):
                made, mount = Handle(size=128), ctypes.c_int()
                if libc.name_to_handle_at(-100, name.encode(), ctypes.byref(made), ctypes.byref(mount), 0):
                    raise OSError(ctypes.get_errno(), name)
                return made
            def by(made, flags=os.O_RDONLY, mount="."):
                folder = os.open(mount, os.O_RDONLY)
                try:
                    file = libc.open_by_handle_at(folder, ctypes.byref(made), flags)
                    if file < 0: raise OSError(ctypes.get_errno(), "handle")
                    return file
                finally: os.close(folder)
            def content(made, **words):
                file = by(made, **words)
                try: return os.read(file, 100)
                finally: os.close(file)
            def forget():
                os.sync()
                with open("/proc/sys/vm/drop_caches", "w") as caches: caches.write("3")

            """

        @Test func `a handle finds what it was made of, wherever that is by now`() async throws {
            try await PosixTests().compare(
                Self.functions + """
                    os.makedirs("a/b/c")
                    for name in ("file", "a/deep", "a/b/c/deeper", "moved", "linked", "gone", "over", "again"):
                        write(name, "text of " + name)
                    os.mkdir("empty"); os.symlink("file", "link"); os.link("linked", "a/second")
                    names = ["file", "a/deep", "a/b/c/deeper", "moved", "linked", "gone", "over", "again"]
                    files = {name: handle(name) for name in names}
                    folders = {name: handle(name) for name in (".", "a", "a/b/c", "empty")}
                    link = handle("link")
                    def show(when):
                        for name in names: tell(when + ", " + name, lambda: content(files[name]))
                        for name in folders:
                            tell(when + ", folder " + name, lambda: sorted(os.listdir(by(folders[name], os.O_DIRECTORY))))
                        def place(): return os.path.basename(os.readlink("/proc/self/fd/%d" % by(folders["a/b/c"])))
                        tell(when + ", place", place)
                        tell(when + ", link", lambda: os.readlink("", dir_fd=by(link, os.O_PATH | os.O_NOFOLLOW)))
                    show("at once"); forget(); show("later")
                    os.rename("moved", "a/b/new name"); os.unlink("linked"); os.unlink("gone"); os.rmdir("empty")
                    write("other", "another"); os.rename("other", "over"); os.unlink("again"); write("again", "anew")
                    os.rename("a/b/c", "c"); forget(); show("afterwards")
                    file = by(files["file"], os.O_RDWR); os.pwrite(file, b"NEW", 0); os.fchmod(file, 0o600); os.close(file)
                    print("written", read("file"), oct(os.stat("file").st_mode))
                    print("below", os.read(os.open("deeper", os.O_RDONLY, dir_fd=by(folders["a/b/c"])), 100))
                    write("c/more", "more"); print("more", sorted(os.listdir(by(folders["a/b/c"]))))
                    unnamed = os.open(".", os.O_TMPFILE | os.O_RDWR); os.write(unnamed, b"unnamed")
                    libc.linkat(-100, b"/proc/self/fd/%d" % unnamed, -100, b"named", 0x400); os.close(unnamed)
                    made = handle("named"); forget(); print("named", content(made))
                    odd = handle("file"); odd.bytes[0] ^= 0x55; forget(); tell("odd", lambda: content(odd))
                    """
            )
        }

        @Test func `a handle outlives the daemon and the mount, and brings the bytes of what is not here`()
            async throws
        {
            try await mounted { source in
                try source.makeDirectory("d")
                for name in ["d/there", "here"] { try source.save(name, Array("text of \(name)".utf8)) }
            } _: { account in
                try account.shell("cat here; cat > $tmp/handles.py <<'END'\n\(Self.functions)\nEND")
                try account.shell(
                    """
                    cd $tmp; cat > keep.py <<'END'
                    from handles import *; import sys
                    for name in ("d/there", "here", "d"): open(sys.argv[1] + name.replace("/", "-"), "wb").write(handle(name))
                    END
                    cat > read.py <<'END'
                    from handles import *; import sys
                    for name in ("d/there", "here"):
                        print(content(Handle.from_buffer_copy(open(sys.argv[1] + name.replace("/", "-"), "rb").read())).decode())
                    print(os.listdir(by(Handle.from_buffer_copy(open(sys.argv[1] + "d", "rb").read()))))
                    END
                    cd $mnt; PYTHONPATH=$tmp python3 $tmp/keep.py $tmp/handle-
                    """
                )
                let show = "echo 3 > /proc/sys/vm/drop_caches; PYTHONPATH=$tmp python3 $tmp/read.py $tmp/handle-"
                let all = "text of d/there\ntext of here\n['there']\n"
                try account.killDaemon()
                #expect(try account.shell(show) == all)
                try account.cove("evict d/there here")
                try account.end()
                try account.start()
                #expect(try account.info("d/there").state == "dataless")
                #expect(try account.shell(show) == all)
                // Who came by a handle hears of what another device changes, though nobody has walked there since the mount.
                try account.end()
                try account.start()
                let watcher = try account.start(
                    """
                    cat > $tmp/watch.py <<'END'
                    from handles import *; import sys
                    file = by(Handle.from_buffer_copy(open(sys.argv[1], "rb").read()))
                    while not os.path.exists(sys.argv[2]):
                        print(oct(os.fstat(file).st_mode), flush=True)
                        os.read(0, 1)
                    END
                    echo 3 > /proc/sys/vm/drop_caches; mkfifo $tmp/next; exec 3<> $tmp/next
                    PYTHONPATH=$tmp exec python3 $tmp/watch.py $tmp/handle-d-there $tmp/stop <&3
                    """
                )
                try waitUntil("it is looked at") { watcher.output.contains("0o100644\n") }
                try account.shell("chmod 640 $src/d/there; $COVE sync")
                try waitUntil("the change is told") {
                    try account.shell("echo >> $tmp/next")
                    return watcher.output.contains("0o100640\n")
                }
                try account.shell("touch $tmp/stop; echo >> $tmp/next")
                #expect(try watcher.wait(deadline: 30).status == 0)
            }
        }
    }
}
