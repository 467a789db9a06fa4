import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Earlier contents that a source keeps, and this device does not.
    struct SourceVersionTests {
        @Test func `what a bucket keeps is listed, shown and restored`() async throws {
            try await blocking {
                let server = try TestServer.seaweedFS()
                try server.keepVersions()
                try expectVersions(server.port, afterRestoring: [2, 4, 4]) { Cloud.s3Address($0) }
            }
        }

        @Test func `what a cloud keeps is listed, shown and restored`() async throws {
            try await blocking {
                let cloud = try ScriptedCloud()
                let port = cloud.server.port
                // Nothing tells there that an earlier content is the one of now.
                try expectVersions(port, afterRestoring: [2, 4, 4, 11]) {
                    cloud.source.replacing(":\(port)/", with: ":\($0)/")
                }
            }
        }

        private func expectVersions(_ port: UInt16, afterRestoring sizes: [Int64], _ address: (UInt16) -> String) throws
        {
            // One device writes, and another that never saw any of it looks.
            let writer = try MountedAccount(options: "settle=50ms", address: address(port))
            try writer.start()
            for (age, text) in ["one", "the second", "3", "now"].reversed().enumerated().reversed() {
                // Some servers tell versions by the second of the file's date.
                try writer.shell(
                    "echo '\(text)' > $tmp/new; touch -d '\(age + 1) minutes ago' $tmp/new; cp -p $tmp/new doc"
                )
                try writer.settle()
            }
            let own = try writer.cove("versions ls doc", as: [VersionStatus].self)
            #expect(own.map(\.size) == [2, 11, 4] && own.allSatisfy(\.isLocal))
            try writer.end()
            let line = try FaultProxy(to: port)
            let account = try MountedAccount(options: "settle=50ms", address: address(line.port))
            try account.start()
            #expect(try account.shell("cat doc") == "now\n")
            let versions = try account.cove("versions ls doc", as: [VersionStatus].self)
            #expect(versions.map(\.size) == [2, 11, 4])
            #expect(versions.allSatisfy { !$0.isLocal && !$0.isConflict && $0.id.hasPrefix("@") })
            #expect(try account.cove("versions ls doc").contains("not here"))
            let shown = try versions.map { try account.cove("versions show doc \($0.id)") }
            #expect(shown == ["3\n", "the second\n", "one\n"])
            try account.expectRefusal(
                "exec $COVE versions rm doc \(versions[0].id)",
                "doc: the source keeps it, and it alone can delete it"
            )
            let document = try account.info("doc").documentID
            let restored = try account.cove("versions restore doc \(versions[1].id)", as: ItemStatus.self)
            #expect(restored.size == 11 && restored.documentID == document)
            #expect(try account.shell("cat doc") == "the second\n")
            try account.settle()
            // What it replaced is here as well, and is listed once.
            let after = try account.cove("versions ls doc", as: [VersionStatus].self)
            #expect(after.map(\.size).sorted() == sizes)
            #expect(after.filter(\.isLocal).map(\.size) == [4])
            // Without the server what is here is told, and the rest is not.
            line.set { $0.refuses = true }
            line.dropAll()
            let offline = try account.cove("versions ls doc", as: [VersionStatus].self)
            #expect(offline == after.filter(\.isLocal))
            try account.shell("! $COVE versions show doc \(versions[0].id)")
            line.set { $0.refuses = false }
            try account.end()
        }
    }
}

extension TestServer {
    /// Makes the bucket keep what is replaced.
    func keepVersions() throws {
        let status = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
        let arguments = [
            "-sSf", "-X", "PUT", "--aws-sigv4", "aws:amz:us-east-1:s3", "-u", "\(Self.user):\(Self.password)", "-H",
            "x-amz-content-sha256: UNSIGNED-PAYLOAD", "-d", status,
            "http://127.0.0.1:\(port)/\(Self.bucket)?versioning=",
        ]
        try Command.run("curl", arguments)
    }
}
