import CoveCore
import Glibc
import Testing

@Suite struct ErrorTests {
    /// One of each kind; the switch makes a new kind without an expectation a compile error.
    private static let all: [ProviderError] = [
        .serverUnreachable("x"), .notAuthenticated("x"), .insufficientQuota("x"), .notPermitted("x"), .noSuchItem,
        .filenameCollision(nil), .conflict(nil), .directoryNotEmpty, .versionNoLongerAvailable, .pageExpired,
        .anchorExpired, .unsupported("x"), .busy, .throttled(retryAfter: nil), .throttled(retryAfter: .seconds(3)),
        .timedOut, .cancelled, .failed("x", nil),
    ]

    private static func expected(_ error: ProviderError) -> Int32 {
        switch error {
        case .serverUnreachable, .throttled: EHOSTUNREACH
        case .notAuthenticated: ENOKEY
        case .insufficientQuota: EDQUOT
        case .notPermitted: EPERM
        case .noSuchItem: ENOENT
        case .filenameCollision: EEXIST
        case .conflict, .versionNoLongerAvailable, .pageExpired, .anchorExpired: ESTALE
        case .directoryNotEmpty: ENOTEMPTY
        case .unsupported: EOPNOTSUPP
        case .busy: EBUSY
        case .timedOut: ETIMEDOUT
        case .cancelled: EINTR
        case .failed: EIO
        }
    }

    @Test(arguments: all) func `each error has its errno and a line`(error: ProviderError) {
        #expect(error.errno.rawValue == Self.expected(error))
        #expect(!error.description.isEmpty && !error.description.contains("\n"))
    }

    @Test func `a failure's own errno wins`() {
        #expect(ProviderError.failed("x", .noSpace).errno == .noSpace)
    }

    @Test func `only what concerns the whole account parks it`() {
        #expect(
            Self.all.filter(\.parksAccount) == [.serverUnreachable("x"), .notAuthenticated("x")]
        )
    }
}
