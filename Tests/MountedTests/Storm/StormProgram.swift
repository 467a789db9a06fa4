import CoveCore
import CoveTestSupport
import Foundation
import Synchronization

/// What programs and people do on one device of a storm, at random.
final class StormProgram: @unchecked Sendable {
    /// More names than this in a folder are too many: something is deleted instead of made.
    private static let crowd = 20
    private static let fileNames = ["f0", "f1", "f2", "f3", "f4", "f5", "a letter.txt", "Brief ä.txt"]
    static let folderNames = ["D0", "D1", "D2", "E0", "E1", "Ordner ö"]

    let device: StormDevice
    let ledger: StormLedger
    private let calls: StormCalls
    /// Used by one thread.
    var random: SeededGenerator
    private var counter = 0
    /// The mount in which the step is done.
    private var current: StormTree?

    init(_ device: StormDevice, _ ledger: StormLedger, _ calls: StormCalls, _ random: SeededGenerator) {
        self.device = device
        self.ledger = ledger
        self.calls = calls
        self.random = random
    }

    /// Works until a time; what others do may make any step fail.
    func run(until end: MonotonicTime) throws {
        while System.monotonic() < end, !calls.hasHung {
            do {
                try steps()
            } catch is Errno {}
            _ = poll(nil, 0, Int32.random(in: 0...40, using: &random))
        }
    }

    /// The mount; there is none for a moment after everything was killed.
    func tree() throws -> StormTree {
        guard let current = device.tree else { throw Errno.notConnected }
        return current
    }

    private func steps() throws {
        switch Int.random(in: 0..<28, using: &random) {
        case 27:
            try run("paused spells") {
                try command("pause")
                for _ in 0..<Int.random(in: 1...8, using: &random) {
                    do { try step(Int.random(in: 0..<26, using: &random)) } catch is Errno {}
                }
                try command("resume")
            }
        case let number: try step(number)
        }
    }

    private func step(_ number: Int) throws {
        switch number {
        case 0...4: try run("creations", create)
        case 5...7: try run("edits", edit)
        case 8, 9: try run("appends", append)
        case 10, 11: try run("truncations", truncate)
        case 12: try run("rewrites", rewrite)
        case 13, 14: try run("saves by renaming", saveByRenaming)
        case 15: try run("deletions") { try delete(anyFile()) }
        case 16, 17: try run("moves", moveFile)
        case 18: try run("exchanges", exchange)
        case 19: try run("rename chains", rotate)
        case 20, 21: try run("folder rebuilds", rebuild)
        case 22: try run("folder renames", renameFolder)
        case 23: try run("file and folder swaps", swapKinds)
        case 24: try run("folder deletions", deleteFolder)
        default: try run("evictions") { try command("evict '\(device.account.mount)/\(anyFile())'") }
        }
    }

    private func run(_ what: String, _ step: () throws -> Void) throws {
        try step()
        ledger.count(what)
    }

    /// A daemon that is being replaced, or an item in use, is a good reason to refuse; to take for ever is none.
    private func command(_ words: String) throws {
        if try device.cove(words) != nil { ledger.count("refused commands") }
    }

    // MARK: Names

    /// A name that no other step gives.
    func fresh() -> String {
        counter += 1
        return "\(device.index)-\(counter)"
    }

    func path(_ folder: String, _ name: String) -> String { folder.isEmpty ? name : "\(folder)/\(name)" }

    func folders(in folder: String) throws -> [String] {
        try tree().list(folder).filter { $0.value == .directory }.keys.sorted()
    }

    func files(in folder: String) throws -> [String] {
        try tree().list(folder).filter { $0.value == .file }.keys.sorted()
    }

    /// A folder that is there, made if need be; never the root.
    func anyFolder() throws -> String {
        var folder = ""
        for depth in 0..<3 {
            let below = try folders(in: folder)
            if below.isEmpty || (below.count < 4 && random.oneIn(8)) {
                if depth > 0, !random.oneIn(4) { break }
                let new = path(folder, Self.folderNames.randomElement(using: &random) ?? "D0")
                if try tree().list(folder)[new.components(separatedBy: "/").last ?? ""] == nil {
                    try tree().makeDirectory(new)
                    return new
                }
            }
            guard let next = below.randomElement(using: &random) else { break }
            folder = path(folder, next)
            if random.oneIn(2) { break }
        }
        guard !folder.isEmpty else { throw Errno.noSuchEntry }
        return folder
    }

    /// A folder, or the root.
    func anyPlace() throws -> String { random.oneIn(6) ? "" : try anyFolder() }

    func anyFile() throws -> String {
        let folder = try anyPlace()
        guard let file = try files(in: folder).randomElement(using: &random) else { throw Errno.noSuchEntry }
        return path(folder, file)
    }

    func anyName() -> String { Self.fileNames.randomElement(using: &random) ?? "f0" }

    // MARK: Contents

    private func record() -> StormRecord {
        counter += 1
        return StormRecord(device: device.index, number: counter)
    }

    private func bytes(_ record: StormRecord) -> [UInt8] {
        let most = random.oneIn(12) ? 150_000 : 3000
        return record.bytes(Int.random(in: 1...most, using: &random))
    }

    /// Does something with a file that is open, and closes it; the record counts from then on.
    private func write(
        _ file: StormFile,
        of tree: StormTree,
        _ record: StormRecord,
        _ how: String,
        _ body: () throws -> Void
    ) throws {
        do {
            var isOpen = true
            defer { if isOpen { try? tree.close(file) } }
            try body()
            isOpen = false
            try tree.close(file)
        } catch {
            ledger.leftUnfinished(record)
            throw error
        }
        ledger.wrote(record, "\(how) on device \(device.index)")
    }

    /// Makes a file that is not there.
    func make(_ path: String, _ how: String) throws {
        let record = record()
        let tree = try tree()
        try device.contents.withLock { _ in
            let file = try tree.open(path, O_WRONLY | O_CREAT | O_EXCL)
            try write(file, of: tree, record, "\(how) \(path)") { try tree.write(file, at: 0, bytes(record)) }
        }
    }

    private func create() throws {
        let folder = try anyPlace()
        guard try tree().list(folder).count < Self.crowd else { return try delete(anyFile()) }
        try make(path(folder, anyName()), "created")
    }

    /// The records of a file that is open.
    private func read(_ file: StormFile) throws -> StormRecord.Contents {
        try ledger.read(tree().read(file), "\(file.path) on device \(device.index)")
    }

    /// Does away with records that the program has seen; a call that fails does nothing.
    private func giveUp<R>(_ records: [StormRecord], _ how: String, _ doing: () throws -> R) throws -> R {
        let tree = try tree()
        ledger.gaveUp(records, "\(how) on device \(device.index)")
        do {
            return try doing()
        } catch {
            if !tree.isDead { ledger.tookBack(records) }
            throw error
        }
    }

    /// Reads a file and writes over it, by one handle: nothing that was not seen is overwritten.
    private func edit() throws {
        let path = try anyFile()
        let record = record()
        let bytes = bytes(record)
        let tree = try tree()
        try device.contents.withLock { _ in
            let file = try tree.open(path, O_RDWR)
            try write(file, of: tree, record, "edited \(path)") {
                let seen = try read(file).records.map(\.record)
                try giveUp(seen, "edited \(path)") { try tree.write(file, at: 0, bytes) }
                try tree.truncate(file, to: bytes.count)
            }
        }
    }

    private func append() throws {
        let path = try anyFile()
        let record = record()
        let tree = try tree()
        try device.contents.withLock { _ in
            let file = try tree.open(path, O_WRONLY | O_APPEND)
            try write(file, of: tree, record, "appended to \(path)") {
                try tree.write(file, record.bytes(Int.random(in: 1...900, using: &random)))
            }
        }
    }

    /// Cuts a file off behind one of its records.
    private func truncate() throws {
        let path = try anyFile()
        let tree = try tree()
        try device.contents.withLock { _ in
            let file = try tree.open(path, O_RDWR)
            defer { try? tree.close(file) }
            let seen = try read(file).records
            let kept = Int.random(in: 0...seen.count, using: &random)
            let size = kept == 0 ? 0 : seen[kept - 1].end
            try giveUp(seen[kept...].map(\.record), "cut off \(path)") { try tree.truncate(file, to: size) }
        }
    }

    /// Reads a file, and does away with what has its name, if that is still what was read.
    ///
    /// Something else may come to the name in between; what the kernel did before the program's own event tells.
    private func giveUp<R>(
        _ path: String,
        _ how: String,
        isOwn: (NameWatch.Event) -> Bool,
        _ doing: (_ seen: UInt64) throws -> R
    ) throws -> R {
        let tree = try tree()
        let file = try tree.open(path, O_RDONLY)
        defer { try? tree.close(file) }
        let seen = try read(file).records.map(\.record)
        let item = try tree.item(file)
        var names = path.components(separatedBy: "/")
        let name = names.removeLast()
        let watch = try NameWatch(name, in: tree.full(names.joined(separator: "/")))
        // Waits until nobody renames in the directory: between the next look and the call there is hardly time for anybody.
        if let new = try? tree.open(path, O_WRONLY | O_CREAT | O_EXCL) { try tree.close(new) }
        guard try UInt64(tree.lstat(path).st_ino) == item else { throw Errno.noSuchEntry }
        let result = try giveUp(seen, "\(how) \(path)") { try doing(item) }
        let events = watch.events()
        if let own = events.lastIndex(where: isOwn), events[..<own].contains(where: \.isArrival) {
            ledger.tookUnseen("\(how) \(path)")
        }
        return result
    }

    /// Empties a file by opening it and writes it anew, as a shell's `>` does.
    private func rewrite() throws {
        let path = try anyFile()
        let record = record()
        let bytes = bytes(record)
        let tree = try tree()
        try device.contents.withLock { _ in
            let (file, seen) = try giveUp(path, "rewrote", isOwn: { _ in false }) { seen in
                (try tree.open(path, O_WRONLY | O_TRUNC), seen)
            }
            try write(file, of: tree, record, "rewrote \(path)") {
                if try tree.item(file) != seen { ledger.tookUnseen("rewrote \(path)") }
                try tree.write(file, at: 0, bytes)
            }
        }
    }

    private func saveByRenaming() throws {
        let path = try anyFile()
        let part = "\(path).\(fresh()).part"
        try make(part, "saved")
        let name = part.components(separatedBy: "/").last
        do {
            try device.contents.withLock { _ in
                try giveUp(path, "saved over", isOwn: { $0.formerName == name }) { _ in
                    try tree().rename(part, path, .replace)
                }
            }
        } catch {
            try? delete(part)
            throw error
        }
    }

    func delete(_ path: String) throws {
        try device.contents.withLock { _ in
            try giveUp(path, "deleted", isOwn: { !$0.isArrival }) { _ in try tree().unlink(path) }
        }
    }
}
