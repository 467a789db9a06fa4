import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Whose certificates are trusted.
    struct AuthorityTests {
        @Test func `a file of certificates takes the place of those that the system trusts`() async throws {
            try await blocking {
                let server = try TestServer.apache(certificateFor: "IP:127.0.0.1")
                let account = try MountedAccount()
                // The other authority has another name: of one with the same name the system's would not be looked for.
                try account.shell(
                    """
                    mkdir $tmp/certs
                    cp \(server.authority) $tmp/certs/ca-certificates.crt
                    cp \(server.authority) $tmp/certs/$(openssl x509 -in \(server.authority) -noout -hash).0
                    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout $tmp/other.key \
                        -out $tmp/other.pem -days 2 -subj /CN=other
                    echo \(TestServer.password) > $tmp/password
                    """
                )
                // libcurl heeds no variable: the system's certificates are others for this process alone.
                try "mount --bind $tmp/certs /etc/ssl/certs; $COVE login $address $options < $tmp/password".write(
                    toFile: account.scratch.appending("script"),
                    atomically: true,
                    encoding: .utf8
                )
                func login(_ options: String = "") throws -> CommandResult {
                    try account.start(
                        """
                        export address=webdavs://\(TestServer.user)@127.0.0.1:\(server.port)/ options='\(options)'
                        exec unshare --mount bash -euo pipefail $tmp/script
                        """
                    ).wait(deadline: 60)
                }
                let refused = try login("--cacert \(account.scratch.appending("other.pem"))")
                #expect(refused.status == 1 && refused.output.isEmpty, "\(refused)")
                #expect(refused.error.contains("certificate") && refused.error.contains("--cacert"), "\(refused)")
                for options in ["", "--cacert \(server.authority)"] {
                    let accepted = try login(options)
                    #expect(accepted.status == 0 && accepted.output.contains("is logged in"), "\(accepted)")
                }
            }
        }
    }
}
