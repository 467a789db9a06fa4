internal import CoveCore
internal import Synchronization

/// By which files and units of this device the programs of apps are known.
///
/// Only the user says so. It is no part of the account's documents: another device has other programs.
final class AppPrograms: Sendable {
    /// What the programs of one app are known by.
    struct Programs: Codable, Sendable, Equatable {
        var executables: [RegisteredExecutable] = []
        var units: [String] = []

        var isEmpty: Bool { executables.isEmpty && units.isEmpty }
    }

    private static let key = "programs"

    private let catalog: Catalog
    private let table = RareTable<AppIdentifier, Programs>()
    /// The files that were read, and what they had in them.
    private let known = RareTable<FileMark, String>()

    init(_ catalog: Catalog) throws(Errno) {
        self.catalog = catalog
        let kept = try catalog.read { database throws(Errno) in try Self.kept(database) }
        for (app, programs) in kept { table.insert(programs, for: app) }
    }

    subscript(app: AppIdentifier) -> Programs { table[app] ?? Programs() }

    /// What is known of all apps.
    var all: [AppIdentifier: Programs] { table.contents() }

    /// Has an app known by these from now on, durably; true where that is something else than before.
    func set(_ programs: Programs, of app: AppIdentifier) throws(Errno) -> Bool {
        if self[app] == programs { return false }
        try catalog.write(durable: true) { database throws(Errno) in
            var kept = try Self.kept(database)
            kept[app] = programs.isEmpty ? nil : programs
            let named = Dictionary(uniqueKeysWithValues: kept.map { ($0.key.text, $0.value) })
            guard let value = try? JSONValue(encoding: named) else { throw .inputOutput }
            try database.setMeta(Self.key, kept.isEmpty ? nil : value.bytes)
            database.whenCommitted { [table] in
                table.update { $0[app] = programs.isEmpty ? nil : programs }
            }
        }
        return true
    }

    private static func kept(_ database: Database) throws(Errno) -> [AppIdentifier: Programs] {
        guard let bytes = try database.meta(key), case .object(let members)? = try? JSONValue(parsing: bytes) else {
            return [:]
        }
        var kept: [AppIdentifier: Programs] = [:]
        for (name, value) in members {
            guard let app = AppIdentifier(name), let programs: Programs = try? value.decode() else { continue }
            kept[app] = programs
        }
        return kept
    }

    /// The digest of an open file, which is read again only where it has changed.
    func digest(of file: Int32) throws(Errno) -> String {
        let mark = try FileMark(file)
        if let digest = known[mark] { return digest }
        let digest = try RegisteredExecutable.digest(of: file)
        guard try FileMark(file) == mark else { throw .wouldBlock }
        known.update { known in
            // Old ones are of no use to anybody.
            if known.count >= 256 { known = [:] }
            known[mark] = digest
        }
        return digest
    }
}
