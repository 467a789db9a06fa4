import CoveTestSupport
import Foundation
import Glibc
import Testing

@testable import CoveCore
@testable import CoveProviders

/// Pictures of documents as processes tell them, whatever else they tell.
@Suite(.timeLimit(.minutes(2)))
struct ProviderThumbnailTests {
    private static let keeping = "serve(answer, capabilities={'keepsThumbnails': True})"
    private static let making = "serve(answer, capabilities={'makesThumbnails': True})"

    private let folder: TemporaryDirectory
    private let item = RemoteReference(id: RemoteID("1"), path: RemotePath(unchecked: Array("f".utf8)))
    private let version = ContentVersion("v")

    init() throws { folder = try TemporaryDirectory() }

    /// A provider that has been started; `answer` is what it does with a call.
    private func provider(
        _ answer: String,
        _ serve: String = making,
        limits: ProviderSession.Limits = ProviderSession.Limits()
    ) async throws -> ExternalProvider {
        let path = folder.appending("provider")
        let lines = answer.split(separator: "\n", omittingEmptySubsequences: false).map { "    \($0)\n" }.joined()
        let script =
            "\(BrokenProviderTests.tools)here = \"\(folder.path)\"\ndef answer(id, header):\n\(lines)\(serve)\n"
        try put(script, path)
        try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: path)
        let program = try #require(try ProviderProgram(source: "exec:\(path)"))
        let provider = ExternalProvider(program, state: folder.path, limits: limits) { _ in }
        try await provider.start()
        return provider
    }

    @Test func `a picture without an end is no picture, and the next attempt has another process`() async throws {
        let provider = try await provider(
            """
            if once(here + "/flooded"):
                offset = 0
                while True:
                    send({"id": id, "offset": offset}, b"x" * 1000000)
                    offset += 1000000
            send({"id": id, "offset": 0}, b"picture")
            send({"id": id, "result": {}})
            """,
            limits: ProviderSession.Limits(cancellation: .milliseconds(300))
        )
        let error = await #expect(throws: ProviderError.self) {
            try await provider.thumbnail(of: item, version: version)
        }
        #expect(error?.description.contains("which it was not asked for") == true, "\(String(describing: error))")
        var found: [UInt8]?
        while found == nil { found = try? await provider.thumbnail(of: item, version: version) }
        #expect(found == Array("picture".utf8))
        await provider.stop()
    }

    @Test(arguments: [(0, true), (1, true), (4 << 20, true), (4 << 20 + 1, false)])
    func `a picture has at most four mebibytes, and nothing is none`(size: Int, isTaken: Bool) async throws {
        let provider = try await provider(
            """
            data = b"x" * \(size)
            for start in range(0, len(data), 1 << 20):
                send({"id": id, "offset": start}, data[start : start + (1 << 20)])
            send({"id": id, "result": {}})
            """
        )
        if isTaken {
            let found = try await provider.thumbnail(of: item, version: version)
            #expect(found?.count == (size == 0 ? nil : size))
        } else {
            await #expect(throws: ProviderError.self) { try await provider.thumbnail(of: item, version: version) }
        }
        await provider.stop()
    }

    @Test(arguments: [
        "send({'id': id, 'offset': 5}, b'12345'); send({'id': id, 'result': {}})",
        "send({'id': id, 'offset': -9223372036854775808}, b'1')",
        "send({'id': id, 'offset': 9223372036854775807}, b'1')",
        "send({'id': id, 'offset': 0}, b''); send({'id': id, 'result': {}})",
        "send({'id': id, 'offset': 0}, b'12345'); send({'id': id, 'error': {'kind': 'failed'}})",
    ])
    func `a picture in no order is no picture`(answer: String) async throws {
        let provider = try await provider(answer)
        await #expect(throws: ProviderError.self) { try await provider.thumbnail(of: item, version: version) }
        await provider.stop()
    }

    @Test(arguments: [
        ("['b', 'z', '', '..', 'a/b', {'base64': '/w=='}, 'b']", ["b"]), ("[]", []), ("['a', 'b', 'c']", ["a", "b"]),
        ("None", ["a", "b"]),
    ])
    func `names that were not asked for have no picture`(told: String, expected: [String]) async throws {
        let provider = try await provider("send({'id': id, 'result': {'names': \(told)}})")
        let names = try ["a", "b"].map { try #require(FileName($0)) }
        let found = try await provider.thumbnails(of: names, in: .root)
        #expect(Set(found.map(\.description)) == Set(expected))
        await provider.stop()
    }

    @Test(arguments: ["5", "[5]", "[{'base64': '*'}]", "{}"])
    func `names that are none are an error`(told: String) async throws {
        let provider = try await provider("send({'id': id, 'result': {'names': \(told)}})")
        let name = try #require(FileName("a"))
        await #expect(throws: ProviderError.self) { try await provider.thumbnails(of: [name], in: .root) }
        await provider.stop()
    }

    @Test func `of many names at most a thousand are asked for at a time`() async throws {
        let provider = try await provider(
            """
            names = header["parameters"]["names"]
            send({"id": id, "result": {"names": names if len(names) <= 1000 else []}})
            """
        )
        let names = try (0..<2500).map { try #require(FileName("name \($0)")) }
        #expect(try await provider.thumbnails(of: names, in: .root) == Set(names))
        await provider.stop()
    }

    @Test func `one that does not say that it has pictures is not asked for any`() async throws {
        let provider = try await provider(
            "open(here + '/asked', 'w').close() if id is not None else os._exit(0)",
            "serve(answer)"
        )
        let name = try #require(FileName("f"))
        #expect(try await provider.thumbnails(of: [name], in: .root) == [])
        #expect(try await provider.thumbnail(of: item, version: version) == nil)
        let error = await #expect(throws: ProviderError.self) {
            try await provider.setThumbnail([1], of: item, version: version)
        }
        guard case .unsupported? = error else { throw CommandFailure("\(String(describing: error))") }
        await provider.stop()
        #expect(!FileManager.default.fileExists(atPath: folder.appending("asked")))
    }

    @Test func `one that keeps pictures is given them, and none that is too long or nothing`() async throws {
        let provider = try await provider(
            """
            if "call" in header:
                parameters = header["parameters"]
                open(here + "/asked", "a").write(f"{header['call']} {parameters.get('size')} {parameters['version']} ")
                if "size" not in parameters:
                    send({"id": id, "result": {}})
            elif "end" in header:
                send({"id": id, "result": {}})
            """,
            Self.keeping
        )
        for count in [0, Picture.greatestSize + 1] {
            await #expect(throws: ProviderError.self) {
                let picture = [UInt8](repeating: 1, count: count)
                try await provider.setThumbnail(picture, of: item, version: version)
            }
        }
        let picture = [UInt8](repeating: 1, count: Picture.greatestSize)
        try await provider.setThumbnail(picture, of: item, version: version)
        try await provider.setThumbnail(nil, of: item, version: version)
        await provider.stop()
        let asked = "setThumbnail \(Picture.greatestSize) v setThumbnail None v "
        #expect(try contents(folder.appending("asked")) == asked)
    }

    /// A provider in Swift that is served: what the other side sends is trusted in nothing either.
    @Test func `a served provider is given no picture that is too long, and asked for no name that is none`()
        async throws
    {
        var (toServer, fromServer): ([Int32], [Int32]) = ([-1, -1], [-1, -1])
        try System.retry { Glibc.pipe(&toServer) }
        try System.retry { Glibc.pipe(&fromServer) }
        let server = try ProviderServer(
            FolderProvider(root: folder.path),
            name: "test",
            input: toServer[0],
            output: fromServer[1]
        )
        async let end = server.run()
        let (answers, continuation) = AsyncStream.makeStream(of: JSONValue.self)
        let channel = try FrameChannel(input: fromServer[0], output: toServer[1])
        try channel.start(
            onFrame: { frame in continuation.yield(frame.header) },
            onEnd: { _ in continuation.finish() }
        )
        let calls = [
            #"{"id":1,"call":"setThumbnail","parameters":{"item":{"path":"f"},"version":"v","size":4000001}}"#,
            #"{"id":2,"call":"setThumbnail","parameters":{"item":{"path":"f"},"version":"v","size":-1}}"#,
            #"{"id":2,"end":true}"#,
            #"{"id":3,"call":"thumbnails","parameters":{"directory":{"path":""},"names":["a/b"]}}"#,
            #"{"id":4,"call":"thumbnail","parameters":{"item":{"path":"f"}}}"#,
        ]
        for call in calls { channel.send(ProviderFrame(header: try JSONValue(parsing: Array(call.utf8)))) }
        var failed: Set<Int64> = []
        for await answer in answers {
            guard case .object(let header) = answer, case .integer(let number)? = header["id"] else { continue }
            if header["alive"] != nil { continue }
            #expect(header["error"] != nil, "\(answer)")
            failed.insert(number)
            if failed == [1, 2, 3, 4] { break }
        }
        #expect(failed == [1, 2, 3, 4])
        channel.end("all is asked")
        _ = await end
    }
}
