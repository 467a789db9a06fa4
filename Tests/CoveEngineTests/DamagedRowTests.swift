import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// Numbers that a catalog was given by hand or by a failing disk: errors, and no daemon that dies at every start.
@Suite(.timeLimit(.minutes(30))) struct DamagedRowTests {
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

    @Test func `numbers beyond all sense in the catalog end no daemon`() async throws {
        try await blocking {
            let account = try await EngineAccount.ofManyRows()
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
                    await use(account.engine)
                }
            }
            try await account.restart(from: kept) { _ in }
            #expect(try account.tree.read("new") == Array("new".utf8))
            await account.stop()
        }
    }
}
