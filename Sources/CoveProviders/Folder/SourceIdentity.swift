internal import CoveCore
internal import Glibc

/// What makes a source the same one after a remount: the root directory and the file system it is on.
struct SourceIdentity: Sendable, Equatable {
    let inode: UInt64
    let birthTime: Timestamp
    let fileSystem: UInt64

    init(_ root: Int32) throws(Errno) {
        let status = try System.status(root)
        inode = status.inode
        birthTime = status.birthTime
        fileSystem = UInt64(try System.fileSystem(root).f_fsid)
    }

    /// The identity in 24 bytes.
    var bytes: [UInt8] {
        [inode, birthTime.bitPattern, fileSystem].flatMap { number in
            (0..<8).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
        }
    }
}
