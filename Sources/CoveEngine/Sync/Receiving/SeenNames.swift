internal import CoveCore

/// The names that a listing has shown, as hashes: a million of them take some 6 MB.
///
/// One name in some ten million that was not shown is taken for one that was; another listing has other hashes.
struct SeenNames: Sendable {
    private static let bits = 12
    /// By the upper bits of the hash, the lower ones.
    private var buckets = [ContiguousArray<UInt32>](repeating: [], count: 1 << bits)
    private let salt = UInt64.random(in: 0 ... .max)

    init() {}

    /// Adds a name.
    mutating func insert(_ name: [UInt8]) {
        let hash = hash(name)
        let bucket = Int(hash >> (64 - Self.bits))
        // Doubling would leave half of them empty.
        if buckets[bucket].count == buckets[bucket].capacity {
            buckets[bucket].reserveCapacity(buckets[bucket].count + buckets[bucket].count / 4 + 4)
        }
        buckets[bucket].append(UInt32(truncatingIfNeeded: hash))
    }

    /// True for every name that was added, and for hardly any other.
    func contains(_ name: [UInt8]) -> Bool {
        let hash = hash(name)
        return buckets[Int(hash >> (64 - Self.bits))].contains(UInt32(truncatingIfNeeded: hash))
    }

    private func hash(_ name: [UInt8]) -> UInt64 {
        var hasher = Hasher()
        hasher.combine(salt)
        name.withUnsafeBytes { hasher.combine(bytes: $0) }
        return UInt64(bitPattern: Int64(hasher.finalize()))
    }
}
