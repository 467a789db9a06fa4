import CoveCore
import CoveProviders
import CoveTestSupport
import Testing

/// That a simulated line is as slow, and as broken, as asked.
@Suite(.serialized, .timeLimit(.minutes(30)))
struct SimulatedLinkTests {
    private func link(
        _ folder: TemporaryDirectory,
        latency: TimeSpan = .zero,
        bandwidth: Int64? = nil,
        stall: String? = nil
    ) async throws -> SimulatedLink {
        let link = SimulatedLink(
            base: FolderProvider(root: folder.path),
            latency: latency,
            bandwidth: bandwidth,
            stall: stall
        )
        try await link.start()
        return link
    }

    @Test func `every operation takes the latency`() async throws {
        let folder = try TemporaryDirectory()
        let link = try await link(folder, latency: .milliseconds(50))
        let time = try await ContinuousClock().measure { _ = try await link.names() }
        #expect(time >= .milliseconds(50))
    }

    @Test func `fetched and sent bytes share the bandwidth`() async throws {
        let folder = try TemporaryDirectory()
        let link = try await link(folder, bandwidth: 1 << 20)
        let text = String(repeating: "x", count: 200 << 10)
        let sending = try await ContinuousClock().measure { _ = try await link.make("file", text) }
        #expect(sending >= .milliseconds(180))
        let fetching = try await ContinuousClock().measure {
            async let first = link.text("file")
            async let second = link.text("file")
            let texts = try await [first, second]
            #expect(texts == [text, text])
        }
        #expect(fetching >= .milliseconds(370))
    }

    @Test func `a stalled fetch ends when it is cancelled, and others go on`() async throws {
        let folder = try TemporaryDirectory()
        let link = try await link(folder, stall: "*.slow")
        _ = try await link.make("file.slow", "x")
        _ = try await link.make("file.fast", "x")
        let stalled = Task { try await link.text("file.slow") }
        #expect(try await link.text("file.fast") == "x")
        stalled.cancel()
        await #expect(throws: ProviderError.cancelled) { try await stalled.value }
    }

    @Test func `a cut line fails everything, and a mended one signals`() async throws {
        let folder = try TemporaryDirectory()
        let link = try await link(folder)
        _ = try await link.make("file", "x")
        var signal = try #require(link.changeSignal).makeAsyncIterator()
        link.setOffline(true)
        let error = await #expect(throws: ProviderError.self) { try await link.names() }
        #expect(error?.parksAccount == true)
        await #expect(throws: ProviderError.self) { _ = try await link.make("other") }
        link.setOffline(false)
        _ = await signal.next()
        #expect(try await link.names() == ["file"])
    }

    @Test(
        arguments: [
            ("20ms", .milliseconds(20)), ("1.5s", .milliseconds(1500)), ("3", .seconds(3)),
            ("250us", .microseconds(250)),
            ("2m", .seconds(120)), ("0", .zero), ("", nil), ("ms", nil), ("5 parsecs", nil), ("-1s", nil),
        ] as [(String, TimeSpan?)]
    )
    func `times are read`(text: String, expected: TimeSpan?) { #expect(SimulatedLink.duration(text) == expected) }

    @Test(
        arguments: [
            ("100M", 100 << 20), ("512k", 512 << 10), ("1.5G", 3 << 29), ("7", 7), ("1KiB", 1024), ("", nil),
            ("M", nil),
            ("1T?", nil), ("-5", nil),
        ] as [(String, Int64?)]
    )
    func `numbers of bytes are read`(text: String, expected: Int64?) { #expect(SimulatedLink.bytes(text) == expected) }
}

/// That sources are understood as typed, and refused in one clear line.
@Suite struct SourceTests {
    @Test func `a folder is named by URL or by path`() async throws {
        let folder = try TemporaryDirectory()
        for source in ["dir://\(folder.path)", folder.path, folder.path + "/"] {
            let provider = try ProviderFactory.make(source: source)
            #expect((provider as? FolderProvider)?.root == folder.path)
        }
        #expect((try ProviderFactory.make(source: ".") as? FolderProvider)?.root.hasPrefix("/") == true)
    }

    @Test func `the line's options put a folder behind it`() throws {
        let folder = try TemporaryDirectory()
        let options = ["latency": "20ms", "bandwidth": "100M", "stall": "*.iso", "other": "ignored"]
        #expect(try ProviderFactory.make(source: folder.path, options: options) is SimulatedLink)
        #expect(throws: SourceError.self) {
            try ProviderFactory.make(source: folder.path, options: ["latency": "soon"])
        }
    }

    @Test func `what can't be mounted is refused in one line`() throws {
        let folder = try TemporaryDirectory()
        try put("x", folder.appending("file"))
        let cases: [(String, SourceError)] = [
            ("", .empty), ("dir://", .empty), ("gopher://x", .unknownScheme("gopher://")),
            ("frob:remote", .unknownScheme("frob:")), ("exec:", .badAddress("exec:")),
            (
                "rclone:remote",
                .failed("rclone:remote: write rclone:REMOTE:PATH; `rclone listremotes` tells the remotes")
            ),
            ("exec:program", .failed("program: there is no such program; write exec:/PATH/TO/PROGRAM")),
            ("exec:/bin/cat?path", .badAddress("exec:/bin/cat?path")),
            ("exec:/bin/cat?path=%zz", .badAddress("exec:/bin/cat?path=%zz")),
            (folder.appending("none"), .missing(folder.appending("none"))),
            (folder.appending("file"), .notDirectory(folder.appending("file"))),
        ]
        for (source, expected) in cases {
            let error = #expect(throws: SourceError.self) { try ProviderFactory.make(source: source) }
            #expect(error == expected)
            #expect(error?.description.contains("\n") == false)
        }
    }
}
