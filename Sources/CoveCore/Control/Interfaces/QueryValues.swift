/// The values of an item as they travel, by the names of their keys.
public struct QueryValues: Codable, Sendable, Equatable {
    private var texts: [String: String] = [:]
    private var lists: [String: [String]] = [:]
    private var numbers: [String: Double] = [:]
    private var truths: [String: Bool] = [:]

    private struct Key: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(_ key: QueryKey) { stringValue = key.rawValue }
        init?(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    /// Whole numbers, so far.
    private static let whole: Set<QueryKey> = [.size, .itemID]

    /// Takes values over.
    public init(_ values: [QueryKey: QueryValue]) {
        for (key, value) in values { self[key] = value }
    }

    /// One value; nil where there is none.
    public subscript(key: QueryKey) -> QueryValue? {
        get {
            let name = key.rawValue
            return switch key.valueKind {
            case .string: texts[name].map { .string($0) }
            case .strings: lists[name].map { .strings($0) }
            case .number: numbers[name].map { .number($0) }
            case .date: numbers[name].map { .date($0) }
            case .truth: truths[name].map { .truth($0) }
            }
        }
        set {
            let name = key.rawValue
            switch newValue {
            case .string(let text): texts[name] = text
            case .strings(let list): lists[name] = list
            case .number(let number), .date(let number): numbers[name] = number
            case .truth(let truth): truths[name] = truth
            case nil: (texts[name], lists[name], numbers[name], truths[name]) = (nil, nil, nil, nil)
            }
        }
    }

    /// The strings among them.
    var allTexts: [String] { Array(texts.values) + lists.values.joined() }

    /// All values there are, in the order of the keys.
    public var all: [(key: QueryKey, value: QueryValue)] {
        QueryKey.allCases.compactMap { key in self[key].map { (key, $0) } }
    }

    /// Reads values.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        for key in QueryKey.allCases {
            switch key.valueKind {
            case .string: texts[key.rawValue] = try container.decodeIfPresent(String.self, forKey: Key(key))
            case .strings: lists[key.rawValue] = try container.decodeIfPresent([String].self, forKey: Key(key))
            case .truth: truths[key.rawValue] = try container.decodeIfPresent(Bool.self, forKey: Key(key))
            case .number where Self.whole.contains(key):
                numbers[key.rawValue] = try container.decodeIfPresent(Int64.self, forKey: Key(key)).map { Double($0) }
            case .number, .date: numbers[key.rawValue] = try container.decodeIfPresent(Double.self, forKey: Key(key))
            }
        }
    }

    /// Writes values.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        for key in QueryKey.allCases {
            let name = key.rawValue
            switch key.valueKind {
            case .string: try container.encodeIfPresent(texts[name], forKey: Key(key))
            case .strings: try container.encodeIfPresent(lists[name], forKey: Key(key))
            case .truth: try container.encodeIfPresent(truths[name], forKey: Key(key))
            case .number where Self.whole.contains(key):
                try container.encodeIfPresent(numbers[name].flatMap { Int64(exactly: $0) }, forKey: Key(key))
            case .number, .date: try container.encodeIfPresent(numbers[name], forKey: Key(key))
            }
        }
    }
}
