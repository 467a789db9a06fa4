import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Programs that run below others, which hold claims meanwhile.
    struct CoordinationTreeTests {
        @Test func `children exclude each other, though each may do what their parent may`() async throws {
            try await mounted { account in
                try CoordinationScripts.prepare(account)
                try account.shell("echo 0 > F")
                let child =
                    "for n in $(seq 40); do $COVE coordinate --writing F -- sh -c 'n=$(cat F); echo $((n + 1)) > F'; done"
                try account.shell(
                    """
                    export child="\(child.replacingOccurrences(of: "$", with: "\\$"))"
                    $COVE coordinate --writing F -- bash -euc 'bash -euc "$child" & bash -euc "$child"; wait $!'
                    """
                )
                #expect(try account.shell("cat F") == "80\n")
            }
        }

        @Test func `a parent waits for what its child holds as all do`() async throws {
            try await mounted { account in
                try CoordinationScripts.prepare(account)
                try account.shell("echo old > F; echo beside > G")
                let parent = try account.start(
                    """
                    $COVE coordinate --reading G -- bash -c '
                        $COVE coordinate --writing F -- sh -c "
                            touch $tmp/held; until [ -e $tmp/go ]; do sleep 0.01; done; echo new > F" &
                        until [ -e $tmp/held ]; do sleep 0.01; done
                        $COVE coordinate --writing F -- cat F
                        wait $!'
                    """
                )
                try account.waitForMark("held")
                try account.waitForWaiting(1)
                try account.shell("touch $tmp/go")
                let result = try parent.wait(deadline: 60)
                #expect(result.status == 0 && result.output == "new\n")
            }
        }

        @Test func `of two whose children want what the other holds one is told so, and the other goes on`()
            async throws
        {
            try await mounted { account in
                try CoordinationScripts.prepare(account)
                try account.shell("echo a > F; echo b > G")
                let commands = try [("F", "G"), ("G", "F")].map { held, wanted in
                    try account.start(
                        """
                        $COVE coordinate --writing \(held) -- bash -euc '
                            touch $tmp/\(held); until [ -e $tmp/\(wanted) ]; do sleep 0.01; done
                            sh -euc "$COVE coordinate --writing \(wanted) -- sh -c \\"echo \(held) >> \(wanted)\\""'
                        """
                    )
                }
                let results = try commands.map { try $0.wait(deadline: 60) }
                #expect(results.count { $0.status == 0 } == 1, "\(results)")
                let refused = try #require(results.first { $0.status != 0 })
                #expect(refused.error.contains("it would wait for a claim that waits for it"), "\(refused.error)")
                let went = results[0].status == 0 ? ("a\n", "b\nF\n") : ("a\nG\n", "b\n")
                #expect(try account.shell("cat F") == went.0)
                #expect(try account.shell("cat G") == went.1)
            }
        }
    }
}
