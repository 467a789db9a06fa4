import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// What can't be done with an account, or with a state that is damaged, is told, and does no harm.
    struct BadInputTests {
        @Test func `no command at all shows the overview`() async throws {
            try await blocking {
                let account = try MountedAccount()
                let result = try account.start("exec $COVE").wait(deadline: 10)
                #expect(try result.error == account.cove("help") && result.status == 2 && result.output.isEmpty)
            }
        }

        @Test func `items that are not there, or not to be evicted`() async throws {
            try await mounted { source in
                for name in ["a", "b"] { try source.save(name, Array("hi\n".utf8)) }
            } _: { account in
                for command in ["info", "status", "ls", "download", "evict", "pin", "unpin", "sync"] {
                    let line = "none: no such item; check the name"
                    try account.expectRefusal("$COVE \(command) none", line)
                    let result = try account.start("$COVE \(command) $src").wait(deadline: 10)
                    #expect(result.status == 1 && result.error.contains("source: is not inside a Cove mount;"))
                }
                try account.shell("cat a b")
                let reader = try account.start("exec 3<a; touch $tmp/open; exec sleep 60")
                try waitUntil("it is open") { try account.shell("[ ! -e $tmp/open ] || echo y") == "y\n" }
                try account.expectRefusal("$COVE evict a", "a: a program has it open; close it first")
                reader.signal(SIGKILL)
                #expect(reader.hasEnded(within: 10))
                try account.shell("$COVE pin a; $COVE pause; echo more >> b; echo new > n")
                try account.expectRefusal("$COVE evict a", "a: it is pinned; run `cove unpin` first")
                let unsent = "b: its changes are not uploaded yet; run `cove sync --wait` first"
                try account.expectRefusal("$COVE evict b", unsent)
                try account.expectRefusal("$COVE evict n", "n: it is only on this device; run `cove sync --wait` first")
                // One that fails keeps no other from being done.
                let result = try account.start("$COVE evict --json none a || :; $COVE unpin none a").wait(deadline: 10)
                #expect(result.output == "[]\n" && result.error.split(separator: "\n").count == 3)
                #expect(try account.cove("evict a") == "")
                #expect(try account.shell("cat a b n; $COVE resume") == "hi\nhi\nmore\nnew\n")
                try account.expectSame()
            }
        }

        @Test func `one daemon works on a state directory, and for one source`() async throws {
            try await mounted { source in
                try source.save("a", Array("hi\n".utf8))
            } _: { account in
                try account.shell("mkdir $tmp/other $tmp/mnt2; cat a")
                let daemon = try account.statistics().daemonPID
                let before = try account.everything()
                try account.expectRefusal(
                    "exec $COVE mount $src $mnt --state $STATE",
                    "$mnt: cove:source is mounted there; run `cove unmount $mnt` first"
                )
                try account.expectRefusal(
                    "exec $COVE mount $src $tmp/mnt2 --state $STATE",
                    "$STATE: a daemon (pid \(daemon)) works on this account already; end it with `cove unmount`, "
                        + "or choose another directory with --state"
                )
                let line = "$STATE: belongs to the source dir://$src; choose another directory with --state"
                try account.expectRefusal("exec $COVE mount $tmp/other $tmp/mnt2 --state $STATE", line)
                #expect(try account.everything() == before)
                try account.shell("cd /; $COVE unmount $mnt")
                try account.expectRefusal("exec $COVE mount $tmp/other $mnt --state $STATE", line)
                try account.start()
                #expect(try account.shell("cat a") == "hi\n" && account.statistics().bytesDownloaded == 0)
            }
        }

        @Test func `a state directory of a newer version is left alone`() async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.source.save("a", Array("hi\n".utf8))
                try account.start()
                try account.shell("cat a; $COVE pause; echo unsent > b; cd /; $COVE unmount $mnt 2>/dev/null")
                let version = try account.shell("sqlite3 $STATE/catalog.db 'PRAGMA user_version'").dropLast()
                try account.shell("sqlite3 $STATE/catalog.db 'PRAGMA user_version = 99'")
                let content =
                    "cd $STATE; sqlite3 catalog.db .dump; find content -type f -exec sha256sum {} + | sort"
                let before = try account.shell(content)
                try account.expectRefusal(
                    "exec $COVE mount $src $mnt --state $STATE",
                    "$STATE/catalog.db: it was written by a newer Cove (schema 99, this one knows \(version)); run that version, "
                        + "or mount with another --state"
                )
                #expect(try account.shell(content) == before)
                #expect(before.contains("INSERT INTO entries") && before.contains("  content/"))
                try account.shell("sqlite3 $STATE/catalog.db 'PRAGMA user_version = \(version)'")
                try account.start()
                try account.expectSame()
                #expect(try account.shell("cat a b") == "hi\nunsent\n")
                try account.end()
            }
        }

        @Test(arguments: [
            "dd if=/dev/urandom of=$STATE/catalog.db bs=4k count=3 conv=notrunc status=none",
            "echo nonsense > $STATE/catalog.db",
            // Its first page is whole, and says that there are tables.
            "dd if=/dev/urandom of=$STATE/catalog.db bs=4k seek=1 count=40 conv=notrunc status=none",
            "truncate -s 8192 $STATE/catalog.db",
            // Nothing is wrong with an empty one, but that there is content.
            "truncate -s 0 $STATE/catalog.db; rm -f $STATE/catalog.db-wal",
            "rm $STATE/catalog.db*",
            // Of an earlier one somebody has removed the catalog.
            "mkdir -p $STATE/corrupt-1/content; echo nonsense > $STATE/catalog.db",
            // The start that kept it aside was ended in the middle.
            "mkdir $STATE/corrupt-1; mv $STATE/content $STATE/corrupt-1; rm $STATE/catalog.db*",
        ])
        func `a corrupt catalog is kept aside with what was not sent, and the tree is there again`(
            damage: String
        ) async throws {
            try await blocking {
                let account = try MountedAccount()
                for name in ["a", "b"] { try account.source.save(name, Array("hi \(name)\n".utf8)) }
                try account.start()
                try account.shell("cat a; $COVE pause; echo unsent work > n; cd /; $COVE unmount $mnt 2>/dev/null")
                try account.shell(damage)
                let started = try account.start("cd /; exec $COVE mount $src $mnt --state $STATE").wait(deadline: 60)
                #expect(started.status == 0 && started.output.isEmpty)
                let notice = "the catalog was corrupt and the tree was rebuilt; unsent changes may be in "
                #expect(started.error.hasPrefix("cove: source: \(notice)"))
                #expect(started.error.split(separator: "\n").count == 1)
                #expect(try account.shell("cat a b; ls") == "hi a\nhi b\na\nb\n")
                #expect(try account.shell("grep -rl 'unsent work' $STATE/corrupt-*/content | wc -l") == "1\n")
                #expect(try account.shell("[ -s $STATE/corrupt-*/catalog.db ] && echo kept") == "kept\n")
                #expect(try account.cove("status", as: AccountStatus.self).errors.map(\.path) == ["/"])
                #expect(try account.cove("status").contains("error:      /: \(notice)"))
                try account.expectSame()
                try account.end()
                try account.shell("rm -r $STATE/corrupt-*")
                try account.shell(
                    "cd /; $COVE mount $src $mnt --state $STATE 2> $tmp/complaint; [ ! -s $tmp/complaint ]"
                )
                #expect(try account.cove("status", as: AccountStatus.self).errors.isEmpty)
                try account.end()
            }
        }

        @Test func `a repair that was ended at its last step is finished by the next one, and used by nobody before`()
            async throws
        {
            try await blocking {
                let account = try MountedAccount()
                try account.source.save("a", Array("hi\n".utf8))
                try account.start()
                try account.shell("cat a; $COVE pause; echo unsent work > n; cd /; $COVE unmount $mnt 2>/dev/null")
                try account.shell("mv $STATE/catalog.db $STATE/catalog.mended; rm -f $STATE/catalog.db-*")
                try account.expectRefusal(
                    "cd /; exec $COVE mount $src $mnt --state $STATE",
                    "$STATE/catalog.db: its repair was ended before it was done; run `cove doctor --repair` again"
                )
                try account.shell("cd /; $COVE doctor --repair --state $STATE")
                try account.start()
                try account.expectSame()
                #expect(try account.shell("cat a n") == "hi\nunsent work\n")
                try account.end()
            }
        }

        @Test func `an account's record that a power cut left empty is made again`() async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.start()
                try account.shell("$COVE pause; echo unsent work > n; cd /; $COVE unmount $mnt 2>/dev/null")
                try account.shell("truncate -s 0 $STATE/account.json")
                try account.start()
                try account.expectSame()
                #expect(try account.shell("cat n; cd $STATE; [ -s account.json ] && ls") != "")
                #expect(try account.source.snapshot().keys.sorted() == ["n"])
                try account.end()
            }
        }

        @Test func `doctor mends the catalog of an account that is not mounted, and says what it did`() async throws {
            try await blocking {
                let account = try MountedAccount()
                for name in ["a", "b"] { try account.source.save(name, Array("hi \(name)\n".utf8)) }
                try account.start()
                try account.shell("cat a b; $COVE pause; echo unsent work > n")
                let refused = try account.shell("$COVE doctor --repair --state $STATE 2>&1 || echo $?")
                #expect(refused.contains("a daemon works on this account; end it with `cove unmount`\n1\n"))
                try account.shell("cd /; $COVE unmount $mnt 2>/dev/null")
                let sound = try account.shell("cd /; $COVE doctor --repair --state $STATE")
                #expect(sound.hasPrefix("ok       /") && sound.hasSuffix(": nothing is wrong\n"))
                try account.shell(
                    "sqlite3 $STATE/catalog.db 'DELETE FROM journal; INSERT INTO ranges VALUES(99, 0, 9)'"
                )
                let said = try account.shell("cd /; $COVE doctor --repair --state $STATE")
                #expect(said.contains("mended   unsent: 1: ") && said.contains("mended   ranges: 1: "))
                #expect(said.split(separator: "\n").count == 2)
                let json = try account.shell("cd /; $COVE doctor --repair --json --state $STATE")
                #expect(json == "{\"findings\":[]}\n")
                let usage = try account.shell("cd /; $COVE doctor --repair 2>&1 || echo $?")
                #expect(usage.hasSuffix("name it with --account or --state\n2\n"))
                try account.start()
                try account.shell("$COVE resume")
                try account.expectSame()
                #expect(try account.shell("cat $src/n") == "unsent work\n")
                try account.end()
            }
        }
    }
}
