import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Every command says what it promises, to people and to programs.
    struct CommandTests {
        private struct Evicted: Decodable, Equatable {
            var path: String
            var freedBytes: Int64
        }

        private static func fill(_ source: SourceFolder) throws {
            try source.save("a", Array("hi\n".utf8))
            try source.makeDirectory("d")
            try source.save("d/b", [UInt8](repeating: 66, count: 100_000))
            try source.save("d/c", [UInt8](repeating: 67, count: 2000))
        }

        @Test func `every command has its help, its part of the manual and its completions`() async throws {
            try await blocking {
                let account = try MountedAccount()
                let overview = try account.cove("--help")
                let names = overview.matches(of: /\n  (\w+(?: \w+)?)  +\w/).map { String($0.output.1) }
                #expect(names.count == 69 && names.contains("trash empty"))
                #expect(try account.cove("help") == overview)
                let manual = try account.cove("man")
                #expect(manual.hasPrefix(".TH COVE 1 "))
                let scripts = try ["bash", "zsh"].map { try account.cove("completions \($0)") }
                for name in names {
                    let page = try account.cove("\(name) --help")
                    #expect(page.hasPrefix("usage: cove \(name)") && page.contains("\n  -h, --help"))
                    #expect(try account.cove("help \(name)") == page)
                    #expect(manual.contains(".SS \(name)\n"))
                    for script in scripts { #expect(script.contains("'\(name)'") || script.contains("\"\(name)\"")) }
                }
                #expect(try account.cove("trash --help").matches(of: /usage: cove trash/).count == 3)
                let version = try account.cove("--version")
                #expect(try account.cove("version") == version && version.hasPrefix("cove 0."))
                let told = try account.cove("version", as: [String: String].self)
                #expect("cove \(told["version"] ?? "")\n" == version)
            }
        }

        @Test func `ls, info and status tell of items and fetch nothing`() async throws {
            try await mounted(prepare: Self.fill) { account in
                #expect(try account.cove("ls") == "dataless  a\ndataless  d\n")
                #expect(try account.cove("ls d") == "dataless  b\ndataless  c\n")
                #expect(try account.cove("ls a d") == "a:\ndataless  a\nd:\ndataless  b\ndataless  c\n")
                let long = try account.cove("ls -l d")
                #expect(long.contains(/^-rw-r--r-- 100000 \d{4}-\d\d-\d\d \d\d:\d\d dataless  b\n/))
                #expect(long.contains(/\n-rw-r--r--   2000 .* dataless  c\n$/))
                let items = try account.cove("ls d", as: [ItemStatus].self)
                #expect(items.map(\.path) == ["d/b", "d/c"] && items.map(\.name) == ["b", "c"])
                #expect(items.map(\.size) == [100_000, 2000] && items.allSatisfy { $0.state == "dataless" })
                #expect(
                    try account.cove("status a $mnt/d/b") == """
                        dataless            3B      0B here  a
                        dataless           98K      0B here  \(account.mount)/d/b

                        """
                )
                let status = try account.cove("status a d", as: [ItemStatus].self)
                #expect(status.map(\.path) == ["a", "d"] && status.map(\.kind) == ["file", "directory"])
                let info = try account.cove("info a")
                for line in [
                    "path:         a", "kind:         file", "state:        dataless", "mode:         -rw-r--r--",
                ] {
                    #expect(info.contains(line + "\n"), "\(line)")
                }
                let item = try account.cove("info a", as: ItemStatus.self)
                #expect(info.contains("item id:      \(item.itemID)\n") && info.contains(item.documentID))
                #expect(item.localBytes == 0 && item.percent == 0 && !item.isDirty && item.remoteID != nil)
                #expect(try account.statistics().bytesDownloaded == 0)
            }
        }

        @Test func `download, evict, pin and unpin`() async throws {
            try await mounted(prepare: Self.fill) { account in
                #expect(try account.cove("download --wait a") == "")
                #expect(try account.cove("status a").hasPrefix("materialized        3B      3B here  a"))
                let tree = try account.cove("download --wait d", as: [ItemStatus].self)
                #expect(tree.map(\.path) == ["d"])
                #expect(try account.cove("ls d") == "materialized  b\nmaterialized  c\n")
                #expect(try account.cove("evict a") == "")
                #expect(try account.cove("ls a") == "dataless  a\n")
                #expect(
                    try account.cove("evict a d", as: [Evicted].self) == [
                        Evicted(path: "a", freedBytes: 0), Evicted(path: "d", freedBytes: 102_000),
                    ]
                )
                #expect(try account.cove("ls d") == "dataless  b\ndataless  c\n")
                #expect(try account.shell("ls -ls d/b").hasPrefix("1 -rw"))
                #expect(try account.cove("download d/c") == "")
                try waitUntil("d/c is here") { try account.info("d/c").state == "materialized" }
                #expect(try account.cove("pin d/b") == "")
                try waitUntil("what is pinned comes") { try account.info("d/b").state == "materialized" }
                #expect(try account.cove("ls d/b") == "materialized,pinned  b\n")
                #expect(try account.cove("unpin d/b", as: [ItemStatus].self).map(\.isPinned) == [false])
                #expect(try account.cove("pin a", as: [ItemStatus].self).map(\.isPinned) == [true])
                #expect(try account.cove("unpin a") == "")
                #expect(try account.shell("cmp d/b $src/d/b; cmp a $src/a; cmp d/c $src/d/c") == "")
            }
        }

        @Test func `status, sync, pause and resume of an account`() async throws {
            try await mounted(options: "cache-size=1G", prepare: Self.fill) { account in
                try account.settle()
                let status = try account.cove("status", as: AccountStatus.self)
                #expect(status.account == "source" && status.source == "dir://\(account.source.path)")
                #expect(status.mountpoint == account.mount && status.state == "idle" && status.cacheLimit == 1 << 30)
                let text = try account.cove("status --state $STATE")
                #expect(text.hasPrefix("account:    source, \(status.source) at \(account.mount)\nstate:      idle\n"))
                #expect(text.contains("waiting:    0\n") && text.contains("on disk:    0B of at most 1.0G\n"))
                #expect(try account.cove("pause", as: AccountStatus.self).state == "paused")
                try account.shell("echo x > new")
                #expect(try account.cove("status").contains("state:      paused\nwaiting:    1\n"))
                #expect(try account.cove("ls new") == "materialized,dirty  new\n")
                try account.expectRefusal(
                    "$COVE sync --wait",
                    "source: changes still wait: 1 (paused); run `cove resume`"
                )
                #expect(try account.cove("resume", as: AccountStatus.self).state != "paused")
                #expect(try account.cove("sync --wait --timeout 1m") == "")
                #expect(try account.shell("cat $src/new") == "x\n")
                for command in ["pause", "resume"] { #expect(try account.cove(command) == "") }
                #expect(try account.cove("sync new", as: AccountStatus.self).account == "source")
                let report = try account.cove("sync new --wait --timeout 30", as: SyncReport.self)
                #expect(report == SyncReport(isSettled: true, remaining: 0, errors: []))
            }
        }

        @Test func `stats and doctor`() async throws {
            try await mounted(prepare: Self.fill) { account in
                try account.shell("cat a")
                let statistics = try account.cove("stats", as: Statistics.self)
                #expect(statistics.bytesDownloaded == 3 && statistics.daemonPID > 1 && statistics.fuseRequests > 0)
                let lines = try account.cove("stats").split(separator: "\n")
                #expect(lines.contains("bytes_downloaded    3") && lines.count == 24)
                // Other mounts of this machine may be in any state, which is a problem of theirs.
                let doctor = try account.start("exec $COVE doctor --json").wait(deadline: 60)
                let findings = try JSONDecoder().decode([DoctorFinding].self, from: Data(doctor.output.utf8)).filter {
                    $0.check != "mounts" || $0.message.contains(account.mount)
                }
                #expect(findings.contains { $0.check == "mounts" })
                #expect(findings.allSatisfy { $0.level == "ok" || $0.level == "warning" && $0.remedy != nil })
                let text = try account.start("exec $COVE doctor --state $STATE").wait(deadline: 60).output
                #expect(text.contains("ok       state: \(account.scratch.appending("state"))\n"))
                // The same without a mount, and what is wrong with none where one is named.
                let bare = try account.start("cd /; exec $COVE doctor").wait(deadline: 60)
                #expect(bare.output.contains("ok       fuse: "))
                let lost = try account.start("cd /; exec $COVE doctor --state $tmp/none").wait(deadline: 30)
                #expect(lost.status == 1 && lost.output.contains("problem  daemon: "))
            }
        }

        @Test func `the doctor of one account looks at no other account's mounts`() async throws {
            try await mounted { account in
                let other = try MountedAccount()
                try other.start()
                try other.die()
                for name in ["--state $STATE", "$mnt"] {
                    let own = try account.shell("cd /; $COVE doctor \(name)")
                    #expect(own.contains("ok       mounts: \(account.mount): "), "\(own)")
                    #expect(!own.contains(other.mount), "\(own)")
                }
                for name in ["", "--state \(other.scratch.path)/state", other.mount] {
                    let dead = try account.start("cd /; exec $COVE doctor \(name)").wait(deadline: 60)
                    let line = "problem  mounts: \(other.mount): its daemon has died; run `cove unmount \(other.mount)`"
                    #expect(dead.status == 1 && dead.output.contains(line), "\(name): \(dead.output)")
                }
            }
        }

        @Test func `the doctor takes no other account's mount for one that was mounted there before`() async throws {
            try await mounted { account in
                let next = "$tmp/next"
                try account.crash()
                try account.shell("cd /; $COVE mount dir://$src $mnt --state \(next)")
                let doctor = try account.start("cd /; exec $COVE doctor --state $STATE").wait(deadline: 60)
                #expect(doctor.output.contains("ok       mounts: none\n"), "\(doctor.output)")
                #expect(doctor.status == 1 && doctor.output.contains("problem  daemon: "), "\(doctor.output)")
                let other = try account.shell("cd /; $COVE doctor --state \(next)")
                #expect(other.contains("ok       mounts: \(account.mount): "), "\(other)")
            }
        }

        @Test func `an error is one line, whatever the name in it`() async throws {
            try await mounted { account in
                let told = try account.start("exec $COVE status $'evil\\ncove: forged\\e[2J'").wait(deadline: 30)
                #expect(told.status == 1)
                #expect(told.error == "cove: evil\\u{a}cove: forged\\u{1b}[2J: no such item; check the name\n")
            }
        }

        @Test func `conflicts and trash`() async throws {
            try await mounted(prepare: Self.fill) { account in
                for command in ["conflicts", "trash ls"] { #expect(try account.cove(command) == "") }
                try account.shell("cat a; $COVE pause; echo here > a")
                try account.source.save("a", Array("elsewhere\n".utf8))
                try account.shell("$COVE resume")
                try account.settle()
                let conflict = try #require(try account.cove("conflicts", as: [ConflictStatus].self).first)
                #expect(conflict.path == "a" && conflict.copyPath.hasPrefix("a (conflict from "))
                #expect(try account.cove("conflicts").contains("  a  \(conflict.copyPath)  by \(conflict.host)\n"))
                #expect(try account.cove("ls a").hasSuffix(",conflict  a\n"))

                try account.shell("cat d/b > $tmp/b; rm d/b d/c")
                try account.settle()
                let trash = try account.cove("trash ls", as: [TrashEntry].self)
                #expect(trash.map(\.path).sorted() == ["d/b", "d/c"])
                let entry = try #require(trash.first { $0.path == "d/b" })
                #expect(entry.size == 100_000)
                #expect(try account.cove("trash ls").contains(/[0-9a-f]{32}  \d{4}-.*   98K  d\/b\n/))
                #expect(try account.cove("trash restore \(entry.documentID)") == "d/b\n")
                #expect(try account.cove("trash restore d/c", as: [String].self) == ["d/c"])
                #expect(try account.shell("cmp d/b $tmp/b; stat -c %s d/c") == "2000\n")
                try account.expectSame()
                // Of several of one name the one that was deleted last comes back.
                for text in ["first", "second"] {
                    try account.shell("echo \(text) > again; $COVE sync --wait; rm again; $COVE sync --wait")
                }
                #expect(try account.cove("trash restore again") == "again\n")
                #expect(try account.shell("cat again; rm again") == "second\n")
                try account.shell("rm d/b d/c")
                try account.settle()
                #expect(try account.cove("trash empty --older-than 1d") == "0 deleted\n")
                let count = try account.cove("trash ls", as: [TrashEntry].self).count
                #expect(count >= 3)
                #expect(try account.cove("trash empty", as: [String: Int].self) == ["count": count])
                #expect(try account.cove("trash empty") == "0 deleted\n")
            }
        }

        @Test func `commands for an account find it by any path in its mount`() async throws {
            try await mounted { source in
                try source.makeDirectory("d")
                for name in ["d/a", "b"] { try source.save(name, Array("hi\n".utf8)) }
            } _: { account in
                try account.shell("ls d; cat d/a b; rm d/a b; $COVE sync --wait --accept-local-deletions")
                for path in ["$mnt", "$mnt/d"] {
                    try account.shell(
                        """
                        cd /
                        $COVE stats \(path) | grep -q daemon_pid
                        $COVE pause \(path); $COVE status --state $STATE | grep -q 'state: *paused'
                        $COVE resume \(path); $COVE status --state $STATE | grep -q 'state: *\\(idle\\|syncing\\)'
                        $COVE conflicts \(path); $COVE claims \(path); $COVE sync \(path)
                        $COVE doctor \(path) > $tmp/out || true; grep -q "state: $STATE\\$" $tmp/out
                        grep -q 'catalog: the catalog is sound' $tmp/out
                        $COVE upgrade \(path)
                        """
                    )
                }
                #expect(try account.shell("cd /; $COVE trash ls $mnt/d | sed 's/.* //'") == "d/a\n")
                #expect(try account.shell("cd /; $COVE trash ls $mnt | wc -l") == "2\n")
                try account.expectRefusal(
                    "cd /; exec $COVE trash empty $mnt/d",
                    "$mnt/d: is inside a mount; name the mount point: all of its trash is emptied",
                    status: 2
                )
                #expect(try account.shell("cd /; $COVE trash restore $mnt/d/a; cat $mnt/d/a") == "d/a\nhi\n")
                #expect(try account.shell("cd /; $COVE trash empty $mnt") == "1 deleted\n")
                for command in ["stats", "pause", "doctor", "conflicts", "claims", "trash ls", "trash empty"] {
                    let refused = try account.start("cd /; exec $COVE \(command) $src").wait(deadline: 30)
                    #expect(refused.status == 1, "\(command)")
                    #expect((refused.error + refused.output).contains("is not inside a Cove mount"), "\(command)")
                }
            }
        }
    }
}
