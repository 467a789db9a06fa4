/// A predicate ready to be asked of many items: its constants are folded once, and each value of an item at most once.
public struct PreparedPredicate: Sendable {
    /// What is looked at of an item, and how its texts are folded.
    private struct Slot: Hashable {
        var key: QueryKey
        var isLastComponent: Bool
        var options: TextOptions
    }

    private indirect enum Node: Sendable {
        case constant(Bool)
        case all([Node])
        case any([Node])
        case not(Node)
        case comparison(PreparedComparison, slot: Int)
    }

    /// About how much work one item is: 1 for a short comparison.
    public let weight: Int
    private let root: Node
    private let slots: [Slot]

    /// Prepares a predicate.
    public init(_ predicate: QueryPredicate) {
        var slots: [Slot: Int] = [:]
        var weight = 0
        func prepare(_ predicate: QueryPredicate) -> Node {
            switch predicate {
            case .constant(let holds): return .constant(holds)
            case .all(let parts): return .all(parts.map(prepare))
            case .any(let parts): return .any(parts.map(prepare))
            case .not(let part): return .not(prepare(part))
            case .comparison(let comparison):
                let slot = Slot(
                    key: comparison.key,
                    isLastComponent: comparison.isLastComponent,
                    options: comparison.options
                )
                let prepared = PreparedComparison(comparison)
                weight += prepared.weight
                let index = slots[slot] ?? slots.count
                slots[slot] = index
                return .comparison(prepared, slot: index)
            }
        }
        root = prepare(predicate)
        self.weight = max(1, weight)
        self.slots = slots.sorted { $0.value < $1.value }.map(\.key)
    }

    /// Whether it holds of an item, whose values the body gives; nil for one that is missing.
    public func holds(_ value: (QueryKey) -> QueryValue?) -> Bool {
        var folded = [FoldedValue?](repeating: nil, count: slots.count)
        return holds(root, value, &folded)
    }

    private func holds(_ node: Node, _ value: (QueryKey) -> QueryValue?, _ folded: inout [FoldedValue?]) -> Bool {
        switch node {
        case .constant(let holds): return holds
        case .all(let parts):
            for part in parts where !holds(part, value, &folded) { return false }
            return true
        case .any(let parts):
            for part in parts where holds(part, value, &folded) { return true }
            return false
        case .not(let part): return !holds(part, value, &folded)
        case .comparison(let comparison, let index):
            if let known = folded[index] { return comparison.holds(known) }
            let slot = slots[index]
            let known = FoldedValue(value(slot.key), slot.options, isLastComponent: slot.isLastComponent)
            folded[index] = known
            return comparison.holds(known)
        }
    }
}

/// An item's value, or a constant, with its texts as they are compared.
struct FoldedValue: Sendable {
    struct One: Sendable {
        var number: Double?
        var text: String?
        var folded: [Character]?
    }

    var isMissing = false
    var isList = false
    var ones: [One] = []

    init(_ value: QueryValue?, _ options: TextOptions, isLastComponent: Bool = false) {
        func one(_ text: String) -> One {
            var text = text
            if isLastComponent, let slash = text.utf8.lastIndex(of: 0x2F) {
                text = String(text[text.index(after: slash)...])
            }
            return One(text: text, folded: TextPattern.folded(text, options))
        }
        switch value {
        case nil: isMissing = true
        case .string(let text): ones = [one(text)]
        case .strings(let texts): (isList, ones) = (true, texts.map(one))
        case .number, .date, .truth: ones = [One(number: value?.number)]
        }
    }
}

/// A comparison with its constants as they are compared.
struct PreparedComparison: Sendable {
    private enum Order: Equatable { case before, same, behind }

    private let relation: QueryPredicate.Relation
    /// The constant, or the first and the last one; a list has no order and is equal to nothing.
    private let constants: [FoldedValue.One]
    private let numbers: Set<Double>
    private let texts: Set<[Character]>
    private let pattern: TextPattern?

    init(_ comparison: QueryPredicate.Comparison) {
        relation = comparison.relation
        func one(_ value: QueryValue) -> FoldedValue.One {
            let folded = FoldedValue(value, comparison.options)
            return folded.isList ? FoldedValue.One() : folded.ones.first ?? FoldedValue.One()
        }
        var constants: [FoldedValue.One] = []
        var (numbers, texts): (Set<Double>, Set<[Character]>) = ([], [])
        var pattern: TextPattern?
        switch relation {
        case .equal(let other), .notEqual(let other): constants = other.map { [one($0)] } ?? []
        case .less(let other), .lessOrEqual(let other), .greater(let other), .greaterOrEqual(let other):
            constants = [one(other)]
        case .between(let first, let last): constants = [one(first), one(last)]
        case .beginsWith(let part), .endsWith(let part), .contains(let part): constants = [one(.string(part))]
        case .like(let text): pattern = TextPattern(text, comparison.options)
        case .isIn(let others):
            for other in others.map(one) {
                if let number = other.number { numbers.insert(number) }
                if let text = other.folded { texts.insert(text) }
            }
        }
        (self.constants, self.numbers, self.texts, self.pattern) = (constants, numbers, texts, pattern)
    }

    /// About how much work a value is: a long text is compared with each part of the value.
    var weight: Int {
        let longest = constants.map { $0.folded?.count ?? 0 }.max() ?? 0
        return 1 + min(max(longest, pattern?.length ?? 0), 256) / 8
    }

    /// Whether it holds of a value; of a list when it holds of any of its strings.
    func holds(_ value: FoldedValue) -> Bool {
        guard !value.isMissing else {
            switch relation {
            case .equal(nil): return true
            case .notEqual(.some): return true
            default: return false
            }
        }
        guard value.isList else { return value.ones.first.map { holds($0) } ?? false }
        switch relation {
        // What is not equal to any.
        case .notEqual(.some): return !value.ones.contains { isSame($0) }
        // A list contains its members, and no parts of them.
        case .contains: return value.ones.contains { isSame($0) }
        default: return value.ones.contains { holds($0) }
        }
    }

    private func holds(_ value: FoldedValue.One) -> Bool {
        switch relation {
        case .equal(let other): return other != nil && isSame(value)
        case .notEqual(let other): return other == nil || !isSame(value)
        case .less: return order(value, 0) == .before
        case .lessOrEqual: return [.before, .same].contains(order(value, 0))
        case .greater: return order(value, 0) == .behind
        case .greaterOrEqual: return [.behind, .same].contains(order(value, 0))
        case .isIn:
            if let number = value.number { return numbers.contains(number) }
            return value.folded.map { texts.contains($0) } ?? false
        case .between:
            return [.behind, .same].contains(order(value, 0)) && [.before, .same].contains(order(value, 1))
        case .like:
            guard let text = value.text, let folded = value.folded else { return false }
            return pattern?.matches(text, folded: folded) ?? false
        case .beginsWith: return both(value).map { $0.starts(with: $1) } ?? false
        case .endsWith: return both(value).map { $0.reversed().starts(with: $1.reversed()) } ?? false
        case .contains: return both(value).map { TextPattern.find($1, in: $0) } ?? false
        }
    }

    private func both(_ value: FoldedValue.One) -> ([Character], [Character])? {
        guard let text = value.folded, let other = constants.first?.folded else { return nil }
        return (text, other)
    }

    private func isSame(_ value: FoldedValue.One) -> Bool { order(value, 0) == .same }

    /// How a value and a constant stand to each other; nil for those that can't be compared.
    private func order(_ value: FoldedValue.One, _ index: Int) -> Order? {
        guard constants.indices.contains(index) else { return nil }
        let other = constants[index]
        if let first = value.number, let second = other.number {
            return first < second ? .before : first == second ? .same : .behind
        }
        guard let first = value.folded, let second = other.folded else { return nil }
        if first == second { return .same }
        return first.lexicographicallyPrecedes(second) ? .before : .behind
    }
}
