internal import CoveCore
internal import Glibc

/// Which file something is, and in which state: another one for every change of its bytes.
struct FileMark: Hashable, Sendable {
    var device: UInt64
    var inode: UInt64
    private var size: Int64
    private var modified: Timestamp
    private var changed: Timestamp

    init(_ status: stat) {
        device = UInt64(status.st_dev)
        inode = UInt64(status.st_ino)
        size = Int64(status.st_size)
        modified = Timestamp(status.st_mtim)
        changed = Timestamp(status.st_ctim)
    }

    init(_ file: Int32) throws(Errno) { self.init(try System.fstat(file)) }

    /// True where both are the same file, whatever its state.
    func isSameFile(as other: FileMark) -> Bool { device == other.device && inode == other.inode }
}
