/// What is wrong with a predicate's text, and where.
public struct QueryPredicateError: Error, Sendable, Equatable, CustomStringConvertible {
    /// How many characters stand before the place.
    public var position: Int
    /// What was expected there, or is wrong there.
    public var message: String

    /// Describes an error.
    public init(_ message: String, at position: Int) {
        self.position = position
        self.message = message
    }

    /// One line for a person.
    public var description: String { "at character \(position + 1): \(message)" }
}

extension QueryPredicate {
    /// No longer text is read.
    public static let longestText = 64 << 10
    /// Parentheses and `NOT` are nested no deeper.
    public static let deepest = 100

    /// Reads a predicate, such as `FSName LIKE[c] "*.pdf" AND FSSize > 1000000`.
    ///
    /// `arguments` stand for `%@` (a value) and `%K` (a key's name), in their order.
    public init(parsing text: String, arguments: [QueryValue] = []) throws(QueryPredicateError) {
        guard text.utf8.count <= Self.longestText else {
            throw QueryPredicateError("a predicate has at most \(Self.longestText) bytes", at: 0)
        }
        var parser = PredicateParser(try PredicateToken.tokens(of: text), arguments)
        self = try parser.parse()
    }
}

/// Reads tokens by descent: `OR` binds less than `AND`, and that less than `NOT`.
private struct PredicateParser {
    private let tokens: [PredicateToken]
    private let arguments: [QueryValue]
    private var index = 0
    private var taken = 0
    private var depth = 0

    init(_ tokens: [PredicateToken], _ arguments: [QueryValue]) {
        self.tokens = tokens
        self.arguments = arguments
    }

    mutating func parse() throws(QueryPredicateError) -> QueryPredicate {
        let predicate = try disjunction()
        guard token.kind == .end else { throw error("AND, OR or the end is expected, not \(token.shown)") }
        guard taken == arguments.count else { throw error("there are more arguments than %@ and %K") }
        return predicate
    }

    private var token: PredicateToken { tokens[index] }

    private func error(_ message: String) -> QueryPredicateError { QueryPredicateError(message, at: token.position) }

    /// Takes the next token if it is this word or sign.
    private mutating func takes(_ words: String...) -> Bool {
        guard case .word(let word) = token.kind, words.contains(word.uppercased()) else { return false }
        index += 1
        return true
    }

    private mutating func takes(sign: String...) -> Bool {
        guard case .sign(let found) = token.kind, sign.contains(found) else { return false }
        index += 1
        return true
    }

    private mutating func disjunction() throws(QueryPredicateError) -> QueryPredicate {
        var parts = [try conjunction()]
        while takes("OR") || takes(sign: "||") { parts.append(try conjunction()) }
        return parts.count == 1 ? parts[0] : .any(parts)
    }

    private mutating func conjunction() throws(QueryPredicateError) -> QueryPredicate {
        var parts = [try negation()]
        while takes("AND") || takes(sign: "&&") { parts.append(try negation()) }
        return parts.count == 1 ? parts[0] : .all(parts)
    }

    private mutating func negation() throws(QueryPredicateError) -> QueryPredicate {
        guard depth < QueryPredicate.deepest else { throw error("it is nested deeper than \(QueryPredicate.deepest)") }
        depth += 1
        defer { depth -= 1 }
        if takes("NOT") || takes(sign: "!") { return .not(try negation()) }
        if takes(sign: "(") {
            let inner = try disjunction()
            guard takes(sign: ")") else { throw error("AND, OR or ) is expected, not \(token.shown)") }
            return inner
        }
        if takes("TRUEPREDICATE") { return .constant(true) }
        if takes("FALSEPREDICATE") { return .constant(false) }
        return try comparison()
    }

    private mutating func comparison() throws(QueryPredicateError) -> QueryPredicate {
        let start = token
        guard let (key, isLastComponent) = try self.key() else {
            // A value may stand first: `"a" == FSName`.
            guard let value = try self.value(for: nil) else {
                throw error("a key, such as FSName, is expected, not \(token.shown)")
            }
            return try reversed(value, start)
        }
        let (name, options) = try relation(key)
        let relation: QueryPredicate.Relation
        switch name {
        case .equal, .notEqual:
            let value = takes("NULL", "NIL") ? nil : try required(key)
            relation = name == .equal ? .equal(value) : .notEqual(value)
        case .less: relation = .less(try required(key))
        case .lessOrEqual: relation = .lessOrEqual(try required(key))
        case .greater: relation = .greater(try required(key))
        case .greaterOrEqual: relation = .greaterOrEqual(try required(key))
        case .like: relation = .like(try text())
        case .beginsWith: relation = .beginsWith(try text())
        case .endsWith: relation = .endsWith(try text())
        case .contains: relation = .contains(try text())
        case .isIn: relation = .isIn(try list(key))
        case .between:
            let (values, place) = (try list(key), token)
            guard values.count == 2 else { throw QueryPredicateError("BETWEEN takes two values", at: place.position) }
            relation = .between(values[0], values[1])
        }
        return .comparison(QueryPredicate.Comparison(key, relation, options: options, isLastComponent: isLastComponent))
    }

    /// A comparison whose value stands first.
    private mutating func reversed(
        _ value: QueryValue,
        _ start: PredicateToken
    ) throws(QueryPredicateError) -> QueryPredicate {
        let place = token
        let (name, options) = try relation(nil)
        // `"a" IN Tags` asks whether a list has a value.
        guard let (key, isLastComponent) = try key() else {
            throw error("a key, such as FSName, is expected, not \(token.shown)")
        }
        guard let typed = typed(value, for: key) else { throw mismatch(key, start) }
        let relation: QueryPredicate.Relation
        switch name {
        case .equal: relation = .equal(typed)
        case .isIn:
            // A list has members, and a string parts.
            guard case .string(let text) = typed else { throw mismatch(key, start) }
            relation = .contains(text)
        case .notEqual: relation = .notEqual(typed)
        case .less: relation = .greater(typed)
        case .lessOrEqual: relation = .greaterOrEqual(typed)
        case .greater: relation = .less(typed)
        case .greaterOrEqual: relation = .lessOrEqual(typed)
        default: throw QueryPredicateError("with \(place.shown) the key stands first", at: place.position)
        }
        return .comparison(QueryPredicate.Comparison(key, relation, options: options, isLastComponent: isLastComponent))
    }

    // MARK: Parts of a comparison

    private enum RelationName {
        case equal, notEqual, less, lessOrEqual, greater, greaterOrEqual, like, beginsWith, endsWith, contains, isIn,
            between

        /// Strings, in which case and accents may matter.
        var isOfStrings: Bool { [.like, .beginsWith, .endsWith, .contains].contains(self) }
    }

    private static let signs: [String: RelationName] = [
        "=": .equal, "==": .equal, "!=": .notEqual, "<>": .notEqual, "<": .less, "<=": .lessOrEqual, "=<": .lessOrEqual,
        ">": .greater, ">=": .greaterOrEqual, "=>": .greaterOrEqual,
    ]
    private static let words: [String: RelationName] = [
        "LIKE": .like, "BEGINSWITH": .beginsWith, "ENDSWITH": .endsWith, "CONTAINS": .contains, "IN": .isIn,
        "BETWEEN": .between,
    ]

    private mutating func relation(_ key: QueryKey?) throws(QueryPredicateError) -> (RelationName, TextOptions) {
        let found: RelationName? =
            switch token.kind {
            case .sign(let sign): Self.signs[sign]
            case .word(let word): Self.words[word.uppercased()]
            default: nil
            }
        guard let found else {
            if case .word(let word) = token.kind, word.uppercased() == "MATCHES" {
                throw error("MATCHES is not known; use LIKE, BEGINSWITH, ENDSWITH or CONTAINS")
            }
            throw error("a comparison, such as == or LIKE, is expected, not \(token.shown)")
        }
        if let key, found.isOfStrings, ![.string, .strings].contains(key.valueKind) {
            throw error("\(key.rawValue) is no string")
        }
        index += 1
        var options: TextOptions = []
        if takes(sign: "[") {
            guard case .word(let letters) = token.kind, !letters.isEmpty, letters.allSatisfy({ "cdCD".contains($0) })
            else {
                throw error("c, d or cd is expected, not \(token.shown)")
            }
            if letters.lowercased().contains("c") { options.insert(.caseInsensitive) }
            if letters.lowercased().contains("d") { options.insert(.diacriticInsensitive) }
            index += 1
            guard takes(sign: "]") else { throw error("] is expected, not \(token.shown)") }
        }
        return (found, options)
    }

    /// A key, by its name or as `%K`; nil where something else stands.
    private mutating func key() throws(QueryPredicateError) -> (key: QueryKey, isLastComponent: Bool)? {
        let place = token
        var name: String
        switch token.kind {
        case .word(let word):
            // What a comparison begins with is a name, but for these values.
            if ["TRUE", "FALSE", "YES", "NO", "NULL", "NIL"].contains(word.uppercased()) { return nil }
            name = word
        case .argument("K"):
            guard taken < arguments.count, case .string(let text) = arguments[taken] else {
                throw error("for this %K there is no argument that is a string")
            }
            taken += 1
            name = text
        default: return nil
        }
        index += 1
        var isLastComponent = false
        if name.hasSuffix(".lastPathComponent") {
            isLastComponent = true
            name = String(name.dropLast(".lastPathComponent".count))
        }
        // The path of an URL is a key of its own.
        if name.hasSuffix(".path"), QueryKey(named: String(name.dropLast(5))) == .url { name = QueryKey.path.rawValue }
        // The last component of a URL is that of its path.
        if isLastComponent, QueryKey(named: name) == .url { name = QueryKey.path.rawValue }
        guard let key = QueryKey(named: name) else {
            throw QueryPredicateError(
                "\(name.prefix(100).debugDescription) is no key; `cove query --keys` tells those there are",
                at: place.position
            )
        }
        if isLastComponent, key.valueKind != .string {
            throw QueryPredicateError("\(key.rawValue) has no last component", at: place.position)
        }
        return (key, isLastComponent)
    }

    private func mismatch(_ key: QueryKey, _ place: PredicateToken) -> QueryPredicateError {
        let wanted =
            switch key.valueKind {
            case .string, .strings: "a string in quotes"
            case .number: "a number"
            case .truth: "TRUE or FALSE"
            case .date: "a date, such as \"2026-01-31\" or \"2026-01-31T12:00:00Z\", or seconds since 1970"
            }
        let words = "\(key.rawValue) is compared with \(wanted), not with \(place.shown)"
        return QueryPredicateError(words, at: place.position)
    }

    private mutating func required(_ key: QueryKey) throws(QueryPredicateError) -> QueryValue {
        let place = token
        guard let value = try value(for: key) else { throw mismatch(key, place) }
        return value
    }

    private mutating func text() throws(QueryPredicateError) -> String {
        let place = token
        guard case .string(let text)? = try value(for: nil) else {
            throw QueryPredicateError("a string in quotes is expected, not \(place.shown)", at: place.position)
        }
        return text
    }

    private mutating func list(_ key: QueryKey) throws(QueryPredicateError) -> [QueryValue] {
        let place = token
        if case .argument("@") = token.kind, taken < arguments.count, case .strings(let texts) = arguments[taken] {
            taken += 1
            index += 1
            guard [.string, .strings].contains(key.valueKind) else { throw mismatch(key, place) }
            return texts.map { .string($0) }
        }
        guard takes(sign: "{") else { throw error("{ is expected, not \(token.shown)") }
        var values: [QueryValue] = []
        if takes(sign: "}") { return values }
        repeat { values.append(try required(key)) } while takes(sign: ",")
        guard takes(sign: "}") else { throw error(", or } is expected, not \(token.shown)") }
        return values
    }

    /// A value, of the kind that a key's values are; nil where something else stands.
    private mutating func value(for key: QueryKey?) throws(QueryPredicateError) -> QueryValue? {
        var value: QueryValue
        switch token.kind {
        case .string(let text): value = .string(text)
        case .number(let number): value = .number(number)
        case .word(let word) where ["TRUE", "YES"].contains(word.uppercased()): value = .truth(true)
        case .word(let word) where ["FALSE", "NO"].contains(word.uppercased()): value = .truth(false)
        case .argument("@"):
            guard taken < arguments.count else { throw error("for this %@ there is no argument") }
            value = arguments[taken]
            if let key {
                guard let typed = typed(value, for: key) else { return nil }
                value = typed
            }
            taken += 1
            index += 1
            return value
        default: return nil
        }
        if let key {
            guard let typed = typed(value, for: key) else { return nil }
            value = typed
        }
        index += 1
        return value
    }

    /// A value as the key's values are; nil where it can't be one.
    private func typed(_ value: QueryValue, for key: QueryKey) -> QueryValue? {
        switch (key.valueKind, value) {
        case (.string, .string), (.strings, .string), (.number, .number), (.truth, .truth), (.date, .date): value
        case (.truth, .number(let number)) where number == 0 || number == 1: .truth(number == 1)
        case (.date, .number(let seconds)): .date(seconds)
        case (.date, .string(let text)): QueryDate.seconds(text).map { .date($0) }
        default: nil
        }
    }
}
