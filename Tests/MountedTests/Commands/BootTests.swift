import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// What a machine mounts by itself: lines of fstab, and the unit of systemd's user manager.
    struct BootTests {
        private static let top = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent().path

        /// Runs a script in a mount namespace of its own, where `$tmp/NAME` lies over a folder of the system's.
        private func run(_ account: MountedAccount, over folder: String, _ script: String) throws -> CommandResult {
            try account.start(
                """
                cd /; unshare -m --propagation private bash -euo pipefail <<'END'
                mount -t overlay -o "lowerdir=$tmp/over:\(folder)" cove-test \(folder)
                \(script)
                END
                """
            ).wait(deadline: 60)
        }

        @Test func `mount -a mounts the lines of fstab that are to be mounted at boot`() async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.source.save("a", Array("hi\n".utf8))
                try account.shell("mkdir $tmp/over; ln -s '\(Self.top)/mount-scripts/mount.cove' $tmp/over/mount.cove")
                // mount(8) looks for helpers in /sbin, and runs them with what it has of an environment at boot.
                let options = "rw,nofail,_netdev,x-systemd.mount-timeout=30,settle=100ms"
                let result = try run(
                    account,
                    over: "$(realpath /sbin)",
                    """
                    cat > $tmp/fstab <<FSTAB
                    # A line that can't be mounted keeps no other from it.
                    dir://$src $tmp/third cove no-such-option=1 0 0
                    dir://$src $mnt cove \(options),state=$STATE 0 0
                    dir://$src $tmp/other cove noauto,state=$tmp/other-state 0 0
                    FSTAB
                    at_boot() { env -i PATH=$PATH COVE=$COVE mount -a -T $tmp/fstab; }
                    mkdir $tmp/third
                    at_boot 2> $tmp/error && exit 1
                    grep -q no-such-option $tmp/error
                    sed -i '/no-such-option/d' $tmp/fstab
                    grep -c " $mnt fuse.cove " /proc/self/mounts
                    cat $mnt/a
                    at_boot
                    echo more > $mnt/b; $COVE sync --wait --state $STATE; cat $src/b
                    grep -c " $tmp/[^ ]* fuse.cove " /proc/self/mounts
                    keeper=$($COVE stats --state $STATE --json | sed 's/.*"keeper_pid":\\([0-9]*\\).*/\\1/')
                    umount $mnt
                    timeout 30 tail --pid=$keeper -f /dev/null
                    """
                )
                #expect(result.status == 0 && result.output == "1\nhi\nmore\n1\n", "\(result.error)\(result.output)")
            }
        }

        @Test func `the user unit's command says when the mount can be used, and ends with all written`() async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.source.save("a", Array("hi\n".utf8))
                let result = try account.start(
                    """
                    cd /; export OPTIONS=rw,settle=100ms SOURCE=dir://$src MOUNTPOINT=$mnt XDG_RUNTIME_DIR=$tmp/run
                    mkdir -p -m 700 $XDG_RUNTIME_DIR
                    for name in ExecStart ExecStop; do
                        sed -n 's/%i/docs/; s,^'$name'=-*/usr/local/bin/cove,exec "$COVE",p' \
                            '\(Self.top)/mount-scripts/cove@.service' > $tmp/$name
                    done
                    exec python3 - <<'END'
                    import os, signal, socket, subprocess
                    notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                    notices.bind(os.environ["tmp"] + "/notify")
                    notices.settimeout(30)
                    unit = dict(os.environ, NOTIFY_SOCKET=os.environ["tmp"] + "/notify")
                    def command(name): return subprocess.Popen(["bash", os.environ["tmp"] + "/" + name], env=unit)
                    service = command("ExecStart")
                    while b"READY=1" not in notices.recv(4096).split(b"\\n"): pass
                    mount = os.environ["mnt"]
                    assert open(mount + "/a").read() == "hi\\n"
                    with open(mount + "/b", "w") as file: file.write("more\\n")
                    assert command("ExecStop").wait(60) == 0
                    # As KillMode=mixed has it.
                    service.send_signal(signal.SIGTERM)
                    assert service.wait(60) == 0
                    assert not os.path.ismount(mount)
                    END
                    """
                ).wait(deadline: 100)
                #expect(result.status == 0, "\(result.error)\(result.output)")
                #expect(try account.shell("cat $src/b") == "more\n")
            }
        }

        @Test func `systemd finds nothing wrong with the user unit`() async throws {
            try await blocking {
                let account = try MountedAccount()
                func verified(_ edit: String) throws -> CommandResult {
                    try run(
                        account,
                        over: "/usr/local/bin",
                        """
                        export XDG_RUNTIME_DIR=$tmp/run
                        mkdir -p -m 700 $XDG_RUNTIME_DIR
                        sed '\(edit)' '\(Self.top)/mount-scripts/cove@.service' > $tmp/cove@docs.service
                        systemd-analyze --user --man=no verify $tmp/cove@docs.service
                        """
                    )
                }
                try account.shell("mkdir $tmp/over; ln -s $COVE $tmp/over/cove")
                let found = try verified("")
                #expect(found.status == 0 && found.output.isEmpty && found.error.isEmpty, "\(found.error)")
                // It would find something.
                #expect(try verified("s/KillMode/KillMod/").error.contains("KillMod"))
                #expect(try verified("s,/bin/cove mount,/bin/cave mount,").status != 0)
            }
        }
    }
}
