/// What a query asks for: a condition on the values of an item.
///
/// The text form, of which `init(parsing:)` takes the most common part of `NSPredicate`'s, is told of in `PredicateParser`.
public indirect enum QueryPredicate: Sendable, Equatable {
    /// `TRUEPREDICATE` and `FALSEPREDICATE`.
    case constant(Bool)
    /// `AND`.
    case all([QueryPredicate])
    /// `OR`.
    case any([QueryPredicate])
    /// `NOT`.
    case not(QueryPredicate)
    /// A comparison of one value.
    case comparison(Comparison)

    /// A comparison of an item's value with constants.
    public struct Comparison: Sendable, Equatable {
        /// Which value of the item.
        public var key: QueryKey
        /// True where the last component of the value, a path, is meant.
        public var isLastComponent: Bool
        /// How it is compared.
        public var relation: Relation
        /// How strings are compared.
        public var options: TextOptions

        /// Makes a comparison.
        public init(
            _ key: QueryKey,
            _ relation: Relation,
            options: TextOptions = [],
            isLastComponent: Bool = false
        ) {
            self.key = key
            self.relation = relation
            self.options = options
            self.isLastComponent = isLastComponent
        }
    }

    /// How a value is compared; nil stands for a value that is missing.
    public enum Relation: Sendable, Equatable {
        case equal(QueryValue?)
        case notEqual(QueryValue?)
        case less(QueryValue)
        case lessOrEqual(QueryValue)
        case greater(QueryValue)
        case greaterOrEqual(QueryValue)
        /// `*` stands for any text and `?` for one character; `\` takes from either its meaning.
        case like(String)
        case beginsWith(String)
        case endsWith(String)
        case contains(String)
        case isIn([QueryValue])
        /// Both ends are included.
        case between(QueryValue, QueryValue)
    }

    /// The keys that it asks for.
    public var keys: Set<QueryKey> {
        switch self {
        case .constant: []
        case .all(let parts), .any(let parts): parts.reduce(into: []) { $0.formUnion($1.keys) }
        case .not(let part): part.keys
        case .comparison(let comparison): [comparison.key]
        }
    }

    /// Whether it holds of an item, whose values the body gives; nil for one that is missing.
    public func holds(_ value: (QueryKey) -> QueryValue?) -> Bool {
        switch self {
        case .constant(let holds): holds
        case .all(let parts): parts.allSatisfy { $0.holds(value) }
        case .any(let parts): parts.contains { $0.holds(value) }
        case .not(let part): !part.holds(value)
        case .comparison(let comparison): comparison.holds(value(comparison.key))
        }
    }
}

extension QueryPredicate.Comparison {
    /// Whether it holds of a value; of a list when it holds of any of its strings.
    public func holds(_ value: QueryValue?) -> Bool {
        guard let value else {
            switch relation {
            case .equal(nil): return true
            case .notEqual(.some): return true
            default: return false
            }
        }
        guard case .strings(let list) = value else { return holds(ofOne: value) }
        // What is not equal to any.
        if case .notEqual(let other?) = relation {
            return !Self(key, .equal(other), options: options, isLastComponent: isLastComponent).holds(value)
        }
        // A list contains its members, and no parts of them.
        if case .contains(let text) = relation {
            return Self(key, .equal(.string(text)), options: options, isLastComponent: isLastComponent).holds(value)
        }
        return list.contains { holds(ofOne: .string($0)) }
    }

    private func holds(ofOne value: QueryValue) -> Bool {
        switch relation {
        case .equal(let other): other.map { order(value, $0) == .same } ?? false
        case .notEqual(let other): other.map { order(value, $0) != .same } ?? true
        case .less(let other): order(value, other) == .before
        case .lessOrEqual(let other): [.before, .same].contains(order(value, other))
        case .greater(let other): order(value, other) == .behind
        case .greaterOrEqual(let other): [.behind, .same].contains(order(value, other))
        case .isIn(let others): others.contains { order(value, $0) == .same }
        case .between(let first, let last):
            [.behind, .same].contains(order(value, first)) && [.before, .same].contains(order(value, last))
        case .like(let pattern): text(value).map { TextPattern(pattern, options).matches($0) } ?? false
        case .beginsWith(let part): folded(value, part).map { $0.starts(with: $1) } ?? false
        case .endsWith(let part): folded(value, part).map { $0.reversed().starts(with: $1.reversed()) } ?? false
        case .contains(let part): folded(value, part).map { TextPattern.find($1, in: $0) } ?? false
        }
    }

    private enum Order: Equatable { case before, same, behind }

    /// How two values stand to each other; nil for those that can't be compared.
    private func order(_ value: QueryValue, _ other: QueryValue) -> Order? {
        if let first = value.number, let second = other.number {
            return first < second ? .before : first == second ? .same : .behind
        }
        guard case .string(let text) = other, let (first, second) = folded(value, text) else { return nil }
        if first == second { return .same }
        return first.lexicographicallyPrecedes(second) ? .before : .behind
    }

    /// The text of a string, or its last component where that is meant.
    private func text(_ value: QueryValue) -> String? {
        guard case .string(let text) = value else { return nil }
        guard isLastComponent, let slash = text.utf8.lastIndex(of: 0x2F) else { return text }
        return String(text[text.index(after: slash)...])
    }

    private func folded(_ value: QueryValue, _ other: String) -> ([Character], [Character])? {
        text(value).map { (TextPattern.folded($0, options), TextPattern.folded(other, options)) }
    }
}
