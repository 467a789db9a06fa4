import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// The commands that begin and end a mount, and the shells' help with all of them.
    struct MountCommandTests {
        private struct Started: Decodable {
            var account: String
            var source: String
            var mountpoint: String
            var stateDirectory: String
            var socket: String
            var daemonPID: Int32
            var keeperPID: Int32
        }

        private static let top = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent().path

        @Test func `mount and unmount tell programs what they did`() async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.source.save("a", Array("hi\n".utf8))
                let started = try account.cove("mount $src $mnt --state $STATE --account docs", as: Started.self)
                #expect(started.account == "docs" && started.source == "dir://\(account.source.path)")
                #expect(started.mountpoint == account.mount && started.socket == started.stateDirectory + "/cove.sock")
                #expect(try started.daemonPID == pid_t(account.statistics().daemonPID))
                #expect(try started.keeperPID == pid_t(account.statistics().keeperPID))
                try account.shell("$COVE pause; echo x > new")
                let ended = try account.cove("unmount $mnt", as: [String: Int].self)
                #expect(ended == ["queuedOperations": 1])

                try account.shell("$COVE mount $src $mnt --state $STATE --account docs")
                try account.shell("cat new; $COVE pause; echo y > other")
                let text = try account.start("cd /; exec $COVE unmount $mnt").wait(deadline: 30)
                #expect(text.status == 0 && text.output.isEmpty)
                #expect(text.error.contains(/^cove: \d changes? waits? for the cloud until the next mount\n$/))
            }
        }

        @Test func `an account that is unmounted can be mounted at once, fifty times, with work on its way`()
            async throws
        {
            try await blocking {
                let account = try MountedAccount(options: "settle=5s")
                try account.start()
                let failures = try account.shell(
                    """
                    cd /
                    for i in {1..50}; do
                        for j in {1..5}; do echo $i > $mnt/f$i.$j; done
                        # Without Cove's help every fifth time: the daemon learns of it when it is over.
                        if [ $((i % 5)) = 0 ]; then sync -f $mnt; umount $mnt
                        else $COVE unmount $mnt 2>> $tmp/said || echo "unmount $i"; fi
                        $COVE mount $src $mnt --state $STATE -o settle=5s 2>> $tmp/said || echo "mount $i"
                    done
                    """,
                    deadline: 300
                )
                let said = try account.shell("sort $tmp/said | uniq -c")
                #expect(failures.isEmpty, "\(failures)\(said)")
                try account.expectSame()
                #expect(try account.shell("ls | wc -l; cat f50.5") == "250\n50\n")
                try account.end()
            }
        }

        @Test func `unmount returns when daemon and keeper are gone`() async throws {
            try await mounted { account in
                let statistics = try account.statistics()
                try account.shell(
                    """
                    cd /; $COVE unmount $mnt
                    for p in \(statistics.daemonPID) \(statistics.keeperPID); do [ ! -e /proc/$p/exe ]; done
                    flock --nonblock $STATE/lock true; [ ! -e $STATE/cove.sock ]
                    """
                )
                try account.start()
            }
        }

        @Test func `a mount waits for a daemon that is ending, and for no other`() async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.start()
                try account.expectRefusal(
                    "mkdir $tmp/other; exec $COVE mount $src $tmp/other --state $STATE",
                    "$STATE: a daemon (pid \(account.statistics().daemonPID)) works on this account already; "
                        + "end it with `cove unmount`, or choose another directory with --state"
                )
                try account.end()
                // An upload that takes long is waited for a while at the end.
                try account.shell(
                    """
                    $COVE mount $src $mnt --state $STATE -o settle=0s,simulate-bandwidth=20K
                    head -c 1000000 /dev/zero > $mnt/slow
                    """
                )
                try waitUntil("it is being sent") { try account.info("slow").isUploading }
                let start = ContinuousClock.now
                try account.shell("cd /; umount $mnt; $COVE mount $src $mnt --state $STATE")
                #expect(ContinuousClock.now - start > .seconds(1), "nothing had to be waited for")
                try account.expectSame()
                try account.end()
            }
        }

        @Test func `a mount in the foreground ends with its signal and loses nothing`() async throws {
            try await blocking {
                let account = try MountedAccount()
                let daemon = try account.start("exec $COVE mount -f --json $src $mnt --state $STATE")
                try waitUntil("it is mounted") { daemon.output.hasSuffix("}\n") }
                let started = try JSONDecoder().decode(Started.self, from: Data(daemon.output.utf8))
                #expect(started.keeperPID == daemon.process && started.account == "source")
                try account.shell("$COVE pause; echo kept > new")
                daemon.signal(SIGTERM)
                let result = try daemon.wait(deadline: 30)
                #expect(result.status == 0 && result.error.contains("unmounting"))
                #expect(try account.shell("ls") == "")
                try account.start()
                try account.expectSame()
                #expect(try account.shell("cat new") == "kept\n")
                try account.end()
            }
        }

        @Test func `a mount in use is not unmounted, but detached when told so`() async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.source.save("a", Array("hi\n".utf8))
                try account.start()
                try account.shell("cat a")
                let user = try account.start("exec 3<a; mkfifo $tmp/go; read -r < $tmp/go; cat <&3")
                try waitUntil("a program is in it") { try account.shell("[ ! -p $tmp/go ] || echo y") == "y\n" }
                try account.expectRefusal(
                    "cd /; exec $COVE unmount $mnt",
                    "$mnt: in use by bash (pid \(user.process)); end that, or use --lazy"
                )
                #expect(try account.cove("ls") == "materialized  a\n")
                #expect(try account.shell("cd /; $COVE unmount --lazy $mnt; ls $mnt") == "")
                try account.shell("echo > $tmp/go")
                #expect(user.hasEnded(within: 30))
                try account.start()
                #expect(try account.shell("cat a") == "hi\n")
                try account.end()
            }
        }

        @Test func `a read-only mount refuses every change`() async throws {
            try await mounted(options: "ro") { source in
                try source.save("a", Array("hi\n".utf8))
            } _: { account in
                for change in ["echo x > a", "touch a", "rm a", "mkdir d", "mv a b", "truncate -s 0 a", "chmod 600 a"] {
                    let result = try account.start(change).wait(deadline: 10)
                    #expect(result.status != 0 && result.error.contains("Read-only file system"), "\(change)")
                }
                #expect(try account.shell("cat a; ls") == "hi\na\n")
            }
        }

        @Test func `an account has its name, its state and its socket where the XDG directories are`() async throws {
            try await blocking {
                let account = try MountedAccount()
                let variables = "export XDG_STATE_HOME=$tmp/x XDG_RUNTIME_DIR=$tmp/r XDG_CONFIG_HOME=$tmp/c"
                let started = try account.shell(
                    "\(variables); mkdir $tmp/r; $COVE mount --json $src $mnt --account docs"
                )
                #expect(started.contains("\"stateDirectory\":\"\(account.scratch.path)/x/cove/docs\""))
                let elsewhere = "\(variables); cd /; $COVE"
                for words in ["status", "status --account docs"] {
                    #expect(try account.shell("\(elsewhere) \(words)").hasPrefix("account:    docs, dir://"))
                }
                try account.expectRefusal(
                    "\(variables); cd /; exec $COVE stats --account other",
                    "other: no daemon answers at $tmp/r/cove/other.sock; mount the account with `cove mount`"
                )
                #expect(try account.shell("stat -c %a $tmp/x/cove/docs $tmp/r/cove") == "700\n700\n")
                try account.shell("\(elsewhere) unmount $mnt")
            }
        }

        @Test func `names that are not UTF-8 go through every command`() async throws {
            try await mounted { source in
                try Command.run(
                    "bash",
                    ["-c", "mkdir $'\(source.path)/\\xff'; echo hi > $'\(source.path)/\\xff/a\\xfe'"]
                )
            } _: { account in
                let directory = try #require(try account.cove("ls", as: [ItemStatus].self).first)
                #expect(directory.pathBase64 == "/w==" && directory.path == "\u{FFFD}")
                let item = try #require(try account.cove("ls $'\\xff'", as: [ItemStatus].self).first)
                #expect(item.pathBase64 == "/y9h/g==" && item.name == "a\u{FFFD}" && item.size == 3)
                let name = "$'\\xff/a\\xfe'"
                for command in ["download --wait", "info", "status", "pin", "unpin", "evict"] {
                    try account.shell("$COVE \(command) \(name) > $tmp/out")
                }
                #expect(try account.cove("info \(name)", as: ItemStatus.self) == item)
                #expect(
                    try account.shell("$COVE ls $'\\xff' | od -An -c | tr -s ' '") == " d a t a l e s s a 376 \\n\n"
                )
                #expect(try account.shell("cat \(name); $COVE sync --wait \(name)") == "hi\n")
            }
        }

        @Test func `fstab's helper mounts, and again is no error`() async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.source.save("a", Array("hi\n".utf8))
                let helper = "\(Self.top)/mount-scripts/mount.cove"
                func mount(_ source: String) throws -> CommandResult {
                    try account.start("cd /; exec \(helper) \(source) $mnt -o rw,state=$STATE,_netdev")
                        .wait(deadline: 60)
                }
                #expect(try mount("dir://$src").status == 0)
                #expect(try account.shell("cat a") == "hi\n")
                for source in ["dir://$src", "$src"] {
                    let again = try mount(source)
                    #expect(again.status == 0 && again.error.isEmpty && again.output.isEmpty)
                }
                let other = try mount("$tmp")
                #expect(other.status == 32 && other.error.contains("is mounted there; run `cove unmount"))
                #expect(try mount("$src $tmp -z").status == 1)
                try account.end()
            }
        }

        @Test(arguments: [
            ("cove tra", ["trace", "trash"]), ("cove trash ", ["empty", "ls", "restore"]),
            ("cove completions ", ["bash", "zsh"]),
            ("cove sync --accept-l", ["--accept-local-deletions"]), ("cove trash empty --o", ["--older-than"]),
            ("cove mount -o cache", ["cache-size="]), ("cove ls tw", ["two words"]), ("cove mount folder", ["folder"]),
            ("cove status --json o", ["one"]), ("cove help ev", ["evict"]), ("cove frob ", []),
        ])
        func `bash and zsh complete`(line: String, expected: [String]) async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.shell(
                    """
                    touch one 'two words'; mkdir folder $tmp/z; $COVE completions zsh > $tmp/z/_cove
                    $COVE completions bash > $tmp/cove.bash
                    """
                )
                let bash = try account.shell(
                    """
                    compopt() { :; }; . $tmp/cove.bash; complete -p cove | grep -q -e '-F _cove cove'
                    COMP_WORDS=(\(line)); case '\(line)' in *' ') COMP_WORDS+=('') ;; esac
                    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _cove
                    printf '%s\\n' "${COMPREPLY[@]}" | sort | sed '/^$/d'
                    """
                )
                #expect(bash == expected.map { $0 + "\n" }.joined())
                let zsh = try account.shell("zsh -f <<'END'\n\(Self.zsh(line))\nEND", deadline: 30)
                #expect(zsh == expected.map { $0 + "\n" }.joined())
            }
        }

        /// Types a line and a tab into a zsh, which writes what it offers.
        private static func zsh(_ line: String) -> String {
            """
            zmodload zsh/zpty zsh/zselect
            zpty -b shell zsh -f -i
            zpty -w shell "PS1=; fpath=($tmp/z \\$fpath); autoload -Uz compinit; compinit -u -D; offers=$tmp/offers"
            zpty -w shell 'compadd() {
                if (( ${@[(I)-[OAD]]} )); then builtin compadd "$@"; return; fi
                local -a found; builtin compadd -A found "$@"; print -rl -- $found >> $offers.part
                builtin compadd "$@"
            }'
            zpty -w shell 'capture() { : > $offers.part; _main_complete; mv $offers.part $offers }'
            zpty -w shell 'zle -C capture list-choices capture; bindkey "^I" capture'
            zpty -w -n shell "\(line)"$'\\t'
            while [[ ! -e $tmp/offers ]]; do zpty -r -t shell text; zselect -t 1; done
            zpty -d shell
            sed 's/\\\\//g; /^$/d' $tmp/offers | sort -u
            """
        }
    }
}
