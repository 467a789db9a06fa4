public import CoveCore
internal import Glibc

/// How the other side of a conflict is called.
public enum ConflictCopy {
    /// The name of a copy that a device found at a time; the number is that of one of several in a second.
    public static func name(of document: FileName, host: String, at time: Timestamp, number: Int = 1) -> FileName {
        var seconds = time_t(time.seconds)
        var parts = tm()
        localtime_r(&seconds, &parts)
        var stamp = [CChar](repeating: 0, count: 32)
        let length = strftime(&stamp, stamp.count, "%Y-%m-%d %H%M%S", &parts)
        let date = String(decoding: stamp.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return document.inserting(" (conflict from \(host) \(date)\(number == 1 ? "" : " \(number)"))")
    }
}

/// What the name of a conflict copy says: all that a source keeps of a conflict, and by which every device knows it.
struct ConflictName {
    private static let mark = Array(" (conflict from ".utf8)
    private static let settledMark = Array(" (from ".utf8)
    private static let dateForm = Array("0000-00-00 000000".utf8)

    /// The document's name.
    let document: [UInt8]
    /// The device that found the conflict.
    let host: String
    /// When, by that device's clock; nil for a time that there is not.
    let found: Timestamp?
    /// The name once the conflict is dealt with.
    let settled: FileName

    /// Reads a name; nil for one that is no copy's.
    init?(_ name: [UInt8]) {
        guard Self.mayBe(name) else { return nil }
        let (stem, suffix) = FileName(unchecked: name).stemAndExtension
        guard stem.last == 0x29, let open = stem.lastIndex(of: 0x28), open > 1 else { return nil }
        let start = open - 1
        guard stem[start...].starts(with: Self.mark) else { return nil }
        let words = stem[(start + Self.mark.count)...].dropLast().split(
            separator: 0x20,
            omittingEmptySubsequences: false
        )
        // The last word may be the number of one of several in a second.
        let hasNumber = words.last.map { $0.count < 6 && $0.allSatisfy(Self.isDigit) } ?? false
        let dated = hasNumber ? words.dropLast() : words[...]
        guard dated.count > 2 else { return nil }
        let date = Array(dated.suffix(2).joined(separator: [0x20]))
        let host = Array(dated.dropLast(2).joined(separator: [0x20]))
        guard !host.isEmpty, date.count == Self.dateForm.count,
            zip(date, Self.dateForm).allSatisfy({ $1 == 0x30 ? Self.isDigit($0) : $0 == $1 })
        else { return nil }
        document = Array(stem[..<start]) + suffix
        self.host = String(decoding: host, as: UTF8.self)
        found = Self.time(date)
        settled = FileName(
            unchecked: Array(stem[..<start]) + Self.settledMark + stem[(start + Self.mark.count)...] + suffix
        )
    }

    /// False for nearly all names that are no copy's, at little cost.
    static func mayBe(_ name: [UInt8]) -> Bool {
        name.count > mark.count && name.contains(0x29) && name.contains(0x28)
    }

    /// The names of copies of a document begin with the first, and come before the second.
    static func range(of document: [UInt8]) -> (first: [UInt8], end: [UInt8]) {
        let first = FileName(unchecked: document).stemAndExtension.stem + mark
        return (first, first.dropLast() + [0x21])
    }

    /// What the names of all copies have in them.
    static var sign: [UInt8] { mark }

    private static func isDigit(_ byte: UInt8) -> Bool { 0x30...0x39 ~= byte }

    /// Reads a date of the right form; a day too many is one of the next month, as mktime(3) has it.
    private static func time(_ text: [UInt8]) -> Timestamp? {
        func number(_ digits: Range<Int>) -> Int32 { text[digits].reduce(0) { $0 * 10 + Int32($1) - 0x30 } }
        var parts = tm()
        parts.tm_year = number(0..<4) - 1900
        parts.tm_mon = number(5..<7) - 1
        parts.tm_mday = number(8..<10)
        parts.tm_hour = number(11..<13)
        parts.tm_min = number(13..<15)
        parts.tm_sec = number(15..<17)
        parts.tm_isdst = -1
        let seconds = mktime(&parts)
        return seconds == -1 ? nil : Timestamp(seconds: Int64(seconds), nanoseconds: 0)
    }
}

/// Knowing conflicts that other devices found.
///
/// A file that merely has such a name is listed beside the document, and nothing else becomes of it.
extension Namespace {
    /// After a file has come to a name: it may be the other side of a conflict, or a document of which there are such.
    func noteConflicts(of entry: EntryRow, _ database: Database) throws(Errno) {
        if ConflictName(entry.name) != nil { return try noteConflict(entry, database) }
        let (first, end) = ConflictName.range(of: entry.name)
        let copies = try database.all(
            "SELECT * FROM entries WHERE parent = ? AND name >= ? AND name < ?",
            .item(entry.parent),
            .blob(first),
            .blob(end),
            read: { EntryRow($0) }
        )
        for copy in copies { try noteConflict(copy, database) }
    }

    /// After a directory was listed: the order in which documents and copies came does not matter.
    func noteConflicts(in directory: ItemID, _ database: Database) throws(Errno) {
        let copies = try database.all(
            "SELECT * FROM entries WHERE parent = ? AND instr(name, ?) > 0",
            .item(directory),
            .blob(ConflictName.sign),
            read: { EntryRow($0) }
        )
        for copy in copies { try noteConflict(copy, database) }
    }

    private func noteConflict(_ copy: EntryRow, _ database: Database) throws(Errno) {
        guard let name = ConflictName(copy.name), let document = try database.entry(copy.parent, name.document),
            document.id != copy.id, try database.item(copy.item)?.kind == .file,
            try database.item(document.item)?.kind == .file
        else { return }
        if let known = try database.conflict(copy.document) {
            if known.document == document.document { return }
            if try database.entry(document: known.document) != nil { return }
        }
        try database.recordConflict(
            copy: copy.document,
            of: document.document,
            host: name.host,
            at: name.found ?? journalTime()
        )
    }

    /// After a copy went, or got a name that is none of a copy: the conflict has ended, of which presenters hear.
    func noteConflictEnd(
        of copy: DocumentID,
        called former: [UInt8],
        now name: [UInt8]? = nil,
        _ database: Database
    ) throws(Errno) {
        guard ConflictName(former) != nil, name.flatMap({ ConflictName($0) }) == nil,
            let conflict = try database.conflict(copy)
        else { return }
        database.versionNotes.append(VersionNote(change: .resolved, subject: .conflict(conflict)))
    }
}
