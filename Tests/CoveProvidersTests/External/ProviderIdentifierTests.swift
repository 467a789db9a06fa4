import CoveTestSupport
import Foundation
import Glibc
import Testing

@testable import CoveCore
@testable import CoveProviders

/// What processes call items for good, and where they say that these are, whatever they say.
@Suite(.timeLimit(.minutes(2)))
struct ProviderIdentifierTests {
    private let folder: TemporaryDirectory
    private let item = RemoteReference(id: RemoteID("1"), path: RemotePath(unchecked: Array("f".utf8)))

    init() throws { folder = try TemporaryDirectory() }

    /// A provider that answers each call with a result in Python.
    private func provider(_ result: String) async throws -> ExternalProvider {
        let path = folder.appending("provider")
        let script = """
            \(BrokenProviderTests.tools)
            def answer(id, header):
                send({"id": id, \(result)})
            serve(answer, capabilities={"persistentIdentifiers": True})

            """
        try put(script, path)
        try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: path)
        let program = try #require(try ProviderProgram(source: "exec:\(path)"))
        let provider = ExternalProvider(program, state: folder.path) { _ in }
        try await provider.start()
        #expect(provider.capabilities.persistentIdentifiers)
        return provider
    }

    private static let identifiers: [(String, Int?)] = [
        ("{'identifier': 'x'}", 1), ("{'identifier': 'x' * 500}", 500), ("{'identifier': {'base64': '/wA='}}", 2),
        ("{'identifier': 'x' * 501}", nil), ("{'identifier': ''}", nil), ("{'identifier': 7}", nil), ("{}", nil),
    ]

    @Test(arguments: identifiers)
    func `an identifier has 1 to 500 bytes`(result: String, count: Int?) async throws {
        let provider = try await provider("\"result\": \(result)")
        if let count {
            #expect(try await provider.persistentIdentifier(of: item).bytes.count == count)
        } else {
            await #expect(throws: ProviderError.self) { try await provider.persistentIdentifier(of: item) }
        }
        await provider.stop()
    }

    private static let places: [(String, String?)] = [
        ("'result': {'path': 'd/f'}", "d/f"), ("'result': {'path': {'base64': '/w=='}}", "\u{FFFD}"),
        ("'result': {'path': '../f'}", nil), ("'result': {'path': 'd/../../f'}", nil), ("'result': {'path': '.'}", nil),
        ("'result': {'path': '/etc/passwd'}", nil), ("'result': {'path': 'd//f'}", nil),
        ("'result': {'path': 'f/'}", nil), ("'result': {'path': ''}", nil), ("'result': {'path': 'a\\0b'}", nil),
        ("'result': {'path': 'x' * 300}", nil), ("'result': {'path': ['f']}", nil), ("'result': {}", nil),
        ("'error': {'kind': 'nonsense'}", nil),
    ]

    @Test(arguments: places)
    func `what is no path of an item is refused`(result: String, path: String?) async throws {
        let provider = try await provider(result)
        let identifier = try #require(PersistentIdentifier([1]))
        if let path {
            #expect(try await provider.path(ofPersistent: identifier).description == path)
        } else {
            let error = await #expect(throws: ProviderError.self) {
                try await provider.path(ofPersistent: identifier)
            }
            #expect(error != .noSuchItem && error?.description.contains("provider") == true)
        }
        await provider.stop()
    }

    @Test func `a source without identifiers says so, also when it is served`() async throws {
        let source = try TemporaryDirectory()
        let provider = try ServedSource.provider("dir://\(source.path)", beside: folder.appending("served"))
        try await provider.start()
        #expect(!provider.capabilities.persistentIdentifiers)
        let identifier = try #require(PersistentIdentifier([1]))
        for _ in 0..<2 {
            let error = await #expect(throws: ProviderError.self) {
                try await provider.path(ofPersistent: identifier)
            }
            guard case .unsupported = error else {
                Issue.record("\(String(describing: error))")
                break
            }
        }
        await provider.stop()
    }

    @Test func `one that serves a provider with identifiers passes them on`() async throws {
        let program = folder.appending("memory")
        try put("#!/usr/bin/python3\n\(providerModule("cove-memory"))\nmodule.serve(module.Memory())\n", program)
        try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: program)
        let provider = try ServedSource.provider("exec:\(program)", beside: folder.appending("served"))
        try await provider.start()
        #expect(provider.capabilities.persistentIdentifiers)
        let made = try await provider.make("f", "text")
        let former = RemoteReference(id: made.id, path: RemotePath(unchecked: Array("f".utf8)))
        let identifier = try await provider.persistentIdentifier(of: former)
        _ = try await provider.move(
            former,
            base: made.contentVersion,
            to: .root,
            name: FileName(unchecked: Array("g".utf8))
        )
        #expect(try await provider.path(ofPersistent: identifier).description == "g")
        let unknown = try #require(PersistentIdentifier(Array("unknown".utf8)))
        await #expect(throws: ProviderError.noSuchItem) { try await provider.path(ofPersistent: unknown) }
        await provider.stop()
    }
}
