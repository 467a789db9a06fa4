internal import CoveCore

/// Where a bucket is: `s3://bucket/prefix?endpoint=URL&region=R&path-style=yes&profile=P&late-cleaning=S`.
struct S3Address: Sendable, Equatable {
    let bucket: String
    /// What all keys begin with: empty, or ends with a slash.
    let prefix: [UInt8]
    /// The access key, where the address names one.
    let accessKey: String?
    /// The section of the credentials file.
    let profile: String?
    /// As given; nil asks the environment, and the server itself corrects what is wrong.
    let region: String?
    /// For so long the server may come back to a folder that was emptied, and delete what has its name by then.
    let lateCleaning: TimeSpan
    private let endpoint: (scheme: String, host: String)?
    private let usesPaths: Bool

    /// Takes an address apart.
    init(_ source: SourceAddress) throws(ProviderError) {
        bucket = source.host
        let names = source.path.split(separator: 0x2F)
        guard !names.contains(where: { FileName.problem(with: $0) != nil }) else {
            throw .unsupported("\(bucket): the prefix has an impossible name")
        }
        prefix = names.reduce(into: []) { $0 += $1 + [0x2F] }
        accessKey = source.user
        profile = source.options["profile"]
        region = source.options["region"]
        if let url = source.options["endpoint"] {
            guard let server = SourceAddress(url), ["http", "https"].contains(server.scheme), server.path.isEmpty else {
                throw .unsupported("endpoint=\(url): expected a URL such as https://host:port")
            }
            // A scheme's own port is not part of the Host header, which is signed.
            let port = server.port == (server.scheme == "http" ? 80 : 443) ? nil : server.port
            endpoint = (server.scheme, server.host + (port.map { ":\($0)" } ?? ""))
        } else {
            endpoint = nil
        }
        if let text = source.options["late-cleaning"] {
            guard let seconds = Int64(text), (0...240).contains(seconds) else {
                throw .unsupported("late-cleaning=\(text): expected 0 to 240 seconds")
            }
            lateCleaning = .seconds(seconds)
        } else {
            lateCleaning = .seconds(180)
        }
        switch source.options["path-style"] {
        case nil: usesPaths = endpoint != nil || bucket.contains(".")
        case "yes", "true", "1", "": usesPaths = true
        case "no", "false", "0": usesPaths = false
        case let other?: throw .unsupported("path-style=\(other): expected yes or no")
        }
    }

    /// The scheme, host and path of the bucket or of a key in it, percent-encoded.
    func place(of key: [UInt8]?, in region: String) -> (origin: String, host: String, path: String) {
        let scheme = endpoint?.scheme ?? "https"
        let server = endpoint?.host ?? "s3.\(region).amazonaws.com"
        let host = usesPaths ? server : "\(bucket).\(server)"
        var path = usesPaths ? "/" + PercentEncoding.encode(bucket.utf8) : ""
        if let key { path += "/" + PercentEncoding.encode(key, keepingSlashes: true) }
        return ("\(scheme)://\(host)", host, path.isEmpty ? "/" : path)
    }

    /// The value of `x-amz-copy-source`.
    func copySource(_ key: [UInt8]) -> String {
        "/" + PercentEncoding.encode(bucket.utf8) + "/" + PercentEncoding.encode(key, keepingSlashes: true)
    }

    static func == (left: S3Address, right: S3Address) -> Bool {
        left.bucket == right.bucket && left.prefix == right.prefix && left.endpoint?.host == right.endpoint?.host
            && left.endpoint?.scheme == right.endpoint?.scheme
    }
}
