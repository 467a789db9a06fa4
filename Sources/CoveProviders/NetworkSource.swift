/// A source that somebody logs in to, as a person typed it: what it is told apart by, without any secret.
public struct NetworkSource: Sendable, Equatable {
    /// The source with neither user nor path: `webdavs://host:port`, of S3 with the server that has the bucket, `exec:NAME`.
    public let origin: String
    /// Who uses it, where the address says so.
    public let user: String?
    /// True when what goes to and fro can be read by others on the way: neither encrypted nor on this machine.
    public let isExposed: Bool

    /// Takes a source apart; nil for one that needs no login: a folder, or a provider whose manifest asks for no secrets.
    public init?(_ source: String) {
        if let program = (try? ProviderProgram(source: source)) ?? nil {
            guard let manifest = program.manifest, manifest.usesSecrets else { return nil }
            // What lies beside some program is not taken for the installed provider of that name.
            origin = "exec:\(manifest.isInstalled ? manifest.name : manifest.program)"
            user = program.options["user"]
            isExposed = false
            return
        }
        guard let address = SourceAddress(source), ProviderFactory.networkSchemes.contains(address.scheme) else {
            return nil
        }
        let server = address.scheme == "s3" ? address.options["endpoint"].map { "?endpoint=\($0)" } : nil
        origin = address.origin(address.scheme) + (server ?? "")
        user = address.user
        let endpoint = address.options["endpoint"] ?? "https://"
        let plain = address.scheme == "s3" ? endpoint.lowercased().hasPrefix("http://") : address.scheme == "webdav"
        let host = address.scheme == "s3" ? SourceAddress(endpoint)?.host ?? "" : address.host
        isExposed = plain && !Self.isHere(host)
    }

    /// What is said to a person of a source that is exposed.
    public static let exposure =
        "the source is reached without encryption: others on the way can read and change all of it"

    /// What to do about that.
    public var remedy: String { origin.hasPrefix("s3") ? "use an endpoint of https://" : "use webdavs://" }

    private static func isHere(_ host: String) -> Bool {
        let host = host.lowercased()
        if ["localhost", "::1", "[::1]"].contains(host) || host.hasSuffix(".localhost") { return true }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil }
    }
}
