import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveProviders

/// Servers that write the same thing in several ways, and those that change what they are told.
@Suite(.timeLimit(.minutes(30)))
struct WebDAVOddServerTests {
    private func provider(_ cloud: ScriptedCloud) async throws -> any Provider {
        let provider = try ProviderFactory.make(source: cloud.source, access: testAccess)
        try await provider.start()
        return provider
    }

    /// How a tag is written in listings, and in headers.
    struct Spelling: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let listed: @Sendable (String) -> String
        let told: @Sendable (String) -> String

        static let all = [
            Spelling(testDescription: "no quotes in listings", listed: { $0 }, told: { "\"\($0)\"" }),
            Spelling(testDescription: "no quotes in headers", listed: { "\"\($0)\"" }, told: { $0 }),
            Spelling(testDescription: "weak in listings", listed: { "W/\"\($0)\"" }, told: { "\"\($0)\"" }),
            Spelling(
                testDescription: "weak in headers, in lower case",
                listed: { "\"\($0)\"" },
                told: { "w/\"\($0)\"" }
            ),
            Spelling(
                testDescription: "quotes that are encoded twice",
                listed: { "&amp;quot;\($0)&amp;quot;" },
                told: { "\"\($0)\"" }
            ),
        ]
    }

    @Test(arguments: Spelling.all)
    func `a tag is the same however it is written`(spelling: Spelling) async throws {
        let cloud = try ScriptedCloud()
        cloud.rewrite { _, reply in
            for name in ["ETag", "OC-ETag"] {
                guard let line = reply.headers.first(where: { $0.hasPrefix("\(name): ") }) else { continue }
                reply.set(name, spelling.told(line.dropFirst(name.count + 2).filter { $0 != "\"" }))
            }
            guard reply.statusLine.contains(" 207 ") else { return }
            reply.rewriteText { text in
                text.replacing(#/<d:getetag>([^<]*)</d:getetag>/#) { match in
                    let tag = String(match.1).replacingOccurrences(of: "&quot;", with: "").filter { $0 != "\"" }
                    return "<d:getetag>\(spelling.listed(tag))</d:getetag>"
                }
            }
        }
        let provider = try await provider(cloud)
        let made = try await provider.make("file", "one")
        let listed = try #require(try await provider.everything().first { $0.name == Array("file".utf8) })
        #expect(made.contentVersion == listed.contentVersion)
        #expect(try await provider.text("file", listed.contentVersion) == "one")
        let replaced = try await provider.modify(
            provider.reference("file", listed),
            base: listed.contentVersion,
            metadata: ItemMetadata(),
            content: MemorySource("two")
        )
        #expect(replaced.contentVersion != listed.contentVersion)
        #expect(try await provider.find("file").contentVersion == replaced.contentVersion)
        #expect(try await provider.text("file", replaced.contentVersion) == "two")
        try await provider.delete(provider.reference("file", replaced), base: replaced.contentVersion)
        #expect(cloud.bytes("file") == nil)
    }

    /// What a server does to names, one that it does it to, and what is said of that one.
    struct Change: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var change: @Sendable (String) -> String = { $0 }
        /// What is refused, or breaks the line.
        var answer: (@Sendable (ScriptedServer.Request) -> ScriptedServer.Answer?)?
        let name: String
        let words: String

        private static func cut(at mark: Character) -> @Sendable (String) -> String {
            { path in
                path.split(separator: "/").map { $0.prefix { $0 != mark } }.joined(separator: "/")
            }
        }

        private static func asked(_ text: String, _ answer: ScriptedServer.Answer)
            -> @Sendable (ScriptedServer.Request) -> ScriptedServer.Answer?
        {
            { request in
                let isAsked = request.target.contains(text) || request.value("destination")?.contains(text) == true
                return isAsked ? answer : nil
            }
        }

        static let all = [
            Change(testDescription: "cuts at ;", change: cut(at: ";"), name: "a;b", words: "a semicolon"),
            Change(testDescription: "cuts at ?", change: cut(at: "?"), name: "what?", words: "a question mark"),
            Change(
                testDescription: "encodes again",
                change: { $0.replacingOccurrences(of: "%", with: "%25") },
                name: "100%",
                words: "a percent sign"
            ),
            Change(
                testDescription: "composes letters",
                change: { $0.precomposedStringWithCanonicalMapping },
                name: "Bru\u{308}cke",
                words: "letters with their marks in several characters"
            ),
            Change(
                testDescription: "refuses control characters",
                answer: asked("%0A", ScriptedServer.answer(400)),
                name: "a\nb",
                words: "a control character"
            ),
            Change(
                testDescription: "breaks off at number signs",
                answer: asked("%23", .hangUp),
                name: "#1",
                words: "a number sign"
            ),
        ]
    }

    @Test(arguments: Change.all)
    func `a name that the server would change is refused here, and others are not`(change: Change) async throws {
        let cloud = try ScriptedCloud()
        cloud.changeNames(change.change)
        cloud.answer(change.answer)
        let provider = try await provider(cloud)
        _ = try await provider.make("plain", "plain")
        let error = await #expect(throws: ProviderError.self) { _ = try await provider.make(change.name, "text") }
        let words = "the server does not keep names with \(change.words)"
        #expect(error.map { "\($0)".contains(words) } == true, "\(String(describing: error))")
        let plain = try await provider.find("plain")
        let failure = await #expect(throws: ProviderError.self) {
            _ = try await provider.move(
                provider.reference("plain", plain),
                base: nil,
                to: .root,
                name: #require(FileName(change.name))
            )
        }
        #expect(failure.map { "\($0)".contains(words) } == true, "\(String(describing: failure))")
        #expect(cloud.names() == ["plain"] && cloud.bytes("plain") == Array("plain".utf8))
    }

    @Test func `of names that are one to the server the second is refused`() async throws {
        let cloud = try ScriptedCloud()
        cloud.changeNames { $0.lowercased() }
        let provider = try await provider(cloud)
        _ = try await provider.make("name", "one")
        await #expect(throws: ProviderError.self) { _ = try await provider.make("NAME", "two") }
        #expect(cloud.names() == ["name"] && cloud.bytes("name") == Array("one".utf8))
    }

    @Test(arguments: ["Internal Server Error", nil], [2, 3])
    func `a listing whose end can't be read is asked for again`(junk: String?, failures: Int) async throws {
        let cloud = try ScriptedCloud()
        for name in ["one", "two"] { cloud.put(name, Array(name.utf8)) }
        let provider = try await provider(cloud)
        let asked = Atomic(0)
        cloud.rewrite { request, reply in
            guard request.method == "PROPFIND", reply.statusLine.contains(" 207 "),
                asked.add(1, ordering: .relaxed).newValue <= failures
            else { return }
            // Something went away while a server listed it: it writes an error behind what it has told, or breaks off.
            if let junk { reply.rewriteText { $0 + junk } } else { reply.rewriteText { String($0.dropLast(20)) } }
        }
        if failures < 3 {
            #expect(
                try await provider.everything().map { String(decoding: $0.name, as: UTF8.self) }.sorted() == [
                    "one", "two",
                ]
            )
        } else {
            await #expect(throws: ProviderError.self) { try await provider.everything() }
        }
        #expect(asked.load(ordering: .relaxed) == 3)
    }

    @Test func `as much of a new file as the old one had is not given, where its tag tells`() async throws {
        let server = try TestServer.rcloneWebDAV()
        let isTorn = Atomic(false)
        // The tag and the bytes are those of what is there, and the size that of what was.
        let front = try ScriptedServer { request in
            guard isTorn.load(ordering: .relaxed) else { return .handOn(server.port) }
            return .changed(server.port) { reply in
                if request.method == "GET" {
                    reply.statusLine = "HTTP/1.1 206 Partial Content"
                    reply.body = Array(reply.body.prefix(4))
                    reply.set("Content-Length", "4")
                    reply.set("Content-Range", "bytes 0-3/4")
                } else {
                    reply.rewriteText {
                        $0.replacingOccurrences(of: "getcontentlength>8<", with: "getcontentlength>4<")
                    }
                }
            }
        }
        let provider = try ProviderFactory.make(source: "webdav://127.0.0.1:\(front.port)/", access: testAccess)
        try await provider.start()
        _ = try await provider.make("file", "new text")
        isTorn.store(true, ordering: .relaxed)
        let torn = try await provider.find("file")
        #expect(torn.size == 4)
        let sink = MemorySink()
        await #expect(throws: ProviderError.self) {
            try await provider.fetch(
                provider.reference("file"),
                version: torn.contentVersion,
                range: 0..<4,
                into: sink
            )
        }
        #expect(sink.bytes == [])
        isTorn.store(false, ordering: .relaxed)
        let whole = try await provider.find("file")
        #expect(whole.contentVersion != torn.contentVersion)
        #expect(try await provider.text("file", whole.contentVersion) == "new text")
    }
}
