import CoveCore
import CoveTestSupport
import Foundation
import Testing

/// An account of a user who is not root, mounted by fusermount3.
final class OrdinaryAccount: Sendable {
    /// A user that every Debian has and nothing runs as: fusermount3 wants one with a name.
    static let user = "games"

    private let scratch: TemporaryDirectory
    private let environment: [String: String]
    let mount: String
    /// What /dev/fuse's rights were; udev gives them to everybody, a container's /dev may not.
    private let deviceMode: mode_t

    /// Makes the user's home, a folder that is the cloud, and a copy of the program that the user may run.
    init() throws {
        guard let binary = ProcessInfo.processInfo.environment["COVE_BINARY"] else {
            throw CommandFailure("COVE_BINARY is not set; run mount-scripts/test")
        }
        scratch = try TemporaryDirectory("u")
        let top = scratch.path
        mount = top + "/home/mnt"
        for folder in ["bin", "home/mnt", "home/cloud", "home/run"] {
            try FileManager.default.createDirectory(atPath: "\(top)/\(folder)", withIntermediateDirectories: true)
        }
        let folder = URL(fileURLWithPath: binary).resolvingSymlinksInPath().deletingLastPathComponent().path
        for name in ["cove", "cove-keeper"] {
            try Command.run("cp", ["--reflink=auto", "\(folder)/\(name)", "\(top)/bin/\(name)"], deadline: 60)
        }
        deviceMode = try System.statFollowing("/dev/fuse").st_mode & 0o7777
        try Command.run("chmod", ["666", "/dev/fuse"])
        // The tests' folder is root's alone; its name can't be guessed.
        for place in [URL(fileURLWithPath: top).deletingLastPathComponent().path, top, top + "/bin"] {
            try Command.run("chmod", ["711", place])
        }
        try Command.run("chown", ["-R", "\(Self.user):", "\(top)/home"])
        try Command.run("chmod", ["700", "\(top)/home/run"])
        environment = [
            "HOME": top + "/home", "XDG_RUNTIME_DIR": top + "/home/run", "COVE": top + "/bin/cove", "mnt": mount,
            "src": top + "/home/cloud", "LC_ALL": "C.UTF-8", "TERM": "dumb", "TMPDIR": top + "/home",
        ]
    }

    deinit {
        _ = try? Command.run("umount", ["-l", mount], deadline: 10, mayFail: true)
        chmod("/dev/fuse", deviceMode)
    }

    /// Starts a bash script as the user, in the home.
    func start(_ script: String) throws -> Command {
        let identity = ["--reuid=\(Self.user)", "--regid=\(Self.user)", "--clear-groups", "--inh-caps=-all"]
        let line = ["bash", "-euo", "pipefail", "-c", "cd ~\n" + script]
        return try Command("setpriv", identity + line, environment: environment)
    }

    /// Runs a bash script as the user and returns what it printed; throws when it fails.
    @discardableResult
    func shell(_ script: String, deadline: Double = 60) throws -> String {
        let result = try start(script).wait(deadline: deadline)
        guard result.status == 0 else {
            throw CommandFailure("exit \(result.status)\n\(result.error)\(result.output)\nof\n\(script)")
        }
        return result.output
    }
}

extension Mounted {
    /// What most people are: users without any right of root's.
    struct OrdinaryUserTests {
        private static func mounted(_ body: @escaping @Sendable (OrdinaryAccount) throws -> Void) async throws {
            try await blocking {
                let account = try OrdinaryAccount()
                try account.shell("$COVE mount cloud mnt")
                try body(account)
                try account.shell("$COVE unmount mnt; ! mountpoint -q mnt")
            }
        }

        @Test func `programs edit, and the cloud has it`() async throws {
            try await Self.mounted { account in
                try account.shell(
                    """
                    cd mnt
                    [ "$(stat -c %u:%g .)" = "$(id -u):$(id -g)" ]
                    echo first > note; vim -u NONE -N -es -c 's/first/second/' -c wq note
                    git init -q repository; cd repository
                    git config user.email a@example.org; git config user.name a
                    for number in $(seq 20); do echo $number > f$number; done
                    git add -A; git commit -qm first; git fsck --no-progress; cd ..
                    sqlite3 base.db 'create table t(a); insert into t values (1), (2); select count(*) from t'
                    echo old > saved; echo new > saved.part; mv saved.part saved
                    $COVE sync --wait --timeout 60
                    cd; [ "$(cat cloud/note)" = second ]; [ "$(cat cloud/saved)" = new ]
                    diff -r --no-dereference --exclude='.cove*' mnt cloud
                    [ "$(sqlite3 cloud/base.db 'select sum(a) from t')" = 3 ]
                    """,
                    deadline: 120
                )
            }
        }

        @Test func `what is written outlives the daemon, again and again`() async throws {
            try await Self.mounted { account in
                for round in 1...5 {
                    try account.shell(
                        """
                        daemon() { $COVE stats --json | sed -n 's/.*"daemon_pid" *: *\\([0-9]*\\).*/\\1/p'; }
                        former=$(daemon)
                        (for number in $(seq 200); do echo "\(round) $number"; done > mnt/f\(round)) &
                        kill -9 $former
                        wait $!
                        until new=$(daemon) && [ "$new" != "$former" ]; do :; done
                        [ "$(wc -l < mnt/f\(round))" = 200 ]
                        """
                    )
                }
                try account.shell("$COVE sync --wait --timeout 60; diff -r --exclude='.cove*' mnt cloud")
            }
        }

        @Test func `claims, apps and unmounting`() async throws {
            try await Self.mounted { account in
                try account.shell(
                    """
                    echo text > mnt/document
                    [ "$($COVE coordinate --writing mnt/document cat mnt/document)" = text ]
                    $COVE app register org.example.notes
                    $COVE container create org.example.notes --app org.example.notes
                    echo theirs > mnt/org.example.notes/Documents/own
                    $COVE run --app org.example.notes -- sh -c 'cat Documents/own; echo mine > Documents/own' | grep -x theirs
                    [ "$(cat mnt/org.example.notes/Documents/own)" = mine ]
                    """
                )
                let busy = try account.start("cd mnt; echo here; exec sleep 60")
                try waitUntil("a program is in the mount") { busy.output == "here\n" }
                let refused = try account.start("exec $COVE unmount mnt").wait(deadline: 30)
                #expect(refused.status == 1 && refused.error.contains("in use by") && refused.error.contains("sleep"))
                try account.shell("$COVE unmount --lazy mnt; ! mountpoint -q mnt")
                busy.signal(SIGKILL)
                _ = busy.hasEnded(within: 5)
                try account.shell("$COVE mount cloud mnt; cat mnt/document")
            }
        }

        @Test func `what fusermount3 refuses is told with what to do`() async throws {
            try await blocking {
                let configuration = (try? String(contentsOfFile: "/etc/fuse.conf", encoding: .utf8)) ?? ""
                let allows = configuration.split(separator: "\\n").contains { $0.hasPrefix("user_allow_other") }
                let account = try OrdinaryAccount()
                let result = try account.start("exec $COVE mount -o allow_other cloud mnt").wait(deadline: 60)
                if allows {
                    #expect(result.status == 0)
                    try account.shell("$COVE unmount mnt")
                } else {
                    #expect(result.status == 1)
                    #expect(result.error.contains("have root write user_allow_other to /etc/fuse.conf"))
                }
            }
        }
    }
}
