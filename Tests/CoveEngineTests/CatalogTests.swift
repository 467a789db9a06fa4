import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

@Suite struct CatalogTests {
    private func open(_ folder: TemporaryDirectory) throws -> Catalog {
        let disk = StateDisk(directory: folder.path, reserve: 0, log: .none)
        return try Catalog(path: folder.appending("catalog.db"), disk: disk, log: .none)
    }

    private func insert(_ count: Int, _ database: Database) throws(Errno) {
        for _ in 0..<count {
            let row = ItemRow(kind: .file, permissions: 0o644, user: 0, group: 0, now: Timestamp(1))
            _ = try database.insert(row)
        }
    }

    private func count(_ database: Database) throws(Errno) -> Int64 {
        try database.first("SELECT count(*) FROM items", read: { $0.int(0) }) ?? 0
    }

    /// The kernel's copy of a listing is out of date when the folder's date is another one.
    @Test func `two changes of a folder in one tick have two dates`() async throws {
        try await blocking {
            let catalog = try open(try TemporaryDirectory("cove-catalog"))
            let now = Timestamp(5_000_000_000)
            let dates = try catalog.write { database throws(Errno) -> [Timestamp] in
                let row = ItemRow(kind: .directory, permissions: 0o755, user: 0, group: 0, now: Timestamp(1))
                let id = try database.insert(row)
                let times = [now, now, now, Timestamp(now.nanosecondsSinceEpoch + 1), Timestamp(2)]
                return try times.map { time throws(Errno) in
                    try database.touchListing(id, at: time)
                    return try database.existingItem(id).modificationTime
                }
            }
            #expect(dates == [0, 1, 2, 3].map { Timestamp(now.nanosecondsSinceEpoch + $0) } + [Timestamp(2)])
        }
    }

    @Test func `however many commits there were, who follows them is called`() async throws {
        try await blocking {
            let folder = try TemporaryDirectory("cove-catalog")
            let catalog = try open(folder)
            let counter = Counter()
            catalog.follower.withLock { $0 = CatalogFollower { _, _ in counter.count.add(1, ordering: .relaxed) } }
            for _ in 0..<60_000 { try catalog.write { _ in } }
            #expect(counter.count.load(ordering: .relaxed) == 60_000)
        }
    }

    /// SQLite says SQLITE_CANTOPEN, 14, when the log of a database can't be opened.
    @Test func `what the process has no more of says nothing of the disk`() {
        for error in [EMFILE, ENFILE, ENOMEM] { #expect(Database.errno(for: 14, system: error) == Errno(error)) }
        for error in [EIO, EACCES, 0] { #expect(Database.errno(for: 14, system: error) == .inputOutput) }
    }

    @Test func `who changes the schema of a catalog that is there says so before`() async throws {
        try await blocking {
            let folder = try TemporaryDirectory("cove-catalog")
            let path = folder.appending("catalog.db")
            let disk = StateDisk(directory: folder.path, reserve: 0, log: .none)
            var told = 0
            // One of the version before, which is changed once; a new one has no earlier version.
            do {
                let old = try Database(path: path, disk: disk, log: .none)
                for step in Schema.steps.dropLast() { try old.execute(step) }
                try old.execute("PRAGMA user_version = \(Schema.version - 1)")
            }
            for _ in 1...2 { _ = try Catalog(path: path, disk: disk, log: .none) { told += 1 } }
            _ = try Catalog(path: folder.appending("new.db"), disk: disk, log: .none) { told += 1 }
            #expect(told == 1)
        }
    }

    private final class Counter: Sendable {
        let count = Atomic(0)
    }

    @Test func `what was committed is in the files, whole, and what was taken back is not`() async throws {
        try await blocking {
            let folder = try TemporaryDirectory("cove-catalog")
            let path = folder.appending("catalog.db")
            let catalog = try open(folder)
            var expected: Int64 = 0
            // More than is kept of a commit, one item, and again after a commit that was taken back, small and large.
            for (round, size) in [1, 5000, 1, 20, 3000, 1].enumerated() {
                for lost in [3, 4000] {
                    #expect(throws: Errno.busy) {
                        try catalog.write { database throws(Errno) in
                            try insert(lost, database)
                            throw .busy
                        }
                    }
                }
                try catalog.write(durable: round == 3) { database throws(Errno) in
                    try insert(size, database)
                    try database.run("UPDATE items SET size = size + 1 WHERE id % 7 = 0")
                }
                expected += Int64(size)
                #expect(try catalog.read { database throws(Errno) in try count(database) } == expected)
                // What a dead process leaves is what the files hold now.
                let copy = folder.appending("copy\(round)")
                try FileManager.default.createDirectory(atPath: copy, withIntermediateDirectories: true)
                for suffix in ["", "-wal"] { try Command.run("cp", [path + suffix, "\(copy)/catalog.db\(suffix)"]) }
                let check = "PRAGMA integrity_check; SELECT count(*) FROM items"
                let found = try Command.run("sqlite3", ["\(copy)/catalog.db", check]).output
                #expect(found == "ok\n\(expected)\n")
            }
            catalog.close()
        }
    }

    @Test func `a document is found without looking at all others`() async throws {
        try await blocking {
            let folder = try TemporaryDirectory("cove-catalog")
            let catalog = try open(folder)
            let plan = try catalog.read { database throws(Errno) in
                try database.all("EXPLAIN QUERY PLAN SELECT * FROM entries WHERE document = x'00'") { $0.text(3) }
            }
            #expect(plan.count == 1 && plan[0].contains("SEARCH") && plan[0].contains("entries_document"), "\(plan)")
            catalog.close()
        }
    }

    @Test func `readers see whole commits while another thread writes`() async throws {
        try await blocking {
            let folder = try TemporaryDirectory("cove-catalog")
            let catalog = try open(folder)
            let threads = DispatchQueue(label: "readers", attributes: .concurrent)
            let group = DispatchGroup()
            let problems = Mutex<[Errno]>([])
            for _ in 0..<4 {
                threads.async(group: group) {
                    do throws(Errno) {
                        var last: Int64 = 0
                        while last < 4000 {
                            let now = try catalog.read { database throws(Errno) in try self.count(database) }
                            guard now % 4 == 0, now >= last else { throw .stale }
                            last = now
                        }
                    } catch {
                        problems.withLock { $0.append(error) }
                    }
                }
            }
            for _ in 0..<1000 { try catalog.write { database throws(Errno) in try insert(4, database) } }
            #expect(group.wait(timeout: .now() + 60) == .success)
            #expect(problems.withLock { $0 } == [])
            catalog.close()
        }
    }
}
