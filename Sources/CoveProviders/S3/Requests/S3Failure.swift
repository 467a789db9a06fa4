internal import CoveCore

/// What an S3 server says no with.
struct S3Failure: Error, Sendable, Equatable {
    /// The codes that mean something to Cove.
    enum Code: String, Sendable, CaseIterable {
        case accessDenied = "AccessDenied"
        case allAccessDisabled = "AllAccessDisabled"
        case accountProblem = "AccountProblem"
        case invalidObjectState = "InvalidObjectState"
        case methodNotAllowed = "MethodNotAllowed"
        case objectLocked = "ObjectLocked"
        case invalidAccessKey = "InvalidAccessKeyId"
        case signatureDoesNotMatch = "SignatureDoesNotMatch"
        case expiredToken = "ExpiredToken"
        case tokenRefreshRequired = "TokenRefreshRequired"
        case invalidToken = "InvalidToken"
        case notSignedUp = "NotSignedUp"
        case requestTimeTooSkewed = "RequestTimeTooSkewed"
        case requestExpired = "RequestExpired"
        case authorizationHeaderMalformed = "AuthorizationHeaderMalformed"
        case permanentRedirect = "PermanentRedirect"
        case temporaryRedirect = "TemporaryRedirect"
        case redirect = "Redirect"
        case noSuchBucket = "NoSuchBucket"
        case noSuchKey = "NoSuchKey"
        case noSuchVersion = "NoSuchVersion"
        case noSuchUpload = "NoSuchUpload"
        case preconditionFailed = "PreconditionFailed"
        case conditionalConflict = "ConditionalRequestConflict"
        case operationAborted = "OperationAborted"
        case invalidRange = "InvalidRange"
        case slowDown = "SlowDown"
        case slowDownRead = "SlowDownRead"
        case slowDownWrite = "SlowDownWrite"
        case serviceUnavailable = "ServiceUnavailable"
        case internalError = "InternalError"
        case requestTimeout = "RequestTimeout"
        case quotaExceeded = "QuotaExceeded"
        case storageFull = "XMinioStorageFull"
        case entityTooLarge = "EntityTooLarge"
        case badDigest = "BadDigest"
        case payloadMismatch = "XAmzContentSHA256Mismatch"
        case keyTooLong = "KeyTooLongError"
        case invalidObjectName = "XMinioInvalidObjectName"
        case invalidURI = "InvalidURI"
        case metadataTooLarge = "MetadataTooLarge"
        case notImplemented = "NotImplemented"
        case invalidPart = "InvalidPart"
        /// Another code, or none: the status alone counts.
        case other = ""
    }

    var status: Int
    var code: Code
    /// The server's code and message, for people.
    var text: String
    /// How long the server wants to be left alone.
    var retryAfter: TimeSpan?

    /// Reads an answer that is an error; the body may be anything.
    init(_ response: HTTPResponse) {
        status = response.status
        retryAfter = response.head.retryAfter
        let document = try? S3Document.read(response.body)
        let name = document?.root == "Error" ? document?["Code"] : nil
        code = name.flatMap { Code(rawValue: $0) } ?? .other
        let message = document?["Message"].map { ": \($0.prefix(200))" } ?? ""
        text = name.map { "\($0.prefix(100))\(message)" } ?? "status \(response.status)"
    }

    /// True for a condition that did not hold, or could not be decided among others' requests.
    var isPrecondition: Bool { code == .preconditionFailed || code == .conditionalConflict || status == 412 }

    /// True for what is over when it is asked for again.
    var passes: Bool { code == .internalError || [429, 502, 503, 504].contains(status) }

    /// True when something in front of the server has answered for it.
    var isGateway: Bool { status == 502 || status == 504 }

    /// What it means for an operation on an object.
    var error: ProviderError {
        switch code {
        case .accessDenied, .allAccessDisabled, .accountProblem, .invalidObjectState, .methodNotAllowed, .objectLocked:
            .notPermitted(text)
        case .invalidAccessKey, .signatureDoesNotMatch, .expiredToken, .tokenRefreshRequired, .invalidToken,
            .notSignedUp, .authorizationHeaderMalformed:
            .notAuthenticated("\(text); run cove login")
        case .requestTimeTooSkewed, .requestExpired:
            .serverUnreachable("\(text); the clocks here and there differ")
        case .permanentRedirect, .temporaryRedirect, .redirect:
            .serverUnreachable("\(text); give the bucket's own endpoint and region")
        case .noSuchBucket: .serverUnreachable(text)
        case .noSuchKey, .noSuchVersion: .noSuchItem
        case .noSuchUpload, .invalidPart: .failed("the upload is no longer known to the server: \(text)", nil)
        case .preconditionFailed: .conflict(nil)
        case .conditionalConflict, .operationAborted: .busy
        case .invalidRange: .versionNoLongerAvailable
        case .slowDown, .slowDownRead, .slowDownWrite, .serviceUnavailable: .throttled(retryAfter: retryAfter)
        case .requestTimeout: .serverUnreachable("the server has waited too long: \(text)")
        case .quotaExceeded, .storageFull, .entityTooLarge: .insufficientQuota(text)
        case .badDigest, .payloadMismatch: .failed("the bytes changed on their way to the server: \(text)", nil)
        case .keyTooLong, .invalidObjectName, .invalidURI, .metadataTooLarge, .notImplemented: .unsupported(text)
        case .internalError, .other:
            status == 429 || status == 503
                ? .throttled(retryAfter: retryAfter)
                : ProviderError(HTTPResponse(head: HTTPHead(status: status), body: []), doing: text)
        }
    }
}
