import CoveCore
import CoveProviders
import CoveTestSupport
import Testing

extension ConformanceTests {
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
            // A source that can't keep a name says so; to rclone a control character is another one, and a crypt's are longer.
            let isHard = text.contains("\n") || text.count > 140
            guard case .unsupported = error, text.hasPrefix(".") || isHard && kind.isRclone else {
                throw error
            }
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

    @Test(
        arguments: SourceKind.all,
        [
            ["x\u{2409}", "x\t"], ["y\u{201B}\u{201B}", "y\u{201B}"], ["zA", "za"], ["t\u{E9}", "te\u{301}"],
            ["a%41", "aA"],
        ]
    )
    func `of two names neither stands for the other`(kind: SourceKind, names: [String]) async throws {
        let devices = try await TwoDevices(kind)
        var made: [(name: String, item: RemoteItem)] = []
        for (name, device) in zip(names, [devices.here, devices.there]) {
            do {
                made.append((name, try await device.make(name, name)))
            } catch let error as ProviderError {
                // A source that would confuse them refuses one; what is found here confuses none else.
                guard case .unsupported = error, kind.isRclone else { throw error }
            }
        }
        for (name, item) in made {
            #expect(try await devices.here.text(name, item.contentVersion) == name)
        }
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
}
