internal import CSQLite
internal import Synchronization

/// A catalog's locks on its shared memory (xShmLock), among the connections of this process.
///
/// Each is a system call in SQLite's own keeping, and four of them go with every look-up. One connection holds all of
/// them there, so that another process finds the catalog locked.
private final class CatalogLocks: Sendable {
    struct State {
        /// How many share a lock; -1: one alone has it.
        var holders = [Int](repeating: 0, count: Int(SQLITE_SHM_NLOCK))
        /// The file by which this process holds them all.
        var keeper: UInt = 0
    }

    let state = Mutex(State())

    private struct Weak {
        weak var locks: CatalogLocks?
    }

    private static let known = Mutex<[String: Weak]>([:])

    /// The locks of a database, the same for all who have it open.
    static func of(_ path: String) -> CatalogLocks {
        known.withLock { known in
            if let found = known[path]?.locks { return found }
            known = known.filter { $0.value.locks != nil }
            let made = CatalogLocks()
            known[path] = Weak(locks: made)
            return made
        }
    }
}

/// An open database file.
struct LockedFile {
    private typealias File = UnsafeMutablePointer<sqlite3_file>

    /// What SQLite calls: the first member, so that a file's pointer to it finds the rest.
    private var methods: sqlite3_io_methods
    private let base: sqlite3_io_methods
    private let locks: CatalogLocks
    /// The locks this connection has alone, one bit each.
    private var own: UInt32 = 0

    /// Takes over an opened file.
    static func attach(to file: UnsafeMutablePointer<sqlite3_file>, at offset: Int, _ path: String) {
        guard let base = file.pointee.pMethods?.pointee, base.iVersion >= 2 else { return }
        let place = (UnsafeMutableRawPointer(file) + offset).bindMemory(to: LockedFile.self, capacity: 1)
        place.initialize(to: LockedFile(methods: base, base: base, locks: .of(path)))
        place.pointee.methods.xShmLock = { file, first, count, flags in
            guard let file else { return SQLITE_MISUSE }
            return LockedFile.of(file).pointee.lock(file, Int(first), Int(count), flags)
        }
        place.pointee.methods.xShmUnmap = { file, removes in
            guard let file else { return SQLITE_MISUSE }
            LockedFile.of(file).pointee.leave(file)
            return LockedFile.of(file).pointee.base.xShmUnmap(file, removes)
        }
        place.pointee.methods.xClose = { file in
            guard let file else { return SQLITE_MISUSE }
            let place = LockedFile.of(file)
            let base = place.pointee.base
            place.deinitialize(count: 1)
            return base.xClose(file)
        }
        file.pointee.pMethods = UnsafeRawPointer(place).assumingMemoryBound(to: sqlite3_io_methods.self)
    }

    private init(methods: sqlite3_io_methods, base: sqlite3_io_methods, locks: CatalogLocks) {
        self.methods = methods
        self.base = base
        self.locks = locks
    }

    private static func of(_ file: File) -> UnsafeMutablePointer<LockedFile> {
        UnsafeMutableRawPointer(mutating: UnsafeRawPointer(file.pointee.pMethods)).assumingMemoryBound(
            to: LockedFile.self
        )
    }

    private mutating func lock(_ file: File, _ first: Int, _ count: Int, _ flags: Int32) -> Int32 {
        let range = first..<(first + count)
        let isShared = flags & SQLITE_SHM_SHARED != 0
        let mask = range.reduce(UInt32(0)) { $0 | 1 << UInt32($1) }
        let had = own
        let code = locks.state.withLock { state -> Int32 in
            if flags & SQLITE_SHM_UNLOCK != 0 {
                for slot in range { state.holders[slot] = isShared ? state.holders[slot] - 1 : 0 }
                return SQLITE_OK
            }
            if state.keeper == 0 {
                let code = base.xShmLock(file, 0, SQLITE_SHM_NLOCK, SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE)
                if code != SQLITE_OK { return code }
                state.keeper = UInt(bitPattern: file)
            }
            if isShared {
                if range.contains(where: { state.holders[$0] < 0 }) { return SQLITE_BUSY }
                for slot in range { state.holders[slot] += 1 }
            } else {
                let others = range.contains { state.holders[$0] != 0 && had & 1 << UInt32($0) == 0 }
                if others { return SQLITE_BUSY }
                for slot in range { state.holders[slot] = -1 }
            }
            return SQLITE_OK
        }
        if code == SQLITE_OK, !isShared { own = flags & SQLITE_SHM_UNLOCK != 0 ? own & ~mask : own | mask }
        return code
    }

    /// The connection ends; the next one to ask holds the locks for the process then.
    private func leave(_ file: File) {
        locks.state.withLock { state in
            guard state.keeper == UInt(bitPattern: file) else { return }
            state.keeper = 0
            _ = base.xShmLock(file, 0, SQLITE_SHM_NLOCK, SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE)
        }
    }
}
