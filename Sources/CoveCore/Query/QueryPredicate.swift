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
    ///
    /// Of many items a `PreparedPredicate` is to be asked.
    public func holds(_ value: (QueryKey) -> QueryValue?) -> Bool { PreparedPredicate(self).holds(value) }
}

extension QueryPredicate.Comparison {
    /// Whether it holds of a value; of a list when it holds of any of its strings.
    public func holds(_ value: QueryValue?) -> Bool {
        PreparedComparison(self).holds(FoldedValue(value, options, isLastComponent: isLastComponent))
    }
}
