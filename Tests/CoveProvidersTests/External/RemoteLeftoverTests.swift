import CoveCore
import CoveProviders
import CoveTestSupport
import Testing

/// What a device that died has left in a remote of rclone's.
@Suite struct RemoteLeftoverTests {
    private static let source = RemoteKind.all.first { $0.testDescription == "a remote: local" }

    @Test(arguments: [false, true])
    func `a file that was aside comes back, beside one that has its name`(isTaken: Bool) async throws {
        let kind = try #require(Self.source)
        let devices = try await TwoDevices(kind)
        try await devices.source.put("former", ".cove-replaced-1000-ab12-letter.txt")
        // That is not old enough: its device may be about to end with it. Until then it is shown as what it was.
        let now = System.now().seconds
        try await devices.source.put("busy", ".cove-replaced-\(now)-ab12-other.txt")
        if isTaken { try await devices.source.put("newer", "letter.txt") }
        _ = try await devices.here.names()
        let names = isTaken ? ["letter (recovered).txt", "letter.txt"] : ["letter.txt"]
        #expect(try await devices.there.names() == names + ["other.txt"])
        #expect(try await devices.there.find("other.txt").size == 4)
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

    /// rclone ends connections that are idle, and more than one of them at a time.
    @Test func `a call is made although all connections that were kept have ended`() throws {
        let script = """
            import sys
            sys.dont_write_bytecode = True
            sys.path.insert(0, "Providers")
            import cove_rclone_daemon
            daemon = cove_rclone_daemon.Daemon()
            assert daemon.call("rc/noop", a=1) == {"a": 1}
            for _ in range(3):
                connection = daemon.new_connection()
                connection.connect()
                connection.sock.shutdown(2)
                daemon.keep(connection)
            assert daemon.call("rc/noop", a=2) == {"a": 2}
            """
        try Command.run("python3", ["-c", script])
    }
}
