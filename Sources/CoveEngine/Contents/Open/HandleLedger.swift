internal import CLinux
public import CoveCore
internal import Glibc
internal import Synchronization

/// Which items programs have open, in memory that outlives the daemon: its successor takes the handles over.
///
/// Removed directories that a program may have open are here too, as nothing else tells of them.
///
/// A handle is counted before the kernel hears of it, and counted out after the kernel heard that it is closed, so that
/// the count is never too low whenever the daemon dies. One that is too high, for a request that two daemons had, keeps an
/// item from being evicted until the end of the mount; of an item without a name it ends with the kernel's FORGET.
///
/// Layout, native words of 64 bits: a header of one page (magic and version, first change of this mount, announcer, how
/// many announcers there were, and from the word `ring` on the last ones), then records (`LedgerRecord`).
public final class HandleLedger: Sendable {
    private struct State {
        /// Mapped pieces of the file, each with `chunkRecords` records.
        var chunks: [LedgerRecord] = []
        var free: [LedgerRecord] = []
    }

    private static let version: UInt64 = 0x434F_5645_4841_0002
    private static let chunkRecords = 1024
    private static let chunkBytes = chunkRecords * LedgerRecord.words * 8
    private static let (ring, ringWords) = (16, 128)
    private static let page = Int(sysconf(Int32(_SC_PAGESIZE)))

    /// The memory's descriptor, for whoever keeps it.
    public let descriptor: Int32
    /// True when an earlier daemon of this mount has written to it.
    let isInherited: Bool
    /// The announcer processes of all daemons that had the ledger before: a call of one may have waited for several daemons, each
    /// of which died before it could answer.
    private let formerAnnouncers: Set<Int32>
    private nonisolated(unsafe) let header: UnsafeMutablePointer<UInt64>
    private let state: EngineMutex<State>

    /// Makes an empty ledger, or takes over the one in a descriptor.
    ///
    /// Throws EPROTO for one that this program does not understand.
    public init(inherited: Int32? = nil) throws(Errno) {
        if let inherited {
            descriptor = inherited
        } else {
            descriptor = try System.retry { cove_memfd_create("cove-handles") }
            try System.ftruncate(descriptor, Int64(Self.page))
        }
        header = try Self.map(descriptor, at: 0, Self.page)
        isInherited = inherited != nil && header[0] != 0
        if isInherited, header[0] != Self.version { throw Errno(EPROTO) }
        let known = [2] + (Self.ring..<Self.ring + Self.ringWords)
        formerAnnouncers = isInherited ? Set(known.map { [header] in Int32(truncatingIfNeeded: header[$0]) }) : []
        header[0] = Self.version
        var pieces = State()
        let size = isInherited ? Int64(try System.fstat(descriptor).st_size) : 0
        var offset = Int64(Self.page)
        while offset < size {
            let chunk = LedgerRecord(try Self.map(descriptor, at: offset, Self.chunkBytes))
            pieces.chunks.append(chunk)
            for record in Self.records(of: chunk) where record.handles == 0 && record.removed == nil {
                // A daemon may have died while it gave one back.
                record.clear()
                pieces.free.append(record)
            }
            offset += Int64(Self.chunkBytes)
        }
        state = EngineMutex(.handleLedger, pieces)
    }

    deinit {
        for chunk in state.withLock({ $0.chunks }) { munmap(chunk.base, Self.chunkBytes) }
        munmap(header, Self.page)
        System.close(descriptor)
    }

    /// The number of the last change in the feed when the account was mounted: requests since then are this mount's.
    var firstChange: Int64 {
        get { Int64(bitPattern: header[1]) }
        set { header[1] = UInt64(bitPattern: newValue) }
    }

    /// The announcer process of the daemon that has the ledger.
    public var announcer: Int32 {
        get { Int32(truncatingIfNeeded: header[2]) }
        set {
            header[Self.ring + Int(header[3] % UInt64(Self.ringWords))] = UInt64(UInt32(bitPattern: newValue))
            header[3] &+= 1
            header[2] = UInt64(UInt32(bitPattern: newValue))
        }
    }

    /// True for an announcer of a daemon that had the ledger before.
    func isFormerAnnouncer(_ thread: Int32) -> Bool { thread > 0 && formerAnnouncers.contains(thread) }

    /// The records of all open items.
    func records() -> [LedgerRecord] {
        state.withLock { state in state.chunks.flatMap { Self.records(of: $0) }.filter { $0.handles > 0 } }
    }

    /// The records of removed directories.
    func removedRecords() -> [LedgerRecord] {
        state.withLock { state in state.chunks.flatMap { Self.records(of: $0) }.filter { $0.removed != nil } }
    }

    /// Finds a record for an item that is being opened or removed; nil without memory: then its handles are not handed on.
    func allocate() -> LedgerRecord? {
        state.withLock { state in
            if let record = state.free.popLast() { return record }
            let offset = Int64(Self.page + state.chunks.count * Self.chunkBytes)
            do throws(Errno) {
                try System.ftruncate(descriptor, offset + Int64(Self.chunkBytes))
                let chunk = LedgerRecord(try Self.map(descriptor, at: offset, Self.chunkBytes))
                state.chunks.append(chunk)
                state.free = Self.records(of: chunk).reversed()
            } catch {
                return nil
            }
            return state.free.popLast()
        }
    }

    /// Takes back the record of an item whose last handle is gone, or which the kernel has forgotten.
    func free(_ record: LedgerRecord) {
        record.clear()
        state.withLock { $0.free.append(record) }
    }

    private static func records(of chunk: LedgerRecord) -> [LedgerRecord] {
        (0..<chunkRecords).map { LedgerRecord(chunk.base + $0 * LedgerRecord.words) }
    }

    private static func map(
        _ descriptor: Int32,
        at offset: Int64,
        _ length: Int
    ) throws(Errno) -> UnsafeMutablePointer<UInt64> {
        let address = mmap(nil, length, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, off_t(offset))
        guard let address, address != MAP_FAILED else { throw .current }
        return address.bindMemory(to: UInt64.self, capacity: length / 8)
    }
}

/// What outlives the daemon of one open item: its handles, and size and dates that the catalog does not have yet.
///
/// Sixteen words: item, handles, writers, last request that opened it; 1 while the next three hold: size, times of
/// modification and change; the number of its backing file or 0, 1 for a writer whose mapping outlived its handle; 1 while
/// the next three hold: size and times of the content file when last looked at; the last two say that it is a removed
/// directory (see `removed`). Unchecked: whoever holds the item's shard writes what is of handles, whoever holds its
/// `record` the others, and the table of removed directories what is of those.
struct LedgerRecord: @unchecked Sendable {
    static let words = 16
    let base: UnsafeMutablePointer<UInt64>

    init(_ base: UnsafeMutablePointer<UInt64>) { self.base = base }

    var item: ItemID { ItemID(base[0]) }
    var handles: Int { Int(base[1]) }
    var writers: Int { Int(base[2]) }
    var lastOpen: UInt64 { base[3] }

    var backing: UInt32 { UInt32(truncatingIfNeeded: base[8]) }
    var lingers: Bool { base[9] == 1 }

    func set(_ item: ItemID, handles: Int, writers: Int, lastOpen: UInt64, backing: UInt32, lingers: Bool) {
        base[0] = item.rawValue
        base[2] = UInt64(writers)
        base[8] = UInt64(backing)
        base[9] = lingers ? 1 : 0
        // The count first: a request that is known has been counted.
        cove_store_release(base + 1, UInt64(handles))
        cove_store_release(base + 3, lastOpen)
    }

    func clear() {
        base[1] = 0
        base[4] = 0
        base[10] = 0
        base[14] = 0
    }

    /// A removed directory that the kernel knows, and whether it removed it itself; nil for what is open.
    ///
    /// Words, counted from 0: the item, 0 handles; in 5 to 8 times of access, modification and change, and blocks; in 11 to
    /// 13 permissions, size, owner and group; in 14 a 1, or 2 where the kernel removed it; in 15 the item again, which differs
    /// where a daemon that does not know of this has used the record.
    var removed: (attributes: ItemAttributes, isDead: Bool)? {
        guard base[1] == 0, base[14] == 1 || base[14] == 2, base[15] == base[0] else { return nil }
        let attributes = ItemAttributes(
            id: item,
            kind: .directory,
            permissions: UInt16(truncatingIfNeeded: base[11]),
            user: UInt32(truncatingIfNeeded: base[13] >> 32),
            group: UInt32(truncatingIfNeeded: base[13]),
            size: Int64(bitPattern: base[12]),
            linkCount: 0,
            device: 0,
            blocks: Int64(bitPattern: base[8]),
            accessTime: Timestamp(bitPattern: base[5]),
            modificationTime: Timestamp(bitPattern: base[6]),
            changeTime: Timestamp(bitPattern: base[7])
        )
        return (attributes, base[14] == 2)
    }

    func note(removed attributes: ItemAttributes, isDead: Bool) {
        base[0] = attributes.id.rawValue
        base[5] = attributes.accessTime.bitPattern
        base[6] = attributes.modificationTime.bitPattern
        base[7] = attributes.changeTime.bitPattern
        base[8] = UInt64(bitPattern: attributes.blocks)
        base[11] = UInt64(attributes.permissions)
        base[12] = UInt64(bitPattern: attributes.size)
        base[13] = UInt64(attributes.user) << 32 | UInt64(attributes.group)
        base[15] = attributes.id.rawValue
        cove_store_release(base + 14, isDead ? 2 : 1)
    }

    /// What programs were told and the catalog was not; nil when the catalog has it all.
    var unsaved: (size: Int64, modificationTime: Timestamp, changeTime: Timestamp)? {
        guard base[4] == 1 else { return nil }
        return (Int64(bitPattern: base[5]), Timestamp(bitPattern: base[6]), Timestamp(bitPattern: base[7]))
    }

    func note(_ row: ItemRow) {
        base[5] = UInt64(bitPattern: row.size)
        base[6] = row.modificationTime.bitPattern
        base[7] = row.changeTime.bitPattern
        cove_store_release(base + 4, 1)
    }

    /// The catalog has it all.
    func noteSaved() { base[4] = 0 }

    /// The content file when last looked at; nil while only the daemon writes to it.
    var seen: ContentStamp? {
        guard base[10] == 1 else { return nil }
        return ContentStamp(
            size: Int64(bitPattern: base[11]),
            modificationTime: Timestamp(bitPattern: base[12]),
            changeTime: Timestamp(bitPattern: base[13])
        )
    }

    func note(seen stamp: ContentStamp?) {
        guard let stamp else { return base[10] = 0 }
        base[11] = UInt64(bitPattern: stamp.size)
        base[12] = stamp.modificationTime.bitPattern
        base[13] = stamp.changeTime.bitPattern
        cove_store_release(base + 10, 1)
    }
}
