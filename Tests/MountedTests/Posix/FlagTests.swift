import CoveCore
import CoveTestSupport
import Testing

extension Mounted.PosixTests {
    @Test func `flags that are advice`() async throws {
        try await compare(
            """
            import fcntl, struct
            def ask(name):
                file = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
                try: return struct.unpack("I", fcntl.ioctl(file, 0x80086601, bytes(8))[:4])[0]
                finally: os.close(file)
            def put(name, flags):
                file = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
                # What else the file system says of the file stays.
                try: fcntl.ioctl(file, 0x40086602, struct.pack("Q", ask(name) & ~0xc0 | flags))
                finally: os.close(file)
            def show(what, name): tell(what, lambda: hex(ask(name) & 0xf0))
            write("f"); os.mkdir("d"); os.mkfifo("p"); show("new", "f"); show("new", "d"); show("fifo", "p")
            for flags in (0x40, 0xc0, 0x80, 0, 0x40):
                for name in ("f", "d"): tell("set", lambda: put(name, flags)); show(hex(flags), name)
            put("f", 0x80); os.rename("f", "g"); os.link("g", "h"); write("g", "more"); os.chmod("g", 0o600)
            show("moved", "g"); show("linked", "h"); print(os.listxattr("h"))
            tell("as an attribute", lambda: os.getxattr("h", "cove.flags"))
            tell("set as one", lambda: os.setxattr("h", "cove.flags", b"x"))
            tell("removed as one", lambda: os.removexattr("h", "cove.flags"))
            os.chmod("g", 0o666); sys.stdout.flush(); child = os.fork()
            if child == 0:
                os.setresuid(65534, 65534, 65534); tell("other's", lambda: put("g", 0)); sys.stdout.flush(); os._exit(0)
            os.waitpid(child, 0); show("still", "g")
            tell("no terminal", lambda: os.tcgetpgrp(os.open("g", os.O_RDONLY)))
            tell("nothing", lambda: fcntl.ioctl(os.open("g", os.O_RDONLY), 0x12345678, bytes(8)))
            def extended(name, flags=None):
                file = os.open(name, os.O_RDONLY); data = bytearray(28)
                fcntl.ioctl(file, 0x801c581f, data); known = struct.unpack_from("I", data)[0] & 0xc0
                if flags is not None:
                    struct.pack_into("I", data, 0, flags); fcntl.ioctl(file, 0x401c5820, bytes(data))
                os.close(file); return hex(known)
            # There 0x40 and 0x80 mean each other.
            os.unlink("p"); tell("extended", lambda: extended("g")); extended("g", 0x80); show("by it", "g"); tell("now", lambda: extended("g"))
            """
        )
    }

    @Test func `flags stay with a file that is not here, and what can't be promised is refused`() async throws {
        try await blocking {
            let account = try MountedAccount(options: "settle=50ms")
            try account.source.save("far", Array("far away".utf8))
            try account.start()
            let show = "lsattr -d far | cut -c1-22 | tr -d -; chattr -V +d far > /dev/null; lsattr far | tr -d -"
            #expect(try account.shell(show) == "\nd far\n")
            for flag in ["i", "a", "S", "j"] {
                let result = try account.start("chattr +\(flag) far").wait(deadline: 20)
                #expect(result.status != 0 && result.error.contains("not supported"), "\(flag): \(result)")
            }
            try account.shell("cat far; echo more >> far; $COVE sync --wait; $COVE evict far; mv far near")
            try account.end()
            try account.start()
            #expect(try account.shell("lsattr near | tr -d -; cat near") == "d near\nfar awaymore\n")
            try account.source.save("near", Array("from elsewhere".utf8))
            try account.settle()
            #expect(
                try account.shell("lsattr near | tr -d -; cat near; chattr -d near; lsattr near | tr -d -")
                    == "d near\nfrom elsewhere near\n"
            )
            try account.end()
        }
    }
}
