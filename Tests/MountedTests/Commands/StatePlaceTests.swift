import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// What others could have put where an account keeps its state, its sockets and its settings.
    struct StatePlaceTests {
        /// What is in the way, and the complaint.
        struct Trap: Sendable, CustomTestStringConvertible {
            var testDescription: String { script }
            let script: String
            let line: String
        }

        private static let choose = "choose another directory with --state"
        private static let fresh = "choose an empty or a new directory with --state"
        private static let look = "look who made it, and remove it or choose another directory"

        private static let directories = [
            Trap(
                script: "ln -s $tmp/victim $STATE",
                line: "$STATE: is a symbolic link; name the directory that it leads to"
            ),
            Trap(
                script: "mkdir $STATE; touch $STATE/letter $STATE/zebra",
                line: "$STATE: holds letter, and no account's state; \(fresh)"
            ),
            Trap(
                script: "mkdir $STATE; echo '{\"account\":\"x\"}' > $STATE/account.json",
                line: "$STATE: holds account.json, and no account's state; \(fresh)"
            ),
            Trap(
                script: "mkdir $STATE; chown 33 $STATE",
                line: "$STATE: belongs to another user; \(choose)"
            ),
            Trap(script: "mkfifo $STATE", line: "$STATE: can't be used: Not a directory; \(choose)"),
        ]

        @Test(arguments: directories)
        func `a state directory that is none is refused, and stays as it is`(trap: Trap) async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.shell("mkdir -m 755 $tmp/victim; umask 022; \(trap.script)")
                let before = try account.everything()
                try account.expectRefusal("cd /; exec $COVE mount $src $mnt --state $STATE", trap.line)
                #expect(try account.everything() == before)
            }
        }

        private static let files =
            ["log", "lock", "account.json", "catalog.db", "content", "claims", "coordination"].map {
                Trap(
                    script: "rm -rf $STATE/\($0); ln -s $tmp/victim $STATE/\($0)",
                    line: "$STATE/\($0): is a symbolic link; \(look)"
                )
            }
            + ["log", "lock", "catalog.db-wal", "reserve"].map {
                Trap(
                    script: "rm -f $STATE/\($0); mkfifo $STATE/\($0)",
                    line: "$STATE/\($0): is no plain file; \(look)"
                )
            } + [
                Trap(script: "chown 33 $STATE/log", line: "$STATE/log: belongs to another user; \(look)"),
                Trap(script: "chmod 770 $STATE/content", line: "$STATE/content: can be written to by others; \(look)"),
                Trap(
                    script: "rm $STATE/log; ln $tmp/victim $STATE/log; chmod 777 $STATE",
                    line: "$STATE/log: has another name elsewhere; \(look)"
                ),
            ]

        @Test(arguments: files) func `what was planted in a state directory is not used`(trap: Trap) async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.start()
                try account.end()
                try account.shell("echo precious > $tmp/victim; \(trap.script)")
                // A record that can't be read makes the directory no account's.
                let line =
                    trap.line.hasPrefix("$STATE/account.json")
                    ? "$STATE: holds account.json, and no account's state; \(Self.fresh)" : trap.line
                for words in ["mount $src $mnt --state $STATE", "doctor --repair --state $STATE"] {
                    try account.expectRefusal("cd /; exec $COVE \(words)", line)
                }
                #expect(try account.shell("cat $tmp/victim; stat -c %a $tmp/victim") == "precious\n644\n")
            }
        }

        @Test func `an open directory with a state is closed, and one with a backup's links is used`() async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.start()
                try account.shell("echo text > file")
                try account.settle()
                try account.end()
                try account.shell("cp -al $STATE $tmp/backup; mkdir -p $STATE/lost+found; chmod 755 $STATE")
                try account.start()
                #expect(try account.shell("cat file; stat -c %a $STATE") == "text\n700\n")
                try account.end()
            }
        }

        @Test func `sockets are only where nobody else could have made their folder`() async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.shell("mkdir -m 755 $tmp/victim $tmp/open $tmp/theirs $tmp/own; chmod 777 $tmp/open")
                try account.shell("chown 33 $tmp/theirs; ln -s $tmp/victim $tmp/own/cove")
                let lead = "export XDG_RUNTIME_DIR=$tmp"
                for folder in ["open", "theirs", "none"] {
                    try account.expectRefusal(
                        "cd /; \(lead)/\(folder); exec $COVE stats --account x",
                        "x: no daemon answers at /run/cove/x.sock; mount the account with `cove mount`"
                    )
                }
                try account.expectRefusal(
                    "cd /; unset XDG_RUNTIME_DIR; HOME=/h exec setpriv --reuid 33 --clear-groups $COVE stats --account x",
                    "x: no daemon answers at /h/.local/state/cove/.sockets/x.sock; mount the account with `cove mount`"
                )
                try account.expectRefusal(
                    "cd /; \(lead)/own XDG_STATE_HOME=$tmp/x; exec $COVE mount $src $mnt",
                    "$tmp/own/cove: is a symbolic link; name the directory that it leads to"
                )
                #expect(try account.shell("stat -c %a $tmp/victim; findmnt $mnt || echo none") == "755\nnone\n")
            }
        }

        @Test func `settings that would have to be waited for are not`() async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.shell("mkdir -p $tmp/c/cove; mkfifo $tmp/c/cove/config.json5")
                try account.expectRefusal(
                    "cd /; export XDG_CONFIG_HOME=$tmp/c; exec $COVE mount $src $mnt --state $STATE",
                    "$tmp/c/cove/config.json5: Invalid argument; make it readable, or remove it"
                )
                let doctor = try account.start("cd /; XDG_CONFIG_HOME=$tmp/c exec $COVE doctor").wait(deadline: 30)
                #expect(doctor.output.contains("problem  config: "))
                // A login may be kept where nobody writes.
                let server = try TestServer.apache()
                let login = try account.start(
                    """
                    mkfifo $HOME/.netrc; cd /
                    exec $COVE mount '\(Cloud.apache.address(server.port))' $mnt --state $tmp/other
                    """
                ).wait(deadline: 30)
                #expect(login.status == 1 && login.error.contains("cove login"), "\(login.error)")
            }
        }

        @Test func `a login is kept in a file of its own, whatever stands there`() async throws {
            try await blocking {
                let server = try TestServer.apache()
                let account = try MountedAccount()
                let login = "echo \(TestServer.password) | $COVE login '\(Cloud.apache.address(server.port))'"
                try account.shell(
                    """
                    mkdir -p $HOME/.config/cove; cd $HOME/.config/cove; echo precious > $tmp/victim
                    mkfifo logins.json; ln -s $tmp/victim logins.json.new
                    \(login)
                    [ -f logins.json ]; grep -q ada logins.json
                    rm logins.json; ln -s $tmp/victim logins.json
                    \(login)
                    [ ! -L logins.json ]; grep -q ada logins.json; [ "$(stat -c %a logins.json)" = 600 ]
                    [ "$(cat $tmp/victim)" = precious ]; [ "$(ls -A)" = "$(printf 'logins.json\\nlogins.json.new')" ]
                    chown 33 .
                    """
                )
                let refused = try account.start(login).wait(deadline: 30)
                #expect(refused.status == 1 && refused.error.contains("the login can't be kept: Permission denied"))
            }
        }
    }
}
