import CoveCore
import CoveProviders
import Testing

/// Changes of one name at the same instant, in a remote of rclone's, which knows no conditions.
@Suite struct RemoteRaceTests {
    private func outcome(_ body: () async throws -> RemoteItem) async throws -> RemoteItem? {
        do {
            return try await body()
        } catch ProviderError.filenameCollision {
            return nil
        }
    }

    /// What brings a hidden folder to light moves files to names that are being sent.
    @Test(arguments: RemoteKind.all)
    func `of a creation and a move to one name by one device neither loses its bytes`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        let device = devices.here
        for number in 0..<30 {
            let name = try #require(FileName("name \(number)"))
            let old = try await device.make("old \(number)", "moved \(number)")
            async let made = outcome { try await device.make("\(name)", "made \(number)") }
            async let moved = outcome {
                // The creation takes a few steps, and each is to be met.
                try await Task.sleep(for: TimeSpan.milliseconds(Int64(number % 15)))
                return try await device.move(
                    device.reference("old \(number)", old),
                    base: old.contentVersion,
                    to: .root,
                    name: name
                )
            }
            let (first, second) = try await (made, moved)
            try #require((first == nil) != (second == nil), "\(number): \(String(describing: (first, second)))")
            #expect(try await device.text("\(name)") == (first == nil ? "moved" : "made") + " \(number)")
            if second == nil { #expect(try await device.text("old \(number)") == "moved \(number)") }
        }
    }

    @Test(arguments: RemoteKind.all)
    func `of a change and a deletion by two devices one alone is told that it is done`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        let provider = devices.here
        func change(_ name: String, _ base: RemoteItem, _ text: String) async throws {
            _ = try await provider.modify(
                provider.reference(name, base),
                base: base.contentVersion,
                metadata: ItemMetadata(),
                content: MemorySource(text)
            )
        }
        // The deletion meets each step of the change.
        _ = try await provider.make("pattern", "zero")
        let start = System.monotonic()
        for text in ["one", "two", "three"] { try await change("pattern", provider.find("pattern"), text) }
        let time = (System.monotonic() - start) / 3
        var outcomes: Set<Bool> = []
        for number in 0..<60 {
            let name = "file \(number)"
            let base = try await provider.make(name, "former \(number)")
            let text = "changed \(number) and longer"
            async let changed: Void = change(name, base, text)
            async let deleted: Void = {
                try await Task.sleep(for: time * Int64(number) / 50)
                try await devices.there.delete(devices.there.reference(name, base), base: base.contentVersion)
            }()
            let isChanged = (try? await changed) != nil
            let isDeleted = (try? await deleted) != nil
            #expect(!(isChanged && isDeleted), "\(name)")
            if isChanged { #expect(try await devices.there.text(name) == text) }
            outcomes.insert(isChanged)
        }
        // Otherwise they did not meet.
        #expect(outcomes.count == 2)
    }
}
