import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveProviders

/// One device on a folder that other programs use too.
final class FolderDevice: Sendable {
    let folder: TemporaryDirectory
    let provider: FolderProvider
    var path: String { folder.path }

    init(timing: WatchTiming = WatchTiming(), maximumWatches: Int = .max) async throws {
        folder = try TemporaryDirectory()
        provider = FolderProvider(root: folder.path, timing: timing, maximumWatches: maximumWatches)
        try await provider.start()
    }
}

/// That a folder keeps what other programs put there, whatever is done at the same time.
@Suite(.serialized, .timeLimit(.minutes(30)))
struct FolderSafetyTests {
    // MARK: Where the source ends

    @Test func `no path leaves the source through a symbolic link`() async throws {
        let device = try await FolderDevice()
        let outside = try TemporaryDirectory()
        try put("secret", outside.appending("file"))
        try shell("ln -s '\(outside.path)' door && ln -s '\(outside.path)/file' link", in: device.path)
        let provider = device.provider
        #expect(try await provider.everything().map(\.kind) == [.symbolicLink, .symbolicLink])
        await #expect(throws: ProviderError.noSuchItem) { try await provider.names("door") }
        await #expect(throws: ProviderError.noSuchItem) { try await provider.find("door/file") }
        await #expect(throws: ProviderError.noSuchItem) { _ = try await provider.make("door/new") }
        let item = try await provider.find("link")
        await #expect(throws: ProviderError.versionNoLongerAvailable) {
            try await provider.fetch(
                provider.reference("link", item),
                version: item.contentVersion,
                range: 0..<6,
                into: MemorySink()
            )
        }
        for path in ["../file", "a/../../file", ".", "door/.."] {
            await #expect(throws: ProviderError.noSuchItem, "\(path)") {
                try await provider.delete(provider.reference(path), base: item.contentVersion)
                _ = try await provider.names(path)
            }
        }
        #expect(try rawNames(outside.path) == ["file"])
    }

    @Test func `the walk without openat2 follows no link either`() throws {
        let folder = try TemporaryDirectory()
        try shell("mkdir -p a/b && echo x > a/b/file && ln -s a door && ln -s b a/inner", in: folder.path)
        let tree = try FolderTree.open(folder.path, expecting: nil)
        func reaches(_ path: String) -> Bool {
            guard let opened = try? tree.walk(RemotePath(unchecked: Array(path.utf8)), O_RDONLY) else { return false }
            return (try? System.status(opened.raw)) != nil
        }
        #expect(reaches("") && reaches("a") && reaches("a/b/file"))
        #expect(!reaches("door") && !reaches("door/b") && !reaches("a/inner/file") && !reaches("a/c"))
    }

    @Test func `the trash is not where a link says`() async throws {
        let device = try await FolderDevice()
        let outside = try TemporaryDirectory()
        try shell("ln -s '\(outside.path)' .cove", in: device.path)
        let item = try await device.provider.make("file", "bytes")
        await #expect(throws: ProviderError.self) {
            try await device.provider.trash(
                device.provider.reference("file", item),
                base: item.contentVersion,
                as: "token"
            )
        }
        #expect(try rawNames(outside.path) == [])
        #expect(try contents(device.folder.appending("file")) == "bytes")
    }

    @Test func `a source that is gone or another one is out of reach until it is back`() async throws {
        var timing = WatchTiming()
        timing.lost = .milliseconds(10)
        let device = try await FolderDevice(timing: timing)
        let provider = device.provider
        let item = try await provider.make("file", "bytes")
        let follower = try await Follower(provider)
        try await provider.makeDirectory("directory")
        _ = try await provider.names()
        _ = try await provider.names("directory")
        try await follower.wait(forUpdate: "directory")
        let identity = await provider.sourceIdentity()
        try shell("mv '\(device.path)' '\(device.path).away'", in: "/")
        defer { try? shell("rm -rf '\(device.path).away'", in: "/") }
        await expectUnreachable { _ = try await provider.names() }
        try shell("mkdir '\(device.path)'", in: "/")
        await expectUnreachable { _ = try await provider.make("new") }
        await expectUnreachable { try await provider.delete(provider.reference("file", item), base: nil) }
        await expectUnreachable { try await provider.start() }
        #expect(try rawNames(device.path) == [])
        #expect(!provider.diagnostics().isEmpty)
        try shell("rmdir '\(device.path)' && mv '\(device.path).away' '\(device.path)'", in: "/")
        try await follower.wait { Set($0.relisted).isSuperset(of: ["/", "directory"]) }
        #expect(try await provider.text("file") == "bytes")
        #expect(await provider.sourceIdentity() == identity)
        try put("x", device.folder.appending("directory/new"))
        try await follower.wait(forUpdate: "directory/new")
        #expect(provider.diagnostics().isEmpty)
    }

    private func expectUnreachable(_ body: () async throws -> Void) async {
        let error = await #expect(throws: ProviderError.self) { try await body() }
        guard case .serverUnreachable = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    // MARK: Other programs at work

    @Test func `a file that another program has open for writing is busy`() async throws {
        let device = try await FolderDevice()
        let provider = device.provider
        let item = try await provider.make("file", "bytes")
        let reference = provider.reference("file", item)
        let base = item.contentVersion
        let writer = try System.open(device.folder.appending("file"), O_RDWR)
        await #expect(throws: ProviderError.busy) {
            try await provider.modify(reference, base: base, metadata: ItemMetadata(), content: MemorySource("new"))
        }
        await #expect(throws: ProviderError.busy) { try await provider.delete(reference, base: base) }
        await #expect(throws: ProviderError.busy) {
            try await provider.modify(
                reference,
                base: base,
                metadata: ItemMetadata(modificationTime: Timestamp(5)),
                content: nil
            )
        }
        #expect(try rawNames(device.path) == ["file"])
        System.close(writer)
        try await provider.delete(reference, base: base)
    }

    @Test func `a file mapped for writing is busy though its descriptor is closed`() async throws {
        let device = try await FolderDevice()
        let item = try await device.provider.make("file", "bytes")
        let writer = try System.open(device.folder.appending("file"), O_RDWR)
        let memory = try #require(mmap(nil, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, writer, 0))
        System.close(writer)
        await #expect(throws: ProviderError.busy) {
            try await device.provider.delete(
                device.provider.reference("file", item),
                base: item.contentVersion
            )
        }
        munmap(memory, 4096)
        try await device.provider.delete(device.provider.reference("file", item), base: item.contentVersion)
    }

    @Test func `readers keep the version they opened and are in nobody's way`() async throws {
        let device = try await FolderDevice()
        let item = try await device.provider.make("file", "before")
        let reader = try FileHandle(forReadingFrom: URL(fileURLWithPath: device.folder.appending("file")))
        _ = try await device.provider.modify(
            device.provider.reference("file", item),
            base: item.contentVersion,
            metadata: ItemMetadata(),
            content: MemorySource("after!")
        )
        #expect(try reader.readToEnd() == Data("before".utf8))
        #expect(try contents(device.folder.appending("file")) == "after!")
    }

    @Test(arguments: [
        "printf theirs > file", "printf theirs > x && mv x file", "sed -i s/start/theirs/ file",
        "rm file && printf theirs > file", "mv file elsewhere && printf theirs > file",
    ])
    func `an edit made while new bytes arrive survives`(command: String) async throws {
        let device = try await FolderDevice()
        let item = try await device.provider.make("file", "start")
        var source = MemorySource("ours")
        let path = device.path
        source.onRead = { () throws(ProviderError) in
            do { try shell(command, in: path) } catch { throw .cancelled }
        }
        let slow = source
        let error = await #expect(throws: ProviderError.self) {
            try await device.provider.modify(
                device.provider.reference("file", item),
                base: item.contentVersion,
                metadata: ItemMetadata(),
                content: slow
            )
        }
        guard case .conflict(let current) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(try contents(device.folder.appending("file")) == "theirs")
        #expect(try await device.provider.find("file") == current)
        #expect(try rawNames(path).allSatisfy { !$0.hasPrefix(".") })
    }

    @Test func `a program that opens the file while new bytes arrive keeps it`() async throws {
        let device = try await FolderDevice()
        let item = try await device.provider.make("file", "start")
        let writer = Mutex<Int32>(-1)
        let path = device.folder.appending("file")
        var source = MemorySource("ours")
        source.onRead = { () throws(ProviderError) in
            writer.withLock { $0 = (try? System.open(path, O_WRONLY)) ?? -1 }
        }
        let slow = source
        await #expect(throws: ProviderError.busy) {
            try await device.provider.modify(
                device.provider.reference("file", item),
                base: item.contentVersion,
                metadata: ItemMetadata(),
                content: slow
            )
        }
        let descriptor = writer.withLock { $0 }
        try Array("theirs".utf8).withUnsafeBytes { bytes in try System.writeAll(descriptor, bytes) }
        System.close(descriptor)
        #expect(try contents(path) == "theirs")
        #expect(try rawNames(device.path) == ["file"])
    }

    @Test func `no byte of another version is delivered`() async throws {
        let device = try await FolderDevice()
        let size: Int64 = 4 << 20
        let item = try await device.provider.make("file", String(repeating: "a", count: Int(size)))
        let path = device.folder.appending("file")
        let sink = MemorySink { offset throws(ProviderError) in
            guard offset == 0 else { return }
            do { try shell("printf bbbb | dd of='\(path)' bs=1 seek=2000000 conv=notrunc status=none", in: "/") } catch
            {
                throw .cancelled
            }
        }
        await #expect(throws: ProviderError.versionNoLongerAvailable) {
            try await device.provider.fetch(
                device.provider.reference("file", item),
                version: item.contentVersion,
                range: 0..<size,
                into: sink
            )
        }
        #expect(sink.bytes?.count == 1 << 20)
        #expect(sink.bytes?.allSatisfy { $0 == 0x61 } == true)
    }

    @Test func `a file replaced by a directory is a conflict, and the directory stays`() async throws {
        let device = try await FolderDevice()
        let item = try await device.provider.make("name", "bytes")
        var source = MemorySource("ours")
        let path = device.path
        source.onRead = { () throws(ProviderError) in
            do { try shell("rm name && mkdir name && touch name/inside", in: path) } catch { throw .cancelled }
        }
        let slow = source
        await #expect(throws: ProviderError.self) {
            try await device.provider.modify(
                device.provider.reference("name", item),
                base: item.contentVersion,
                metadata: ItemMetadata(),
                content: slow
            )
        }
        // The file is gone: there is nothing to delete, and certainly not the directory.
        await #expect(throws: ProviderError.noSuchItem) {
            try await device.provider.delete(device.provider.reference("name", item), base: item.contentVersion)
        }
        #expect(try rawNames(device.folder.appending("name")) == ["inside"])
        #expect(try rawNames(path) == ["name"])
    }

    @Test func `a directory is not deleted or moved for another of its name`() async throws {
        let device = try await FolderDevice()
        let old = try await device.provider.makeDirectory("name")
        try shell("mv name kept && mkdir name", in: device.path)
        let reference = device.provider.reference("name", old)
        await #expect(throws: ProviderError.noSuchItem) { try await device.provider.delete(reference, base: nil) }
        await #expect(throws: ProviderError.noSuchItem) {
            try await device.provider.move(reference, base: nil, to: .root, name: #require(FileName("moved")))
        }
        #expect(try rawNames(device.path) == ["kept", "name"])
    }

    // MARK: Links, kinds and attributes

    @Test func `each name of a hard link is a document, and changing one leaves the other`() async throws {
        let device = try await FolderDevice()
        try shell("printf both > one && ln one two", in: device.path)
        let items = try await device.provider.everything().sorted { $0.name.lexicographicallyPrecedes($1.name) }
        try #require(items.count == 2)
        #expect(items[0].id != items[1].id)
        #expect(items[0].contentVersion == items[1].contentVersion)
        let changed = try await device.provider.modify(
            device.provider.reference("one", items[0]),
            base: items[0].contentVersion,
            metadata: ItemMetadata(),
            content: MemorySource("changed")
        )
        #expect(try contents(device.folder.appending("one")) == "changed")
        #expect(try contents(device.folder.appending("two")) == "both")
        try await device.provider.delete(
            device.provider.reference("two", items[1]),
            base: items[1].contentVersion
        )
        #expect(try await device.provider.everything().map(\.contentVersion) == [changed.contentVersion])
    }

    @Test func `fifos, sockets and devices are not there`() async throws {
        let device = try await FolderDevice()
        try shell("mkfifo fifo && touch file", in: device.path)
        #expect(try await device.provider.names() == ["file"])
        await #expect(throws: ProviderError.noSuchItem) { try await device.provider.find("fifo") }
        await #expect(throws: ProviderError.self) { _ = try await device.provider.make("fifo") }
    }

    @Test func `times keep their nanoseconds, and modes their upper bits`() async throws {
        let device = try await FolderDevice()
        let metadata = ItemMetadata(modificationTime: Timestamp(1_700_000_000_987_654_321), permissions: 0o2751)
        _ = try await device.provider.make("file", "x", metadata)
        let status = try System.lstat(device.folder.appending("file"))
        #expect(Timestamp(status.st_mtim) == metadata.modificationTime)
        #expect(status.st_mode & 0o7777 == 0o2751)
        if geteuid() == 0 {
            #expect(device.provider.capabilities.ownership)
            let owned = try await device.provider.make("owned", "x", ItemMetadata(user: 12, group: 34))
            #expect(owned.metadata.user == 12 && owned.metadata.group == 34)
            let kept = try await device.provider.modify(
                device.provider.reference("owned", owned),
                base: owned.contentVersion,
                metadata: ItemMetadata(),
                content: MemorySource("y")
            )
            #expect(kept.metadata.user == 12 && kept.metadata.group == 34)
        }
    }

    @Test func `equal size and time do not make an equal version`() async throws {
        let device = try await FolderDevice()
        try shell("printf one > a && printf two > b && touch -d @1000000000 a b", in: device.path)
        let first = try await device.provider.find("a")
        try shell("mv b a", in: device.path)
        #expect(try await device.provider.find("a").contentVersion != first.contentVersion)
    }
}
