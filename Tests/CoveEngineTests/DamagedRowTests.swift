import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// Numbers that a catalog was given by hand or by a failing disk: errors, and no daemon that dies at every start.
@Suite(.timeLimit(.minutes(10))) struct DamagedRowTests {
    /// What can be damaged: a table, and a column of numbers.
    private static func columns(_ state: String) throws -> [(table: String, column: String)] {
        let query = """
            SELECT m.name || ' ' || c.name FROM sqlite_master m, pragma_table_info(m.name) c
            WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND upper(c.type) = 'INTEGER'
            """
        return try Command.run("sqlite3", ["\(state)/catalog.db", query]).output.split(separator: "\n").compactMap {
            let words = $0.split(separator: " ").map(String.init)
            return words.count == 2 ? (words[0], words[1]) : nil
        }
    }

    /// What programs and people do, whatever comes of it.
    private static func use(_ account: EngineAccount) async {
        let (engine, tree) = (account.engine, account.tree)
        for path in ["", "d"] { _ = try? tree.list(path) }
        for path in ["a", "b", "d/c", "large"] {
            if let id = try? tree.resolve(path) { _ = try? tree.read(id, at: 0, count: 100) }
            _ = try? engine.item(at: RemotePath(unchecked: Array(path.utf8)))
            try? tree.write(path, Array("more".utf8))
            _ = try? engine.evict(RemotePath(unchecked: Array(path.utf8)))
        }
        try? tree.rename("a", "d/a")
        try? tree.unlink("b")
        _ = (engine.accountStatus(), engine.statistics(), engine.trash(), engine.conflicts())
        _ = await engine.diagnose()
        _ = engine.fileSystemStatus()
    }

    @Test func `numbers beyond all sense in the catalog end no daemon`() async throws {
        try await blocking {
            let account = try EngineAccount { $0.stallLimit = .seconds(2) }
            let source = SourceFolder(account.source)
            try source.makeDirectory("d")
            for name in ["a", "b", "d/c"] { try source.save(name, Array(name.utf8)) }
            try source.save("large", [UInt8](repeating: 1, count: 4 << 20))
            for path in ["", "d"] { _ = try account.tree.list(path) }
            for name in ["a", "b", "d/c"] { _ = try account.tree.read(name) }
            let large = try account.tree.resolve("large")
            _ = try account.tree.read(large, at: 2 << 20, count: 10)
            try await account.setOffline(true)
            try account.tree.write("b", Array("changed".utf8))
            try account.tree.write("new", Array("new".utf8))
            try account.tree.unlink("d/c")
            let kept = try account.keepState()
            let columns = try Self.columns(kept)
            #expect(columns.count > 50)
            for (table, column) in columns {
                for value in [Int64.min, -1, .max] {
                    let state = account.root.appending("damaged")
                    try? FileManager.default.removeItem(atPath: state)
                    try Command.run("cp", ["-a", kept, state])
                    let change = "UPDATE OR IGNORE \(table) SET \(column) = \(value)"
                    let done = try Command.run("sqlite3", ["\(state)/catalog.db", change], mayFail: true)
                    guard done.status == 0 else { continue }
                    guard (try? await account.restart(from: state, { _ in })) != nil else { continue }
                    await Self.use(account)
                }
            }
            try await account.restart(from: kept) { _ in }
            #expect(try account.tree.read("new") == Array("new".utf8))
            await account.stop()
        }
    }
}
