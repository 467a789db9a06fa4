internal import CoveCore

/// The part of a predicate that SQLite can look at: of what it does not hold of, the predicate does not hold either.
///
/// It speaks of `e`, a row of `entries`, and `i`, the row of its item.
struct QueryFilter {
    /// A condition, with a `?` for each value; it is never NULL.
    private(set) var sql: String
    private(set) var values: [Database.Value]
    /// True where the predicate holds of all that it holds of.
    private var isExact = false

    /// SQLite takes expressions up to a depth: what is larger or nested deeper is left to the predicate.
    private static let (deepest, mostParts, mostComparisons) = (8, 50, 200)

    /// Nil where SQLite can tell nothing.
    ///
    /// `live`: items of which memory may know more than their rows.
    init?(_ predicate: QueryPredicate, live: [ItemID]) {
        var room = Self.mostComparisons
        self.init(predicate, live, depth: 0, &room)
    }

    private init?(_ predicate: QueryPredicate, _ live: [ItemID], depth: Int, _ room: inout Int) {
        guard depth < Self.deepest else { return nil }
        switch predicate {
        case .constant(let holds): self.init(holds ? "1" : "0", isExact: true)
        case .all(let parts):
            var filters: [QueryFilter] = []
            for part in parts.prefix(Self.mostParts) {
                if let filter = QueryFilter(part, live, depth: depth + 1, &room) { filters.append(filter) }
            }
            guard let all = QueryFilter(filters, joinedBy: " AND ") else { return nil }
            self = all
            isExact = filters.count == parts.count && filters.allSatisfy(\.isExact)
        case .any(let parts):
            guard parts.count <= Self.mostParts else { return nil }
            var filters: [QueryFilter] = []
            for part in parts {
                guard let filter = QueryFilter(part, live, depth: depth + 1, &room) else { return nil }
                filters.append(filter)
            }
            guard let any = QueryFilter(filters, joinedBy: " OR ") else { return nil }
            self = any
            isExact = filters.allSatisfy(\.isExact)
        case .not(let part):
            guard let filter = QueryFilter(part, live, depth: depth + 1, &room), filter.isExact else { return nil }
            self.init("NOT (\(filter.sql))", filter.values, isExact: true)
        case .comparison(let comparison):
            guard room > 0, let filter = Self.filter(comparison, live) else { return nil }
            room -= 1
            self = filter
        }
    }

    init(_ sql: String, _ values: [Database.Value] = [], isExact: Bool = false) {
        self.sql = sql
        self.values = values
        self.isExact = isExact
    }

    private init?(_ filters: [QueryFilter], joinedBy word: String) {
        guard !filters.isEmpty else { return nil }
        self.init(filters.map { "(\($0.sql))" }.joined(separator: word), filters.flatMap(\.values))
    }

    private static func filter(_ comparison: QueryPredicate.Comparison, _ live: [ItemID]) -> QueryFilter? {
        let relation = comparison.relation
        switch comparison.key {
        case .name, .displayName: return name(relation, comparison.options)
        case .kind: return comparison.options.isEmpty ? kind(relation) : nil
        case .size: return number(relation, "i.size", scale: 1, live)
        case .contentChangeDate: return number(relation, "i.mtime", scale: 1e9, live)
        case .creationDate:
            return number(relation, "(CASE i.born WHEN 0 THEN i.mtime ELSE i.born END)", scale: 1e9, live)
        case .downloadingStatus:
            guard case .equal(.string(let text)) = relation, comparison.options.isEmpty else { return nil }
            switch text {
            case "NotDownloaded": return QueryFilter("i.state <> 0").or(live)
            case "Current": return QueryFilter("i.state = 0 OR e.flags & 1").or(live)
            default: return QueryFilter("0", isExact: true)
            }
        // What is in a folder that stays here does so too.
        case .isUbiquitous:
            return truth(
                relation,
                """
                e.flags & 1 = 0 AND NOT (e.remote_id IS NULL
                    AND EXISTS (SELECT 1 FROM journal j WHERE j.entry = e.id AND j.held = 2))
                """
            )
        case .isExcludedFromSync:
            return truth(
                relation,
                "EXISTS (SELECT 1 FROM excluded_places x WHERE x.parent = e.parent AND x.name = e.name)"
            )
        case .isShared: return truth(relation, isTold("user.cove.sharing"))
        // Of most items nothing is told.
        case .ownerName, .mostRecentEditor:
            switch relation {
            case .equal(nil), .notEqual: return nil
            default:
                let isOwner = comparison.key == .ownerName
                return QueryFilter(isTold(isOwner ? "user.cove.sharing" : "user.cove.most-recent-editor"))
            }
        case .isUploaded:
            return truth(
                relation,
                "e.remote_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM journal j WHERE j.entry = e.id)"
            )
        case .hasUnresolvedConflicts:
            guard case .equal(.truth(true)) = relation else { return nil }
            return QueryFilter("e.document IN (SELECT copy FROM conflicts UNION SELECT document FROM conflicts)")
        case .contentType, .contentTypeTree: return type(comparison)
        default: return nil
        }
    }

    /// The provider tells something of the item.
    private static func isTold(_ attribute: String) -> String {
        "EXISTS (SELECT 1 FROM xattrs x WHERE x.item = e.item AND x.name = CAST('\(attribute)' AS BLOB))"
    }

    /// Or one of the items of which memory may know more.
    private func or(_ live: [ItemID]) -> QueryFilter {
        guard !live.isEmpty else { return self }
        let list = "[\(live.map { "\(Int64(bitPattern: $0.rawValue))" }.joined(separator: ","))]"
        return QueryFilter("\(sql) OR i.id IN (SELECT value FROM json_each(?))", values + [.text(list)])
    }

    // MARK: Names

    private static func name(_ relation: QueryPredicate.Relation, _ options: TextOptions) -> QueryFilter? {
        switch relation {
        case .equal(.string(let text)): return Self.text(text, options, [.atStart, .atEnd])
        case .beginsWith(let text): return self.text(text, options, .atStart)
        case .endsWith(let text): return self.text(text, options, .atEnd)
        case .contains(let text): return self.text(text, options)
        case .like(let pattern):
            guard pattern.utf8.allSatisfy({ $0 < 0x80 }), !pattern.contains("\\") else { return nil }
            let parts = pattern.split { "*?".contains($0) }
            guard let longest = parts.max(by: { $0.utf8.count < $1.utf8.count }) else { return nil }
            // Where one part is at an end, it is there.
            var place: NameMatch = []
            if parts.count == 1, !"*?".contains(pattern.first ?? "*") { place.insert(.atStart) }
            if parts.count == 1, !"*?".contains(pattern.last ?? "*") { place.insert(.atEnd) }
            return self.text(String(longest), options, place)
        case .isIn(let texts):
            guard texts.count <= mostParts else { return nil }
            let filters = texts.compactMap { value -> QueryFilter? in
                guard case .string(let text) = value else { return nil }
                return self.text(text, options, [.atStart, .atEnd])
            }
            return filters.count == texts.count ? QueryFilter(filters, joinedBy: " OR ") : nil
        default: return nil
        }
    }

    /// Names with a text in them, all of it ASCII.
    private static func text(_ text: String, _ options: TextOptions, _ place: NameMatch = []) -> QueryFilter? {
        guard !text.isEmpty, text.utf8.count <= 255, text.utf8.allSatisfy({ $0 > 0 && $0 < 0x80 }) else { return nil }
        let isFolded = options.contains(.caseInsensitive)
        let match = isFolded ? place.union(.inEitherCase) : place
        return QueryFilter(
            "\(NameMatch.function)(e.name, ?, \(match.rawValue))",
            [.blob(Array((isFolded ? text.lowercased() : text).utf8))]
        )
    }

    // MARK: Other values

    private static func kind(_ relation: QueryPredicate.Relation) -> QueryFilter? {
        func numbers(_ value: QueryValue) -> [UInt8] {
            guard case .string(let text) = value else { return [] }
            return ItemKind.allCases.filter { Engine.kindName($0) == text }.map(\.rawValue)
        }
        let (kinds, isIn): ([UInt8], Bool)
        switch relation {
        case .equal(.some(let value)): (kinds, isIn) = (numbers(value), true)
        case .notEqual(.some(let value)): (kinds, isIn) = (numbers(value), false)
        case .isIn(let values): (kinds, isIn) = (values.flatMap { numbers($0) }, true)
        default: return nil
        }
        let list = Set(kinds).sorted().map { "\($0)" }.joined(separator: ",")
        return QueryFilter("i.kind \(isIn ? "" : "NOT ")IN (\(list))", isExact: true)
    }

    private static func truth(_ relation: QueryPredicate.Relation, _ condition: String) -> QueryFilter? {
        switch relation {
        case .equal(.truth(let truth)): QueryFilter(truth ? condition : "NOT (\(condition))", isExact: true)
        case .notEqual(.truth(let truth)): QueryFilter(truth ? "NOT (\(condition))" : condition, isExact: true)
        default: nil
        }
    }

    /// A number that a column keeps in other units, compared with some room for how it is rounded.
    private static func number(
        _ relation: QueryPredicate.Relation,
        _ column: String,
        scale: Double,
        _ live: [ItemID]
    ) -> QueryFilter? {
        func bound(_ value: QueryValue, _ room: Double) -> Database.Value? {
            let number: Double
            switch value {
            case .number(let value), .date(let value): number = value * scale
            default: return nil
            }
            guard number.isFinite else { return nil }
            // A double has 53 bits of a number.
            return .int(Int64(saturating: number + room * max(1, abs(number) / 4e15)))
        }
        func filter(_ sign: String, _ value: Database.Value?) -> QueryFilter? {
            // What is no file has no size, whatever its row says.
            value.map { QueryFilter("\(column) \(sign) ? OR i.kind <> 0", [$0]).or(live) }
        }
        switch relation {
        case .less(let value), .lessOrEqual(let value): return filter("<=", bound(value, 2))
        case .greater(let value), .greaterOrEqual(let value): return filter(">=", bound(value, -2))
        case .equal(.some(let value)):
            guard let low = bound(value, -2), let high = bound(value, 2) else { return nil }
            return QueryFilter("\(column) BETWEEN ? AND ? OR i.kind <> 0", [low, high]).or(live)
        case .between(let first, let last):
            guard let low = bound(first, -2), let high = bound(last, 2) else { return nil }
            return QueryFilter("\(column) BETWEEN ? AND ? OR i.kind <> 0", [low, high]).or(live)
        default: return nil
        }
    }
}
