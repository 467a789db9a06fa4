import CoveCore
import CoveProviders
import CoveTestSupport
import Foundation
import Synchronization
import Testing

/// A source under test, and how two devices reach it.
struct SourceKind: Sendable, CustomTestStringConvertible {
    let testDescription: String
    /// Dates are kept to the nanosecond, else to the second.
    var keepsFractions = true
    /// Makes an empty source.
    let open: @Sendable () async throws -> TestSource

    var isRclone: Bool { testDescription.hasPrefix("rclone") || testDescription.hasPrefix("a remote") }

    /// All kinds, or those whose names begin as COVE_TEST_SOURCES says, for whoever works on one.
    static let all = every.filter { kind in
        ProcessInfo.processInfo.environment["COVE_TEST_SOURCES"].map { kind.testDescription.hasPrefix($0) } ?? true
    }

    private static let every =
        [
            folder("folder") { FolderProvider(root: $0) },
            folder("folder behind a line") { root in
                SimulatedLink(base: FolderProvider(root: root), latency: .milliseconds(1), bandwidth: 200 << 20)
            },
            folder("folder through the protocol") { root in
                try ServedSource.provider("dir://\(root)", beside: root)
            },
            server("Apache", Result { try TestServer.apache() }),
            server("nginx", Result { try TestServer.nginx() }),
            server("rclone's WebDAV", Result { try TestServer.rcloneWebDAV() }),
            SourceKind(testDescription: "a scripted cloud", keepsFractions: false) {
                let cloud = try ScriptedCloud()
                return TestSource(
                    provider: { try ProviderFactory.make(source: cloud.source, access: testAccess) },
                    put: { text, path in
                        if let end = path.lastIndex(of: "/") { cloud.makeFolder(String(path[..<end])) }
                        cloud.put(path, Array(text.utf8))
                    },
                    names: { cloud.names() }
                )
            },
        ] + s3 + RemoteKind.all

    /// Those at which two devices that change one thing in the same instant are told apart; rclone knows no conditions.
    static let racing = all.filter { !$0.testDescription.hasPrefix("a remote") }

    static let webDAV = all.filter {
        ["Apache", "nginx", "rclone's WebDAV", "a scripted cloud"].contains($0.testDescription)
    }

    private static func folder(
        _ name: String,
        _ make: @escaping @Sendable (String) throws -> any Provider
    ) -> SourceKind {
        SourceKind(testDescription: name) {
            let folder = try TemporaryDirectory()
            return TestSource(folder) { try make(folder.path) }
        }
    }

    /// One server for all tests, each in a folder of its own.
    private static func server(_ name: String, _ server: Result<TestServer, any Error>) -> SourceKind {
        SourceKind(testDescription: name) {
            let server = try server.get()
            let folder = try TemporaryDirectory(in: server.files)
            let name = URL(fileURLWithPath: folder.path).lastPathComponent
            // A server that remembers what is where is told.
            try FileManager.default.removeItem(atPath: folder.path)
            try server.makeCollection(name)
            let source = "webdav://127.0.0.1:\(server.port)/\(name)"
            return TestSource(folder) { try ProviderFactory.make(source: source, access: testAccess) }
        }
    }
}

/// COVE_MOMENTS=all has tests that do something at many moments do it at all, or at many more.
let triesAllMoments = ProcessInfo.processInfo.environment["COVE_MOMENTS"] == "all"

let testCredentials = Credentials(user: TestServer.user, password: TestServer.password)
let testAccess = ProviderFactory.Access { testCredentials }

/// An empty source, and the ways around a provider.
struct TestSource: Sendable {
    /// Makes a provider of it.
    let provider: @Sendable () throws -> any Provider
    /// Puts a text at a path.
    let put: @Sendable (_ text: String, _ path: String) async throws -> Void
    /// The names at the root, Cove's own included.
    let names: @Sendable () async throws -> [String]
}

extension TestSource {
    /// A source whose items are in a folder.
    init(_ folder: TemporaryDirectory, _ provider: @escaping @Sendable () throws -> any Provider) {
        self.init(
            provider: provider,
            put: { text, path in
                let url = URL(fileURLWithPath: folder.appending(path))
                try FileManager.default.createDirectory(
                    at: url.deletingLastPathComponent(),
                    withIntermediateDirectories: true
                )
                try CoveProvidersTests.put(text, url.path)
            },
            names: {
                // A folder for hidden names may stay; nothing in it may.
                let stage = ".cove-uploads"
                let left = (try? rawNames(folder.appending(stage))) ?? []
                return try rawNames(folder.path).filter { $0 != stage } + left.map { "\(stage)/\($0)" }
            }
        )
    }
}

/// Two devices on one empty source.
final class TwoDevices: Sendable {
    let source: TestSource
    let here: any Provider
    let there: any Provider

    init(_ kind: SourceKind) async throws {
        source = try await kind.open()
        here = try source.provider()
        there = try source.provider()
        try await here.start()
        try await there.start()
    }
}

/// Collects what a fetch delivers, and checks that no byte comes twice.
final class MemorySink: ContentSink {
    private let state = Mutex<(bytes: [UInt8], isHere: [Bool], twice: Bool)>(([], [], false))
    private let onWrite: @Sendable (Int64) throws(ProviderError) -> Void

    init(onWrite: @escaping @Sendable (Int64) throws(ProviderError) -> Void = { _ throws(ProviderError) in }) {
        self.onWrite = onWrite
    }

    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(ProviderError) {
        let copied = Array(bytes)
        let (start, end) = (Int(offset), Int(offset) + copied.count)
        state.withLock { state in
            if state.bytes.count < end {
                state.bytes += Array(repeating: 0, count: end - state.bytes.count)
                state.isHere += Array(repeating: false, count: end - state.isHere.count)
            }
            if state.isHere[start..<end].contains(true) { state.twice = true }
            state.bytes.replaceSubrange(start..<end, with: copied)
            state.isHere.replaceSubrange(start..<end, with: repeatElement(true, count: copied.count))
        }
        try onWrite(offset)
    }

    func copy(from descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: max(count, 1), alignment: 16)
        defer { buffer.deallocate() }
        let length = pread(descriptor, buffer.baseAddress, count, off_t(offset))
        try write(UnsafeRawBufferPointer(rebasing: buffer.prefix(max(0, length))), at: offset)
        return max(0, length)
    }

    /// The bytes in order; nil when one came twice.
    var bytes: [UInt8]? {
        state.withLock { state in
            state.twice ? nil : zip(state.bytes, state.isHere).compactMap { $1 ? $0 : nil }
        }
    }
}

/// Content from memory; `onRead` runs before each piece.
struct MemorySource: ContentSource {
    let bytes: [UInt8]
    var identity: [UInt8]?
    var onRead: @Sendable () throws(ProviderError) -> Void = { () throws(ProviderError) in }

    init(_ bytes: [UInt8]) { self.bytes = bytes }
    init(_ text: String) { bytes = Array(text.utf8) }

    var size: Int64 { Int64(bytes.count) }

    func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ProviderError) -> Int {
        try onRead()
        let part = bytes[Int(offset)..<min(bytes.count, Int(offset) + buffer.count)]
        buffer.copyBytes(from: part)
        return part.count
    }

    func copy(to descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int {
        try onRead()
        let part = Array(bytes[Int(offset)..<min(bytes.count, Int(offset) + count)])
        return max(0, pwrite(descriptor, part, part.count, off_t(offset)))
    }
}

extension Provider {
    func make(
        _ path: String,
        _ text: String = "",
        _ metadata: ItemMetadata = ItemMetadata()
    ) async throws -> RemoteItem {
        let reference = reference(path)
        return try await create(
            ItemTemplate(kind: .file, metadata: metadata),
            name: #require(reference.path.name),
            in: RemoteReference(id: nil, path: reference.path.parent),
            content: MemorySource(text)
        )
    }

    @discardableResult
    func makeDirectory(_ path: String) async throws -> RemoteItem {
        let reference = reference(path)
        return try await create(
            ItemTemplate(kind: .directory, metadata: ItemMetadata()),
            name: #require(reference.path.name),
            in: RemoteReference(id: nil, path: reference.path.parent),
            content: nil
        )
    }

    func reference(_ path: String, _ item: RemoteItem? = nil) -> RemoteReference {
        RemoteReference(id: item?.id, path: RemotePath(unchecked: Array(path.utf8)))
    }

    func find(_ path: String) async throws -> RemoteItem {
        let reference = reference(path)
        return try await lookup(
            #require(reference.path.name),
            in: RemoteReference(id: nil, path: reference.path.parent)
        )
    }

    func text(_ path: String, _ version: ContentVersion? = nil) async throws -> String {
        let item = try await find(path)
        let sink = MemorySink()
        try await fetch(
            reference(path, item),
            version: version ?? item.contentVersion,
            range: 0..<item.size,
            into: sink
        )
        return String(decoding: try #require(sink.bytes), as: UTF8.self)
    }

    func everything(_ path: String = "") async throws -> [RemoteItem] {
        var items: [RemoteItem] = []
        var page: Page?
        repeat {
            let listing = try await list(reference(path), page: page)
            items += listing.items
            page = listing.next
        } while page != nil
        return items
    }

    func names(_ path: String = "") async throws -> [String] {
        try await everything(path).map { String(decoding: $0.name, as: UTF8.self) }.sorted()
    }
}

/// Follows a provider's changes; the test's time limit is the deadline.
final class Follower {
    private let provider: any Provider
    private var signal: AsyncStream<Void>.Iterator
    private(set) var anchor: Anchor
    private(set) var events: [RemoteChange] = []

    init(_ provider: any Provider) async throws {
        self.provider = provider
        signal = try #require(provider.changeSignal).makeAsyncIterator()
        anchor = try await provider.changes(since: nil).anchor
    }

    /// Takes changes in until the condition holds; the events since the last call go first.
    func wait(until condition: ([RemoteChange]) async throws -> Bool) async throws {
        events = []
        while true {
            var more = true
            while more {
                let changes = try await provider.changes(since: anchor)
                events += changes.events
                anchor = changes.anchor
                more = changes.moreComing
            }
            if try await condition(events) { return }
            let seen = "updated \(events.updates), removed \(events.removals), changed \(events.relisted)"
            try #require(await signal.next() != nil, "only this was told: \(seen)")
        }
    }

    func wait(forUpdate path: String) async throws { try await wait { $0.updates.contains(path) } }
    func wait(forRemoval path: String) async throws { try await wait { $0.removals.contains(path) } }
}

extension [RemoteChange] {
    var updates: [String] {
        compactMap { change in
            guard case .updated(let item, let directory) = change else { return nil }
            return directory.appending(FileName(unchecked: item.name)).description
        }
    }

    var removals: [String] {
        compactMap { change in
            guard case .removed(let path) = change else { return nil }
            return path.description
        }
    }

    var relisted: [String] {
        compactMap { change in
            guard case .directoryChanged(let path) = change else { return nil }
            return path.description
        }
    }
}

/// Runs a shell command in a folder; throws when it fails.
func shell(_ command: String, in folder: String) throws {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/bin/sh")
    process.arguments = ["-ec", command]
    process.currentDirectoryURL = URL(fileURLWithPath: folder)
    try process.run()
    process.waitUntilExit()
    try #require(process.terminationStatus == 0, "\(command)")
}

func contents(_ path: String) throws -> String {
    String(decoding: try Data(contentsOf: URL(fileURLWithPath: path)), as: UTF8.self)
}

func put(_ text: String, _ path: String) throws {
    try Data(text.utf8).write(to: URL(fileURLWithPath: path))
}

/// The names in a folder, Cove's own included.
func rawNames(_ path: String) throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: path).sorted() }
