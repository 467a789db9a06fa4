import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// What is wrong around a mount when another daemon takes it over does not end it.
    struct TakeoverFaultTests {
        @Test(
            "another daemon goes on",
            arguments: [
                ("mkdir -p $tmp/.config/cove; echo '{' > $tmp/.config/cove/config.json5", "rm -r $tmp/.config"),
                ("mv $src $src.away", "mv $src.away $src"),
                ("rm $STATE/cove.sock; mkdir $STATE/cove.sock", "rmdir $STATE/cove.sock"),
                ("rm -r $STATE/coordination; touch $STATE/coordination", "rm $STATE/coordination"),
            ]
        )
        func goesOn(fault: String, mended: String) async throws {
            try await mounted { source in
                try source.save("a", Array("hi\n".utf8))
            } _: { account in
                try account.shell("ls; cat a; $COVE pause; echo unsent > n")
                let daemon = pid_t(try account.statistics().daemonPID)
                let open = try account.start(
                    "mkfifo $tmp/go; exec 3>> n; echo more >&3; read -r line < $tmp/go; echo last >&3; cat n"
                )
                try waitUntil("it has written") { try account.shell("cat n") == "unsent\nmore\n" }
                try account.shell(fault)
                #expect(kill(daemon, SIGKILL) == 0)
                #expect(try account.shell("cat a n; echo b > b; cat b") == "hi\nunsent\nmore\nb\n")
                try account.shell(mended)
                try account.shell("echo go > $tmp/go")
                let result = try open.wait(deadline: 60)
                #expect(result.status == 0 && result.output == "unsent\nmore\nlast\n", "\(result.error)")
                try waitUntil("it can be asked again") { (try? account.statistics()) != nil }
                try account.shell("$COVE resume")
                try account.expectSame()
            }
        }

        @Test func `what the configuration keeps here stays here though it can not be read any more`() async throws {
            try await blocking {
                let account = try MountedAccount()
                let file = "$tmp/.config/cove/config.json5"
                try account.shell("mkdir -p $tmp/.config/cove; echo '{ignore: [\"*.secret\"]}' > \(file)")
                try account.start()
                try account.shell("echo '{ignore: [\"*.secret\"' > \(file)")
                try account.killDaemon()
                try account.killDaemon()
                try account.shell("echo x > a.secret; echo y > a")
                try account.settle()
                #expect(try account.source.snapshot().keys.sorted() == ["a"])
                let log = try account.shell("cat $STATE/log")
                #expect(log.contains("config.json5: ") && log.contains("what was wanted before holds on"))
                try account.end()
            }
        }

        @Test func `a provider's program that is gone leaves what is here`() async throws {
            try await blocking {
                let scripted = try TemporaryDirectory("p")
                let program = scripted.appending("cove-memory")
                for name in ["cove-memory", "cove_provider.py"] {
                    try FileManager.default.copyItem(
                        atPath: "\(FileManager.default.currentDirectoryPath)/Providers/\(name)",
                        toPath: scripted.appending(name)
                    )
                }
                let account = try MountedAccount(address: "exec:\(program)")
                try account.start()
                try account.shell("$COVE pause; echo unsent > n")
                try FileManager.default.removeItem(atPath: program)
                try account.killDaemon()
                #expect(try account.shell("cat n; echo more >> n; cat n") == "unsent\nunsent\nmore\n")
                let log = try account.shell("cat $STATE/log")
                #expect(log.contains("the source counts as out of reach until it is mounted again"))
                try account.shell("cd /; $COVE unmount $mnt 2> /dev/null")
            }
        }

        @Test func `a machine that is short of descriptors for a moment keeps the mount`() async throws {
            try await mounted { source in
                try source.save("a", Array("hi\n".utf8))
            } _: { account in
                let statistics = try account.statistics()
                let limits = try account.shell("prlimit --pid \(statistics.keeperPID) --nofile=11:; cat a")
                #expect(limits == "hi\n")
                #expect(kill(pid_t(statistics.daemonPID), SIGKILL) == 0)
                let reader = try account.start("exec cat a")
                let failures = "grep -c \"keeper: the daemon can't be started\" $STATE/log || true"
                try waitUntil("several starts failed") { try account.shell("cd /; \(failures)") >= "4" }
                try account.shell("cd /; prlimit --pid \(statistics.keeperPID) --nofile=1024:")
                let result = try reader.wait(deadline: 30)
                #expect(result.status == 0 && result.output == "hi\n", "\(result.error)")
            }
        }

        @Test func `a program that has changed the catalog is not followed by its former one`() async throws {
            try await mounted { source in
                try source.save("a", Array("hi\n".utf8))
            } _: { account in
                // The first time it says what a daemon says that changes the catalog, and fails; then it is Cove.
                try account.shell(
                    """
                    cat a
                    cat > $tmp/next.c << END
                    #include <fcntl.h>
                    #include <sys/socket.h>
                    #include <unistd.h>
                    int main(int count, char **words) {
                        if (open("$tmp/was", O_CREAT | O_EXCL, 0600) < 0) return execv("$COVE", words);
                        char packet[5] = {6};
                        send(3, packet, 5, 0);
                        return 1;
                    }
                    END
                    cc -o $tmp/cove $tmp/next.c
                    """
                )
                try account.upgrade(to: "$tmp/cove")
                #expect(try account.shell("cat a; echo more > new; cat new") == "hi\nmore\n")
                let log = try account.shell("cat $STATE/log; [ -e $tmp/was ]")
                #expect(!log.contains("back to the former one"))
            }
        }
    }
}
