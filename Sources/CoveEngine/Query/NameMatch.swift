internal import CSQLite
internal import CoveCore
internal import Glibc

/// How a name is compared with a text inside SQLite: byte for byte, and without making a text of each name.
struct NameMatch: OptionSet {
    let rawValue: Int32

    /// The text is at the beginning of the name.
    static let atStart = NameMatch(rawValue: 1)
    /// The text is at the end of the name.
    static let atEnd = NameMatch(rawValue: 2)
    /// Letters are equal in either case; the text has small ones.
    static let inEitherCase = NameMatch(rawValue: 4)

    /// What it is called in statements: `may_match(name, text, match)`.
    static let function = "may_match"

    /// False where a name has not the text in it, which is of ASCII.
    ///
    /// A name with any other character in it may have it: such characters may be equal to others in many ways.
    func mayHold(_ name: UnsafeRawBufferPointer, _ text: UnsafeRawBufferPointer) -> Bool {
        var (index, others) = (0, UInt64(0))
        while index &+ 8 <= name.count {
            others |= name.loadUnaligned(fromByteOffset: index, as: UInt64.self)
            index &+= 8
        }
        var high = UInt8(0)
        while index < name.count {
            high |= name[index]
            index &+= 1
        }
        if others & 0x8080_8080_8080_8080 != 0 || high & 0x80 != 0 { return true }
        guard let first = text.first else { return true }
        let room = name.count - text.count
        guard room >= 0, !contains([.atStart, .atEnd]) || room == 0 else { return false }
        // What a capital letter of ASCII lacks to be a small one.
        let ignored: UInt8 = contains(.inEitherCase) ? 0x20 : 0
        var start = contains(.atEnd) ? room : 0
        let last = contains(.atStart) ? 0 : room
        while start <= last {
            if Self.folded(name[start], ignored) == first {
                var next = 1
                while next < text.count, Self.folded(name[start &+ next], ignored) == text[next] { next &+= 1 }
                if next == text.count { return true }
            }
            start &+= 1
        }
        return false
    }

    @inline(__always)
    private static func folded(_ byte: UInt8, _ ignored: UInt8) -> UInt8 {
        byte &- 0x41 < 26 ? byte | ignored : byte
    }
}

extension Database {
    /// What SQLite calls for a function: its context, and how many values there are.
    typealias Function = @convention(c) (OpaquePointer?, Int32, UnsafeMutablePointer<OpaquePointer?>?) -> Void

    /// Has statements know a function, which tells the same of the same values.
    func addFunction(_ name: String, values: Int32, _ body: Function) throws(Errno) {
        let flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS
        let code = sqlite3_create_function_v2(handle, name, values, flags, nil, body, nil, nil, nil)
        guard code == SQLITE_OK else { throw Errno(ENOMEM) }
    }

    /// Has statements know `may_match`.
    func addNameMatch() throws(Errno) {
        try addFunction(NameMatch.function, values: 3) { context, _, values in
            guard let values else { return }
            let match = NameMatch(rawValue: sqlite3_value_int(values[2]))
            let holds = match.mayHold(Database.bytes(values[0]), Database.bytes(values[1]))
            sqlite3_result_int(context, holds ? 1 : 0)
        }
    }

    /// The bytes of a value, for as long as the function that got it runs.
    static func bytes(_ value: OpaquePointer?) -> UnsafeRawBufferPointer {
        // In this order: the length is that of what the first call gives.
        let start = sqlite3_value_blob(value)
        return UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : Int(sqlite3_value_bytes(value)))
    }
}
