internal import CoveCore
public import Foundation

/// A file, a folder or a link that a ``MetadataQuery`` has found, as it was when the query told of it.
///
/// Its bytes need not be here, and none are fetched for it.
public struct MetadataItem: Sendable, Identifiable, Equatable {
    /// Names the result among those of its account as long as it is one; another name of the same item is another result.
    public let id: Int
    /// Where it is.
    public let url: URL
    /// Names the document for life.
    public let documentIdentifier: String
    private let values: QueryValues

    init(_ message: QueryResultMessage, in folder: Location) {
        id = message.id
        documentIdentifier = message.documentID
        values = message.values
        let path = (try? message.path.remotePath()) ?? nil
        // Nobody is asked what kind it is: that would be a call for each item.
        url = URL(fileURLWithPath: folder.sibling(at: path ?? .root).path, isDirectory: false)
    }

    /// Where an app opens it: by its reference, where the document is another app's and the query asked for
    /// `urlInLocalContainer`; else where it is.
    public var accessibleURL: URL { self[.urlInLocalContainer].flatMap { URL(string: $0) } ?? url }

    /// One of its values; nil where it has none, or the query did not ask for it.
    public subscript<Value>(key: MetadataKey<Value>) -> Value? {
        value(forAttribute: key.name).flatMap { Value($0) }
    }

    /// The same by the key's name, with the prefixes of Cocoa and Spotlight or without.
    public func value(forAttribute name: String) -> MetadataValue? {
        QueryKey(named: name).flatMap { values[$0] }.map { MetadataValue($0) }
    }

    /// The values that it has, by their short names.
    public var attributes: [String: MetadataValue] {
        Dictionary(uniqueKeysWithValues: values.all.map { ($0.key.rawValue, MetadataValue($0.value)) })
    }

    func value(_ key: QueryKey) -> QueryValue? { values[key] }
}
