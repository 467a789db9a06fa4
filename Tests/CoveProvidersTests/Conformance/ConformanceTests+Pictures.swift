import CoveCore
import CoveProviders
import CoveTestSupport
import Testing

extension ConformanceTests {
    /// A folder that is another account's root has a hidden folder of pictures in it.
    @Test(arguments: SourceKind.all)
    func `a folder goes with the pictures of a source that it was, and stays with anything else`(
        kind: SourceKind
    ) async throws {
        let devices = try await TwoDevices(kind)
        let (here, there) = (devices.here, devices.there)
        try await there.makeDirectory("a")
        let file = try await there.make("a/file", "bytes")
        let mark = String(repeating: "ab", count: 20)
        try await devices.source.put("a picture", "a/.cove-thumbnails/\(mark)/\(mark).png")
        await #expect(throws: ProviderError.self) {
            try await here.delete(here.reference("a"), base: .directory)
        }
        #expect(try await there.text("a/file") == "bytes")
        try await there.delete(there.reference("a/file", file), base: file.contentVersion)
        try await here.delete(here.reference("a"), base: .directory)
        await #expect(throws: ProviderError.noSuchItem) { try await there.find("a") }
    }
}
