import CoveCore
import CoveTestSupport
import Testing

@testable import CoveProviders

/// WebDAV over TLS with a real server.
@Suite(.timeLimit(.minutes(30)))
struct SecureLineTests {
    private func device(_ server: TestServer, _ certificates: String?) throws -> any Provider {
        let access = ProviderFactory.Access(certificates: certificates) { testCredentials }
        return try ProviderFactory.make(source: "webdavs://127.0.0.1:\(server.port)/", access: access)
    }

    private func refusal(_ server: TestServer, _ certificates: String?) async throws -> String {
        let dav = try device(server, certificates)
        let error = await #expect(throws: ProviderError.self) { try await dav.start() }
        guard case .serverUnreachable(let why) = error else {
            Issue.record("\(String(describing: error))")
            return ""
        }
        return why
    }

    @Test func `a server with a certificate of one's own needs its authority`() async throws {
        let server = try TestServer.apache(certificateFor: "IP:127.0.0.1")
        let dav = try device(server, server.authority)
        try await dav.start()
        let made = try await dav.make("file", "over a secure line")
        #expect(try await dav.text("file", made.contentVersion) == "over a secure line")
        let why = try await refusal(server, nil)
        #expect(why.contains("certificate") && why.contains("--cacert"), "\(why)")
        // Nothing that could be read was sent before that.
        #expect(!server.log.contains(TestServer.password))
    }

    @Test func `a certificate for another name is refused`() async throws {
        let server = try TestServer.apache(certificateFor: "DNS:other.example")
        let why = try await refusal(server, server.authority)
        #expect(why.contains("127.0.0.1") && !why.contains("--cacert"), "\(why)")
    }
}
