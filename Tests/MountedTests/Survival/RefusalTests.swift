import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// What can't be done is refused in one line that says what to do, and changes nothing.
    struct RefusalTests {
        /// A command line and what becomes of it.
        struct Refusal: CustomTestStringConvertible {
            var script: String
            var line: String
            var status: Int32

            init(_ script: String, _ line: String, status: Int32 = 1) {
                self.script = script
                self.line = line
                self.status = status
            }

            var testDescription: String { script }
        }

        private static let mounts = [
            Refusal("$COVE mount $tmp/none $mnt", "$tmp/none: no such directory; create it first"),
            Refusal("$COVE mount $src/file $mnt", "$src/file: not a directory"),
            Refusal(
                "exec setpriv --bounding-set=-dac_override,-dac_read_search $COVE mount $tmp/secret $mnt",
                "$tmp/secret: can't be read: Permission denied"
            ),
            Refusal("$COVE mount $src $tmp/none", "$tmp/none: no such directory; make it with `mkdir -p $tmp/none`"),
            Refusal("$COVE mount $src $src/file", "$src/file: not a directory; choose an empty directory"),
            Refusal("$COVE mount $src $tmp/full", "$tmp/full: not empty; choose an empty directory"),
            Refusal("$COVE mount $src $src/in", "$src/in: lies in its source $src; choose a directory outside of it"),
            Refusal(
                "$COVE mount $src $tmp/link/in",
                "$src/in: lies in its source $src; choose a directory outside of it"
            ),
            Refusal("$COVE mount $src $src", "$src: lies in its source $src; choose a directory outside of it"),
            Refusal("$COVE mount $src $tmp", "$tmp: would hide its source $src; choose another directory"),
            Refusal("cd $tmp; $COVE mount source .", "$tmp: would hide its source $src; choose another directory"),
            Refusal(
                "$COVE mount $src $mnt --state $mnt/state",
                "$mnt/state: the state would lie in the mount point $mnt; choose another directory with --state"
            ),
            Refusal(
                "$COVE mount $src $mnt --state $tmp/link/in/state",
                "$tmp/link/in/state: the state would lie in the source $src; choose another directory with --state"
            ),
            Refusal(
                "export XDG_STATE_HOME=$src; $COVE mount $src $mnt",
                "$src/cove/source: the state would lie in the source $src; choose another directory with --state"
            ),
            Refusal(
                "$COVE mount frob://x $mnt",
                "frob://: unknown kind of source; known are dir://, webdav://, webdavs://, s3://, exec:, rclone:"
            ),
            Refusal(
                "$COVE mount rclone:remote $mnt",
                "rclone:remote: write rclone:REMOTE:PATH; `rclone listremotes` tells the remotes"
            ),
            Refusal(
                "$COVE mount exec:$src/file $mnt",
                "$src/file: it can't be run: Permission denied; make it executable with chmod +x"
            ),
            Refusal("$COVE mount $src $mnt --account a/b", accountName, status: 2),
            Refusal(
                "$COVE mount dir://x $mnt",
                "dir://x: a dir: source needs an absolute path; write dir:///PATH",
                status: 2
            ),
            Refusal("$COVE mount $src", "MOUNTPOINT: is missing; see `cove help mount`", status: 2),
            Refusal("$COVE mount $src $mnt x", "x: one operand too many; see `cove help mount`", status: 2),
            Refusal("$COVE mount '' $mnt", "operand 1: is empty; see `cove help mount`", status: 2),
            Refusal("$COVE mount --frob $src $mnt", "--frob: unknown option; see `cove help mount`", status: 2),
            Refusal("$COVE mount -x $src $mnt", "-x: unknown option; see `cove help mount`", status: 2),
            Refusal(
                "$COVE mount $src $mnt --state",
                "--state DIR: its value is missing; see `cove help mount`",
                status: 2
            ),
            Refusal("$COVE mount --json=x $src $mnt", "--json: takes no value; see `cove help mount`", status: 2),
            Refusal(
                "$COVE mount $src $mnt -o cache-size=big",
                "-o cache-size=big: its value can't be read; write it like 20G or 10%",
                status: 2
            ),
        ]

        private static let accountName =
            "--account a/b: is no account name; use letters, digits, dots, dashes; at most 64"

        private static let others = [
            Refusal("$COVE frob", "frob: unknown command; see `cove help`", status: 2),
            Refusal("$COVE trash", "trash: a command is missing; one of ls, restore, empty", status: 2),
            Refusal("$COVE trash frob", "trash: unknown command; one of ls, restore, empty", status: 2),
            Refusal("$COVE help frob", "frob: unknown command; see `cove help`", status: 2),
            Refusal("$COVE completions fish", "fish: unknown shell; bash or zsh", status: 2),
            Refusal("$COVE sync --timeout soon", "--timeout soon: is no time; write it like 30 or 5m", status: 2),
            Refusal(
                "$COVE trash empty --older-than x",
                "--older-than x: is no time; write it like 7d or 12h",
                status: 2
            ),
            Refusal("$COVE info", "PATH: is missing; see `cove help info`", status: 2),
            Refusal(
                "$COVE info $src/file",
                "$src/file: is not inside a Cove mount; name a path below one (`findmnt -t fuse.cove`)"
            ),
            Refusal("$COVE ls $tmp/no/thing", "$tmp/no/thing: No such file or directory; check the path"),
            Refusal(
                "$COVE stats --state $tmp/none",
                "$tmp/none: no daemon answers at $tmp/none/cove.sock; mount the account with `cove mount`"
            ),
            Refusal("$COVE unmount $mnt", "$mnt: no Cove mount is there; see `findmnt -t fuse.cove`"),
        ]

        @Test(arguments: mounts + others) func `is refused`(refusal: Refusal) async throws {
            try await blocking {
                let account = try MountedAccount()
                try account.shell(
                    """
                    mkdir $src/in $tmp/full $tmp/secret; echo x > $src/file; touch $tmp/full/x; chmod 000 $tmp/secret
                    ln -s $src $tmp/link
                    """
                )
                let before = try account.everything()
                // State that a refused mount makes is to be found.
                let script =
                    "export XDG_STATE_HOME=$tmp/xdg XDG_RUNTIME_DIR=$tmp XDG_CONFIG_HOME=$tmp; \(refusal.script)"
                try account.expectRefusal(script, refusal.line, status: refusal.status)
                #expect(try account.everything() == before)
            }
        }
    }
}
