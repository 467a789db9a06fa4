/// Tells when much work is over, from what has been done so far, asked each second.
struct Workload {
    /// In a second with fewer requests nothing much goes on.
    private static let little = 100
    /// After so many it is worth looking for memory to give back.
    private static let much = 2000
    /// So many seconds make a rest.
    private static let rest = 3

    private var done = 0
    private var sinceRest = 0
    private var quietSeconds = 0

    /// True once after much work, when it has rested.
    mutating func isOver(_ total: Int) -> Bool {
        let now = total &- done
        done = total
        sinceRest = min(sinceRest &+ now, Self.much)
        quietSeconds = now < Self.little ? min(quietSeconds + 1, Self.rest) : 0
        guard quietSeconds == Self.rest, sinceRest == Self.much else { return false }
        sinceRest = 0
        return true
    }
}
