import CoveCore
import CoveProviders
import CoveTestSupport
import Foundation
import Testing

/// What a device that died has left in a remote of rclone's.
@Suite struct RemoteLeftoverTests {
    private static let source = RemoteKind.all.first { $0.testDescription == "a remote: local" }

    @Test(arguments: [false, true])
    func `a file that was aside comes back, beside one that has its name`(isTaken: Bool) async throws {
        let kind = try #require(Self.source)
        let devices = try await TwoDevices(kind)
        try await devices.source.put("former", ".cove-replaced-1000-ab12-letter.txt")
        // That is not old enough: its device may be about to end with it.
        let now = System.now().seconds
        try await devices.source.put("busy", ".cove-replaced-\(now)-ab12-other.txt")
        if isTaken { try await devices.source.put("newer", "letter.txt") }
        _ = try await devices.here.names()
        let names = isTaken ? ["letter (recovered).txt", "letter.txt"] : ["letter.txt"]
        #expect(try await devices.there.names() == names)
        #expect(try await devices.here.text(names[0]) == "former")
        if isTaken { #expect(try await devices.here.text("letter.txt") == "newer") }
        #expect(try await devices.source.names().contains { $0.hasSuffix("-other.txt") })
    }

    @Test func `an upload that never arrived keeps no folder from being deleted`() async throws {
        let kind = try #require(Self.source)
        let devices = try await TwoDevices(kind)
        try await devices.here.makeDirectory("d")
        try await devices.source.put("part", "d/.cove-upload-1000-ab12")
        #expect(try await devices.there.names("d").isEmpty)
        try await devices.there.delete(devices.there.reference("d"), base: .directory)
        #expect(try await devices.source.names().isEmpty)
    }

    @Test func `a deletion that was cut off is ended, and what it was not meant for comes back`() async throws {
        let folder = try TemporaryDirectory("leftovers")
        let program = FileManager.default.currentDirectoryPath + "/Providers/cove-rclone"
        let remote = try #require(":local:\(folder.path)".addingPercentEncoding(withAllowedCharacters: .alphanumerics))
        let device = try ProviderFactory.make(source: "exec:\(program)?remote=\(remote)")
        try await device.start()
        // The version of a file on a disk is its date and its size.
        func put(_ text: String, _ path: String) throws {
            try shell("printf '%s' '\(text)' > '\(path)'; touch -d @1700000000 '\(path)'", in: folder.path)
        }
        try put("text", "pattern")
        let version = try await String(decoding: device.find("pattern").contentVersion.bytes, as: UTF8.self)
        try shell("printf '%s' '\(version)' | sha256sum > .cove-mark", in: folder.path)
        let mark = try contents(folder.appending(".cove-mark")).prefix(16)
        let now = System.now().seconds
        try put("text", ".cove-deleted-\(mark)-1000-ab12-deleted.txt")
        try put("changed since", ".cove-deleted-\(mark)-1000-ab12-changed.txt")
        // Its device is about to end with it.
        try put("text", ".cove-deleted-\(mark)-\(now)-ab12-busy.txt")
        _ = try await device.names()
        #expect(try await device.names() == ["changed.txt", "pattern"])
        #expect(try await device.text("changed.txt") == "changed since")
        #expect(try rawNames(folder.path).filter { $0.hasPrefix(".cove-deleted-") }.count == 1)
        // A folder need not wait for it: the version is the one that was to go.
        try await device.makeDirectory("d")
        try put("text", "d/.cove-deleted-\(mark)-\(now)-ab12-busy.txt")
        try await device.delete(device.reference("d"), base: .directory)
        #expect(try await device.names() == ["changed.txt", "pattern"])
    }
}
