internal import CoveCore
internal import Glibc

/// The dates of HTTP, WebDAV and S3.
enum HTTPDate {
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// Parses `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7); nil for anything else.
    static func parse(_ text: String) -> Timestamp? {
        let parts = text.split(separator: " ")
        guard parts.count == 6, let day = Int(parts[1]), let month = months.firstIndex(of: String(parts[2])),
            let year = Int(parts[3]), parts[5] == "GMT"
        else { return nil }
        return time(year, month + 1, day, parts[4], fraction: 0)
    }

    /// The same of bytes: those of the usual form are read without making texts of them, since listings have many.
    static func parseInternet(_ text: [UInt8]) -> Timestamp? {
        let form = "0000-00-00T00:00:00".utf8
        guard text.count >= 20, text.count <= 30, text.last == 0x5A, text.count == 20 || text[19] == 0x2E,
            zip(text, form).allSatisfy({ $1 == 0x30 ? (0x30...0x39).contains($0) : $0 == $1 }),
            text[19...].dropFirst().dropLast().allSatisfy({ (0x30...0x39).contains($0) }), text.count != 21
        else { return parseInternet(String(decoding: text, as: UTF8.self)) }
        func number(_ range: Range<Int>) -> Int64 { text[range].reduce(0) { $0 * 10 + Int64($1 - 0x30) } }
        let (year, month, day) = (number(0..<4), number(5..<7), number(8..<10))
        let (hour, minute, second) = (number(11..<13), number(14..<16), number(17..<19))
        guard hour <= 23, minute <= 59, second <= 60, (1...12).contains(month), (1...31).contains(day), year >= 1
        else { return nil }
        let digits = text.count == 20 ? 20..<20 : 20..<(text.count - 1)
        let fraction = (digits.count..<9).reduce(number(digits)) { value, _ in value * 10 }
        // Days since 1970 by years that begin in March, when the day that comes every four years is the last one.
        let years = month > 2 ? year : year - 1
        let before = years * 365 + years / 4 - years / 100 + years / 400
        let days = before + ((month + 9) % 12 * 153 + 2) / 5 + day - 719_469
        return Timestamp(seconds: ((days * 24 + hour) * 60 + minute) * 60 + second, nanoseconds: fraction)
    }

    /// Parses `1994-11-06T08:49:37.123Z` (RFC 3339 in UTC); nil for anything else.
    static func parseInternet(_ text: String) -> Timestamp? {
        guard text.hasSuffix("Z"), let middle = text.firstIndex(of: "T") else { return nil }
        let date = text[..<middle].split(separator: "-").map { Int($0) }
        let rest = text[text.index(after: middle)...].dropLast().split(separator: ".")
        guard date.count == 3, let year = date[0], let month = date[1], let day = date[2], (1...2).contains(rest.count)
        else { return nil }
        var fraction: Int64 = 0
        if rest.count == 2 {
            let digits = rest[1].prefix(9)
            guard let value = Int64(digits), value >= 0 else { return nil }
            fraction = (digits.count..<9).reduce(value) { value, _ in value * 10 }
        }
        return time(year, month, day, rest[0], fraction: fraction)
    }

    private static func time(_ year: Int, _ month: Int, _ day: Int, _ clock: Substring, fraction: Int64) -> Timestamp? {
        let parts = clock.split(separator: ":").map { Int32($0) ?? -1 }
        guard parts.count == 3, (0...23).contains(parts[0]), (0...59).contains(parts[1]), (0...60).contains(parts[2]),
            (1...12).contains(month), (1...31).contains(day), (1...9999).contains(year)
        else { return nil }
        var fields = tm()
        (fields.tm_year, fields.tm_mon, fields.tm_mday) = (Int32(year - 1900), Int32(month - 1), Int32(day))
        (fields.tm_hour, fields.tm_min, fields.tm_sec) = (parts[0], parts[1], parts[2])
        return Timestamp(seconds: Int64(timegm(&fields)), nanoseconds: fraction)
    }

    /// The parts of a moment in UTC.
    private static func fields(_ time: Timestamp) -> tm {
        var seconds = time_t(time.seconds)
        var fields = tm()
        gmtime_r(&seconds, &fields)
        return fields
    }

    private static func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }

    /// `19941106T084937Z`, as in signatures.
    static func compact(_ time: Timestamp) -> String {
        let at = fields(time)
        return "\(at.tm_year + 1900)\(two(at.tm_mon + 1))\(two(at.tm_mday))"
            + "T\(two(at.tm_hour))\(two(at.tm_min))\(two(at.tm_sec))Z"
    }

    /// `1994-11-06`.
    static func day(_ time: Timestamp) -> String {
        let at = fields(time)
        return "\(at.tm_year + 1900)-\(two(at.tm_mon + 1))-\(two(at.tm_mday))"
    }

    /// `Sun, 06 Nov 1994 08:49:37 GMT`.
    static func text(_ time: Timestamp) -> String {
        let at = fields(time)
        let day = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"][Int(at.tm_wday)]
        return "\(day), \(two(at.tm_mday)) \(months[Int(at.tm_mon)]) \(at.tm_year + 1900) "
            + "\(two(at.tm_hour)):\(two(at.tm_min)):\(two(at.tm_sec)) GMT"
    }
}
