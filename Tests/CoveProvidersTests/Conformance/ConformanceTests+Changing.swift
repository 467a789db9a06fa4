import CoveCore
import CoveProviders
import CoveTestSupport
import Testing

extension ConformanceTests {
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
    func `who wants a name that an item of another kind has is told of that`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        let (here, there) = (devices.here, devices.there)
        let file = try await there.make("a file", "text")
        try await there.makeDirectory("a directory")
        try await there.makeDirectory("another")
        // In it something else has its hidden name, and nobody has looked into it.
        _ = try await there.make("a directory/in it", "text")
        func expectTold(_ kind: ItemKind, _ body: () async throws -> Void) async {
            let error = await #expect(throws: ProviderError.self) { try await body() }
            guard case .filenameCollision(let other) = error, other?.kind ?? kind == kind else {
                Issue.record("\(String(describing: error)), not \(kind)")
                return
            }
        }
        for text in ["small", String(repeating: "large ", count: 300_000)] {
            await expectTold(.directory) { _ = try await here.make("a directory", text) }
        }
        await expectTold(.file) { try await here.makeDirectory("a file") }
        for (path, base, target) in [
            ("a file", file.contentVersion, "a directory"), ("another", ContentVersion.directory, "a file"),
        ] {
            let item = try await here.find(path)
            await expectTold(target == "a file" ? .file : .directory) {
                let name = try #require(FileName(target))
                _ = try await here.move(here.reference(path, item), base: base, to: .root, name: name)
            }
        }
        #expect(try await there.text("a file") == "text")
        #expect(try await there.names() == ["a directory", "a file", "another"])
        #expect(try await there.names("a directory") == ["in it"])
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
    func `what is gone can't be changed or deleted`(kind: SourceKind) async throws {
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
        await #expect(throws: ProviderError.noSuchItem) {
            try await devices.here.delete(reference, base: item.contentVersion)
        }
        await #expect(throws: ProviderError.noSuchItem) {
            try await devices.here.delete(devices.here.reference("no directory/file"), base: nil)
        }
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
    func `a file's move moves no directory that has its place by now`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        let file = try await devices.here.make("file", "bytes")
        let other = try await devices.there.find("file")
        try await devices.there.delete(devices.there.reference("file", other), base: other.contentVersion)
        try await devices.there.makeDirectory("file")
        _ = try await devices.there.make("file/inner", "inner")
        var reference = devices.here.reference("file", file)
        reference.isFile = true
        let name = try #require(FileName("moved"))
        for base in [nil, file.contentVersion] {
            await #expect(throws: ProviderError.self) {
                try await devices.here.move(reference, base: base, to: .root, name: name)
            }
        }
        #expect(try await devices.there.names() == ["file"])
        #expect(try await devices.there.text("file/inner") == "inner")
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
        try await devices.here.delete(reference, base: .directory)
        #expect(try await devices.there.names() == [])
    }

    @Test(arguments: SourceKind.all)
    func `a file that has taken a directory's name is not deleted for it`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        let directory = try await devices.here.makeDirectory("name")
        #expect(directory.contentVersion == .directory)
        try await devices.there.delete(devices.there.reference("name", directory), base: .directory)
        let file = try await devices.there.make("name", "text")
        let reference = devices.here.reference("name", directory)
        await expectConflict(file) { try await devices.here.delete(reference, base: .directory) }
        #expect(try await devices.here.text("name") == "text")
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
    func `the first files go to the trash at the same time`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        guard devices.here.capabilities.trash else { return }
        var files: [(name: String, item: RemoteItem)] = []
        for number in 0..<12 { files.append(("f\(number)", try await devices.here.make("f\(number)", "\(number)"))) }
        try await withThrowingTaskGroup { group in
            for (number, file) in files.enumerated() {
                let reference = devices.here.reference(file.name, file.item)
                let base = file.item.contentVersion
                group.addTask { try await devices.here.trash(reference, base: base, as: "token\(number)") }
            }
            for try await kept in group { #expect(kept != nil) }
        }
        #expect(try await devices.there.names() == [])
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

    /// In a bucket only the version that is meant is copied to the trash; in a folder there is no time for an interruption.
    @Test(arguments: SourceKind.webDAV, ["is free", "is taken", "has lost its folder"])
    func `a newer version that an interrupted deletion took to the trash comes back where its name`(
        kind: SourceKind,
        place: String
    ) async throws {
        let devices = try await TwoDevices(kind)
        guard devices.here.capabilities.trash else { return }
        let other = try await devices.here.make("other", "other")
        _ = try await devices.here.trash(
            devices.here.reference("other", other),
            base: other.contentVersion,
            as: "token of other"
        )
        let folder = try await devices.here.makeDirectory("folder")
        let file = try await devices.here.make("folder/file", "first")
        let reference = devices.here.reference("folder/file", file)
        let newer = try await devices.there.modify(
            reference,
            base: file.contentVersion,
            metadata: ItemMetadata(),
            content: MemorySource("second")
        )
        _ = try await devices.here.move(
            devices.here.reference("folder/file", newer),
            base: nil,
            to: RemoteReference(id: nil, path: RemotePath(unchecked: Array(".cove/trash".utf8))),
            name: #require(FileName("token"))
        )
        if place == "is taken" { _ = try await devices.there.make("folder/file", "the third") }
        let isLost = place == "has lost its folder"
        if isLost { try await devices.there.delete(devices.there.reference("folder", folder), base: .directory) }
        do throws(ProviderError) {
            _ = try await devices.here.trash(reference, base: file.contentVersion, as: "token")
            Issue.record("it was taken for deleted")
        } catch {
            guard case .conflict = error else { throw error }
        }
        // A server may make the folder anew.
        let names = try await devices.there.names()
        #expect(names == ["folder"] || isLost && names == ["file"])
        let back = names == ["file"] ? "file" : place == "is taken" ? "folder/file (recovered)" : "folder/file"
        #expect(try await devices.there.text(back) == "second")
        if place == "is taken" { #expect(try await devices.there.text("folder/file") == "the third") }
    }

    @Test(arguments: SourceKind.all)
    func `nothing moves to where no folder is, nor is made there`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        _ = try await devices.here.make("a file", "bytes")
        let file = try await devices.here.make("file", "bytes")
        let folder = try await devices.here.makeDirectory("folder")
        _ = try await devices.here.make("folder/below", "bytes")
        for place in ["no folder", "no folder/nor this", "a file", "a file/no folder"] {
            let target = RemoteReference(id: nil, path: RemotePath(unchecked: Array(place.utf8)))
            for (name, item) in [("file", file), ("folder", folder)] {
                let base = item.kind == .directory ? ContentVersion.directory : item.contentVersion
                await #expect(throws: ProviderError.noSuchItem, "\(name) to \(place)") {
                    try await devices.here.move(
                        devices.here.reference(name, item),
                        base: base,
                        to: target,
                        name: #require(FileName("new"))
                    )
                }
            }
            await #expect(throws: ProviderError.noSuchItem, "a new file in \(place)") {
                try await devices.here.make("\(place)/new")
            }
            await #expect(throws: ProviderError.noSuchItem, "a new folder in \(place)") {
                try await devices.here.makeDirectory("\(place)/new")
            }
        }
        #expect(try await devices.there.names().sorted() == ["a file", "file", "folder"])
        #expect(try await devices.there.text("file") == "bytes")
        #expect(try await devices.there.text("folder/below") == "bytes")
    }
}
