import CLinux
import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Daemon, keeper and helpers die together while one of them waits in the kernel for a program.
    struct AbandonedMountTests {
        /// Removals under way in a folder of an account, and the notifier, which waits in the kernel for the folder's lock.
        private struct Scene {
            let account: MountedAccount
            /// Has the first removal wait in the daemon.
            let claim: Command
            /// Each but the first waits in the kernel for the one before it.
            var removals: [Command] = []

            init(removing names: [String]) throws {
                account = try MountedAccount()
                try account.source.makeDirectory("d")
                for name in names + ["z"] { try account.source.save("d/\(name)", Array("hi\n".utf8)) }
                try account.start()
                try account.shell("ls -l d; cat d/*; rm d/z")
                claim = try account.start(
                    "$COVE coordinate --reading d/\(names[0]) "
                        + "sh -c 'touch $tmp/held; until [ -e $tmp/stop ]; do sleep 0.05; done'"
                )
                let account = account
                try waitUntil("the claim is held") {
                    FileManager.default.fileExists(atPath: account.scratch.appending("held"))
                }
                for name in names {
                    let removal = try account.start("exec rm d/\(name)")
                    // What waits for a lock is in another place than what waits for the daemon's answer.
                    let isFirst = removals.isEmpty
                    try waitUntil("the removal of d/\(name) waits") {
                        let folder = "/proc/\(removal.process)"
                        let place = try String(contentsOfFile: folder + "/wchan", encoding: .utf8)
                        let stat = try String(contentsOfFile: folder + "/stat", encoding: .utf8)
                        // The look before it is answered, after which another one could come first.
                        let call = try String(contentsOfFile: folder + "/syscall", encoding: .utf8)
                        guard call.hasPrefix("\(__NR_unlinkat) ") else { return false }
                        return place.contains("request_wait_answer") == isFirst && (isFirst || stat.contains("(rm) D "))
                    }
                    removals.append(removal)
                }
                // The kernel is told of the name by the notifier.
                try account.shell("cd /; $COVE trash restore d/z --state $STATE")
                let notifier = try Self.notifier(account)
                try waitUntil("the notifier waits in the kernel") {
                    let threads = try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(notifier)/task")
                    return (threads ?? []).contains { thread in
                        let path = "/proc/\(notifier)/task/\(thread)/stat"
                        return (try? String(contentsOfFile: path, encoding: .utf8))?.contains(") D ") ?? false
                    }
                }
            }

            private static func notifier(_ account: MountedAccount) throws -> pid_t {
                let daemon = try account.statistics().daemonPID
                let children = try String(contentsOfFile: "/proc/\(daemon)/task/\(daemon)/children", encoding: .utf8)
                return try #require(
                    children.split(separator: " ").compactMap { pid_t($0) }.first {
                        (try? String(contentsOfFile: "/proc/\($0)/comm", encoding: .utf8)) == "cove-notifier\n"
                    }
                )
            }

            /// Lets the claim go and sees that each removal has failed.
            func end() throws {
                try Data().write(to: URL(fileURLWithPath: account.scratch.appending("stop")))
                for removal in removals { #expect(try removal.wait(deadline: 20).status != 0) }
                _ = try claim.wait(deadline: 20)
            }
        }

        @Test func `a program that waits for the daemon is let go`() async throws {
            try await blocking {
                let scene = try Scene(removing: ["x"])
                try scene.account.die()
                try scene.end()
                #expect(try bash("$COVE unmount $mnt; ! mountpoint -q $mnt", scene.account).status == 0)
            }
        }

        @Test(arguments: [
            "$COVE unmount $mnt",
            "$COVE mount $src $mnt --state $STATE; cat $mnt/d/z; $COVE unmount $mnt",
        ])
        func `a mount that nobody will ever serve is ended`(script: String) async throws {
            try await blocking {
                // The second removal asks when nobody is left, and the notifier, whose turn is after it, keeps the connection.
                let scene = try Scene(removing: ["x", "y"])
                let statistics = try scene.account.statistics()
                for process in [statistics.keeperPID, statistics.daemonPID] { kill(pid_t(process), SIGKILL) }
                let result = try bash("\(script); ! mountpoint -q $mnt", scene.account)
                #expect(result.status == 0, "\(result.error)")
                try scene.end()
            }
        }
    }
}

extension MountedInCompany {
    /// `cove unmount` says that there is no answer, and leaves the mount where it is.
    struct DeafDaemonTests {
        @Test func `unmount does not wait for a daemon that gives no answer`() async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.source.save("x", Array("hi\n".utf8))
                try account.start()
                let statistics = try account.statistics()
                let processes = [pid_t(statistics.keeperPID), pid_t(statistics.daemonPID)]
                // Stopped processes would be left behind where something of this fails.
                defer { for process in processes { kill(process, SIGKILL) } }
                for process in processes { kill(process, SIGSTOP) }
                let refused = try bash("exec $COVE unmount $mnt", account)
                #expect(refused.status == 1 && refused.error.contains("has not answered for 30 s; use --lazy"))
                for process in processes { kill(process, SIGCONT) }
                #expect(try account.shell("cat x") == "hi\n")
                for process in processes { kill(process, SIGSTOP) }
                #expect(try bash("$COVE unmount --lazy $mnt; ! mountpoint -q $mnt", account).status == 0)
            }
        }
    }
}

/// Runs a script outside of the mount, which may not answer.
private func bash(_ script: String, _ account: MountedAccount) throws -> CommandResult {
    try Command("bash", ["-euo", "pipefail", "-c", script], environment: account.environment).wait(deadline: 50)
}
