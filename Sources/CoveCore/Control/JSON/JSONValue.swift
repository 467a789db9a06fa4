/// A JSON text as a value; integers that fit 64 bits stay exact.
public enum JSONValue: Sendable, Equatable {
    /// The literal `null`.
    case null
    /// The literals `true` and `false`.
    case bool(Bool)
    /// A number without fraction or exponent that fits 64 bits.
    case integer(Int64)
    /// Any other number; never infinite and never NaN.
    case double(Double)
    /// A text.
    case string(String)
    /// An ordered list.
    case array([JSONValue])
    /// Named members; written in the order of their names.
    case object([String: JSONValue])

    /// An object without members, the parameters of a call that takes none.
    public static let empty = JSONValue.object([:])

    /// The member of an object; nil for a missing one and for anything but an object.
    public subscript(name: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members[name]
    }

    /// The text of a string; nil for anything else.
    public var text: String? {
        guard case .string(let text) = self else { return nil }
        return text
    }

    /// The value of `true` or `false`; nil for anything else.
    public var truth: Bool? {
        guard case .bool(let truth) = self else { return nil }
        return truth
    }
}

/// What is wrong with a JSON text, or with a value that was to become one.
public struct JSONError: Error, Sendable, Equatable, CustomStringConvertible {
    /// What is wrong, in a few words.
    public var message: String
    /// The member that has the wrong type or is missing; empty where there is none to name.
    public var member: String

    /// Describes an error.
    public init(_ message: String, member: String = "") {
        self.message = message
        self.member = member
    }

    /// One line for a person.
    public var description: String { member.isEmpty ? message : "\(member): \(message)" }
}
