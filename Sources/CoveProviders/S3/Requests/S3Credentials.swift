internal import CoveCore
internal import Glibc

/// Who asks, as signatures name them.
struct S3Credentials: Sendable, Equatable {
    var accessKey: String
    var secretKey: String
    /// Comes with credentials that expire.
    var sessionToken: String?

    /// Looks for credentials: the given login, the AWS environment variables, then the credentials file.
    static func find(
        login: Credentials?,
        address: S3Address,
        environment: (String) -> String? = { ProcessEnvironment.value($0) }
    ) throws(ProviderError) -> S3Credentials {
        if let login { return S3Credentials(accessKey: login.user, secretKey: login.password) }
        if address.profile == nil, let key = environment("AWS_ACCESS_KEY_ID"),
            let secret = environment("AWS_SECRET_ACCESS_KEY"), address.accessKey.map({ $0 == key }) ?? true
        {
            let token = environment("AWS_SESSION_TOKEN")
            return S3Credentials(accessKey: key, secretKey: secret, sessionToken: token)
        }
        let name = address.profile ?? environment("AWS_PROFILE") ?? "default"
        let home = environment("HOME") ?? ""
        let path = environment("AWS_SHARED_CREDENTIALS_FILE") ?? home + "/.aws/credentials"
        let section = profile(name, in: text(of: path))
        if let key = section["aws_access_key_id"], let secret = section["aws_secret_access_key"],
            address.accessKey.map({ $0 == key }) ?? true
        {
            return S3Credentials(accessKey: key, secretKey: secret, sessionToken: section["aws_session_token"])
        }
        throw .notAuthenticated("no credentials for the bucket \(address.bucket); run cove login")
    }

    /// The region to begin with.
    static func region(
        _ address: S3Address,
        environment: (String) -> String? = { ProcessEnvironment.value($0) }
    ) -> String {
        if let region = address.region ?? environment("AWS_REGION") ?? environment("AWS_DEFAULT_REGION") {
            return region
        }
        let name = address.profile ?? environment("AWS_PROFILE") ?? "default"
        let path = environment("AWS_CONFIG_FILE") ?? (environment("HOME") ?? "") + "/.aws/config"
        let section = profile(name == "default" ? name : "profile \(name)", in: text(of: path))
        return section["region"] ?? "us-east-1"
    }

    /// The settings of one section of a file such as `~/.aws/credentials`.
    static func profile(_ name: String, in text: String) -> [String: String] {
        var values: [String: String] = [:]
        var isInside = false
        for line in text.split(whereSeparator: \.isNewline) {
            let line = trimmed(line)
            if line.hasPrefix("#") || line.hasPrefix(";") { continue }
            if line.hasPrefix("["), line.hasSuffix("]") {
                isInside = trimmed(line.dropFirst().dropLast()) == name
            } else if isInside, let sign = line.firstIndex(of: "=") {
                values[trimmed(line[..<sign]).lowercased()] = trimmed(line[line.index(after: sign)...])
            }
        }
        return values
    }

    private static func trimmed(_ text: some StringProtocol) -> String {
        let rest = text.drop(while: \.isWhitespace)
        guard let last = rest.lastIndex(where: { !$0.isWhitespace }) else { return "" }
        return String(rest[...last])
    }

    /// A small file's text; empty when it can't be read.
    private static func text(of path: String) -> String {
        guard let file = try? System.open(path, O_RDONLY | O_NONBLOCK) else { return "" }
        defer { System.close(file) }
        var bytes = [UInt8](repeating: 0, count: 256 << 10)
        let count = bytes.withUnsafeMutableBytes { (try? System.pread(file, $0, 0)) ?? 0 }
        return String(decoding: bytes[..<count], as: UTF8.self)
    }
}
