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

    @Test func `a snapshot has all bytes, or is none`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try SourceFolder(account.source).save("away", [1, 2, 3])
            try SourceFolder(account.source).save("empty", [])
            #expect(try account.tree.list("").count == 2)
            try account.tree.write("cut", [UInt8](repeating: 7, count: 50_000))
            try await account.settle()
            try await account.setOffline(true)
            let id = try account.tree.open("cut", O_RDONLY)
            #expect(try account.tree.read(id, at: 0, count: 10).count == 10)
            let content = "\(account.state)/content/\(String(id.rawValue & 0xFF, radix: 16))/\(id.rawValue)"
            try Command.run("truncate", ["-s", "30000", content])
            let snapshots = Snapshots(coordinator: account.engine.coordinator)
            func snapshot(_ name: String, claim: Int) throws(Errno) -> String {
                let path = RemotePath(unchecked: Array(name.utf8))
                let item = try account.tree.resolve(name)
                return try snapshots.make(item, kind: .file, path: path, claim: claim, index: 0)
            }
            // Evicted since the claim has brought it.
            #expect(throws: Errno.busy) { try snapshot("away", claim: 1) }
            #expect(throws: Errno.inputOutput) { try snapshot("cut", claim: 2) }
            #expect(try System.lstat(try snapshot("empty", claim: 3)).st_size == 0)
            #expect(try System.names(in: "\(account.state)/snapshots") == ["3-0"])
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
