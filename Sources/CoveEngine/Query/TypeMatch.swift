internal import CSQLite
internal import CoveCore
internal import Synchronization

/// The names that files of some types have, as hashes, for a look at each name inside SQLite.
struct TypeMatch: Sendable {
    /// What it is called in statements: `may_have_type(name, types)`.
    static let function = "may_have_type"

    private let endings: Set<UInt64>
    private let whole: Set<UInt64>
    /// By what bytes of ASCII endings begin, a bit for each.
    private let starts: (low: UInt64, high: UInt64)

    init(_ names: ContentTypes.Names) {
        endings = Set(names.endings.map { Self.hash($0.utf8) })
        whole = Set(names.whole.map { Self.hash($0.utf8) })
        var bits: (low: UInt64, high: UInt64) = (0, 0)
        for byte in names.endings.compactMap(\.utf8.first) {
            if byte < 64 { bits.low |= 1 << UInt64(byte) } else if byte < 128 { bits.high |= 1 << UInt64(byte - 64) }
        }
        starts = bits
    }

    @inline(__always)
    private func isStart(_ byte: UInt8) -> Bool {
        (byte < 64 ? starts.low &>> UInt64(byte) : starts.high &>> UInt64(byte)) & 1 != 0
    }

    /// False where no file of such a name has one of the types.
    ///
    /// A name with a character that is no ASCII may have one: how such are changed into small letters is not told here.
    func mayHave(_ name: UnsafeRawBufferPointer) -> Bool {
        var hash = Self.basis
        var isFound = false
        for byte in name.reversed() {
            if byte >= 0x80 { return true }
            let small = byte &- 0x41 < 26 ? byte | 0x20 : byte
            hash = Self.add(small, to: hash)
            if !isFound, isStart(small) { isFound = endings.contains(hash) }
        }
        return isFound || whole.contains(hash)
    }

    // MARK: Hashes, of the bytes from the last to the first

    private static let basis: UInt64 = 0xCBF2_9CE4_8422_2325

    @inline(__always)
    private static func add(_ byte: UInt8, to hash: UInt64) -> UInt64 { (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }

    private static func hash(_ bytes: String.UTF8View) -> UInt64 {
        bytes.reversed().reduce(basis) { add($1, to: $0) }
    }

    // MARK: In statements

    /// As a value of a statement.
    var value: Database.Value {
        var bytes: [UInt8] = []
        for list in [[starts.low, starts.high], Array(endings), Array(whole)] {
            for number in [UInt64(list.count)] + list {
                for shift in stride(from: 0, to: 64, by: 8) { bytes.append(UInt8(truncatingIfNeeded: number >> shift)) }
            }
        }
        return .blob(bytes)
    }

    /// What `value` has made; of anything else something that holds of all.
    fileprivate init?(_ bytes: UnsafeRawBufferPointer) {
        var place = 0
        func number() -> UInt64? {
            guard place + 8 <= bytes.count else { return nil }
            defer { place += 8 }
            return UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: place, as: UInt64.self))
        }
        var lists: [[UInt64]] = []
        for _ in 0..<3 {
            guard let count = number(), count <= UInt64(bytes.count) else { return nil }
            var list: [UInt64] = []
            for _ in 0..<count {
                guard let value = number() else { return nil }
                list.append(value)
            }
            lists.append(list)
        }
        guard lists[0].count == 2 else { return nil }
        (starts, endings, whole) = ((lists[0][0], lists[0][1]), Set(lists[1]), Set(lists[2]))
    }
}

/// A match that a statement keeps from row to row.
private final class KeptTypeMatch {
    let match: TypeMatch?

    init(_ match: TypeMatch?) { self.match = match }
}

extension Database {
    /// Has statements know `may_have_type`.
    func addTypeMatch() throws(Errno) {
        try addFunction(TypeMatch.function, values: 2) { context, _, values in
            guard let values else { return }
            let kept: KeptTypeMatch
            if let known = sqlite3_get_auxdata(context, 1) {
                kept = Unmanaged<KeptTypeMatch>.fromOpaque(known).takeUnretainedValue()
            } else {
                kept = KeptTypeMatch(TypeMatch(Database.bytes(values[1])))
                let pointer = Unmanaged.passRetained(kept).toOpaque()
                sqlite3_set_auxdata(context, 1, pointer) { pointer in
                    if let pointer { Unmanaged<KeptTypeMatch>.fromOpaque(pointer).release() }
                }
            }
            sqlite3_result_int(context, kept.match?.mayHave(Database.bytes(values[0])) ?? true ? 1 : 0)
        }
    }
}

// MARK: - As a part of a predicate

extension QueryFilter {
    /// The last one that was made: a query needs the same several times.
    private static let last = Mutex<(comparison: QueryPredicate.Comparison, filter: QueryFilter)?>(nil)

    /// Files and others whose type a comparison may hold of: it is asked of all the types that there are.
    static func type(_ comparison: QueryPredicate.Comparison) -> QueryFilter {
        if let known = last.withLock({ $0 }), known.comparison == comparison { return known.filter }
        let types = ContentTypes.ofMachine
        func holds(_ type: String) -> Bool {
            comparison.holds(comparison.key == .contentType ? .string(type) : .strings(types.tree(type)))
        }
        var kinds = ItemKind.allCases.filter { $0.type.map(holds) ?? false }.map(\.rawValue)
        let filter: QueryFilter
        if let names = types.names(ofTypes: holds) {
            let list = kinds.map { "\($0)" }.joined(separator: ",")
            let sql = "i.kind IN (\(list)) OR i.kind = 0 AND \(TypeMatch.function)(e.name, ?)"
            filter = QueryFilter(sql, [TypeMatch(names).value])
        } else {
            kinds.append(ItemKind.file.rawValue)
            filter = QueryFilter("i.kind IN (\(kinds.map { "\($0)" }.joined(separator: ",")))")
        }
        last.withLock { $0 = (comparison, filter) }
        return filter
    }
}

extension ItemKind {
    /// The type of what is no file; nil for a file, whose name tells it.
    var type: String? {
        switch self {
        case .file: nil
        case .directory: "inode/directory"
        case .symbolicLink: "inode/symlink"
        case .fifo: "inode/fifo"
        case .socket: "inode/socket"
        case .characterDevice: "inode/chardevice"
        case .blockDevice: "inode/blockdevice"
        }
    }
}
