import CoveCore
import CoveProviders
import CoveTestSupport
import Testing

/// What every provider must do, whatever the cloud; a new provider joins by an entry in `SourceKind.all`.
@Suite(.serialized, .timeLimit(.minutes(1)))
struct ConformanceTests {
    // MARK: Looking

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

    // MARK: Bytes

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

    // MARK: Changing

    @Test(arguments: SourceKind.all)
    func `a name that is taken is never overwritten`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        let first = try await devices.there.make("name", "first")
        let other = try await devices.here.make("other", "other")
        await expectCollision(first) { _ = try await devices.here.make("name", "second") }
        await expectCollision(first) { try await devices.here.makeDirectory("name") }
        let name = try #require(FileName("name"))
        await expectCollision(first) {
            _ = try await devices.here.move(
                devices.here.reference("other", other),
                base: other.contentVersion,
                to: .root,
                name: name
            )
        }
        if devices.here.capabilities.serverSideCopy {
            await expectCollision(first) {
                _ = try await devices.here.copy(
                    devices.here.reference("other", other),
                    version: other.contentVersion,
                    to: .root,
                    name: name
                )
            }
        }
        #expect(try await devices.here.text("name") == "first")
        #expect(try await devices.here.text("other") == "other")
    }

    @Test(arguments: SourceKind.all)
    func `new bytes on the base replace it`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        let first = try await devices.here.make("file", "first")
        let second = try await devices.here.modify(
            devices.here.reference("file", first),
            base: first.contentVersion,
            metadata: ItemMetadata(),
            content: MemorySource("the second")
        )
        #expect(second.contentVersion != first.contentVersion)
        #expect(second.size == 10)
        #expect(try await devices.there.find("file").contentVersion == second.contentVersion)
        #expect(try await devices.there.text("file", second.contentVersion) == "the second")
        #expect(try await devices.there.names() == ["file"])
    }

    @Test(arguments: SourceKind.all)
    func `nothing is changed on an old base`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        let first = try await devices.here.make("file", "first")
        let old = devices.here.reference("file", first)
        let base = first.contentVersion
        let second = try await devices.there.modify(
            old,
            base: base,
            metadata: ItemMetadata(),
            content: MemorySource("second")
        )
        let name = try #require(FileName("elsewhere"))
        await expectConflict(second) {
            _ = try await devices.here.modify(
                old,
                base: base,
                metadata: ItemMetadata(),
                content: MemorySource("third")
            )
        }
        await expectConflict(second) {
            _ = try await devices.here.modify(
                old,
                base: base,
                metadata: ItemMetadata(permissions: 0o600),
                content: nil
            )
        }
        await expectConflict(second) { _ = try await devices.here.move(old, base: base, to: .root, name: name) }
        await expectConflict(second) { try await devices.here.delete(old, base: base) }
        if devices.here.capabilities.trash {
            await expectConflict(second) { _ = try await devices.here.trash(old, base: base, as: "token") }
        }
        if devices.here.capabilities.serverSideCopy {
            await expectConflict(second) {
                _ = try await devices.here.copy(old, version: base, to: .root, name: name)
            }
        }
        #expect(try await devices.here.names() == ["file"])
        #expect(try await devices.here.text("file") == "second")
    }

    @Test(arguments: SourceKind.all)
    func `what is gone can't be changed, but is deleted already`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        let item = try await devices.here.make("file", "bytes")
        let reference = devices.here.reference("file", item)
        try await devices.there.delete(reference, base: item.contentVersion)
        let name = try #require(FileName("name"))
        await #expect(throws: ProviderError.noSuchItem) {
            try await devices.here.modify(
                reference,
                base: item.contentVersion,
                metadata: ItemMetadata(),
                content: MemorySource("new")
            )
        }
        await #expect(throws: ProviderError.noSuchItem) {
            try await devices.here.move(reference, base: item.contentVersion, to: .root, name: name)
        }
        await #expect(throws: ProviderError.noSuchItem) {
            _ = try await devices.here.make("no directory/file")
        }
        try await devices.here.delete(reference, base: item.contentVersion)
        try await devices.here.delete(devices.here.reference("no directory/file"), base: nil)
    }

    @Test(arguments: SourceKind.all)
    func `files and directories move with all they are`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        try await devices.here.makeDirectory("from")
        try await devices.here.makeDirectory("to")
        let file = try await devices.here.make("from/file", "bytes")
        let to = devices.here.reference("to")
        let moved = try await devices.here.move(
            devices.here.reference("from/file", file),
            base: file.contentVersion,
            to: to,
            name: #require(FileName("renamed"))
        )
        #expect(moved.name == Array("renamed".utf8))
        if devices.here.capabilities.stableIDs { #expect(moved.id == file.id) }
        #expect(try await devices.there.text("to/renamed") == "bytes")
        let directory = try await devices.here.find("to")
        _ = try await devices.here.move(
            devices.here.reference("to", directory),
            base: nil,
            to: devices.here.reference("from"),
            name: #require(FileName("inner"))
        )
        #expect(try await devices.there.names() == ["from"])
        #expect(try await devices.there.text("from/inner/renamed") == "bytes")
    }

    @Test(arguments: SourceKind.all)
    func `a directory does not go into itself`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        let directory = try await devices.here.makeDirectory("directory")
        try await devices.here.makeDirectory("directory/inner")
        let error = await #expect(throws: ProviderError.self) {
            try await devices.here.move(
                devices.here.reference("directory", directory),
                base: nil,
                to: devices.here.reference("directory/inner"),
                name: #require(FileName("again"))
            )
        }
        guard case .notPermitted = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    @Test(arguments: SourceKind.all)
    func `only an empty directory is deleted`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        let directory = try await devices.here.makeDirectory("directory")
        let file = try await devices.there.make("directory/file")
        let reference = devices.here.reference("directory", directory)
        await #expect(throws: ProviderError.directoryNotEmpty) {
            try await devices.here.delete(reference, base: nil)
        }
        try await devices.here.delete(devices.here.reference("directory/file", file), base: file.contentVersion)
        try await devices.here.delete(reference, base: nil)
        #expect(try await devices.there.names() == [])
    }

    @Test(arguments: SourceKind.all)
    func `a copy at the source has the bytes and a life of its own`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        guard devices.here.capabilities.serverSideCopy else { return }
        let file = try await devices.here.make("file", "bytes")
        let copy = try await devices.here.copy(
            devices.here.reference("file", file),
            version: file.contentVersion,
            to: .root,
            name: #require(FileName("copy"))
        )
        #expect(copy.id != file.id)
        #expect(try await devices.there.text("copy", copy.contentVersion) == "bytes")
        try await devices.here.delete(devices.here.reference("file", file), base: file.contentVersion)
        #expect(try await devices.there.text("copy") == "bytes")
    }

    @Test(arguments: SourceKind.all)
    func `what is in the trash is not listed, and comes back`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        guard devices.here.capabilities.trash else { return }
        let file = try await devices.here.make("file", "bytes")
        let reference = devices.here.reference("file", file)
        let kept = try #require(
            try await devices.here.trash(reference, base: file.contentVersion, as: "token")
        )
        #expect(try await devices.there.names() == [])
        let again = try await devices.here.trash(reference, base: file.contentVersion, as: "token")
        #expect(again?.id == kept.id)
        let trashed = devices.here.reference(".cove/trash/token", kept)
        let back = try await devices.here.move(
            trashed,
            base: kept.contentVersion,
            to: .root,
            name: #require(FileName("back"))
        )
        #expect(back.contentVersion == file.contentVersion)
        #expect(try await devices.there.text("back") == "bytes")
        let gone = try #require(
            try await devices.here.trash(
                devices.here.reference("back", back),
                base: back.contentVersion,
                as: "token"
            )
        )
        try await devices.here.delete(devices.here.reference(".cove/trash/token", gone), base: nil)
        await #expect(throws: ProviderError.noSuchItem) {
            try await devices.here.move(trashed, base: nil, to: .root, name: #require(FileName("back")))
        }
    }

    // MARK: Metadata and names

    @Test(arguments: SourceKind.all)
    func `dates, permissions and attributes travel with the bytes and alone`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        let capabilities = devices.here.capabilities
        guard capabilities.modificationTimes else { return }
        let fraction: Int64 = kind.keepsFractions ? 123_456_789 : 0
        var metadata = ItemMetadata(modificationTime: Timestamp(seconds: 1_234_567_890, nanoseconds: fraction))
        if capabilities.permissions { metadata.permissions = 0o640 }
        if capabilities.extendedAttributes { metadata.extendedAttributes = [Array("user.one".utf8): [1, 0, 2]] }
        let made = try await devices.here.make("file", "bytes", metadata)
        for item in [made, try await devices.there.find("file")] {
            #expect(item.metadata.modificationTime == metadata.modificationTime)
            if capabilities.permissions { #expect(item.metadata.permissions == 0o640) }
            if capabilities.extendedAttributes {
                #expect(item.metadata.extendedAttributes == metadata.extendedAttributes)
            }
        }
        let early = kind.keepsFractions ? Timestamp(-5) : Timestamp(seconds: 5, nanoseconds: 0)
        var changed = ItemMetadata(modificationTime: early)
        if capabilities.permissions { changed.permissions = 0o4755 }
        if capabilities.extendedAttributes { changed.extendedAttributes = [Array("user.two".utf8): []] }
        let item = try await devices.here.modify(
            devices.here.reference("file", made),
            base: made.contentVersion,
            metadata: changed,
            content: nil
        )
        #expect(item.metadata.modificationTime == early)
        if capabilities.permissions { #expect(item.metadata.permissions == 0o4755) }
        if capabilities.extendedAttributes {
            #expect(item.metadata.extendedAttributes == changed.extendedAttributes)
        }
        #expect(item.metadataVersion != made.metadataVersion)
        #expect(try await devices.there.text("file", item.contentVersion) == "bytes")
        let kept = try await devices.here.modify(
            devices.here.reference("file", item),
            base: item.contentVersion,
            metadata: ItemMetadata(),
            content: MemorySource("new")
        )
        if capabilities.permissions { #expect(kept.metadata.permissions == 0o4755) }
        if capabilities.extendedAttributes {
            #expect(kept.metadata.extendedAttributes == changed.extendedAttributes)
        }
    }

    @Test(arguments: SourceKind.all)
    func `symbolic links are kept, whatever they point at`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        guard devices.here.capabilities.symbolicLinks else { return }
        let target: [UInt8] = Array("../nowhere/".utf8) + [0xFF, 0xFE]
        let made = try await devices.here.create(
            ItemTemplate(kind: .symbolicLink, metadata: ItemMetadata(), linkTarget: target),
            name: #require(FileName("link")),
            in: .root,
            content: nil
        )
        #expect(made.kind == .symbolicLink && made.linkTarget == target)
        let found = try await devices.there.find("link")
        #expect(found == made)
        try await devices.there.delete(devices.there.reference("link", found), base: found.contentVersion)
        #expect(try await devices.here.names() == [])
    }

    @Test(
        arguments: SourceKind.all,
        [
            "with space", "ümläut", "e\u{301}", "line\nbreak", "100% \"quoted\" \\ ?*", "-rf", ".hidden", "...", "con",
            String(repeating: "n", count: 255),
        ]
    )
    func `any name is kept byte for byte`(kind: SourceKind, text: String) async throws {
        let devices = try await TwoDevices(kind)
        let made: RemoteItem
        do {
            made = try await devices.here.make(text, "first")
        } catch let error as ProviderError {
            // A source that can't keep a name says so.
            guard case .unsupported = error, text.hasPrefix(".") else { throw error }
            return
        }
        #expect(made.name == Array(text.utf8))
        _ = try await devices.here.modify(
            devices.here.reference(text, made),
            base: made.contentVersion,
            metadata: ItemMetadata(),
            content: MemorySource("second")
        )
        #expect(try await devices.there.text(text) == "second")
        #expect(try await devices.there.everything().map(\.name) == [Array(text.utf8)])
    }

    @Test(arguments: SourceKind.all)
    func `a name need not be UTF-8`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        let name = try #require(FileName(validating: [0xFF, 0x2E, 0x80, 0xC3]))
        let template = ItemTemplate(
            kind: .file,
            metadata: ItemMetadata(extendedAttributes: [Array("user.x".utf8): [0xFF]])
        )
        let made: RemoteItem
        do throws(ProviderError) {
            made = try await devices.here.create(template, name: name, in: .root, content: MemorySource("x"))
        } catch {
            guard case .unsupported = error else { throw error }
            return
        }
        #expect(made.name == name.bytes)
        let found = try await devices.there.lookup(name, in: .root)
        #expect(found.id == made.id)
        #expect(found.metadata.extendedAttributes == made.metadata.extendedAttributes)
        try await devices.there.delete(
            RemoteReference(id: found.id, path: RemotePath([name])),
            base: found.contentVersion
        )
    }

    @Test(arguments: SourceKind.all, [".cove", ".cove-upload-x", ".cove-anything"])
    func `names that Cove keeps for itself are neither made nor seen`(kind: SourceKind, name: String) async throws {
        let devices = try await TwoDevices(kind)
        await #expect(throws: ProviderError.self) { _ = try await devices.here.make(name) }
        // A server that keeps keys as folders of a disk may have this one yet, from the devices' first look at it.
        try await devices.source.put("x", name == ".cove" ? ".cove/x" : name)
        #expect(try await devices.here.names() == [])
        await #expect(throws: ProviderError.noSuchItem) { try await devices.here.find(name) }
    }

    // MARK: Changes and races

    @Test(arguments: SourceKind.all)
    func `another device's changes are told`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        guard devices.here.changeSignal != nil else { return }
        _ = try await devices.here.names()
        let follower = try await Follower(devices.here)
        let made = try await devices.there.make("file", "first")
        try await follower.wait(forUpdate: "file")
        let second = try await devices.there.modify(
            devices.there.reference("file", made),
            base: made.contentVersion,
            metadata: ItemMetadata(),
            content: MemorySource("second")
        )
        try await follower.wait { events in
            events.contains { change in
                guard case .updated(let item, _) = change else { return false }
                return item.contentVersion == second.contentVersion
            }
        }
        _ = try await devices.there.move(
            devices.there.reference("file", second),
            base: second.contentVersion,
            to: .root,
            name: #require(FileName("moved"))
        )
        try await follower.wait { $0.updates.contains("moved") && $0.removals.contains("file") }
        try await devices.there.delete(devices.there.reference("moved"), base: second.contentVersion)
        try await follower.wait(forRemoval: "moved")
    }

    @Test(arguments: SourceKind.all)
    func `of two writers on one base exactly one wins, and the other hears of it`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        guard devices.here.capabilities.conditionalWrites else { return }
        var current = try await devices.here.make("file", "start")
        for round in 0..<20 {
            let base = current
            let texts = ["here \(round)", "there \(round)"]
            let results = await withTaskGroup(of: (String, Result<RemoteItem, ProviderError>).self) { group in
                for (provider, text) in zip([devices.here, devices.there], texts) {
                    group.addTask {
                        do throws(ProviderError) {
                            let item = try await provider.modify(
                                provider.reference("file", base),
                                base: base.contentVersion,
                                metadata: ItemMetadata(),
                                content: MemorySource(text)
                            )
                            return (text, .success(item))
                        } catch {
                            return (text, .failure(error))
                        }
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            let won = results.filter { if case .success = $0.1 { true } else { false } }
            try #require(won.count == 1, "\(results)")
            for case (_, .failure(let error)) in results {
                guard case .conflict = error else {
                    Issue.record("the loser hears: \(error)")
                    continue
                }
            }
            current = try await devices.here.find("file")
            #expect(try await devices.here.text("file") == won[0].0)
            #expect(current.contentVersion == (try won[0].1.get()).contentVersion)
        }
        #expect(try await devices.here.names() == ["file"])
    }

    @Test(arguments: SourceKind.all)
    func `of two that create one name exactly one wins`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        for round in 0..<20 {
            let made = await withTaskGroup(of: RemoteItem?.self) { group in
                for provider in [devices.here, devices.there] {
                    group.addTask { try? await provider.make("file \(round)", "text") }
                }
                return await group.reduce(into: []) { if let item = $1 { $0.append(item) } }
            }
            #expect(made.count == 1)
        }
        #expect(try await devices.here.names().count == 20)
    }

    // MARK: Expectations

    private func expectCollision(_ item: RemoteItem, _ body: () async throws -> Void) async {
        let error = await #expect(throws: ProviderError.self) { try await body() }
        guard case .filenameCollision(let current) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        if let current { #expect(current.contentVersion == item.contentVersion) }
    }

    private func expectConflict(_ item: RemoteItem, _ body: () async throws -> Void) async {
        let error = await #expect(throws: ProviderError.self) { try await body() }
        guard case .conflict(let current) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        if let current { #expect(current.contentVersion == item.contentVersion) }
    }
}
