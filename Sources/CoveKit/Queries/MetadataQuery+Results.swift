internal import CoveCore
internal import Synchronization

/// The results of a query, as they are now.
extension MetadataQuery {
    /// A value of an attribute, and how many results have it.
    public struct ValueTuple: Sendable, Hashable {
        /// The attribute's name.
        public let attribute: String
        /// The value; nil for results that have none.
        public let value: MetadataValue?
        /// How many results have it.
        public let count: Int
    }

    /// Results that have one value in common.
    public struct ResultGroup: Sendable {
        /// The attribute's name.
        public let attribute: String
        /// The value; nil for results that have none.
        public let value: MetadataValue?
        /// The results, in the query's order.
        public let results: [MetadataItem]
        /// The same results by the next of the query's grouping attributes; nil in the last one.
        public let subgroups: [ResultGroup]?
    }

    /// All results, in the query's order.
    public var results: [MetadataItem] {
        state.withLock { state in Self.ordered(&state).compactMap { state.visible[$0] } }
    }

    /// How many there are.
    public var resultCount: Int { state.withLock { $0.visible.count } }

    /// One of them; nil behind the last one.
    public func result(at index: Int) -> MetadataItem? {
        state.withLock { state in
            let order = Self.ordered(&state)
            return order.indices.contains(index) ? state.visible[order[index]] : nil
        }
    }

    /// Where a result is among them, as it may be another now; nil for what is none any more.
    public func index(of item: MetadataItem) -> Int? {
        state.withLock { state in Self.ordered(&state).firstIndex(of: item.id) }
    }

    /// Hands all results to the body while none of them changes, until it returns false.
    public func enumerateResults(_ body: (_ item: MetadataItem, _ index: Int) -> Bool) {
        disableUpdates()
        defer { enableUpdates() }
        for (index, item) in results.enumerated() where !body(item, index) { return }
    }

    /// The value of a result; nil where it has none.
    public func value(ofAttribute name: String, forResultAt index: Int) -> MetadataValue? {
        result(at: index)?.value(forAttribute: name)
    }

    /// How often each value of the ``valueListAttributes`` comes, the smallest value first.
    public var valueLists: [String: [ValueTuple]] {
        let (names, items) = state.withLock { ($0.settings.valueLists, Array($0.visible.values)) }
        var lists: [String: [ValueTuple]] = [:]
        for name in names {
            lists[name] = Self.groups(items, by: name).map {
                ValueTuple(attribute: name, value: $0.value, count: $0.items.count)
            }
        }
        return lists
    }

    /// The results by the ``groupingAttributes``, the smallest value first.
    public var groupedResults: [ResultGroup] {
        let names = groupingAttributes
        return Self.groups(results, names[...]) ?? []
    }

    private static func groups(_ items: [MetadataItem], _ names: ArraySlice<String>) -> [ResultGroup]? {
        guard let name = names.first else { return nil }
        return groups(items, by: name).map { value, items in
            ResultGroup(
                attribute: name,
                value: value,
                results: items,
                subgroups: groups(items, names.dropFirst())
            )
        }
    }

    private static func groups(
        _ items: [MetadataItem],
        by name: String
    ) -> [(value: MetadataValue?, items: [MetadataItem])] {
        let groups = Dictionary(grouping: items) { $0.value(forAttribute: name) }
        let order = QueryKey(named: name).map { [QuerySort($0)] } ?? []
        return groups.map { (value: $0.key, items: $0.value) }.sorted {
            order.precedes([$0.value?.query], [$1.value?.query])
        }
    }

    /// The order of the results, found out when it is asked for.
    private static func ordered(_ state: inout State) -> [Int] {
        if let order = state.order { return order }
        let sorts = state.settings.order.compactMap { descriptor in
            QueryKey(named: descriptor.key).map { QuerySort($0, isDescending: !descriptor.isAscending) }
        }
        var order = state.visible.keys.sorted()
        if !sorts.isEmpty {
            let values = state.visible.mapValues { item in sorts.map { item.value($0.key) } }
            // Where the values are the same, the older one comes first.
            order.sort { first, second in
                guard let one = values[first], let other = values[second] else { return first < second }
                if sorts.precedes(one, other) { return true }
                return sorts.precedes(other, one) ? false : first < second
            }
        }
        state.order = order
        return order
    }
}
