internal import CoveCore

/// The answers to one challenge of Digest (RFC 7616): they prove the password, and don't tell it.
struct HTTPDigest: Sendable {
    let nonce: String
    private let realm: String
    private let opaque: String?
    private let algorithm: Digest.Algorithm
    /// The name of the algorithm as the server wrote it; nil where it named none.
    private let algorithmName: String?
    private let isSession: Bool
    /// The server wants a count with each answer; the first servers did not.
    private let counts: Bool
    private var count: UInt32 = 0

    /// Nil for a challenge that can't be answered.
    init?(_ challenge: HTTPChallenge) {
        guard challenge.scheme == "digest", let nonce = challenge.parameters["nonce"],
            let realm = challenge.parameters["realm"]
        else { return nil }
        self.nonce = nonce
        self.realm = realm
        opaque = challenge.parameters["opaque"]
        algorithmName = challenge.parameters["algorithm"]
        let name = (algorithmName ?? "md5").lowercased()
        isSession = name.hasSuffix("-sess")
        switch isSession ? String(name.dropLast("-sess".count)) : name {
        case "md5": algorithm = .md5
        case "sha-256": algorithm = .sha256
        default: return nil
        }
        let ways = challenge.parameters["qop"]?.lowercased().split { $0 == "," || $0.isWhitespace }
        if let ways, !ways.contains("auth") { return nil }
        counts = ways != nil
    }

    /// The strongest challenge that can be answered; nil when there is none.
    static func strongest(of challenges: [HTTPChallenge]) -> HTTPDigest? {
        let all = challenges.compactMap { HTTPDigest($0) }
        return all.first { $0.algorithm == .sha256 } ?? all.first
    }

    /// The value of `Authorization` for one request to a path with its query.
    mutating func authorization(
        _ login: Credentials,
        _ method: String,
        _ target: String,
        token: String = "\(DocumentID.random())"
    ) -> String {
        count &+= 1
        let digits = String(count, radix: 16)
        let number = String(repeating: "0", count: 8 - digits.count) + digits
        var user = hash("\(login.user):\(realm):\(login.password)")
        if isSession { user = hash("\(user):\(nonce):\(token)") }
        let request = hash("\(method):\(target)")
        let middle = counts ? "\(nonce):\(number):\(token):auth" : nonce
        var parts = [
            "username=\(Self.quoted(login.user))", "realm=\(Self.quoted(realm))", "nonce=\(Self.quoted(nonce))",
            "uri=\(Self.quoted(target))", "response=\"\(hash("\(user):\(middle):\(request)"))\"",
        ]
        if let algorithmName { parts.append("algorithm=\(algorithmName)") }
        if let opaque { parts.append("opaque=\(Self.quoted(opaque))") }
        if counts { parts += ["qop=auth", "nc=\(number)"] }
        if counts || isSession { parts.append("cnonce=\"\(token)\"") }
        return "Digest " + parts.joined(separator: ", ")
    }

    private func hash(_ text: String) -> String { Digest.hash(Array(text.utf8), algorithm).hexadecimal }

    private static func quoted(_ text: String) -> String {
        "\"" + text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"") + "\""
    }
}
