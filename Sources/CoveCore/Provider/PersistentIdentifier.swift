/// What a provider calls an item for as long as it is there, wherever it is moved and whatever it is called.
public struct PersistentIdentifier: Sendable, Hashable {
    /// The most bytes that one may have.
    public static let greatestSize = 500

    /// The provider's bytes.
    public let bytes: [UInt8]

    /// Takes a provider's bytes; nil where there are none, or too many.
    public init?(_ bytes: [UInt8]) {
        guard (1...Self.greatestSize).contains(bytes.count) else { return nil }
        self.bytes = bytes
    }
}

extension Provider {
    /// It gives none: an item is known by its path.
    public func persistentIdentifier(of item: RemoteReference) async throws(ProviderError) -> PersistentIdentifier {
        throw .unsupported("it gives no persistent identifiers")
    }

    /// It knows none.
    public func path(ofPersistent identifier: PersistentIdentifier) async throws(ProviderError) -> RemotePath {
        throw .unsupported("it knows no persistent identifiers")
    }
}
