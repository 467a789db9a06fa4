import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Where passwords are while an account is mounted, and who is told that a line has no secrets.
    struct SecretTests {
        /// How a password reaches the daemon.
        struct Kind: Sendable, CustomTestStringConvertible {
            let testDescription: String
            let start: @Sendable () throws -> TestServer
            let address: @Sendable (UInt16) -> String
            let variables: [String: String]

            static let all = [
                Kind(
                    testDescription: "COVE_PASSWORD",
                    start: { try TestServer.apache() },
                    address: Cloud.apache.address,
                    variables: ["COVE_PASSWORD": TestServer.password]
                ),
                Kind(
                    testDescription: "AWS's variables",
                    start: { try TestServer.seaweedFS() },
                    address: Cloud.s3Address,
                    variables: ["AWS_ACCESS_KEY_ID": TestServer.user, "AWS_SECRET_ACCESS_KEY": TestServer.password]
                ),
            ]
        }

        /// Sees that no process of the account has the password in what it was started with.
        private static func expectHidden(_ account: MountedAccount, location: SourceLocation = #_sourceLocation) throws
        {
            let statistics = try account.statistics()
            let script = """
                for p in \(statistics.keeperPID) \(statistics.daemonPID) $(cat /proc/\(statistics.daemonPID)/task/*/children); do
                    tr '\\0' '\\n' < /proc/$p/environ > $tmp/environ; wc -l < $tmp/environ
                    grep -F '\(TestServer.password)' $tmp/environ && echo found || true
                done
                """
            let lines = try account.shell("cd /; " + script).split(separator: "\n")
            // Keeper, daemon, announcer and notifier, each with an environment.
            #expect(lines.count >= 4 && lines.allSatisfy { (Int($0) ?? 0) > 1 }, "\(lines)", sourceLocation: location)
        }

        @Test(arguments: Kind.all)
        func `a password leaves the environment, and the next daemon has it all the same`(kind: Kind) async throws {
            try await blocking {
                let server = try kind.start()
                let account = try MountedAccount(address: kind.address(server.port), variables: kind.variables)
                try account.start(password: nil)
                try Self.expectHidden(account)
                try account.shell("echo text > file; $COVE sync --wait; $COVE evict file")
                try account.killDaemon()
                try Self.expectHidden(account)
                #expect(try account.shell("cat file") == "text\n")
                try account.shell("$COVE evict file; $COVE upgrade")
                try Self.expectHidden(account)
                #expect(try account.shell("cat file") == "text\n")
                try account.end()
            }
        }

        @Test func `other processes of its user can't look into keeper and daemon`() async throws {
            try await blocking {
                let account = try MountedAccount()
                // Root may look into everything, but without this capability it is a user like others.
                let user = "setpriv --bounding-set -sys_ptrace --inh-caps -sys_ptrace"
                try account.shell("cd /; \(user) $COVE mount $src $mnt --state $STATE; echo text > $mnt/file")
                let other = try account.start("cd /; exec \(user) sleep 1000")
                defer { other.signal(SIGKILL) }
                func look(into process: Int) throws -> Int32 {
                    try account.start("exec \(user) readlink /proc/\(process)/exe").wait(deadline: 60).status
                }
                try waitUntil("it can look into others") { try look(into: Int(other.process)) == 0 }
                for _ in 0..<2 {
                    let now = try account.statistics()
                    #expect(try look(into: now.keeperPID) != 0)
                    #expect(try look(into: now.daemonPID) != 0)
                    // The next ones too, also when they begin with what is left.
                    try account.shell("\(user) $COVE upgrade; echo more >> file")
                    try account.killDaemon()
                }
                try account.expectSame()
                try account.end()
            }
        }

        @Test func `a line that others can read is told of`() async throws {
            try await blocking {
                for (address, isTold) in [
                    ("webdav://ada@192.0.2.1/dav", true), ("webdavs://ada@192.0.2.1/dav", false),
                    ("s3://ada@bucket/?endpoint=http://192.0.2.1:9000&region=r", true),
                    ("webdav://ada@127.0.0.1:9/", false),
                ] {
                    let account = try MountedAccount(options: "offline,stall-limit=1s", address: address)
                    try account.start()
                    let words = "the source is reached without encryption"
                    #expect(try account.shell("$COVE status --state $STATE").contains("note:       \(words)") == isTold)
                    let doctor = try account.shell("$COVE doctor --state $STATE || true")
                    #expect(doctor.contains("warning  source: \(words)") == isTold, "\(doctor)")
                    try account.end()
                    guard address.hasPrefix("webdav:") else { continue }
                    let login = try account.start("cd /; echo secret | timeout 60 $COVE login '\(address)'").wait(
                        deadline: 90
                    )
                    #expect(login.status != 0 && login.error.contains(words) == isTold, "\(login.error)")
                }
            }
        }
    }
}
