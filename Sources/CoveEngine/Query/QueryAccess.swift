internal import CoveCore

/// Where the catalog is looked for what a predicate may hold of: nothing else can be among its results.
enum QueryAccess: Equatable {
    /// Entries of these names.
    case names(Set<[UInt8]>)
    /// Entries whose names begin so.
    case prefix([UInt8])
    /// What waits to be sent.
    case waiting
    /// All entries.
    case all

    /// With more names than these all entries are looked at.
    private static let mostNames = 1000

    /// The way of which least has to be looked at.
    init(_ predicate: QueryPredicate) {
        if let names = Self.names(predicate), names.count <= Self.mostNames {
            self = .names(names)
        } else if Self.isOfWaiting(predicate) {
            self = .waiting
        } else if let prefix = Self.prefix(predicate) {
            self = .prefix(prefix)
        } else {
            self = .all
        }
    }

    /// The parts that all hold where the predicate does.
    private static func parts(_ predicate: QueryPredicate) -> [QueryPredicate] {
        if case .all(let parts) = predicate { return parts.flatMap { Self.parts($0) } }
        return [predicate]
    }

    /// The bytes of a text, where no other bytes are the same text: equal letters may have several forms.
    ///
    /// Of ASCII those are the Kelvin sign, which is a K, and forms of the semicolon and the grave accent.
    private static func bytes(_ text: String) -> [UInt8]? {
        text.utf8.allSatisfy { $0 < 0x80 && ![0x4B, 0x3B, 0x60].contains($0) } ? Array(text.utf8) : nil
    }

    /// The relation of a comparison with the name, in which case and accents matter.
    private static func relationOfName(_ predicate: QueryPredicate) -> QueryPredicate.Relation? {
        guard case .comparison(let comparison) = predicate, comparison.options.isEmpty,
            [.name, .displayName].contains(comparison.key)
        else { return nil }
        return comparison.relation
    }

    private static func names(_ predicate: QueryPredicate) -> Set<[UInt8]>? {
        if case .any(let parts) = predicate {
            var all: Set<[UInt8]> = []
            for part in parts {
                guard let names = names(part) else { return nil }
                all.formUnion(names)
            }
            return all
        }
        let parts = parts(predicate)
        for part in parts {
            switch relationOfName(part) {
            case .equal(.string(let text)): if let name = bytes(text) { return [name] }
            case .like(let pattern) where !pattern.contains(where: { "*?\\".contains($0) }):
                if let name = bytes(pattern) { return [name] }
            case .isIn(let values):
                let names = values.compactMap { value -> [UInt8]? in
                    if case .string(let text) = value { bytes(text) } else { nil }
                }
                if names.count == values.count { return Set(names) }
            default: if case .any = part, parts.count > 1, let names = names(part) { return names }
            }
        }
        return nil
    }

    private static func isOfWaiting(_ predicate: QueryPredicate) -> Bool {
        func says(_ key: QueryKey, _ truth: Bool) -> Bool {
            parts(predicate).contains { part in
                guard case .comparison(let comparison) = part, comparison.key == key else { return false }
                return comparison.relation == .equal(.truth(truth)) || comparison.relation == .notEqual(.truth(!truth))
            }
        }
        return says(.isUbiquitous, true) && says(.isUploaded, false)
    }

    private static func prefix(_ predicate: QueryPredicate) -> [UInt8]? {
        for part in parts(predicate) {
            switch relationOfName(part) {
            case .beginsWith(let text) where !text.isEmpty: if let prefix = bytes(text) { return prefix }
            case .like(let pattern):
                let start = pattern.prefix { !"*?\\".contains($0) }
                if !start.isEmpty, let prefix = bytes(String(start)) { return prefix }
            default: continue
            }
        }
        return nil
    }
}
