extension QueryPredicate {
    /// The predicate as JSON: `{"and": [...]}`, `{"or": [...]}`, `{"not": {...}}`, `true`, `false`, or a comparison such as
    /// `{"key": "FSName", "is": "like", "value": "*.pdf", "options": "c"}`.
    public var json: JSONValue {
        switch self {
        case .constant(let holds): .bool(holds)
        case .all(let parts): .object(["and": .array(parts.map(\.json))])
        case .any(let parts): .object(["or": .array(parts.map(\.json))])
        case .not(let part): .object(["not": part.json])
        case .comparison(let comparison): comparison.json
        }
    }

    /// Reads what `json` writes.
    public init(json: JSONValue) throws(JSONError) { self = try Self.read(json, depth: 0) }

    private static func read(_ json: JSONValue, depth: Int) throws(JSONError) -> QueryPredicate {
        guard depth < deepest else { throw JSONError("a predicate is nested deeper than \(deepest)") }
        func parts(_ value: JSONValue) throws(JSONError) -> [QueryPredicate] {
            guard case .array(let list) = value else { throw JSONError("must be a list of predicates") }
            var parts: [QueryPredicate] = []
            for part in list { parts.append(try read(part, depth: depth + 1)) }
            return parts
        }
        if let holds = json.truth { return .constant(holds) }
        if let list = json["and"] { return .all(try parts(list)) }
        if let list = json["or"] { return .any(try parts(list)) }
        if let part = json["not"] { return .not(try read(part, depth: depth + 1)) }
        return .comparison(try Comparison(json: json))
    }
}

extension QueryPredicate.Comparison {
    fileprivate var json: JSONValue {
        var members: [String: JSONValue] = ["key": .string(key.rawValue)]
        let (name, value): (String, JSONValue) =
            switch relation {
            case .equal(let value): ("==", value?.json ?? .null)
            case .notEqual(let value): ("!=", value?.json ?? .null)
            case .less(let value): ("<", value.json)
            case .lessOrEqual(let value): ("<=", value.json)
            case .greater(let value): (">", value.json)
            case .greaterOrEqual(let value): (">=", value.json)
            case .like(let text): ("like", .string(text))
            case .beginsWith(let text): ("beginsWith", .string(text))
            case .endsWith(let text): ("endsWith", .string(text))
            case .contains(let text): ("contains", .string(text))
            case .isIn(let values): ("in", .array(values.map(\.json)))
            case .between(let first, let last): ("between", .array([first.json, last.json]))
            }
        members["is"] = .string(name)
        members["value"] = value
        let letters =
            (options.contains(.caseInsensitive) ? "c" : "") + (options.contains(.diacriticInsensitive) ? "d" : "")
        if !letters.isEmpty { members["options"] = .string(letters) }
        if isLastComponent { members["lastPathComponent"] = .bool(true) }
        return .object(members)
    }

    fileprivate init(json: JSONValue) throws(JSONError) {
        guard let name = json["key"]?.text, let key = QueryKey(named: name) else {
            throw JSONError("must be a key", member: "key")
        }
        guard let relation = json["is"]?.text else { throw JSONError("is missing", member: "is") }
        let value = json["value"] ?? .null
        func one(_ value: JSONValue) throws(JSONError) -> QueryValue {
            guard let value = QueryValue(value, for: key) else {
                throw JSONError("is none that \(key.rawValue) can have", member: "value")
            }
            return value
        }
        func text() throws(JSONError) -> String {
            guard let text = value.text, [.string, .strings].contains(key.valueKind) else {
                throw JSONError("must be a string, and \(key.rawValue) too", member: "value")
            }
            return text
        }
        func list() throws(JSONError) -> [QueryValue] {
            guard case .array(let values) = value else { throw JSONError("must be a list", member: "value") }
            var list: [QueryValue] = []
            for value in values { list.append(try one(value)) }
            return list
        }
        let found: QueryPredicate.Relation
        switch relation {
        case "==": found = .equal(value == .null ? nil : try one(value))
        case "!=": found = .notEqual(value == .null ? nil : try one(value))
        case "<": found = .less(try one(value))
        case "<=": found = .lessOrEqual(try one(value))
        case ">": found = .greater(try one(value))
        case ">=": found = .greaterOrEqual(try one(value))
        case "like": found = .like(try text())
        case "beginsWith": found = .beginsWith(try text())
        case "endsWith": found = .endsWith(try text())
        case "contains": found = .contains(try text())
        case "in": found = .isIn(try list())
        case "between":
            let values = try list()
            guard values.count == 2 else { throw JSONError("must be two values", member: "value") }
            found = .between(values[0], values[1])
        default:
            throw JSONError(
                "must be ==, !=, <, <=, >, >=, like, beginsWith, endsWith, contains, in or between",
                member: "is"
            )
        }
        let letters = json["options"]?.text ?? ""
        guard letters.allSatisfy({ "cd".contains($0) }) else {
            throw JSONError("must be c, d or cd", member: "options")
        }
        var options: TextOptions = []
        if letters.contains("c") { options.insert(.caseInsensitive) }
        if letters.contains("d") { options.insert(.diacriticInsensitive) }
        self.init(key, found, options: options, isLastComponent: json["lastPathComponent"]?.truth ?? false)
    }
}

extension QueryValue {
    /// A value in JSON as the values of a key are; nil where it can't be one.
    fileprivate init?(_ json: JSONValue, for key: QueryKey) {
        switch (key.valueKind, json) {
        case (.string, .string(let text)), (.strings, .string(let text)): self = .string(text)
        case (.number, .integer(let number)): self = .number(Double(number))
        case (.number, .double(let number)): self = .number(number)
        case (.date, .integer(let number)): self = .date(Double(number))
        case (.date, .double(let number)): self = .date(number)
        case (.date, .string(let text)):
            guard let seconds = QueryDate.seconds(text) else { return nil }
            self = .date(seconds)
        case (.truth, .bool(let truth)): self = .truth(truth)
        default: return nil
        }
    }
}
