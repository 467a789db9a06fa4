internal import CoveCore
internal import Glibc

/// How much clean content may stay on this disk: bytes, or a share of the disk.
enum CacheSize: Sendable, Equatable {
    case bytes(Int64)
    case percent(Double)

    /// Reads `20G` or `10%`; nil for anything else.
    init?(_ text: String) {
        if text.hasSuffix("%") {
            guard let share = Double(text.dropLast()), share > 0, share <= 100 else { return nil }
            self = .percent(share)
        } else {
            guard let bytes = Units.parseSize(text) else { return nil }
            self = .bytes(bytes)
        }
    }

    /// Bytes, on the disk that holds a directory.
    func bytes(onDiskOf directory: String) -> Int64? {
        switch self {
        case .bytes(let bytes): return bytes
        case .percent(let share):
            guard let disk = DiskRoom(directory) else { return nil }
            return Int64(saturating: Double(disk.total) * share / 100)
        }
    }
}
