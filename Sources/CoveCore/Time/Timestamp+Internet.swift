internal import Glibc

extension Timestamp {
    /// The time in UTC without parts of a second, as `2026-03-01T12:34:56Z` (RFC 3339).
    public var internetText: String {
        var seconds = time_t(seconds)
        var fields = tm()
        guard gmtime_r(&seconds, &fields) != nil else { return "1970-01-01T00:00:00Z" }
        func padded(_ number: Int32, _ width: Int) -> String {
            let digits = String(number)
            return String(repeating: "0", count: max(0, width - digits.count)) + digits
        }
        let date = "\(padded(fields.tm_year + 1900, 4))-\(padded(fields.tm_mon + 1, 2))-\(padded(fields.tm_mday, 2))"
        return "\(date)T\(padded(fields.tm_hour, 2)):\(padded(fields.tm_min, 2)):\(padded(fields.tm_sec, 2))Z"
    }
}
