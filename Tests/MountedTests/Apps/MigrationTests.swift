import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// Devices that know of no apps, and their migration; the numbers are those of the acceptance checklist.
    struct MigrationTests {
        private static let refusal = "the account is not migrated; run `cove account migrate`"
        private static let notes = "iCloud.com.acme.Notes"

        /// A folder as apps of devices without containers have left it.
        private func legacy(_ source: SourceFolder) throws {
            try source.write("\(Self.notes)/Documents/a.txt", "one\n")
            try source.write("\(Self.notes)/Documents/d/b.txt", "two\n")
            try source.write("\(Self.notes)/private.db", "own\n")
            try source.write("com.other.tool.box/Documents/c.txt", "three\n")
            try source.write("com.no.container/c.txt", "four\n")
            try source.write("plain.txt", "five\n")
        }

        private func tree(_ account: MountedAccount) throws -> String {
            try account.shell("find . -type f | sort | xargs -d '\\n' grep -H ''")
        }

        @Test func `98. a legacy account has plain documents, and nothing of apps`() async throws {
            try await mounted(options: "settle=50ms,generation=legacy", prepare: { try legacy($0) }) { account in
                let pick = "$COVE pick --app com.b.app --choose plain.txt --mode"
                for command in [
                    "\(pick) import", "\(pick) open",
                    "$COVE pick --app com.b.app --choose . --file plain.txt --mode export",
                    "$COVE refs ls", "$COVE grants ls", "$COVE app ls",
                    "$COVE container create com.b.box --app com.b.app",
                    "$COVE bookmark create plain.txt --app com.b.app", "$COVE run --app com.b.app -- true",
                    "$COVE query TRUEPREDICATE --scope external",
                ] {
                    let result = try account.start(command).wait(deadline: 60)
                    #expect(result.status != 0 && result.error.contains(Self.refusal), "\(command): \(result)")
                }
                let promised = try account.start("\(Command.built("FindOrCreate")) $mnt plain.txt").wait(deadline: 60)
                #expect(promised.status == 1 && promised.output.contains(Self.refusal), "\(promised)")
                let found = try account.cove("query TRUEPREDICATE")
                #expect(found.contains("plain.txt"))
                try account.shell(
                    "echo more >> \(Self.notes)/Documents/a.txt; mkdir new; echo x > new/f; $COVE sync --wait"
                )
                #expect(try account.source.text("\(Self.notes)/Documents/a.txt") == "one\nmore\n")
                #expect(try account.source.text("new/f") == "x\n")
                #expect(try !account.source.names().contains("_cove-drive"))
                // It stays so with the next daemon, and whatever later mounts say.
                try account.killDaemon()
                #expect(try account.start("$COVE app ls").wait(deadline: 60).error.contains(Self.refusal))
                let status = try account.cove("status", as: AccountStatus.self)
                #expect(status.generation == "legacy" && status.state == "idle")
            }
        }

        @Test func `99. a migration that is cut off anywhere and repeated has every document once`() async throws {
            let seed = UInt64.random(in: 0..<1 << 32)
            print("migration: seed \(seed)")
            var random = SeededGenerator(seed: seed)
            for _ in 0..<4 {
                let delays = (0..<3).map { _ in Int.random(in: 0..<60, using: &random) }
                try await mounted(options: "settle=50ms,generation=legacy", prepare: { try legacy($0) }) { account in
                    let before = try tree(account)
                    for delay in delays {
                        // The daemon dies some milliseconds after the command has begun.
                        let daemon = try pid_t(account.statistics().daemonPID)
                        let command = try account.start("$COVE account migrate")
                        _ = command.hasEnded(within: Double(delay) / 1000)
                        guard kill(daemon, SIGKILL) == 0 else { throw Errno.current }
                        _ = try command.wait(deadline: 60)
                        try waitUntil("a daemon serves") { (try? account.statistics()) != nil }
                    }
                    let last = try account.cove("account migrate")
                    #expect(last.contains("migrated"), "\(last)")
                    #expect(try account.cove("account migrate") == "it is migrated already\n")
                    #expect(try tree(account) == before)
                    try account.settle()
                    let containers = try account.cove("container ls", as: [AccessInterface.Container].self)
                    #expect(containers.map(\.identifier).sorted() == ["com.other.tool.box", Self.notes])
                    #expect(containers.allSatisfy { $0.isPublic })
                    let left = try account.source.snapshot().keys.filter {
                        !$0.hasPrefix("_cove-drive") && !$0.hasPrefix(".")
                    }
                    #expect(left.filter { $0.contains(".txt") || $0.contains(".db") }.count == 6, "\(left)")
                    // What was refused works.
                    try account.cove("container create com.b.box --app com.b.app --name b --public")
                    try account.pick("\(Self.notes)/Documents/a.txt", for: "b")
                    #expect(try account.asApp("b", "cat Documents/a.txt") == "one\n")
                    #expect(
                        try account.asApp("b", "cat $COVE_SHARED/../\(Self.notes)/private.db").contains("No such file")
                    )
                    let second = try MountedAccount(options: "settle=50ms", address: "dir://\(account.source.path)")
                    try second.start()
                    #expect(try second.shell("cat \(Self.notes)/Documents/d/b.txt; $COVE app ls | wc -l") == "two\n3\n")
                    try second.end()
                }
            }
        }

        @Test func `a folder that looks like a container can be told, and kept a folder`() async throws {
            let options = "settle=50ms,generation=legacy"
            try await mounted(
                options: options,
                prepare: { source in
                    try legacy(source)
                    try source.write("www.example.com/Documents/page.html", "six\n")
                }
            ) { account in
                let all = ["com.other.tool.box", Self.notes, "www.example.com"]
                let listed = "its containers would be\n\(all.map { "  \($0)\n" }.joined())"
                #expect(try account.cove("account migrate --dry-run") == listed)
                #expect(try account.cove("status", as: AccountStatus.self).generation == "legacy")
                for (name, reason) in [("..", ".. is no identifier"), ("com.no.container", "--dry-run tells which do")]
                {
                    let refused = try account.start("$COVE account migrate --except \(name)").wait(deadline: 60)
                    #expect(refused.status == 1 && refused.error.contains(reason), "\(refused)")
                }
                #expect(try !account.source.names().contains("_cove-drive"))
                try account.cove("account migrate --except www.example.com")
                let containers = try account.cove("container ls", as: [AccessInterface.Container].self)
                #expect(containers.map(\.identifier).sorted() == Array(all.prefix(2)))
                #expect(try account.shell("cat www.example.com/Documents/page.html") == "six\n")
            }
        }

        @Test(arguments: [false, true])
        func `what another device has said of containers holds in one that is migrated later`(isDead: Bool) async throws
        {
            let options = "poll=500ms,settle=50ms,generation=legacy"
            try await mounted(options: options, prepare: { try legacy($0) }) { here in
                let there = try MountedAccount(options: options, address: "dir://\(here.source.path)")
                try there.start()
                try there.shell("ls; cat \(Self.notes)/Documents/a.txt")
                try here.cove("account migrate")
                try here.shell("mv \(Self.notes) Notebook && $COVE container hide \(Self.notes)")
                try here.cove("container create com.acme.More --app com.acme.Notes --name More")
                try here.settle()
                let said = try here.cove("container ls", as: [AccessInterface.Container].self)
                try waitUntil("the other device notices", deadline: 30) {
                    try there.cove("status", as: AccountStatus.self).state == "paused-not-migrated"
                }
                if isDead { try there.killDaemon() }
                try there.cove("account migrate")
                #expect(try there.cove("container ls", as: [AccessInterface.Container].self) == said)
                try there.settle()
                try here.settle()
                for device in [here, there] {
                    #expect(try device.cove("container ls", as: [AccessInterface.Container].self) == said)
                    #expect(try device.cove("conflicts") == "")
                }
                let records = try here.source.snapshot().keys.filter { $0.hasPrefix("_cove-drive/") }.sorted()
                #expect(records.filter { $0.contains("Notes") }.count == 2, "\(records)")
                try there.end()
            }
        }

        @Test(arguments: SharedSource.all)
        func `100. a legacy device exchanges nothing with a migrated one until it is migrated`(
            source: SharedSource
        ) async throws {
            try await source.devices(
                isMounted: false,
                options: "poll=500ms,settle=50ms,generation=legacy"
            ) { here, there, _ in
                for device in [here, there] { try device.start() }
                try here.shell("echo one > f; $COVE sync --wait")
                try waitUntil("the devices exchange changes", deadline: 30) {
                    (try? there.shell("ls; cat f")) == "f\none\n"
                }
                try here.cove("account migrate")
                try here.settle()
                func state() throws -> AccountStatus { try there.cove("status", as: AccountStatus.self) }
                try waitUntil("the other device notices", deadline: 30) { try state().state == "paused-not-migrated" }
                try here.shell("echo two > g; echo more >> f; $COVE sync --wait")
                // What is done there stays there, over its daemon's death too, and can be used.
                try there.shell("echo three > h; cat h f > /dev/null")
                try there.killDaemon()
                try waitUntil("the next daemon notices", deadline: 30) { try state().state == "paused-not-migrated" }
                try here.settle()
                #expect(try here.shell("ls") == "f\ng\n")
                let left = try there.shell("ls; cat f")
                #expect(left == "f\nh\none\n")
                #expect(try state().reason?.contains("cove account migrate") == true)
                // Who waits is told so.
                let waiting = try there.start("$COVE sync --wait").wait(deadline: 30)
                #expect(waiting.status == 1 && waiting.error.contains("cove account migrate"), "\(waiting)")
                try there.cove("account migrate")
                try there.settle()
                for device in [here, there] {
                    try waitUntil("both have all", deadline: 60) {
                        try device.settle()
                        return (try? device.shell("ls; cat f g h")) == "f\ng\nh\none\nmore\ntwo\nthree\n"
                    }
                    #expect(try device.cove("conflicts") == "")
                }
            }
        }
    }
}
