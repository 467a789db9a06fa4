public import CoveCore
internal import Glibc

/// One thing that a repair found, and what it did about it.
public struct RepairFinding: Codable, Sendable, Equatable {
    /// A short stable name.
    public let check: String
    /// How many rows or files.
    public let count: Int
    /// What was found and what was done, in one line.
    public let message: String
}

/// What a repair found and did.
public struct RepairReport: Codable, Sendable, Equatable {
    /// Everything found; empty when all is well.
    public var findings: [RepairFinding] = []
    /// The folder that the damaged catalog is kept in; nil when the catalog was only mended.
    public var keptAside: String?
    /// The folder of content that no item knows; nil when it is empty.
    public var foundContent: String?

    /// Nothing found.
    public init() {}
}

/// Mends the catalog of an account that is not mounted; nothing a person may want back is deleted.
public struct CatalogRepair {
    private let directory: String
    private let log: Log

    /// Names the state directory.
    public init(stateDirectory: String, log: Log) {
        directory = stateDirectory
        self.log = log
    }

    private var path: String { directory + "/catalog.db" }

    /// Checks everything, and mends what is wrong.
    public func run() throws(EngineError) -> RepairReport {
        let disk = StateDisk(directory: directory, log: log)
        var report = RepairReport()
        do throws(Errno) { report.keptAside = try CatalogFiles.finishRepair(in: directory) } catch {
            throw EngineError("\(path): a repair can't be finished: \(error); check the folder's owner and the disk")
        }
        guard (try? System.lstat(path)) != nil else {
            throw EngineError("\(path): there is no catalog; check the name of the account or directory")
        }
        do throws(Errno) {
            let store = try ContentStore(directory: directory + "/content")
            try mendFile(disk, store, &report)
            // What was not durable is looked at when it is mounted: a mark that is there stays.
            try mendRows(disk, store, &report)
            if let found = try? System.names(in: directory + "/" + ContentStore.foundFolder), !found.isEmpty {
                report.foundContent = directory + "/" + ContentStore.foundFolder
            }
        } catch {
            throw EngineError("\(path): it can't be repaired: \(error); check the folder's owner and the disk")
        }
        return report
    }

    /// Makes the file one that SQLite finds nothing wrong with.
    private func mendFile(_ disk: StateDisk, _ store: ContentStore, _ report: inout RepairReport) throws(Errno) {
        guard let damage = damage(disk) else { return }
        if isMended(disk) {
            report.findings.append(
                RepairFinding(check: "indexes", count: 1, message: "an index was wrong (\(damage)); all are made anew")
            )
            return
        }
        CatalogFiles.removeUnfinished(in: directory)
        let fresh = CatalogFiles.unfinished(in: directory)
        let outcome = try CatalogSalvage(from: path, to: fresh, log: log).run(content: store)
        try CatalogFiles.finish(in: directory)
        report.keptAside = try CatalogFiles.finishRepair(in: directory)
        let total = outcome.counts.map { "\($0.value) \($0.key)" }.sorted().joined(separator: ", ")
        report.findings.append(
            RepairFinding(
                check: "catalog",
                count: 1,
                message:
                    "it was damaged (\(damage)); what could be read (\(total)) is in a new one, the old one is kept"
            )
        )
        guard let guessed = outcome.guessedExclusions, guessed > 0 else { return }
        report.findings.append(
            RepairFinding(
                check: "exclusions",
                count: guessed,
                message: "what is excluded could not be read, so all that stayed here is now; see `cove exclude --list`"
            )
        )
    }

    /// What is wrong with the file; nil when it is sound.
    private func damage(_ disk: StateDisk) -> String? {
        do throws(Errno) {
            let database = try Database(path: path, disk: disk, log: log)
            let verdict = try database.first("PRAGMA integrity_check(1)", read: { $0.text(0) })
            return verdict == "ok" ? nil : verdict ?? "no answer"
        } catch {
            return "\(error)"
        }
    }

    private func isMended(_ disk: StateDisk) -> Bool {
        do throws(Errno) {
            try Database(path: path, disk: disk, log: log).execute("REINDEX")
        } catch {
            return false
        }
        return damage(disk) == nil
    }

    private func mendRows(_ disk: StateDisk, _ store: ContentStore, _ report: inout RepairReport) throws(Errno) {
        let database = try Database(path: path, disk: disk, log: log)
        try database.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        guard try Schema.migrate(database) == .current else { throw .notSupported }
        let kept = report.keptAside
        try database.execute("BEGIN IMMEDIATE")
        var check = ConsistencyCheck(database: database, store: store)
        try check.run()
        if !check.findings.isEmpty || kept != nil {
            // Everything is compared with the provider again.
            try database.setMeta("anchor", nil)
        }
        if !check.lacking.isEmpty {
            try database.setMeta(Recovery.lackingKey, Array(check.lacking.joined(separator: " ").utf8))
        }
        if let kept { try database.setMeta("salvage", Array(kept.utf8)) }
        try database.execute("COMMIT")
        try check.setAsideUnknown()
        report.findings += check.findings
    }
}
