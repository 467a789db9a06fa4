internal import CoveCore
internal import Synchronization

/// Tells one server who asks, in the way it wants to be told.
///
/// Over a line that others can read nothing is told before the server asks. Digest goes before Basic, and once a server
/// has offered it the password itself is sent no more.
final class HTTPLogin: Sendable {
    private struct State {
        var credentials: Credentials?
        var digest: HTTPDigest?
        /// The server has asked for Basic.
        var isBasic = false
        /// The server has offered Digest once.
        var knowsDigest = false
    }

    /// What was told with one request.
    struct Answer: Sendable {
        /// The value of `Authorization`; nil where nothing is told.
        var header: String?
        fileprivate var nonce: String?
    }

    private let state = Mutex(State())

    /// Sets who asks from now on; what the server wants is found out anew.
    func use(_ credentials: Credentials?) {
        state.withLock { state in
            state.credentials = credentials
            state.digest = nil
            state.isBasic = false
        }
    }

    /// What is told with a request.
    func answer(to request: HTTPRequest) -> Answer {
        state.withLock { state in
            guard let login = state.credentials else { return Answer() }
            if state.digest != nil {
                let header = state.digest?.authorization(login, request.method, Self.target(of: request.url))
                return Answer(header: header, nonce: state.digest?.nonce)
            }
            let isSecret = request.url.hasPrefix("https:")
            guard isSecret || state.isBasic && !state.knowsDigest else { return Answer() }
            let pair = Array("\(login.user):\(login.password)".utf8)
            return Answer(header: "Basic \(pair.base64)")
        }
    }

    /// Learns from a refusal of what was told; true when another answer may do.
    func learn(from head: HTTPHead, to answer: Answer) -> Bool {
        let challenges = HTTPChallenge.all(in: head)
        let offered = HTTPDigest.strongest(of: challenges)
        return state.withLock { state in
            guard state.credentials != nil else { return false }
            if let offered {
                state.knowsDigest = true
                // Another request may have learned of a newer number meanwhile.
                if let known = state.digest, known.nonce != answer.nonce { return true }
                state.digest = offered
                return answer.nonce != offered.nonce
            }
            guard answer.header == nil, challenges.contains(where: { $0.scheme == "basic" }) else { return false }
            state.isBasic = true
            return !state.knowsDigest
        }
    }

    /// True when the server wants the password itself of somebody to whom it has offered Digest before.
    func isDowngrade(_ head: HTTPHead) -> Bool {
        let challenges = HTTPChallenge.all(in: head)
        return state.withLock { $0.knowsDigest } && HTTPDigest.strongest(of: challenges) == nil
            && challenges.contains { $0.scheme == "basic" }
    }

    /// The path and the query of an address.
    private static func target(of url: String) -> String {
        guard let start = url.firstRange(of: "://") else { return url }
        return url[start.upperBound...].firstIndex(of: "/").map { String(url[$0...]) } ?? "/"
    }
}
