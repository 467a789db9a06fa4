import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveProviders

/// What a server is told of who asks, and when.
@Suite(.timeLimit(.minutes(30)))
struct HTTPLoginTests {
    private static let basic = "Basic " + Array("ada:lovelace".utf8).base64

    /// A device at a scripted server, and what its requests told.
    private struct Device {
        let server: ScriptedServer
        let dav: WebDAVProvider

        init(_ answer: @escaping @Sendable (ScriptedServer.Request) -> ScriptedServer.Answer) throws {
            server = try ScriptedServer(answer)
            dav = try WebDAVProvider(
                try #require(SourceAddress("webdav://127.0.0.1:\(server.port)/dav")),
                HTTPOptions(),
                credentials: { testCredentials }
            )
            dav.client.use(testCredentials)
        }

        var told: [String?] { server.exchanges.map { $0.request.value("authorization") } }
    }

    private static let found = """
        <?xml version="1.0"?><d:multistatus xmlns:d="DAV:"><d:response><d:href>/dav/</d:href><d:propstat><d:prop>\
        <d:resourcetype><d:collection/></d:resourcetype></d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat>\
        </d:response></d:multistatus>
        """

    private static let digest = "WWW-Authenticate: Digest realm=\"r\", nonce=\"one\", qop=\"auth\", algorithm=MD5"

    @Test func `over plain HTTP nothing is told before the server asks`() async throws {
        let device = try Device { request in
            request.value("authorization") == Self.basic
                ? ScriptedServer.answer(207, [], Self.found)
                : ScriptedServer.answer(401, ["WWW-Authenticate: Basic realm=\"r\""])
        }
        // The first answer is another than WebDAV's: nothing is tried out.
        _ = try? await device.dav.start()
        #expect(device.told.first == .some(nil))
        #expect(device.told.dropFirst().allSatisfy { $0 == Self.basic } && device.told.count > 1)
        let silent = try Device { _ in ScriptedServer.answer(404) }
        _ = try? await silent.dav.start()
        #expect(!silent.told.isEmpty && silent.told.allSatisfy { $0 == nil })
    }

    @Test(
        arguments: [
            ["WWW-Authenticate: Basic realm=\"r\"", digest], [digest, "WWW-Authenticate: Basic realm=\"r\""],
            ["WWW-Authenticate: Basic realm=\"a, b\", Digest realm=r, nonce=one, qop=\"auth,auth-int\""],
        ]
    )
    func `where Digest is offered, the password is not sent`(challenges: [String]) async throws {
        let device = try Device { request in
            request.value("authorization")?.hasPrefix("Digest ") == true
                ? ScriptedServer.answer(207, [], Self.found) : ScriptedServer.answer(401, challenges)
        }
        _ = try? await device.dav.start()
        #expect(device.told.count > 2)
        #expect(device.told.dropFirst().allSatisfy { $0?.hasPrefix("Digest ") == true })
        // Each answer is counted, and is another one.
        #expect(Set(device.told.compactMap { $0 }).count == device.told.count - 1)
        #expect(device.told[2]?.contains("nc=00000002") == true)
    }

    @Test func `a server that had Digest gets no password later`() async throws {
        let device = try Device { request in
            guard let told = request.value("authorization") else {
                return ScriptedServer.answer(401, [Self.digest])
            }
            return told.hasPrefix("Digest ") && request.value("depth") == "0"
                ? ScriptedServer.answer(207, [], Self.found)
                : ScriptedServer.answer(401, ["WWW-Authenticate: Basic realm=\"r\""])
        }
        _ = try? await device.dav.start()
        for _ in 0..<2 {
            let error = await #expect(throws: ProviderError.self) { try await device.dav.everything() }
            guard case .notAuthenticated(let why) = error else {
                Issue.record("\(String(describing: error))")
                return
            }
            #expect(why.contains("wants the password itself"))
            // Also when the account connects again.
            _ = try? await device.dav.start()
        }
        #expect(device.told.contains { $0?.hasPrefix("Digest ") == true })
        #expect(!device.told.contains { $0?.hasPrefix("Basic") == true })
    }

    @Test func `a number that has expired is replaced, and costs one request`() async throws {
        let isExpired = Atomic(false)
        let device = try Device { request in
            let told = request.value("authorization") ?? ""
            if told.isEmpty { return ScriptedServer.answer(401, [Self.digest]) }
            guard isExpired.load(ordering: .relaxed), !told.contains("nonce=\"two\"") else {
                return ScriptedServer.answer(207, [], Self.found)
            }
            return ScriptedServer.answer(401, [Self.digest.replacing("one", with: "two") + ", stale=true"])
        }
        _ = try await device.dav.everything()
        isExpired.store(true, ordering: .relaxed)
        let before = device.told.count
        _ = try await device.dav.everything()
        #expect(device.told.count == before + 2)
        _ = try await device.dav.everything()
        #expect(device.told.count == before + 3)
    }

    @Test func `a wrong password is not tried for ever`() async throws {
        let device = try Device { _ in
            ScriptedServer.answer(401, [Self.digest.replacing("one", with: "\(DocumentID.random())")])
        }
        await #expect(throws: ProviderError.self) { try await device.dav.start() }
        #expect(device.told.count <= 3)
    }

    @Test func `the answers are those of the standard`() throws {
        // RFC 7616, 3.9.1.
        let text = """
            Digest realm="http-auth@example.org", qop="auth, auth-int", algorithm=SHA-256, \
            nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", \
            opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"
            """
        var head = HTTPHead(status: 401)
        head.add("www-authenticate", text)
        head.add("www-authenticate", text.replacing("SHA-256", with: "MD5"))
        let challenges = HTTPChallenge.all(in: head)
        let login = Credentials(user: "Mufasa", password: "Circle of Life")
        let token = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ"
        let answers = [
            "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1", "8ca523f5e9506fed4657c9700eebdbec",
        ]
        for (challenge, answer) in zip(challenges, answers) {
            var digest = try #require(HTTPDigest(challenge))
            let header = digest.authorization(login, "GET", "/dir/index.html", token: token)
            #expect(header.contains("response=\"\(answer)\""), "\(header)")
        }
        let strongest = try #require(HTTPDigest.strongest(of: challenges.reversed()))
        #expect(strongest.nonce == "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v")
        for damaged in ["Digest", "Digest realm=\"", "Digest realm=a, nonce", "Digest ,,,=", "=\"\\", "\"\"", ""] {
            var head = HTTPHead(status: 401)
            head.add("www-authenticate", damaged)
            #expect(HTTPDigest.strongest(of: HTTPChallenge.all(in: head)) == nil)
        }
    }

    @Test func `a real server's Digest is understood`() async throws {
        let server = try TestServer.apache(digest: true)
        let source = "webdav://127.0.0.1:\(server.port)/"
        let dav = try ProviderFactory.make(source: source, access: testAccess)
        try await dav.start()
        let text = String(repeating: "x", count: 100_000)
        for number in 0..<4 { _ = try await dav.make("file \(number)", text) }
        #expect(try await dav.text("file 3") == text)
        let wrong = try ProviderFactory.make(
            source: source,
            access: ProviderFactory.Access { Credentials(user: TestServer.user, password: "wrong") }
        )
        let error = await #expect(throws: ProviderError.self) { try await wrong.start() }
        guard case .notAuthenticated = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    @Test func `logins of netrc are found as curl finds them`() {
        let text = """
            # machine example.org login nobody password nothing
            machine other.example login eve password apple
            macdef init
            machine example.org login macro password macro

            machine EXAMPLE.org
                login ada account x password "love \\"lace"
            machine example.org login bob password #1
            default login anonymous password me
            """
        func find(_ host: String, _ user: String? = nil) -> Credentials? {
            Netrc.login(host: host, user: user, in: Array(text.utf8))
        }
        #expect(find("example.org") == Credentials(user: "ada", password: "love \"lace"))
        #expect(find("example.org", "bob") == Credentials(user: "bob", password: "#1"))
        #expect(find("other.example") == Credentials(user: "eve", password: "apple"))
        #expect(find("elsewhere") == Credentials(user: "anonymous", password: "me"))
        #expect(find("other.example", "ada") == nil)
        #expect(Netrc.login(host: "a", user: nil, in: Array(repeating: 0x23, count: 1 << 20)) == nil)
        #expect(Netrc.login(host: "a", user: nil, in: Array("machine a login".utf8)) == nil)
        #expect(Netrc.login(host: "a", user: "u", in: Array("machine a password p".utf8))?.user == "u")
    }
}
