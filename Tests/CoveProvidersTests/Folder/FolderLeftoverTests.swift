import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveProviders

/// What a crash leaves in a folder.
@Suite(.serialized, .timeLimit(.minutes(30)))
struct FolderLeftoverTests {
    @Test func `bytes that a dead process was sending are removed by a listing`() async throws {
        let device = try await FolderDevice()
        let (live, dead) = try scratchNames(.upload, device.path)
        try put("half", device.folder.appending(live))
        try put("half", device.folder.appending(dead))
        #expect(try await device.provider.names() == [])
        #expect(try rawNames(device.path) == [live])
    }

    @Test func `the base that an exchange took out is removed, another program's work is not`() async throws {
        let device = try await FolderDevice()
        let base = try await device.provider.make("base", "base").contentVersion
        let theirs = try await device.provider.make("theirs", "theirs").contentVersion
        let (_, old) = try scratchNames(.exchange, device.path, base: base)
        let (_, newer) = try scratchNames(.exchange, device.path, base: base)
        let (_, aside) = try scratchNames(.aside, device.path, base: theirs)
        try shell("mv base '\(old)' && mv theirs '\(newer)'", in: device.path)
        try put("newer", device.folder.appending(aside))
        try put("present", device.folder.appending("doc.txt"))
        _ = try await device.provider.names()
        #expect(try rawNames(device.path) == ["doc (recovered 2).txt", "doc (recovered).txt", "doc.txt"])
        let recovered = try ["doc (recovered 2).txt", "doc (recovered).txt"].map { name in
            try contents(device.folder.appending(name))
        }
        #expect(Set(recovered) == ["theirs", "newer"])
    }

    @Test func `leftovers do not keep a directory from being deleted`() async throws {
        let device = try await FolderDevice()
        let directory = try await device.provider.makeDirectory("directory")
        let (_, dead) = try scratchNames(.upload, device.path)
        try put("half", device.folder.appending("directory/\(dead)"))
        try await device.provider.delete(device.provider.reference("directory", directory), base: nil)
        #expect(try rawNames(device.path) == [])
    }

    /// A scratch file's name as this process and as a dead one would give it.
    private func scratchNames(
        _ kind: ScratchName.Kind,
        _ path: String,
        base: ContentVersion = ContentVersion([])
    ) throws -> (live: String, dead: String) {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/true")
        try process.run()
        process.waitUntilExit()
        let live = String(decoding: ScratchName(kind, base: base, for: Array("doc.txt".utf8)).bytes, as: UTF8.self)
        let dead = live.replacingOccurrences(of: "-\(getpid())-", with: "-\(process.processIdentifier)-")
        return (live, dead)
    }

    @Test func `a scratch name says what it was made of`() throws {
        let original = Array(String(repeating: "n", count: 255).utf8)
        let version = ContentVersion("version")
        let name = ScratchName(.exchange, inode: 77, base: version, for: original)
        #expect(name.bytes.count == 255)
        #expect(FileName(unchecked: name.bytes).isReserved)
        let parsed = try #require(ScratchName(parsing: name.bytes))
        #expect(parsed.kind == .exchange && parsed.inode == 77 && parsed.process == getpid())
        #expect(parsed.allowsDeleting(version) && !parsed.allowsDeleting(ContentVersion("other")))
        #expect(original.starts(with: parsed.original) && parsed.original.count > 180)
        #expect(ScratchName(parsing: Array(".cove-upload-x".utf8)) == nil)
        #expect(ScratchName(parsing: Array("file".utf8)) == nil)
    }
}
