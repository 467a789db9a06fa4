import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// `cove coordinate` as flock(1) has taught people to use it.
    struct CoordinationCommandTests {
        @Test func `a command keeps its options, its exit code and the names of its files`() async throws {
            try await mounted { account in
                let output = try account.shell(
                    """
                    echo x > F
                    $COVE coordinate --writing F sh -c 'cat F; exit 7' || echo $?
                    $COVE coordinate --writing F -- sh -c 'kill -9 $$' || echo $?
                    $COVE coordinate --writing F nonexistent-command 2> /dev/null || echo $?
                    $COVE coordinate --writing F /etc/passwd 2> /dev/null || echo $?
                    name=$(printf 'a\\377b')
                    echo y > "$name"
                    $COVE coordinate --writing="$name" --reading F cat "$name" F
                    $COVE coordinate --reading "$name" sh -c '$COVE claims --json --state $STATE' | grep -c path_base64
                    """
                )
                #expect(output == "x\n7\n137\n127\n126\ny\nx\n1\n")
            }
        }

        @Test func `a time that is over has an exit code of its own`() async throws {
            try await mounted { account in
                try account.shell("echo x > F")
                let holder = try account.start(
                    "$COVE coordinate --writing F sh -c 'touch $tmp/held; until [ -e $tmp/stop ]; do sleep 0.02; done'"
                )
                try account.shell("until [ -e $tmp/held ]; do sleep 0.02; done")
                let late = "$mnt/F: others hold it for longer than that; see `cove claims`"
                try account.expectRefusal("$COVE coordinate -w 0.2 --writing $mnt/F cat $mnt/F", late)
                try account.expectRefusal("$COVE coordinate -w 0.2 -E 9 --reading $mnt/F cat $mnt/F", late, status: 9)
                try account.shell("touch $tmp/stop")
                #expect(try holder.wait(deadline: 20).status == 0)
                #expect(try account.cove("coordinate -w 0.2 -E 9 --reading F cat F") == "x\n")
            }
        }

        @Test func `without any time a command runs at once or not at all`() async throws {
            try await mounted { account in
                let output = try account.shell(
                    """
                    echo x > F
                    for n in $(seq 50); do $COVE coordinate -w 0 --writing F true && echo ran; done | grep -c ran
                    $COVE coordinate --reading F sh -c 'touch $tmp/held; until [ -e $tmp/stop ]; do sleep 0.02; done' &
                    until [ -e $tmp/held ]; do sleep 0.02; done
                    for n in $(seq 20); do $COVE coordinate -w 0 -E 9 --reading F true && echo ran; done | grep -c ran
                    for n in $(seq 20); do
                        $COVE coordinate -w 0 -E 9 --writing F true 2> /dev/null || echo $?
                    done | grep -cx 9
                    touch $tmp/stop
                    wait $!
                    """
                )
                #expect(output == "50\n20\n20\n")
            }
        }

        @Test func `a claim that went with its mount is told at the end, and no later one ends for it`() async throws {
            try await mounted { account in
                try account.shell("echo x > $src/F")
                let holding = "sh -c 'touch $tmp/held-%; until [ -e $tmp/stop-% ]; do sleep 0.02; done'"
                func hold(_ name: String) throws -> Command {
                    let command = holding.replacingOccurrences(of: "%", with: name)
                    let holder = try account.start("cd /; exec $COVE coordinate --writing $mnt/F \(command)")
                    try account.shell("cd /; until [ -e $tmp/held-\(name) ]; do sleep 0.02; done")
                    return holder
                }
                let names = { try account.shell("cd /; $COVE claims --state $STATE | cut -d' ' -f1") }
                let first = try hold("one")
                try account.end()
                try account.start()
                try waitUntil("it is told") { first.error.contains("the claim is lost") }
                let second = try hold("two")
                let name = try names()
                #expect(name.hasPrefix("c"))
                try account.shell("touch $tmp/stop-one")
                let told = try first.wait(deadline: 20)
                let words = "the claim was lost before the end; look what others wrote\n"
                #expect(told.status == 0 && told.error.hasSuffix(words))
                #expect(try names() == name)
                try account.shell("touch $tmp/stop-two")
                #expect(try second.wait(deadline: 20).status == 0)
            }
        }

        @Test func `signals reach the command, ignored ones stay ignored`() async throws {
            try await mounted { account in
                let output = try account.shell(
                    """
                    echo x > F
                    $COVE coordinate --writing F sh -c '
                        trap "echo term; exit 9" TERM; touch $tmp/there; while :; do sleep 0.02; done' &
                    until [ -e $tmp/there ]; do sleep 0.02; done
                    kill $!
                    wait $! || echo $?
                    nohup $COVE coordinate --writing F sh -c 'kill -HUP $$; echo alive' 2> /dev/null
                    (trap "" INT; $COVE coordinate --writing F sh -c 'kill -INT $$; echo alive')
                    """
                )
                #expect(output == "term\n9\nalive\nalive\n")
            }
        }

        @Test func `what can't be claimed is told, with what to do`() async throws {
            try await mounted { account in
                try account.shell("echo x > F")
                try account.expectRefusal(
                    "$COVE coordinate --writing /etc/passwd true",
                    "/etc/passwd: is not inside a Cove mount; name a path below one (`findmnt -t fuse.cove`)"
                )
                try account.expectRefusal(
                    "$COVE coordinate --writing $mnt/no/where true",
                    "$mnt/no/where: No such file or directory; check the path"
                )
                try account.expectRefusal(
                    "$COVE coordinate true",
                    "--writing: no item is named; say which with --reading, --writing and the like",
                    status: 2
                )
                try account.expectRefusal(
                    "$COVE coordinate --writing $mnt/F",
                    "COMMAND: is missing; see `cove help coordinate`",
                    status: 2
                )
                try account.expectRefusal(
                    "$COVE coordinate -w x --writing $mnt/F true",
                    "--timeout: x is no number of seconds; write it as 5 or 0.5",
                    status: 2
                )
                try account.expectRefusal(
                    "$COVE coordinate -E 256 --writing $mnt/F true",
                    "--conflict-exit-code: 256 is no exit code; choose one from 0 to 255",
                    status: 2
                )
                try account.expectRefusal(
                    "$COVE coordinate --reading $mnt/no --for-uploading true",
                    "$mnt/no: no such item; check the name"
                )
            }
        }
    }
}
