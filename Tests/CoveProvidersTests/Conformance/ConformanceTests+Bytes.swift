import CoveCore
import CoveProviders
import CoveTestSupport
import Testing

extension ConformanceTests {
    @Test(arguments: SourceKind.all, [0, 1, 4095, 1 << 20, (3 << 20) + 17])
    func `bytes come back as they went`(kind: SourceKind, size: Int) async throws {
        let devices = try await TwoDevices(kind)
        let bytes = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ $0 >> 8) }
        let name = try #require(FileName("file"))
        let item = try await devices.here.create(
            ItemTemplate(kind: .file, metadata: ItemMetadata()),
            name: name,
            in: .root,
            content: MemorySource(bytes)
        )
        #expect(item.size == Int64(size))
        let sink = MemorySink()
        let whole = 0..<Int64(size)
        try await devices.there.fetch(
            devices.there.reference("file", item),
            version: item.contentVersion,
            range: whole,
            into: sink
        )
        #expect(sink.bytes == bytes)
    }

    @Test(arguments: SourceKind.all, [0..<10, 1..<2, 990..<1000, 990..<5000, 1000..<1001, 5000..<6000, 7..<7])
    func `a range gives its bytes, and none beyond the end`(kind: SourceKind, range: Range<Int64>) async throws {
        let devices = try await TwoDevices(kind)
        let bytes = (0..<1000).map { UInt8(truncatingIfNeeded: $0) }
        let name = try #require(FileName("file"))
        let item = try await devices.here.create(
            ItemTemplate(kind: .file, metadata: ItemMetadata()),
            name: name,
            in: .root,
            content: MemorySource(bytes)
        )
        let sink = MemorySink()
        try await devices.here.fetch(
            devices.here.reference("file", item),
            version: item.contentVersion,
            range: range,
            into: sink
        )
        #expect(sink.bytes == Array(bytes[Int(min(1000, range.lowerBound))..<Int(min(1000, range.upperBound))]))
    }

    @Test(arguments: SourceKind.all)
    func `a version that is gone gives no bytes`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        let first = try await devices.here.make("file", "first")
        _ = try await devices.there.modify(
            devices.there.reference("file", first),
            base: first.contentVersion,
            metadata: ItemMetadata(),
            content: MemorySource("other")
        )
        let sink = MemorySink()
        await #expect(throws: ProviderError.versionNoLongerAvailable) {
            try await devices.here.fetch(
                devices.here.reference("file", first),
                version: first.contentVersion,
                range: 0..<5,
                into: sink
            )
        }
        #expect(sink.bytes == [])
        try await devices.there.delete(devices.there.reference("file"), base: nil)
        await #expect(throws: ProviderError.noSuchItem) {
            try await devices.here.fetch(
                devices.here.reference("file", first),
                version: first.contentVersion,
                range: 0..<5,
                into: sink
            )
        }
    }

    @Test(arguments: SourceKind.all)
    func `a fetch ends when the sink or the task says so`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        let item = try await devices.here.make("file", String(repeating: "x", count: 3 << 20))
        let reference = devices.here.reference("file", item)
        let sink = MemorySink { _ throws(ProviderError) in throw .cancelled }
        await #expect(throws: ProviderError.cancelled) {
            try await devices.here.fetch(reference, version: item.contentVersion, range: 0..<item.size, into: sink)
        }
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await devices.here.fetch(
                reference,
                version: item.contentVersion,
                range: 0..<item.size,
                into: MemorySink()
            )
        }
        await #expect(throws: ProviderError.cancelled) { try await task.value }
    }

    @Test(arguments: SourceKind.all)
    func `an upload called off leaves nothing behind`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        let kept = try await devices.here.make("kept", "before")
        var source = MemorySource("after")
        source.onRead = { () throws(ProviderError) in throw .cancelled }
        let broken = source
        let name = try #require(FileName("new"))
        await #expect(throws: ProviderError.cancelled) {
            try await devices.here.create(
                ItemTemplate(kind: .file, metadata: ItemMetadata()),
                name: name,
                in: .root,
                content: broken
            )
        }
        await #expect(throws: ProviderError.cancelled) {
            try await devices.here.modify(
                devices.here.reference("kept", kept),
                base: kept.contentVersion,
                metadata: ItemMetadata(),
                content: broken
            )
        }
        #expect(try await devices.there.names() == ["kept"])
        #expect(try await devices.there.text("kept") == "before")
        // A server may have names of its own, as for its locks.
        let left = try await devices.source.names().filter { $0 != ".DAV" }
        #expect(left == ["kept"])
    }
}
