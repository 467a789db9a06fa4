import CoveCore
import CoveTestSupport
import Foundation
import Glibc
import Testing

@testable import CoveEngine

/// Copies that are made for a claim for uploading.
@Suite(.timeLimit(.minutes(2))) struct SnapshotTests {
    @Test func `an item whose name has no room for more has a snapshot`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let snapshots = Snapshots(coordinator: account.engine.coordinator)
            let longest = String(repeating: "ö", count: 127) + "d"
            try account.tree.makeDirectory(longest)
            try account.tree.write("\(longest)/f", [1])
            let folder = try account.tree.resolve(longest)
            let zip = try snapshots.make(
                folder,
                kind: .directory,
                path: RemotePath(unchecked: Array(longest.utf8)),
                claim: 1,
                index: 0
            )
            #expect(zip.hasSuffix(".zip"))
            #expect(try Command.run("unzip", ["-l", zip]).output.contains("/f\n"))
            // Bytes that are no text take three each once they are.
            let file = try account.tree.resolve("\(longest)/f")
            let name = RemotePath(unchecked: [UInt8](repeating: 0xFF, count: 200))
            let copy = try snapshots.make(file, kind: .file, path: name, claim: 2, index: 0)
            #expect(try Data(contentsOf: URL(fileURLWithPath: copy)) == Data([1]))
            await account.stop()
        }
    }

    @Test func `an item that a claim names twice has two snapshots`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try account.tree.write("f", [1])
            let session = try account.engine.beginConnection(process: getpid())
            let path = PathParameter(RemotePath(unchecked: Array("f".utf8)))
            let intent = CoordinationInterface.Intent(reading: path, [.forUploading])
            let reply = try await account.engine.claim(
                CoordinationInterface.ClaimRequest(intents: [intent, intent], timeout: 30),
                session: session
            )
            let snapshots = reply.items.compactMap(\.snapshot)
            #expect(Set(snapshots).count == 2)
            for snapshot in snapshots { #expect(try Data(contentsOf: URL(fileURLWithPath: snapshot)) == Data([1])) }
            try account.engine.releaseClaim(reply.claim)
            for snapshot in snapshots { #expect(!FileManager.default.fileExists(atPath: snapshot)) }
            account.engine.endSession(session)
            await account.stop()
        }
    }
}
