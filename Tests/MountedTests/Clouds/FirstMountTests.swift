import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// Mounting an account for the first time, and again without its source.
    struct FirstMountTests {
        /// A source that can't be had at first.
        struct Kind: Sendable, CustomTestStringConvertible {
            let testDescription: String
            let start: @Sendable () throws -> TestServer?
            let address: @Sendable (UInt16) -> String
            var password = TestServer.password
            /// What the complaint says.
            let words: [String]

            static let all = [
                Kind(
                    testDescription: "nobody listens",
                    start: { nil },
                    address: { "webdav://ada@127.0.0.1:\($0)/" },
                    words: ["can't be reached", "check the address"]
                ),
                Kind(
                    testDescription: "a host without a name",
                    start: { nil },
                    address: { _ in "webdavs://ada@nowhere.invalid/dav" },
                    words: ["can't be reached", "nowhere.invalid", "check the address"]
                ),
                Kind(
                    testDescription: "a wrong password",
                    start: { try TestServer.apache() },
                    address: { "webdav://ada@127.0.0.1:\($0)/" },
                    password: "wrong",
                    words: ["refuses the credentials", "cove login"]
                ),
                Kind(
                    testDescription: "a folder that is not there",
                    start: { try TestServer.apache() },
                    address: { "webdav://ada@127.0.0.1:\($0)/none" },
                    words: ["no such folder"]
                ),
                Kind(
                    testDescription: "a wrong secret key",
                    start: { try TestServer.seaweedFS() },
                    address: Cloud.s3Address,
                    password: "wrong",
                    words: ["refuses the credentials", "cove login"]
                ),
                Kind(
                    testDescription: "a bucket that is not there",
                    start: { try TestServer.seaweedFS() },
                    address: { "s3://ada@none/?endpoint=http://127.0.0.1:\($0)&region=us-east-1" },
                    words: ["bucket does not exist", "check the address"]
                ),
            ]
        }

        @Test(arguments: Kind.all) func `a first mount that can't connect is none`(kind: Kind) async throws {
            try await blocking {
                let server = try kind.start()
                let account = try MountedAccount()
                let address = try kind.address(server?.port ?? TestServer.freePort())
                for json in ["", "--json"] {
                    let mount = try account.start(
                        "cd /; export COVE_PASSWORD=\(kind.password); exec $COVE mount \(json) '\(address)' $mnt --state $STATE"
                    ).wait(deadline: 90)
                    #expect(mount.status == 1 && mount.output.isEmpty, "\(mount.output)")
                    #expect(mount.error.split(separator: "\n").count == 1 && mount.error.hasPrefix("cove: "))
                    for words in kind.words { #expect(mount.error.contains(words), "\(mount.error)") }
                }
                #expect(try account.shell("findmnt -rn $mnt || echo none; ls $STATE/catalog.db || true") == "none\n")
                // The state directory is free for the right address.
                try account.shell("$COVE mount $src $mnt --state $STATE; echo text > $mnt/file")
                try account.expectSame()
                try account.end()
            }
        }

        @Test func `a first mount gives up a source that does not answer`() async throws {
            try await blocking {
                // Its directories wait for a source of their own; what asks for them hears nothing of a cancellation.
                let hanging = try MountedAccount(options: "offline,simulate-latency=1h,stall-limit=10m")
                try hanging.start()
                let silent = try ScriptedServer { _ in .silence }
                let account = try MountedAccount()
                let sources = [
                    ("$src", "simulate-latency=1h,"), (hanging.mount, ""),
                    ("webdav://ada@127.0.0.1:\(silent.port)/", ""),
                ]
                for (source, options) in sources {
                    let mount = try account.start(
                        "cd /; exec $COVE mount \(source) $mnt --state $STATE -o \(options)stall-limit=1s"
                    ).wait(deadline: 60)
                    #expect(mount.status == 1 && mount.output.isEmpty, "\(mount.output)")
                    #expect(mount.error.contains("answer"), "\(mount.error)")
                    #expect(try account.shell("findmnt -rn $mnt || echo none") == "none\n")
                }
                try account.start()
                try account.end()
                try hanging.shell("cd /; $COVE unmount --lazy $mnt")
            }
        }

        @Test func `an account that was connected once is mounted without its source, and says so`() async throws {
            try await blocking {
                var server: TestServer? = try TestServer.apache()
                let address = Cloud.apache.address(server?.port ?? 0)
                let account = try MountedAccount(address: address)
                try account.start()
                try account.shell("echo text > file; $COVE sync --wait")
                try account.end()
                server = nil
                let words = "'\(address)' $mnt --state $STATE"
                let mount = try account.start("cd /; exec $COVE mount \(words)").wait(deadline: 60)
                #expect(mount.status == 0 && mount.output.isEmpty)
                #expect(mount.error.contains("can't be reached"))
                #expect(mount.error.hasSuffix("; what is here can be used meanwhile\n"))
                #expect(try account.shell("cat file; echo more >> file") == "text\n")
                try account.end()
                struct Mounted: Decodable { var notice: String? }
                let told = try account.cove("mount \(words)", as: Mounted.self)
                #expect(told.notice?.hasSuffix("; what is here can be used meanwhile") == true)
                try account.end()
            }
        }

        @Test func `-o offline mounts an account that never was connected`() async throws {
            try await blocking {
                let server = try TestServer.apache()
                let line = try FaultProxy(to: server.port)
                line.set { $0.refuses = true }
                let account = try MountedAccount(
                    options: "offline,settle=50ms",
                    address: Cloud.apache.address(line.port)
                )
                try account.start()
                #expect(try account.cove("status").contains("state:      offline: the source can't be reached"))
                let refused = try account.start("echo text > file").wait(deadline: 40)
                #expect(refused.error.contains("No route to host"))
                line.set { $0.refuses = false }
                try account.shell("$COVE sync; echo text > file")
                try account.settle()
                #expect(try String(contentsOfFile: server.files + "/file", encoding: .utf8) == "text\n")
                try account.end()
            }
        }
    }
}
