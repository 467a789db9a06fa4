internal import CCurl
internal import CoveCore

/// Why no answer came.
struct HTTPFailure: Error {
    let error: ProviderError
    /// The next attempt may well succeed.
    var isTransient = false
    /// The line broke once the request was on its way: the server may have broken it because of what was asked.
    var isBreak = false
    /// It was asked again, and broke each time.
    var isRepeated = false
    /// The receiver has bytes already.
    var hasDelivered = false

    init(error: ProviderError, hasDelivered: Bool = false) {
        self.error = error
        self.hasDelivered = hasDelivered
    }

    init(_ code: CURLcode, _ text: String, hasDelivered: Bool) {
        self.hasDelivered = hasDelivered
        switch code {
        case CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_CONNECT:
            error = .serverUnreachable(text)
        case CURLE_SEND_ERROR, CURLE_RECV_ERROR, CURLE_GOT_NOTHING, CURLE_PARTIAL_FILE, CURLE_HTTP2, CURLE_HTTP2_STREAM,
            CURLE_SSL_CONNECT_ERROR, CURLE_WEIRD_SERVER_REPLY:
            error = .serverUnreachable(text)
            isTransient = true
            isBreak = code != CURLE_SSL_CONNECT_ERROR
        case CURLE_OPERATION_TIMEDOUT:
            error = .serverUnreachable("it does not answer")
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_ISSUER_ERROR:
            // A certificate for another host is not helped by that.
            let hint = text.contains("host name") ? "" : "; for a certificate of your own give --cacert FILE"
            error = .serverUnreachable(text + hint)
        default:
            error = .failed(text, nil)
        }
    }
}

extension ProviderError {
    /// What a status means that nobody at the call expected.
    init(_ response: HTTPResponse, doing what: String) {
        let status = response.status
        switch status {
        case 300..<400:
            // The rest of the address may hold a secret.
            let target = response.head["location"].flatMap { SourceAddress($0) }.map { " to " + $0.origin($0.scheme) }
            self = .serverUnreachable(
                "the server redirects\(target ?? "") (\(status)); mount the address it has moved to"
            )
        case 401, 407: self = .notAuthenticated("\(what): the server answers \(status); run cove login")
        case 403: self = .notPermitted("\(what): the server answers 403")
        case 404, 410: self = .noSuchItem
        case 408: self = .timedOut
        case 413, 507: self = .insufficientQuota("\(what): the server answers \(status)")
        // Locked, or something below it is.
        case 423, 424: self = .busy
        case 511: self = .serverUnreachable("the network wants you to log in to it first (511)")
        case 429, 503: self = .throttled(retryAfter: response.head.retryAfter)
        case 502, 504: self = .serverUnreachable("the server is busy (\(status))")
        default: self = .failed("\(what): the server answers \(status)", nil)
        }
    }
}

extension ProviderError {
    /// What a status means that an answer about several items gives for one of them: it says nothing of the server.
    static func told(_ status: Int, of what: String) -> ProviderError {
        if [404, 410].contains(status) { return .noSuchItem }
        return isPassing(status) ? .busy : .notPermitted("\(what): the server answers \(status) for it")
    }

    /// True for a status that says something of the moment.
    static func isPassing(_ status: Int) -> Bool {
        [408, 423, 424, 425, 429].contains(status) || (500..<600).contains(status) && ![501, 505].contains(status)
    }

    /// True when what was asked may have been done, or may yet be: no answer came.
    var isUnanswered: Bool {
        switch self {
        case .cancelled, .timedOut, .failed(_, .connectionReset): true
        default: parksAccount
        }
    }
}
