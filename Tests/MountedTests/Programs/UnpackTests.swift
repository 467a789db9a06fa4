import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Archives unpacked into the mount: many files at once, and the dates of folders last.
    struct UnpackTests {
        private static let count =
            ProcessInfo.processInfo.environment["COVE_UNPACK_FILES"].flatMap(Int.init) ?? 1500

        /// Unpacks an archive and waits until everything is sent, without asking for that.
        private static func unpack(_ account: MountedAccount, isPaused: Bool) throws {
            try account.shell(
                """
                mkdir $tmp/made && cd $tmp/made
                mkdir -p pack/deep && for i in $(seq \(count)); do echo $i > pack/f$i; done && cp pack/f1 pack/deep
                touch -d 2001-01-01 pack/deep pack && tar cf $tmp/pack.tar pack
                """,
                deadline: 300
            )
            if isPaused { _ = try account.cove("pause --state $STATE") }
            try account.shell("tar xf $tmp/pack.tar", deadline: 600)
            if isPaused { _ = try account.cove("resume --state $STATE") }
            let start = Date()
            try waitUntil("everything is sent", deadline: 120 + Double(count) / 10) {
                try account.statistics().queuedOperations == 0
            }
            print(
                "\(count) files, \(isPaused ? "paused" : "not paused"): sent \(Date().timeIntervalSince(start)) s after tar"
            )
        }

        @Test func `of an archive with all its files in a folder everything is sent`() async throws {
            try await mounted { account in
                try Self.unpack(account, isPaused: true)
                try account.expectSame()
            }
        }

        @Test(arguments: [false, true])
        func `everything is sent to a server, too, and the queue is quiet then`(isPaused: Bool) async throws {
            try await blocking {
                let server = try Cloud.apache.start()
                // A poll in between would list the folder again, which is work.
                let accounts = try (0..<2).map { _ in
                    try MountedAccount(options: "poll=1h", address: Cloud.apache.address(server.port))
                }
                try accounts[0].start()
                try Self.unpack(accounts[0], isPaused: isPaused)
                try accounts[1].start()
                #expect(try accounts[1].shell("find pack -type f | wc -l") == "\(Self.count + 1)\n")
                let before = try accounts[0].statistics()
                let ticks = "awk '{ print $14 + $15 }' /proc/\(before.daemonPID)/stat"
                // In hundredths of a second. After much work memory is given back, once: a second look is without that.
                var spent: [Int] = []
                while spent.count < 2, (spent.last ?? .max) > 5 {
                    let times = try accounts[0].shell("\(ticks); sleep 5; \(ticks)").split(separator: "\n")
                        .compactMap { Int($0) }
                    try #require(times.count == 2)
                    spent.append(times[1] - times[0])
                }
                #expect((spent.last ?? .max) <= 5, "\(spent)")
                #expect(try accounts[0].statistics().providerRequests - before.providerRequests < 10)
                for account in accounts { try account.end() }
            }
        }
    }
}
