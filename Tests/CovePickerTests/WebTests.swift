import CoveCore
import CoveTestSupport
import Synchronization
import Testing

@testable import CovePicker

/// The picker's page: who is let in, what is refused, and what calls do.
@Suite struct WebTests {
    /// A face that is served, and a service behind it.
    private final class Site {
        let service: MadeUpService
        let face: WebFace
        let server: HTTPServer
        let guardian: WebGuard

        init(
            mode: PickerMode = .import,
            roots: [String] = ["/mnt"],
            file: String? = nil,
            limits: HTTPServer.Limits = .init()
        ) throws {
            service = try MadeUpService(
                mode: mode,
                roots: roots,
                file: file,
                folders: [
                    "/mnt": [
                        .made("docs/"), .made("<b>&\"'\u{1B}.txt"), .made("picture.png", state: .local), .made("é.txt"),
                        .made("no.zip", isSelectable: false), .made(".hidden"),
                    ],
                    "/mnt/docs": (0..<450).map { .made("file \($0).txt") },
                ]
            )
            face = try WebFace(service, try service.roots())
            (server, guardian) = try face.serve(limits: limits)
        }

        deinit { server.stop() }

        var stranger: WebClient { WebClient(port: server.port) }
        func entered() throws -> WebClient { try WebClient.entered(guardian, port: server.port) }
    }

    private func list(_ client: WebClient, _ folder: String, _ more: String = "") throws -> JSONValue {
        while true {
            let path = "/call/list?folder=\(Hexadecimal.text(Array(folder.utf8)))\(more)"
            let answer = try client.get(path).json()
            if answer["state"]?.text != "loading" { return answer }
        }
    }

    private func names(_ answer: JSONValue) -> [String] {
        guard case .array(let items) = answer["items"] else { return [] }
        return items.compactMap { $0["name"]?.text }
    }

    @Test func `the token lets one browser in, once`() async throws {
        try await blocking {
            let site = try Site()
            let stranger = site.stranger
            for path in ["/", "/picker.js", "/picker.css", "/thumbnail?item=2f", "/call/start", "/nothing"] {
                #expect(try stranger.get(path).status == 403, "\(path)")
            }
            let wrong = String(site.guardian.token.reversed())
            #expect(try stranger.get("/?token=\(wrong)").status == 403)
            #expect(try stranger.get("/?token=").status == 403)
            #expect(try stranger.get("/?token=\(site.guardian.token.dropLast())").status == 403)
            let entrance = try stranger.get("/?token=\(site.guardian.token)")
            #expect(
                entrance.status == 200 && entrance.text.contains(#"<meta http-equiv="refresh" content="0; url=/">"#)
            )
            let cookie = try #require(entrance.fields["set-cookie"])
            #expect(cookie.hasSuffix("; Path=/; HttpOnly; SameSite=Strict") && cookie.contains("\(site.server.port)="))
            #expect(!entrance.text.contains(site.guardian.token))
            let again = try stranger.get("/?token=\(site.guardian.token)")
            #expect(again.status == 403 && again.fields["set-cookie"] == nil)
            var browser = stranger
            browser.cookie = String(cookie.prefix { $0 != ";" })
            let page = try browser.get("/")
            #expect(page.status == 200 && !page.text.contains(site.guardian.token))
            // A call needs what the page has beside the cookie.
            #expect(try browser.get("/call/start").status == 403)
            #expect(try browser.get("/call/start", ["X-Cove-Call": "0"]).status == 403)
            browser.secret = site.guardian.callSecret
            #expect(try browser.get("/call/start").status == 200)
            browser.cookie = "cove-picker-\(site.server.port)=00"
            #expect(try browser.get("/").status == 403)
            #expect(
                try browser.get("/", ["Cookie": "\(cookie.prefix { $0 != ";" }); \(browser.cookie ?? "")"]).status
                    == 403
            )
        }
    }

    @Test func `another host, another origin and another site are refused`() async throws {
        try await blocking {
            let site = try Site()
            let browser = try site.entered()
            let port = site.server.port
            #expect(try browser.get("/", ["Host": "localhost:\(port)"]).status == 200)
            for host in ["evil.example:\(port)", "127.0.0.1", "127.0.0.1:1", "[::1]:\(port)", "localhost.:\(port)", ""]
            {
                #expect(try browser.get("/", ["Host": host]).status == 403, "\(host)")
            }
            #expect(try browser.get("/", ["Host": nil]).status == 400)
            for origin in ["http://evil.example", "null", "https://127.0.0.1:\(port)", "http://localhost:\(port)", nil]
            {
                #expect(try browser.post("/call/cancel", "{}", ["Origin": origin]).status == 403, "\(origin ?? "-")")
                if let origin { #expect(try browser.get("/call/start", ["Origin": origin]).status == 403) }
            }
            for whence in ["cross-site", "same-site", "x"] {
                #expect(try browser.get("/", ["Sec-Fetch-Site": whence]).status == 403)
            }
            #expect(try browser.get("/", ["Sec-Fetch-Site": "same-origin"]).status == 200)
            #expect(site.face.end == nil && site.service.cancels.load(ordering: .relaxed) == 0)
        }
    }

    @Test func `every answer keeps a browser from doing more`() async throws {
        try await blocking {
            let site = try Site()
            let browser = try site.entered()
            for path in ["/", "/picker.js", "/call/start", "/nothing"] {
                let reply = try browser.get(path)
                let policy = try #require(reply.fields["content-security-policy"])
                #expect(policy.hasPrefix("default-src 'none'; ") && !policy.contains("unsafe") && !policy.contains("*"))
                #expect(
                    reply.fields["x-content-type-options"] == "nosniff" && reply.fields["cache-control"] == "no-store"
                )
                #expect(reply.fields["referrer-policy"] == "no-referrer" && reply.fields["connection"] == "close")
                #expect(reply.fields["content-length"] == "\(reply.body.count)")
                #expect(reply.fields["access-control-allow-origin"] == nil)
            }
            // Nothing comes from elsewhere.
            let texts = try ["/", "/picker.js", "/picker.css"].map { try browser.get($0).text }
            for text in texts {
                #expect(
                    text.replacing("http://www.w3.org/2000/svg", with: "").firstMatch(of: /https?:\/\/|@import|url\(/)
                        == nil
                )
                #expect(text.firstMatch(of: /innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(/) == nil)
            }
            #expect(texts[0].firstMatch(of: /<script>|style=|onclick=/) == nil)
        }
    }

    @Test(
        arguments: [
            ("GET / HTTP/1.1\r\n", 408), ("", 0), ("\r\n\r\n", 400), ("GET /\r\n\r\n", 400),
            ("GET / HTTP/1.0\r\nHost: a\r\n\r\n", 505),
            ("GET / HTTP/2\r\nHost: a\r\n\r\n", 505), ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("G\u{1}T / HTTP/1.1\r\n\r\n", 400),
            ("PUT / HTTP/1.1\r\nHost: a\r\n\r\n", 405), ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 405),
            ("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400), ("GET /\u{E9} HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET / HTTP/1.1\nHost: a\n\n", 400), ("GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost: a\r\nA: \0\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\n\r\n", 411),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\na", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\na", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999\r\n\r\n", 413),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\na", 417),
            ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\na", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nab", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab", 408),
            ("GET /?a=%G0 HTTP/1.1\r\nHost: a\r\n\r\n", 400), ("GET /?a=%FF HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET /?a HTTP/1.1\r\nHost: a\r\n\r\n", 400), ("GET /?a=1&a=2 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 403),
        ]
    )
    func `what is no request is refused, and nothing that can be read in two ways is read`(
        _ text: String,
        _ status: Int
    ) async throws {
        try await blocking {
            let site = try Site(limits: .init(request: .milliseconds(300)))
            #expect(try site.stranger.send(Array(text.utf8)).status == status)
        }
    }

    @Test func `what is too long is refused before it is whole`() async throws {
        try await blocking {
            let site = try Site()
            let long = String(repeating: "a", count: 40 << 10)
            #expect(try site.stranger.send(Array("GET /\(long)".utf8)).status == 414)
            #expect(try site.stranger.send(Array("GET / HTTP/1.1\r\nHost: a\r\nA: \(long)".utf8)).status == 431)
            let many = (0..<100).map { "A\($0): b\r\n" }.joined()
            #expect(try site.stranger.send(Array("GET / HTTP/1.1\r\nHost: a\r\n\(many)\r\n".utf8)).status == 431)
            let browser = try site.entered()
            #expect(try browser.post("/call/choose", long).status == 413)
            let deep = String(repeating: "[", count: 20_000)
            #expect(try browser.post("/call/choose", deep).status == 400)
            #expect(site.service.chosen.withLock { $0.isEmpty })
        }
    }

    @Test func `connections beyond the limit are closed, and slow ones give way`() async throws {
        try await blocking {
            let site = try Site(limits: .init(connections: 3, request: .milliseconds(800)))
            let browser = try site.entered()
            let idle = try (0..<3).map { _ in try browser.connect() }
            defer { idle.forEach { System.close($0) } }
            try waitUntil("a fourth is closed") { (try? browser.get("/").status) != 200 }
            try waitUntil("the idle ones are gone") { (try? browser.get("/").status) == 200 }
        }
    }

    @Test func `a page shows names as text, and lists and filters a part at a time`() async throws {
        try await blocking {
            let site = try Site()
            let browser = try site.entered()
            let all = try list(browser, "/mnt")
            #expect(names(all) == ["docs", "<b>&\"'\\u{1b}.txt", "é.txt", "no.zip", "picture.png"])
            #expect(all["total"] == .integer(6) && all["matches"] == .integer(5))
            #expect(try names(list(browser, "/mnt", "&filter=E.TX")) == ["é.txt"])
            #expect(try names(list(browser, "/mnt", "&filter=%2Eh")) == [".hidden"])
            let part = try list(browser, "/mnt/docs", "&from=440&count=200")
            #expect(names(part).count == 10 && part["matches"] == .integer(450))
            #expect(try names(list(browser, "/mnt/docs", "&from=9223372036854775807&count=500")).isEmpty)
            for bad in [
                "", "?folder=zz", "?folder=2", "?folder=2f&from=-1", "?folder=2f&count=0", "?folder=2f&count=501",
            ] {
                #expect(try browser.get("/call/list\(bad)").status == 400, "\(bad)")
            }
            #expect(try list(browser, "/no")["error"]?.text == "/no: is not there; choose another one")
            let picture = try browser.get("/thumbnail?item=\(Hexadecimal.text(Array("/mnt/picture.png".utf8)))")
            #expect(picture.status == 200 && picture.fields["content-type"] == "image/png")
            #expect(try browser.get("/thumbnail?item=2f").status == 404)
        }
    }

    @Test func `a slow folder answers that it loads`() async throws {
        try await blocking {
            let site = try Site()
            site.service.isSlow.store(true, ordering: .sequentiallyConsistent)
            let browser = try site.entered()
            let path = "/call/list?folder=\(Hexadecimal.text(Array("/mnt/docs".utf8)))"
            try waitUntil("it is known how many there are so far") {
                try browser.get(path).json() == .object(["state": .string("loading"), "found": .integer(225)])
            }
            #expect(site.service.listings.load(ordering: .relaxed) == 1)
            // Another folder does not wait for it.
            site.service.isSlow.store(false, ordering: .sequentiallyConsistent)
            #expect(try names(list(browser, "/mnt")).count == 5)
        }
    }

    @Test func `a choice is carried out once, and a failure lets another one follow`() async throws {
        try await blocking {
            let site = try Site()
            let browser = try site.entered()
            site.service.answer.withLock { $0 = .failure(PickerFailure("x", "is gone", "choose another one")) }
            let item = Hexadecimal.text(Array("/mnt/é.txt".utf8))
            let failed = try browser.post("/call/choose", #"{"item":"\#(item)"}"#).json()
            #expect(failed["error"]?.text == "x: is gone; choose another one" && site.face.end == nil)
            for bad in ["", "[]", "{}", #"{"item":3}"#, #"{"item":"zz"}"#, "{\"item\":\"\(item)\"}{}"] {
                #expect(try browser.post("/call/choose", bad).status == 400, "\(bad)")
            }
            #expect(try browser.post("/call/choose", "{}", ["Content-Type": "text/plain"]).status == 415)
            #expect(try browser.get("/call/choose").status == 404)
            site.service.answer.withLock { $0 = .success(PickerOutcome(path: Array("/copy".utf8))) }
            #expect(try browser.post("/call/choose", #"{"item":"\#(item)"}"#).json()["state"]?.text == "done")
            try waitUntil("it is over") { site.face.end == .picked(PickerOutcome(path: Array("/copy".utf8))) }
            #expect(site.service.chosen.withLock { $0.count } == 2)
        }
    }

    @Test func `an export sends a name that is another one, and no bad one`() async throws {
        try await blocking {
            let site = try Site(mode: .export, file: "/tmp/<i>&\".pdf")
            let browser = try site.entered()
            #expect(try browser.get("/").text.contains("A copy of “&lt;i&gt;&amp;&quot;.pdf” goes there"))
            #expect(try browser.get("/call/start").json()["name"]?.text == "<i>&\".pdf")
            let folder = Hexadecimal.text(Array("/mnt/docs".utf8))
            let bad = try browser.post("/call/choose", #"{"item":"\#(folder)","name":"a/b"}"#).json()
            #expect(bad["error"]?.text == "That is a name with a slash; write another name")
            site.service.answer.withLock { $0 = .failure(PickerFailure(nil, "no")) }
            _ = try browser.post("/call/choose", #"{"item":"\#(folder)","name":"new"}"#)
            _ = try browser.post("/call/choose", #"{"item":"\#(folder)","name":"<i>&\".pdf"}"#)
            let path = Array("/mnt/docs".utf8)
            let wanted = [PickerSelection(path: path, name: Array("new".utf8)), PickerSelection(path: path)]
            #expect(site.service.chosen.withLock { $0 } == wanted)
        }
    }

    @Test func `cancelling ends it and changes nothing`() async throws {
        try await blocking {
            let site = try Site()
            let browser = try site.entered()
            #expect(try browser.post("/call/cancel", "{}").json()["state"]?.text == "cancelled")
            try waitUntil("it is over") { site.face.end == .cancelled }
            #expect(site.service.chosen.withLock { $0.isEmpty })
        }
    }

    @Test func `the kernel's table tells whose a connection is`() {
        let table = """
              sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
               0: 0100007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1000        0 1592 1 0 100 0 0 10 0
               1: 0100007F:9C40 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 1593 1 0 100 0 0 10 0
               2: 0100007F:9C41 0100007F:1F90 06 00000000:00000000 00:00000000 00000000     0        0 0 1 0 100 0 0 10 0
            garbage
            """
        func user(_ port: UInt16, to: UInt16 = 0x1F90) -> UInt32? {
            let peer = SocketAddress(host: 0x0100_007F, port: port)
            return ConnectionOwner.user(of: peer, to: to, in: Array(table.utf8))
        }
        #expect(user(0x9C40) == 1001 && user(0x9C41) == 0 && user(0x9C42) == nil && user(0x9C40, to: 1) == nil)
    }
}
