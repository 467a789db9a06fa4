import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// Copies that the disk makes, and room that it keeps.
@Suite(.timeLimit(.minutes(2))) struct CopyRangeTests {
    @Test func `one call copies a part of what is large`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try account.tree.write("from", [1])
            try account.tree.truncate("from", to: 100 << 20)
            try account.tree.write("to", [])
            let (from, to) = (try account.tree.open("from"), try account.tree.open("to"))
            var done: Int64 = 0
            for wanted in [64 << 20, 36 << 20, 0] {
                let copied = try account.engine.copyRange(from: from, at: done, to: to, at: done, count: 1 << 32)
                #expect(copied == wanted)
                done += Int64(copied)
                #expect(try account.tree.size("to") == done)
            }
            await account.stop()
        }
    }

    @Test func `what was copied before an error counts`() async throws {
        try await blocking {
            let place = try TemporaryDirectory("cove-copy")
            let disk = try LoopDisk(in: place.path, megabytes: 64)
            let account = try EngineAccount(states: disk.path)
            // The largest file that this file system can hold.
            let probe = try System.open("\(disk.path)/probe", O_RDWR | O_CREAT)
            var (possible, impossible) = (Int64(0), Contents.maximumFileSize)
            while impossible - possible > 1 {
                let size = possible + (impossible - possible) / 2
                do { try System.ftruncate(probe, size); possible = size } catch { impossible = size }
            }
            System.close(probe)
            try account.tree.write("from", [UInt8](repeating: 7, count: 8192))
            try account.tree.write("to", [])
            let (from, to) = (try account.tree.open("from"), try account.tree.open("to"))
            let copied = try account.engine.copyRange(from: from, at: 0, to: to, at: possible - 4096, count: 8192)
            #expect(copied == 4096)
            #expect(try account.tree.size("to") == possible)
            #expect(throws: Errno.fileTooLarge) {
                try account.engine.copyRange(from: from, at: 4096, to: to, at: possible, count: 4096)
            }
            try account.tree.unlink("to")
            await account.stop()
        }
    }

    @Test func `room that a file has need not be there again`() async throws {
        try await blocking {
            let place = try TemporaryDirectory("cove-room")
            let disk = try LoopDisk(in: place.path, megabytes: 64)
            let account = try EngineAccount(states: disk.path) { $0.reserve = 4 << 20 }
            #expect(try account.tree.list("").isEmpty)
            // An upload of an open file would take room for a copy.
            await account.engine.pause()
            let bytes = [UInt8](repeating: 7, count: 34 << 20)
            try account.tree.write("f", bytes)
            let id = try account.tree.open("f")
            try account.engine.fsync(id, dataOnly: false)
            let free = try #require(DiskRoom(disk.path)?.available)
            #expect(free < Int64(bytes.count))
            let size = Int64(bytes.count)
            let zero = Allocation.zeroes
            for mode in [0, Allocation.keepsSize, zero] {
                try account.engine.allocate(id, mode: mode, offset: 0, length: size)
            }
            try account.engine.allocate(id, mode: 0, offset: 0, length: size + 4096)
            for mode in [0, Allocation.keepsSize, zero] {
                #expect(throws: Errno.noSpace) {
                    try account.engine.allocate(id, mode: mode, offset: 0, length: size + free)
                }
                #expect(throws: Errno.noSpace) {
                    try account.engine.allocate(id, mode: mode, offset: size + 4096, length: free)
                }
            }
            #expect(!account.engine.disk.isFull)
            try account.tree.close(id)
            #expect(try account.tree.size("f") == size + 4096)
            await account.stop()
        }
    }

    @Test func `a claim's snapshot does not take the room that programs need`() async throws {
        try await blocking {
            let place = try TemporaryDirectory("cove-snapshot")
            let disk = try LoopDisk(in: place.path, megabytes: 64)
            let account = try EngineAccount(states: disk.path) { $0.reserve = 4 << 20 }
            let snapshots = Snapshots(coordinator: account.engine.coordinator)
            let room = Int(try #require(DiskRoom(disk.path)?.available))
            try account.tree.makeDirectory("d")
            // There is room for one copy, but not for two.
            try account.tree.write("d/one", [UInt8](repeating: 7, count: room * 2 / 5))
            let one = try account.tree.open("d/one", O_RDONLY)
            try account.engine.fsync(one, dataOnly: false)
            func snapshot(_ name: String, _ kind: ItemKind, _ claim: Int) throws(Errno) -> String {
                let item = try account.tree.resolve(name)
                let path = RemotePath(unchecked: Array(name.utf8))
                return try snapshots.make(item, kind: kind, path: path, claim: claim, index: 0)
            }
            let copy = try snapshot("d/one", .file, 1)
            #expect(try System.lstat(copy).st_size == room * 2 / 5)
            // And now for none.
            #expect(throws: Errno.noSpace) { try snapshot("d/one", .file, 2) }
            #expect(throws: Errno.noSpace) { try snapshot("d", .directory, 3) }
            #expect(try System.names(in: "\(account.state)/snapshots") == ["1-0"])
            // That says nothing of what programs write.
            #expect(!account.engine.disk.isFull)
            try account.tree.append("d/one", [1])
            await account.stop()
        }
    }
}

/// Modes of fallocate(2), which Foundation does not name.
enum Allocation {
    static let keepsSize: Int32 = 1
    static let punches: Int32 = 2
    static let zeroes: Int32 = 16
}
