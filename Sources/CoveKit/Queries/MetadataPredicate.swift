internal import CoveCore
internal import Foundation

/// What a ``MetadataQuery`` asks for: a condition on the values of an item.
///
/// It is written as `MetadataKey.fsName == "test.txt" && .fsSize > 100`, or as text in the language of `NSPredicate`.
public struct MetadataPredicate: Sendable, Equatable {
    /// How texts are compared.
    public struct Options: OptionSet, Sendable, Hashable {
        /// The bits.
        public let rawValue: UInt
        /// Takes bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }
        /// Case does not matter.
        public static let caseInsensitive = Options(rawValue: 1)
        /// Accents do not matter.
        public static let diacriticInsensitive = Options(rawValue: 2)

        fileprivate var text: TextOptions {
            var options: TextOptions = []
            if contains(.caseInsensitive) { options.insert(.caseInsensitive) }
            if contains(.diacriticInsensitive) { options.insert(.diacriticInsensitive) }
            return options
        }
    }

    let query: QueryPredicate

    init(_ query: QueryPredicate) { self.query = query }

    /// Reads a text such as `FSName LIKE[c] "*.pdf" AND FSSize > 1000`; `%K` stands for a key and `%@` for a value.
    ///
    /// Throws ``CoveError`` with the place and what was expected there; keys are strings.
    public init(format: String, _ arguments: any MetadataValueConvertible...) throws(CoveError) {
        do throws(QueryPredicateError) {
            query = try QueryPredicate(parsing: format, arguments: arguments.map(\.metadataValue.query))
        } catch {
            throw CoveError(.invalidArgument, "the predicate can't be read: \(error)", cause: error)
        }
    }

    /// Holds of everything, or of nothing.
    public init(value: Bool) { query = .constant(value) }

    /// Holds where both do.
    public static func && (first: Self, second: Self) -> Self {
        func parts(_ query: QueryPredicate) -> [QueryPredicate] {
            if case .all(let parts) = query { parts } else { [query] }
        }
        return Self(.all(parts(first.query) + parts(second.query)))
    }
    /// Holds where one of them does.
    public static func || (first: Self, second: Self) -> Self {
        func parts(_ query: QueryPredicate) -> [QueryPredicate] {
            if case .any(let parts) = query { parts } else { [query] }
        }
        return Self(.any(parts(first.query) + parts(second.query)))
    }
    /// Holds where the other does not.
    public static prefix func ! (other: Self) -> Self {
        if case .not(let query) = other.query { Self(query) } else { Self(.not(other.query)) }
    }

    /// The materialized set: files of which all bytes are on this device.
    public static var isMaterialized: Self {
        MetadataKey.downloadingStatus == MetadataDownloadingStatus.current && MetadataKey.kind == "file"
    }

    /// The pending set: what is in the account's cloud or is to be, and was not sent as it is here.
    public static var isPending: Self { MetadataKey.isUbiquitous == true && MetadataKey.isUploaded == false }

    /// As it travels.
    var text: String {
        switch query {
        case .constant(let holds): holds ? "TRUEPREDICATE" : "FALSEPREDICATE"
        default: query.json.description
        }
    }

    fileprivate init<Value>(
        _ key: MetadataKey<Value>,
        _ relation: QueryPredicate.Relation,
        _ options: Options = []
    ) {
        // Keys are made here alone.
        guard let key = QueryKey(named: key.name) else {
            query = .constant(false)
            return
        }
        query = .comparison(QueryPredicate.Comparison(key, relation, options: options.text))
    }

    /// A comparison with a value, which is never a number that JSON has not: nothing is the same as no number.
    fileprivate init<Value: MetadataScalar>(
        _ key: MetadataKey<Value>,
        _ value: Value,
        _ relation: (QueryValue) -> QueryPredicate.Relation
    ) {
        let other = value.metadataValue.query
        guard other.isComparable else {
            if case .notEqual = relation(.number(0)) { self.init(value: true) } else { self.init(value: false) }
            return
        }
        self.init(key, relation(other.finite))
    }
}

extension QueryValue {
    /// False for what is no number, which is neither the same as anything nor less.
    fileprivate var isComparable: Bool {
        switch self {
        case .number(let number), .date(let number): !number.isNaN
        default: true
        }
    }

    /// A number as JSON has it.
    fileprivate var finite: QueryValue {
        func finite(_ number: Double) -> Double {
            min(max(number, -Double.greatestFiniteMagnitude), Double.greatestFiniteMagnitude)
        }
        return switch self {
        case .number(let number): .number(finite(number))
        case .date(let number): .date(finite(number))
        default: self
        }
    }
}

extension MetadataKey {
    /// There is none.
    public var isMissing: MetadataPredicate { MetadataPredicate(self, .equal(nil)) }
}

extension MetadataKey where Value: MetadataScalar {
    /// The value is this one.
    public static func == (key: Self, value: Value) -> MetadataPredicate {
        MetadataPredicate(key, value) { .equal($0) }
    }
    /// The value is another one, or missing.
    public static func != (key: Self, value: Value) -> MetadataPredicate {
        MetadataPredicate(key, value) { .notEqual($0) }
    }
    /// The value is one of these.
    public func isIn(_ values: [Value]) -> MetadataPredicate {
        MetadataPredicate(self, .isIn(values.map(\.metadataValue.query).filter { $0.isComparable }.map(\.finite)))
    }
}

extension MetadataKey where Value: MetadataScalar & Comparable {
    /// The value is less than this one.
    public static func < (key: Self, value: Value) -> MetadataPredicate {
        MetadataPredicate(key, value) { .less($0) }
    }
    /// The value is at most this one.
    public static func <= (key: Self, value: Value) -> MetadataPredicate {
        MetadataPredicate(key, value) { .lessOrEqual($0) }
    }
    /// The value is greater than this one.
    public static func > (key: Self, value: Value) -> MetadataPredicate {
        MetadataPredicate(key, value) { .greater($0) }
    }
    /// The value is at least this one.
    public static func >= (key: Self, value: Value) -> MetadataPredicate {
        MetadataPredicate(key, value) { .greaterOrEqual($0) }
    }
    /// The value is one of these, both ends included.
    public func isBetween(_ values: ClosedRange<Value>) -> MetadataPredicate {
        self >= values.lowerBound && self <= values.upperBound
    }
}

extension MetadataKey where Value == String {
    /// The value is this text, as the options compare it.
    public func isEqual(to text: String, options: MetadataPredicate.Options) -> MetadataPredicate {
        MetadataPredicate(self, .equal(.string(text)), options)
    }
    /// The value is one of these texts, as the options compare them.
    public func isIn(_ texts: [String], options: MetadataPredicate.Options) -> MetadataPredicate {
        MetadataPredicate(self, .isIn(texts.map { .string($0) }), options)
    }
    /// The text is in the value.
    public func contains(_ text: String, options: MetadataPredicate.Options = []) -> MetadataPredicate {
        MetadataPredicate(self, .contains(text), options)
    }
    /// The value begins with the text.
    public func begins(with text: String, options: MetadataPredicate.Options = []) -> MetadataPredicate {
        MetadataPredicate(self, .beginsWith(text), options)
    }
    /// The value ends with the text.
    public func ends(with text: String, options: MetadataPredicate.Options = []) -> MetadataPredicate {
        MetadataPredicate(self, .endsWith(text), options)
    }
    /// The value is like a pattern, in which `*` is any text and `?` one character.
    public func isLike(_ pattern: String, options: MetadataPredicate.Options = []) -> MetadataPredicate {
        MetadataPredicate(self, .like(pattern), options)
    }
}

extension MetadataKey where Value == [String] {
    /// The text is one of the list.
    public func contains(_ text: String) -> MetadataPredicate { MetadataPredicate(self, .equal(.string(text))) }
}
