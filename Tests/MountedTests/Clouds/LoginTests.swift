import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// Passwords of mounted accounts.
    struct LoginTests {
        /// A server, how it is reached, and the options of `cove login` and `cove mount` for it.
        struct Kind: Sendable, CustomTestStringConvertible {
            let testDescription: String
            let start: @Sendable () throws -> TestServer
            let address: @Sendable (UInt16) -> String
            var isSecure = false
            /// What the account says it waits for.
            var word = "password"

            static let all = [
                Kind(testDescription: "Apache", start: { try TestServer.apache() }, address: Cloud.apache.address),
                Kind(
                    testDescription: "Apache with TLS",
                    start: { try TestServer.apache(certificateFor: "IP:127.0.0.1") },
                    address: { "webdavs://\(TestServer.user)@127.0.0.1:\($0)/" },
                    isSecure: true
                ),
                Kind(
                    testDescription: "SeaweedFS",
                    start: { try TestServer.seaweedFS() },
                    address: Cloud.s3Address,
                    word: "credentials"
                ),
            ]
        }

        @Test func `what the Secret Service keeps is in no file`() async throws {
            try await blocking {
                let server = try TestServer.apache()
                let address = Cloud.apache.address(server.port)
                let account = try MountedAccount(address: address)
                // As secret-tool(1) does: it says nothing of what it keeps, and fails where it has nothing.
                try account.shell(
                    """
                    cd $tmp; mkdir bin; cat > bin/secret-tool <<'END'
                    #!/bin/sh
                    what=$1; shift
                    for word in "$@"; do case $word in --label*) ;; *) key="$key $word" ;; esac; done
                    file=$HOME/kept$(echo "$key" | tr -c 'a-z0-9\\n' _)
                    case $what in store) cat > "$file" ;; lookup) cat "$file" 2> /dev/null ;; esac
                    END
                    chmod 755 bin/secret-tool; printf '%s' '\(TestServer.password)' > password
                    """
                )
                let login = "HOME=$tmp $COVE login '\(address)' < $tmp/password"
                try account.shell(login)
                #expect(try account.shell("grep -c '\(TestServer.password)' $tmp/.config/cove/logins.json") == "1\n")
                let service = "DBUS_SESSION_BUS_ADDRESS=unix:path=/nowhere PATH=$tmp/bin:$PATH"
                #expect(try account.shell("\(service) \(login)").contains("the Secret Service"))
                #expect(try account.shell("cat $tmp/kept*").contains(TestServer.password))
                try account.shell("! grep '\(TestServer.password)' $tmp/.config/cove/logins.json")
            }
        }

        @Test(arguments: Kind.all)
        func `a wrong password parks what waits, and cove login sends it`(kind: Kind) async throws {
            try await blocking {
                let server = try kind.start()
                let address = kind.address(server.port)
                let options = "settle=50ms,log=debug" + (kind.isSecure ? ",cacert=\(server.authority)" : "")
                let login = "$COVE login '\(address)'" + (kind.isSecure ? " --cacert \(server.authority)" : "")
                let account = try MountedAccount(options: options, address: address)
                try account.start()
                try account.shell("ls; echo far > far")
                try account.settle()
                try account.end()
                try account.start(password: "wrong-password")
                try account.shell("$COVE evict far; echo text > file; ls")
                try waitUntil("the account says why it waits") {
                    try account.shell("$COVE status --state $STATE").contains(kind.word)
                }
                // What is not here can't be had: ENOKEY.
                let read = try account.shell("cat far 2>&1 || true")
                #expect(read.contains("Required key not available"), "\(read)")
                let refused = try account.shell("echo other-nonsense | \(login) 2>&1 || echo failed")
                #expect(refused.contains("refuses") && refused.hasSuffix("failed\n"), "\(refused)")
                let seen = try account.shell(
                    "cat $STATE/log; $COVE status --state $STATE; $COVE doctor --state $STATE || true"
                )
                for secret in ["wrong-password", "other-nonsense"] {
                    #expect(!seen.contains(secret) && !refused.contains(secret))
                }
                try account.end()
                try account.start(password: nil)
                try "\(TestServer.password)\n".write(
                    toFile: account.scratch.appending("password"),
                    atomically: true,
                    encoding: .utf8
                )
                try account.shell("\(login) < $tmp/password")
                try account.settle()
                let holders = try account.shell("grep -rlaF -f $tmp/password $STATE $tmp/.config")
                #expect(holders.hasSuffix("/.config/cove/logins.json\n") && holders.split(separator: "\n").count == 1)
                #expect(try account.shell("stat -c %a $tmp/.config/cove/logins.json") == "600\n")
                // Servers of tests have it on their command lines, and some of those live below a folder named cove.
                let lines = try account.shell(
                    """
                    for p in /proc/[0-9]*; do
                        case "$(readlink $p/exe)" in
                            */cove | */cove-keeper) tr '\\0' ' ' < $p/cmdline 2> /dev/null || true; echo ;;
                        esac
                    done
                    """
                )
                #expect(lines.contains(account.mount) && !lines.contains(TestServer.password))
                try account.end()
                let other = try MountedAccount(options: options, address: address)
                try other.start()
                #expect(try other.shell("cat file far") == "text\nfar\n")
                try other.end()
            }
        }
    }
}
