import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// A tree that is large: nothing that the daemon keeps in memory grows with it.
    struct ScaleTests {
        @Test func `each of 50,000 names is seen once, and the daemon's memory does not grow with them`() async throws {
            try await blocking {
                let account = try MountedAccount(address: "simulated://?items=50000&fanout=500")
                try account.start()
                // What is locked is a buffer of 1 MiB of each of at most 16 threads, however many of them have had work so far.
                func memory() throws -> Int {
                    let status = try String(
                        contentsOfFile: "/proc/\(account.statistics().daemonPID)/status",
                        encoding: .utf8
                    )
                    func number(_ key: String) throws -> Int {
                        let line = try #require(status.split(separator: "\n").first { $0.hasPrefix(key) })
                        return try #require(line.split(whereSeparator: \.isWhitespace).compactMap { Int($0) }.first)
                    }
                    let locked = try number("VmLck:")
                    #expect(locked < 17 << 10)
                    return try number("VmRSS:") - locked
                }
                // The first directory warms the program up.
                #expect(try account.shell("find folder-1 | wc -l") == "501\n")
                let before = try memory()
                #expect(try account.shell("find . -mindepth 1 | sort -u | wc -l", deadline: 120) == "50000\n")
                // Number 99 is the last with items below it.
                let names = "find . -mindepth 1 -printf '%f\\n' | sed 's/.*-//' | sort -n | cmp - <(seq 50000)"
                #expect(try account.shell(names, deadline: 120) == "")
                let asked = try account.statistics().fuseRequests
                #expect(try account.shell("find . -type d | wc -l; ls -lR | grep -c '^-'") == "100\n49901\n")
                // Nothing of each name: `ls` hears that there are no access control lists.
                #expect(try account.statistics().fuseRequests - asked < 5000)
                #expect(
                    try account.shell("stat -c %s folder-7/file-3777; head -c 3 folder-7/file-3777 | od -An -tu1")
                        == "3777\n  95  96  97\n"
                )
                print("scale test: memory grew by \(try memory() - before) KiB from \(before) KiB")
                // 16 MiB: a third of a KiB for each item would be more. What the work itself took it gives back when it rests.
                try waitUntil("nothing of the names is kept", deadline: 30) { try memory() - before < 16 << 10 }
                try account.end()
                try account.start()
                #expect(try account.shell("find . -mindepth 1 | wc -l", deadline: 120) == "50000\n")
                try waitUntil("nor by the next one", deadline: 30) { try memory() - before < 16 << 10 }
                try account.end()
            }
        }
    }
}
