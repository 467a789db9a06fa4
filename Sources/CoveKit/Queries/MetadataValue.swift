internal import CoveCore
public import Foundation

/// A value of a ``MetadataItem``, or one that a predicate compares with.
public enum MetadataValue: Sendable, Hashable {
    /// A string.
    case string(String)
    /// A list of strings.
    case strings([String])
    /// A number.
    case number(Double)
    /// True or false.
    case bool(Bool)
    /// A point in time.
    case date(Date)
    /// Images by their keys.
    case images([String: Data])

    init(_ value: QueryValue) {
        switch value {
        case .string(let text): self = .string(text)
        case .strings(let texts): self = .strings(texts)
        case .number(let number): self = .number(number)
        case .truth(let truth): self = .bool(truth)
        case .date(let seconds): self = .date(Date(timeIntervalSince1970: seconds))
        }
    }

    var query: QueryValue {
        switch self {
        case .string(let text): .string(text)
        case .strings(let texts): .strings(texts)
        case .number(let number): .number(number)
        case .bool(let truth): .truth(truth)
        case .date(let date): .date(date.timeIntervalSince1970)
        // Nothing that is queried for has one.
        case .images: .strings([])
        }
    }
}

/// What can be the value of a ``MetadataKey``.
public protocol MetadataValueConvertible: Sendable {
    /// Takes a value of the kind; nil for one of another kind.
    init?(_ value: MetadataValue)
    /// The value.
    var metadataValue: MetadataValue { get }
}

/// One value, that others can be the same as.
public protocol MetadataScalar: MetadataValueConvertible {}

extension String: MetadataScalar {
    /// Takes a string.
    public init?(_ value: MetadataValue) {
        guard case .string(let text) = value else { return nil }
        self = text
    }
    /// A string.
    public var metadataValue: MetadataValue { .string(self) }
}

extension Double: MetadataScalar {
    /// Takes a number.
    public init?(_ value: MetadataValue) {
        guard case .number(let number) = value else { return nil }
        self = number
    }
    /// A number.
    public var metadataValue: MetadataValue { .number(self) }
}

extension Bool: MetadataScalar {
    /// Takes true or false.
    public init?(_ value: MetadataValue) {
        guard case .bool(let truth) = value else { return nil }
        self = truth
    }
    /// True or false.
    public var metadataValue: MetadataValue { .bool(self) }
}

extension Date: MetadataScalar {
    /// Takes a point in time.
    public init?(_ value: MetadataValue) {
        guard case .date(let date) = value else { return nil }
        self = date
    }
    /// A point in time.
    public var metadataValue: MetadataValue { .date(self) }
}

extension [String]: MetadataValueConvertible {
    /// Takes a list of strings.
    public init?(_ value: MetadataValue) {
        guard case .strings(let texts) = value else { return nil }
        self = texts
    }
    /// A list of strings.
    public var metadataValue: MetadataValue { .strings(self) }
}
