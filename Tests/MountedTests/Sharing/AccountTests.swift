import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// All that an account holds, at once; the numbers are those of the acceptance checklist.
    struct AccountTests {
        private struct Exported: Decodable {
            var exported: Int
            var bytes: Int
            var present: Int
            var failures: [String: String]
        }

        @Test func `2. an export has every document, with modes and dates, and can be given again`() async throws {
            try await mounted(options: "settle=50ms,cache-size=4M") { account in
                try account.shell(
                    """
                    mkdir -p d/e; printf one > f; chmod 640 f; for i in 1 2 3; do head -c 3000000 /dev/urandom > d/e/big$i; done
                    ln -s ../f d/link; : > empty; chmod 750 d; setfattr -n user.note -v hi f; mkfifo pipe
                    touch -h -d '2020-01-02 03:04:05.5' f d/e/big1 d/link d/e d; $COVE sync --wait; $COVE evict d
                    """
                )
                let first = try account.cove("account export $tmp/out", as: Exported.self)
                #expect(first.exported == 6 && first.bytes == 9_000_003 && first.failures.isEmpty, "\(first)")
                let listing =
                    "find . ! -name pipe -printf '%P %y %m %l %T@ %s\\n' | grep -v '^ ' | sed 's/ d \\(.*\\) [0-9]*$/ d \\1/' | sort"
                #expect(try account.shell("cd $tmp/out; \(listing)") == (try account.shell(listing)))
                #expect(
                    try account.shell("getfattr --only-values -n user.note $tmp/out/f; cd $tmp/out; ls")
                        == "hid\nempty\nf\n"
                )
                try account.shell(
                    "for i in 1 2 3; do cmp d/e/big$i $src/d/e/big$i; cmp $tmp/out/d/e/big$i $src/d/e/big$i; done"
                )
                // What was fetched for it alone has left.
                try account.shell("$COVE evict d; rm -r $tmp/out/d/e/big2; printf changed > f; $COVE sync --wait")
                let second = try account.cove("account export $tmp/out", as: Exported.self)
                #expect(second.exported == 2 && second.present == 4 && second.failures.isEmpty, "\(second)")
                for number in 1...3 { #expect(try account.info("d/e/big\(number)").state == "dataless") }
                #expect(try account.shell("cat $tmp/out/f; cmp $tmp/out/d/e/big2 $src/d/e/big2") == "changed")
                try account.expectRefusal(
                    "$COVE account export d",
                    "d: it is in an account itself; name a folder outside of Cove's mounts"
                )
            }
        }

        @Test func `2. an export says what could not be had, and a later one has it`() async throws {
            try await blocking {
                let server = try TestServer.seaweedFS()
                let line = try FaultProxy(to: server.port)
                let account = try MountedAccount(
                    options: "settle=50ms,stall-limit=1s",
                    address: Cloud.s3Address(line.port)
                )
                try account.start()
                try account.shell(
                    "mkdir d; echo far > d/far; echo near > near; $COVE sync --wait; ls . d; $COVE evict d"
                )
                line.set { $0.refuses = true }
                line.dropAll()
                let result = try account.start("$COVE account export $tmp/out").wait(deadline: 60)
                #expect(result.status == 1 && result.error.contains("d/far: the source can't be reached"), "\(result)")
                #expect(
                    result.output.hasSuffix("1 written (5B), 0 there already, 1 could not be had\n"),
                    "\(result.output)"
                )
                line.set { $0.refuses = false }
                try waitUntil("the rest is had") {
                    try account.start("$COVE account export $tmp/out").wait(deadline: 60).status == 0
                }
                #expect(try account.shell("cat $tmp/out/d/far $tmp/out/near") == "far\nnear\n")
                try account.end()
            }
        }
    }
}
