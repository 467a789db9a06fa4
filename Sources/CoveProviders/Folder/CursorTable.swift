internal import CoveCore
internal import Glibc
internal import Synchronization

/// Listings under way, each with its open directory, by the token of the page that comes next.
///
/// A token is good for one page. The oldest listings go when there are too many or when they have been idle; whoever
/// comes back for one is told to list again.
final class CursorTable: Sendable {
    private static let maximum = 64
    private static let idleLimit: Int64 = 60_000_000_000

    private let cursors = Mutex<[Page: DirectoryCursor]>([:])

    func put(_ cursor: DirectoryCursor) -> Page {
        let page = Page(Array(DocumentID.random().description.utf8))
        let now = System.monotonic()
        cursor.used = now
        cursors.withLock { cursors in
            for (page, cursor) in cursors where now - cursor.used > Self.idleLimit { cursors[page] = nil }
            if cursors.count >= Self.maximum, let oldest = cursors.min(by: { $0.value.used < $1.value.used }) {
                cursors[oldest.key] = nil
            }
            cursors[page] = cursor
        }
        return page
    }

    func take(_ page: Page) -> DirectoryCursor? { cursors.withLock { $0.removeValue(forKey: page) } }

    func removeAll() { cursors.withLock { $0.removeAll() } }
}

/// A directory being read.
///
/// Only one holder at a time uses it: the table or one operation.
final class DirectoryCursor: @unchecked Sendable {
    let path: RemotePath
    var used: Int64 = 0
    private let stream: OpaquePointer

    /// Takes over an open directory.
    init(_ descriptor: Int32, path: RemotePath) throws(Errno) {
        guard let stream = fdopendir(descriptor) else {
            let error = Errno.current
            System.close(descriptor)
            throw error
        }
        self.stream = stream
        self.path = path
    }

    deinit { closedir(stream) }

    var descriptor: Int32 { dirfd(stream) }

    /// The next name but `.` and `..`; nil at the end.
    func next() throws(Errno) -> [UInt8]? {
        while true {
            errno = 0
            guard let entry = readdir(stream) else {
                let error = Errno.current
                if error.rawValue != 0 { throw error }
                return nil
            }
            let name = Self.name(entry)
            if name != [0x2E], name != [0x2E, 0x2E] { return name }
        }
    }

    private static func name(_ entry: UnsafeMutablePointer<dirent>) -> [UInt8] {
        // d_name is longer than declared where names are, so it is read through a pointer, up to its NUL.
        let start = UnsafeRawPointer(entry) + (MemoryLayout<dirent>.offset(of: \.d_name) ?? 19)
        let length = strlen(start.assumingMemoryBound(to: CChar.self))
        return Array(UnsafeRawBufferPointer(start: start, count: length))
    }
}
