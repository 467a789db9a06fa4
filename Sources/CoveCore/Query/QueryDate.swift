internal import Glibc

/// Dates as people write them in a predicate.
enum QueryDate {
    /// Seconds since 1970 UTC of `2026-01-31`, `2026-01-31T12:00`, `2026-01-31 12:00:30.5` and the like; nil for anything else.
    ///
    /// Without `Z` or an offset such as `+01:00` behind it, the time is the machine's own.
    static func seconds(_ text: String) -> Double? {
        guard
            let match = text.wholeMatch(
                of:
                    /([0-9]{4})-([0-9][0-9])-([0-9][0-9])(?:[T ]([0-9][0-9]):([0-9][0-9])(?::([0-9][0-9])(\.[0-9]{1,9})?)?(Z|[+-][0-9][0-9]:[0-9][0-9])?)?/
            )
        else { return nil }
        func number(_ part: Substring?) -> Int32 { part.flatMap { Int32($0) } ?? 0 }
        let (_, year, month, day, hour, minute, second, fraction, zone) = match.output
        guard (1...9999).contains(number(year)), (1...12).contains(number(month)), (1...31).contains(number(day)),
            (0...23).contains(number(hour)), (0...59).contains(number(minute)), (0...60).contains(number(second))
        else { return nil }
        var parts = tm()
        parts.tm_year = number(year) - 1900
        parts.tm_mon = number(month) - 1
        parts.tm_mday = number(day)
        parts.tm_hour = number(hour)
        parts.tm_min = number(minute)
        parts.tm_sec = number(second)
        parts.tm_isdst = -1
        // What is in no month would be in the next one.
        let isLocal = zone == nil
        let seconds = isLocal ? mktime(&parts) : timegm(&parts)
        guard parts.tm_mday == number(day) else { return nil }
        var offset = 0.0
        if let zone, zone != "Z" {
            let (hours, minutes) = (number(zone.dropFirst().prefix(2)), number(zone.suffix(2)))
            guard hours <= 23, minutes <= 59 else { return nil }
            offset = Double(hours * 3600 + minutes * 60) * (zone.hasPrefix("-") ? -1 : 1)
        }
        return Double(seconds) - offset + (fraction.flatMap { Double("0\($0)") } ?? 0)
    }
}
