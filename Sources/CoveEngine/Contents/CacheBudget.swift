internal import CoveCore

/// How many bytes of content are on this disk, and how many of them have to go.
///
/// It does nothing itself: it is told what has come and gone and what is about to come, and says who is to make room, and for
/// how long.
struct CacheBudget {
    /// How many bytes there may be; what is not at the source yet, is pinned or is open counts, and stays all the same.
    let limit: Int64
    /// Bytes of content here.
    private(set) var resident: Int64
    /// How many may stay; nil while nobody makes room.
    private var target: Int64?
    /// How many bytes there were when not enough could go: until there are notably more or fewer, it is no use to look again.
    private var hopelessAt: Int64?
    private var notable: Int64 { max(limit / 50, 1) }

    /// A budget of so many bytes, of which some are used.
    init(limit: Int64, resident: Int64) {
        self.limit = limit
        self.resident = resident
    }

    /// Bytes have come, or have gone where there are less than none of them.
    mutating func change(by bytes: Int64) {
        let (sum, isOver) = resident.addingReportingOverflow(bytes)
        resident = isOver ? (bytes > 0 ? .max : .min) : sum
        if let hopelessAt, resident.saturatingAdd(notable) < hopelessAt { self.hopelessAt = nil }
    }

    /// Bytes are about to come; true when the caller has to make room for them.
    ///
    /// Whoever makes room already does it for these too.
    mutating func expect(_ bytes: Int64) -> Bool {
        let (sum, isOver) = resident.addingReportingOverflow(bytes)
        guard isOver || sum > limit, hopelessAt.map({ resident >= $0.saturatingAdd(notable) }) ?? true else {
            return false
        }
        // A tenth less, so that not every fetch makes room.
        let wanted = limit / 10 * 9 - max(0, min(bytes, limit))
        defer { target = min(target ?? wanted, wanted) }
        return target == nil
    }

    /// The disk is to have more room; true when the caller has to make it.
    ///
    /// What goes is not seen on the disk at once: whoever makes room already does not do more for this.
    mutating func shrink(by bytes: Int64) -> Bool {
        guard resident > 0, target == nil else { return false }
        target = resident - max(0, min(bytes, resident))
        return true
    }

    /// True while whoever makes room has to go on.
    var isOver: Bool { target.map { resident > $0 } ?? false }

    /// Nobody makes room any more: there is enough, or nothing more can go.
    mutating func end() {
        hopelessAt = isOver ? resident : nil
        target = nil
    }
}
