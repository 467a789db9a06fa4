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

    /// What gives a file new bytes gives the former ones a longer name for a moment, for which a crypt may have no room.
    @Test(arguments: RemoteKind.all)
    func `a file of a long name is changed and deleted`(kind: SourceKind) async throws {
        let devices = try await TwoDevices(kind)
        for length in [95, 120, 138] {
            let name = String(repeating: "n", count: length)
            let made = try await devices.here.make(name, "former")
            let changed = try await devices.here.modify(
                devices.here.reference(name, made),
                base: made.contentVersion,
                metadata: ItemMetadata(),
                content: MemorySource("changed and longer")
            )
            #expect(try await devices.there.text(name) == "changed and longer")
            try await devices.there.delete(
                devices.there.reference(name, changed),
                base: devices.there.find(name).contentVersion
            )
        }
        #expect(try await devices.source.names().isEmpty)
    }
}
