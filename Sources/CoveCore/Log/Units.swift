internal import Glibc

/// Sizes, times and durations as people read and write them.
public enum Units {
    private static let suffixes = ["B", "K", "M", "G", "T", "P", "E"]

    /// `1.5G`: three digits and a binary unit.
    public static func size(_ bytes: Int64) -> String {
        var value = Double(bytes)
        var index = 0
        while abs(value) >= 1000, index < suffixes.count - 1 {
            value /= 1024
            index += 1
        }
        if index == 0 { return "\(bytes)B" }
        return rounded(value, value < 10 ? 1 : 0) + suffixes[index]
    }

    /// `42 s`, `3:07` or `1:02:03`.
    public static func duration(_ seconds: Double) -> String {
        guard seconds.isFinite, abs(seconds) < 360_000 else { return "a long time" }
        let whole = Int(seconds.rounded())
        if whole < 60 { return "\(whole) s" }
        func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
        if whole < 3600 { return "\(whole / 60):\(two(whole % 60))" }
        return "\(whole / 3600):\(two(whole / 60 % 60)):\(two(whole % 60))"
    }

    /// Local date and time, `2026-03-01 12:34`.
    public static func date(_ seconds: Double) -> String {
        guard seconds.isFinite, abs(seconds) < 1e12 else { return "-" }
        return local(seconds, "%Y-%m-%d %H:%M")
    }

    /// strftime(3) of the local time.
    private static func local(_ seconds: Double, _ format: String) -> String {
        var time = time_t(seconds.rounded(.down))
        var parts = tm()
        guard localtime_r(&time, &parts) != nil else { return "-" }
        var text = [CChar](repeating: 0, count: 32)
        let length = strftime(&text, text.count, format, &parts)
        return String(decoding: text.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Local time to the millisecond, `12:34:56.789`.
    public static func clock(_ seconds: Double) -> String {
        guard seconds.isFinite, abs(seconds) < 1e12 else { return "-" }
        let milliseconds = String(min(999, Int((seconds - seconds.rounded(.down)) * 1000)))
        return local(seconds, "%H:%M:%S") + "." + String(repeating: "0", count: 3 - milliseconds.count) + milliseconds
    }

    /// `-rwxr-x---`, as ls(1) shows it.
    public static func mode(kind: String, permissions: Int) -> String {
        let types = ["directory": "d", "symlink": "l", "fifo": "p", "socket": "s", "device": "b"]
        var letters = Array("rwxrwxrwx").enumerated().map { index, letter in
            permissions & (0o400 >> index) != 0 ? String(letter) : "-"
        }
        for (index, bit, set) in [(2, 0o4000, "s"), (5, 0o2000, "s"), (8, 0o1000, "t")] where permissions & bit != 0 {
            letters[index] = letters[index] == "x" ? set : set.uppercased()
        }
        return (types[kind] ?? "-") + letters.joined()
    }

    /// Bytes from `20G`, `500K` or `1048576`; nil for anything else.
    public static func parseSize(_ text: String) -> Int64? {
        var digits = text[...]
        var factor = 1.0
        if digits.hasSuffix("iB") { digits = digits.dropLast(2) }
        if digits.hasSuffix("B") { digits = digits.dropLast() }
        if let last = digits.last?.uppercased(), let index = suffixes.firstIndex(of: last), index > 0 {
            digits = digits.dropLast()
            for _ in 0..<index { factor *= 1024 }
        }
        guard let first = digits.first, first.isNumber, let value = Double(digits), value * factor < 9e18 else {
            return nil
        }
        return Int64(value * factor)
    }

    /// A duration from `20ms`, `2s`, `5m`, `1h` or seconds; nil for anything else.
    public static func parseDuration(_ text: String) -> TimeSpan? {
        let units = [("ms", 0.001), ("us", 0.000_001), ("s", 1), ("m", 60), ("h", 3600), ("d", 86400), ("", 1)]
        for (suffix, factor) in units where text.hasSuffix(suffix) {
            let digits = text.dropLast(suffix.count)
            guard let first = digits.first, first.isNumber, let value = Double(digits), value * factor < 1e9 else {
                return nil
            }
            return .seconds(value * factor)
        }
        return nil
    }

    /// An amount of money, with two digits that count: `0.0013`, `12.50`.
    public static func dollars(_ amount: Double) -> String {
        guard amount.isFinite, amount > 0, amount < 1e9 else { return "0.00" }
        var (digits, scale) = (2, 100.0)
        while amount * scale < 10, digits < 7 { (digits, scale) = (digits + 1, scale * 10) }
        let parts = Int64((amount * scale).rounded()).quotientAndRemainder(dividingBy: Int64(scale))
        let rest = String(parts.remainder)
        return "\(parts.quotient)." + String(repeating: "0", count: digits - rest.count) + rest
    }

    private static func rounded(_ value: Double, _ digits: Int) -> String {
        if digits == 0 { return String(Int64(value.rounded())) }
        let tenths = Int64((value * 10).rounded())
        return "\(tenths / 10).\(tenths % 10)"
    }
}
