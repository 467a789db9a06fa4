import CoveCore
import CoveProviders
import CoveTestSupport
import Testing

/// What every provider must do, whatever the cloud; a new provider joins by an entry in `SourceKind.all`.
@Suite(.timeLimit(.minutes(4)))
struct ConformanceTests {
    @Test(arguments: SourceKind.all)
    func `a listing names every item once, with what it is`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        _ = try await devices.there.make("file", "bytes")
        try await devices.there.makeDirectory("directory")
        _ = try await devices.there.make("directory/inside")
        let items = try await devices.here.everything()
        #expect(items.count == 2)
        let file = try #require(items.first { $0.kind == .file })
        #expect(file.name == Array("file".utf8))
        #expect(file.size == 5)
        #expect(!file.contentVersion.bytes.isEmpty && file.contentVersion.bytes.count <= 128)
        #expect(file.metadataVersion.bytes.count <= 128)
        #expect(file.id.bytes.count <= 500)
        let directory = try #require(items.first { $0.kind == .directory })
        #expect(directory.contentVersion.bytes.isEmpty)
        #expect(try await devices.here.names("directory") == ["inside"])
    }

    @Test(arguments: SourceKind.all)
    func `lookup and listing agree`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        let made = try await devices.there.make("file", "bytes")
        let found = try await devices.here.find("file")
        let listed = try #require(try await devices.here.everything().first)
        #expect(found == listed)
        #expect(found.id == made.id)
        #expect(found.contentVersion == made.contentVersion)
        await #expect(throws: ProviderError.noSuchItem) { try await devices.here.find("other") }
        await #expect(throws: ProviderError.noSuchItem) { try await devices.here.find("no/such") }
        await #expect(throws: ProviderError.noSuchItem) { try await devices.here.everything("nowhere") }
    }

    @Test(arguments: SourceKind.all)
    func `behind a file there is nothing`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        try await devices.there.makeDirectory("directory")
        _ = try await devices.there.make("directory/file", "bytes")
        for name in ["directory/file", "directory/file/below", "directory/file/below/more"] {
            await #expect(throws: ProviderError.noSuchItem) { try await devices.here.everything(name) }
            await #expect(throws: ProviderError.noSuchItem) { try await devices.here.find("\(name)/other") }
        }
    }

    @Test(arguments: SourceKind.all)
    func `a file is gone for who reads it when a directory has its name, or a file that of its directory`(
        kind: SourceKind
    ) async throws {
        let devices = try await TwoDevices(kind)
        let there = devices.there
        try await there.makeDirectory("directory")
        let below = try await there.make("directory/file", "bytes")
        let file = try await there.make("file", "bytes")
        for (path, item) in [("directory/file", below), ("file", file)] {
            try await there.delete(there.reference(path, item), base: item.contentVersion)
        }
        try await there.delete(there.reference("directory"), base: .directory)
        _ = try await there.make("directory", "other")
        try await there.makeDirectory("file")
        for (path, item) in [("directory/file", below), ("file", file)] {
            let error = await #expect(throws: ProviderError.self) {
                try await devices.here.fetch(
                    devices.here.reference(path, item),
                    version: item.contentVersion,
                    range: 0..<item.size,
                    into: MemorySink()
                )
            }
            #expect(error == .noSuchItem || error == .versionNoLongerAvailable, "\(path)")
        }
    }

    @Test(arguments: SourceKind.all)
    func `pages and anchors of nobody have expired`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        await #expect(throws: ProviderError.pageExpired) {
            try await devices.here.list(.root, page: Page(Array("nonsense".utf8)))
        }
        await #expect(throws: ProviderError.anchorExpired) {
            try await devices.here.changes(since: Anchor(Array("nonsense".utf8)))
        }
        let anchor = try await devices.there.changes(since: nil).anchor
        if devices.here.changeSignal != nil {
            await #expect(throws: ProviderError.anchorExpired) { try await devices.here.changes(since: anchor) }
        }
    }

    @Test(arguments: SourceKind.all)
    func `the quota is not less than what is available`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        guard let quota = try await devices.here.quota() else { return }
        #expect(quota.total >= quota.available && quota.available > 0)
    }

    // MARK: Expectations

    func expectCollision(_ item: RemoteItem, _ body: () async throws -> Void) async {
        let error = await #expect(throws: ProviderError.self) { try await body() }
        guard case .filenameCollision(let current) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        if let current { #expect(current.contentVersion == item.contentVersion) }
    }

    func expectConflict(_ item: RemoteItem, _ body: () async throws -> Void) async {
        let error = await #expect(throws: ProviderError.self) { try await body() }
        guard case .conflict(let current) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        if let current { #expect(current.contentVersion == item.contentVersion) }
    }
}
