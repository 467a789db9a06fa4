/// A value of an item, or one that it is compared with.
public enum QueryValue: Sendable, Hashable {
    case string(String)
    case strings([String])
    case number(Double)
    case truth(Bool)
    /// Seconds since 1970 UTC.
    case date(Double)

    /// The value as a number to compare with, dates by their seconds and truth as 0 and 1.
    var number: Double? {
        switch self {
        case .number(let number), .date(let number): number
        case .truth(let truth): truth ? 1 : 0
        case .string, .strings: nil
        }
    }

    /// The value in JSON: dates as seconds since 1970.
    public var json: JSONValue {
        switch self {
        case .string(let text): .string(text)
        case .strings(let texts): .array(texts.map { .string($0) })
        case .number(let number), .date(let number): Int64(exactly: number).map { .integer($0) } ?? .double(number)
        case .truth(let truth): .bool(truth)
        }
    }
}

/// How strings are compared.
public struct TextOptions: OptionSet, Sendable, Hashable {
    /// A bit for each option.
    public let rawValue: UInt8

    /// Makes a set of options.
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// `[c]`: case does not matter.
    public static let caseInsensitive = TextOptions(rawValue: 1)
    /// `[d]`: accents do not matter.
    public static let diacriticInsensitive = TextOptions(rawValue: 2)
}
