internal import Glibc

/// The room on a disk, in bytes; what some file systems tell goes beyond any number, and is the largest one.
public struct DiskRoom: Sendable, Equatable {
    /// All of it.
    public let total: Int64
    /// What is left for others than root.
    public let available: Int64

    /// No room at all.
    public static let empty = DiskRoom(unit: 0, total: 0, available: 0)

    /// Takes the units that statvfs(3) tells.
    public init(unit: UInt, total: UInt, available: UInt) {
        func bytes(_ count: UInt) -> Int64 {
            let (product, overflow) = count.multipliedReportingOverflow(by: unit)
            return overflow ? .max : Int64(clamping: product)
        }
        self.total = bytes(total)
        self.available = bytes(available)
    }

    /// Asks for the disk of a path; nil where nothing is found.
    public init?(_ path: String) {
        var status = statvfs()
        guard statvfs(path, &status) == 0 else { return nil }
        self.init(unit: status.f_frsize, total: status.f_blocks, available: status.f_bavail)
    }
}
