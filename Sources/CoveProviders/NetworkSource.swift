/// A source over the network, as a person typed it: what it is told apart by, without any secret.
public struct NetworkSource: Sendable, Equatable {
    /// The source with neither user nor path: `webdavs://host:port`, of S3 with the server that has the bucket.
    public let origin: String
    /// Who uses it, where the address says so.
    public let user: String?

    /// Takes a source apart; nil for one that is not reached over the network.
    public init?(_ source: String) {
        guard let address = SourceAddress(source), ProviderFactory.networkSchemes.contains(address.scheme) else {
            return nil
        }
        let server = address.scheme == "s3" ? address.options["endpoint"].map { "?endpoint=\($0)" } : nil
        origin = address.origin(address.scheme) + (server ?? "")
        user = address.user
    }
}
