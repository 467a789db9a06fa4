public import CoveCore

extension SimulatedLink {
    /// Reads a time such as `20ms`, `1.5s`, `250us` or `2m`; a bare number means seconds.
    public static func duration(_ text: String) -> TimeSpan? {
        let (number, unit) = split(text)
        let scales = ["us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0]
        guard let number, let scale = scales[unit], number * scale <= 1e9 else { return nil }
        return .seconds(number * scale)
    }

    /// Reads a number of bytes such as `100M`, `512K` or `1.5G`, in powers of 1024; a bare number means bytes.
    public static func bytes(_ text: String) -> Int64? {
        let (number, unit) = split(text)
        let scales: [String: Double] = [
            "": 1, "b": 1, "k": 0x1p10, "kib": 0x1p10, "m": 0x1p20, "mib": 0x1p20, "g": 0x1p30, "gib": 0x1p30,
        ]
        guard let number, let scale = scales[unit.lowercased()], number * scale <= 0x1p62 else { return nil }
        return Int64(number * scale)
    }

    private static func split(_ text: String) -> (number: Double?, unit: String) {
        let digits = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
        return (Double(digits), String(text.dropFirst(digits.count)))
    }
}
