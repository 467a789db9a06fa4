internal import CoveCore
internal import Synchronization

/// The directories the kernel may have cached names of since the mount: one bit each.
final class TouchedDirectories: Sendable {
    /// True when an earlier daemon of the mount may have told the kernel any of them.
    private let areAll: Bool
    private let bits = EngineMutex<[UInt64]>(.touchedDirectories, [])

    /// Higher numbers, which only a damaged catalog has, count as touched.
    private static let highest = 1 << 24

    init(areAll: Bool) { self.areAll = areAll }

    func insert(_ id: ItemID) {
        let word = Int(id.rawValue >> 6)
        if word >= Self.highest { return }
        bits.withLock { bits in
            if word >= bits.count { bits.append(contentsOf: repeatElement(0, count: max(64, word + 1 - bits.count))) }
            bits[word] |= 1 << (id.rawValue & 63)
        }
    }

    func contains(_ id: ItemID) -> Bool {
        if areAll { return true }
        let word = Int(id.rawValue >> 6)
        if word >= Self.highest { return true }
        return bits.withLock { word < $0.count && $0[word] & (1 << (id.rawValue & 63)) != 0 }
    }
}
