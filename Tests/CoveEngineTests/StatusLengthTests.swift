import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// How long the status of an account is as a message, which may have a megabyte.
@Suite(.timeLimit(.minutes(4))) struct StatusLengthTests {
    private static func length(_ status: AccountStatus) throws -> Int {
        try JSONValue(encoding: AccountInterface.StatusReply(status: status)).bytes.count
    }

    @Test func `a status is a message, whatever bytes the names at the source are made of`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let engine = account.engine
            for byte in [0x01, 0x22, 0x41, 0xE9] as [UInt8] {
                let folder = (0..<8).map { _ in [UInt8](repeating: byte, count: 250) }.joined(separator: [0x2F])
                try engine.catalog.write { database throws(Errno) in
                    for number in 0..<200 {
                        let path = RemotePath(unchecked: Array(folder) + [0x2F] + Array("\(number)".utf8))
                        try engine.namespace.recordProblem(path, String(repeating: "\u{1}", count: 400), database)
                    }
                }
                let status = engine.accountStatus()
                #expect(status.errorCount == 200 && !status.errors.isEmpty)
                #expect(try Self.length(status) < MessageFramer.maximumLength)
                try engine.catalog.write { database throws(Errno) in try database.run("DELETE FROM problems") }
            }
            await account.stop()
        }
    }

    @Test func `transfers of files with long paths leave room for the rest`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let (engine, tree) = (account.engine, account.tree)
            await engine.pause()
            // Of control characters, each of which takes six bytes in a message.
            let part = String(repeating: "\u{1}", count: 250)
            var folder = ""
            for _ in 0..<16 {
                folder += folder.isEmpty ? part : "/" + part
                try tree.makeDirectory(folder)
            }
            for number in 0..<64 { try tree.write("\(folder)/\(number)", [1]) }
            let documents = try (0..<64).map { number in
                let path = RemotePath(unchecked: Array("\(folder)/\(number)".utf8))
                return try #require(DocumentID(try engine.item(at: path).documentID))
            }
            engine.syncEngine?.shared.withLock { state in
                for document in documents where state.reservations.begin(document) {
                    state.reservations.progress(of: document)?.begin(10)
                }
            }
            let status = engine.accountStatus()
            #expect((1...64).contains(status.transfers.count))
            #expect(try Self.length(status) < MessageFramer.maximumLength)
            engine.syncEngine?.shared.withLock { state in for document in documents { state.reservations.end(document) }
            }
            await account.stop()
        }
    }
}
