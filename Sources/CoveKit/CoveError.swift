internal import CoveCore
public import Foundation
internal import Glibc

/// Why something CoveKit was asked for did not happen.
public struct CoveError: Error, Sendable, CustomStringConvertible {
    /// An errno value; those that CoveKit itself gives have names.
    public struct Code: RawRepresentable, Hashable, Sendable {
        /// The C value.
        public let rawValue: Int32
        /// Takes a C value.
        public init(rawValue: Int32) { self.rawValue = rawValue }
    }

    /// What kind of failure it is.
    public var code: Code
    /// What happened, in words.
    public var message: String
    /// The item concerned, where there is one.
    public var url: URL?
    /// The error this one was made of, such as that of an accessor.
    public var cause: (any Error)?

    /// Makes an error; without a message the C library's words are taken.
    public init(_ code: Code, _ message: String? = nil, url: URL? = nil, cause: (any Error)? = nil) {
        self.code = code
        self.message = message ?? Errno(code.rawValue).description
        self.url = url
        self.cause = cause
    }

    /// One line for a person.
    public var description: String { url.map { "\($0.path): \(message)" } ?? message }
}

extension CoveError.Code {
    /// `cancel()` was called, or the waiting task was cancelled; ECANCELED.
    public static let cancelled = Self(rawValue: ECANCELED)
    /// Claims wait for each other in a circle; EDEADLK.
    public static let deadlock = Self(rawValue: EDEADLK)
    /// A presenter, a provider or a claim took too long; ETIMEDOUT.
    public static let timedOut = Self(rawValue: ETIMEDOUT)
    /// A call that can't be meant; EINVAL.
    public static let invalidArgument = Self(rawValue: EINVAL)
    /// ENOENT.
    public static let noSuchFile = Self(rawValue: ENOENT)
    /// EEXIST.
    public static let fileExists = Self(rawValue: EEXIST)
    /// EACCES.
    public static let accessDenied = Self(rawValue: EACCES)
    /// EROFS.
    public static let readOnly = Self(rawValue: EROFS)
    /// ENOSPC.
    public static let noSpace = Self(rawValue: ENOSPC)
    /// EBUSY.
    public static let busy = Self(rawValue: EBUSY)
    /// ENOTSUP.
    public static let notSupported = Self(rawValue: EOPNOTSUPP)
    /// The source can't be reached; EHOSTUNREACH.
    public static let unreachable = Self(rawValue: EHOSTUNREACH)
    /// The account's daemon is not there; ENOTCONN.
    public static let noDaemon = Self(rawValue: ENOTCONN)
    /// Others changed the file meanwhile, or got the claim of a process that did not answer; ESTALE.
    public static let stale = Self(rawValue: ESTALE)
    /// What is no errno at all; EIO.
    public static let other = Self(rawValue: EIO)
}

extension CoveError {
    /// Takes any error as one of these; what is one already stays as it is.
    public init(_ error: any Error, url: URL? = nil) {
        switch error {
        case let error as CoveError: self = error
        case let error as Errno: self.init(Code(rawValue: error.rawValue), url: url, cause: error)
        case let error as ClaimFailure:
            self.init(Code(rawValue: error.errno.rawValue), error.message, url: url)
        case let error as POSIXError: self.init(Code(rawValue: error.code.rawValue), url: url, cause: error)
        case is CancellationError: self.init(.cancelled, url: url, cause: error)
        case let error as CocoaError:
            self.init(Self.code(of: error), error.localizedDescription, url: url, cause: error)
        default: self.init(.other, "\(error)", url: url, cause: error)
        }
    }

    /// What a program that was written for Cocoa expects in its place: 516 where something is there already, 260 where
    /// nothing is, and so on.
    public var cocoaError: CocoaError {
        let code: CocoaError.Code =
            switch code {
            case .noSuchFile: .fileReadNoSuchFile
            case .fileExists: .fileWriteFileExists
            case .accessDenied: .fileWriteNoPermission
            case .noSpace: .fileWriteOutOfSpace
            case .readOnly: .fileWriteVolumeReadOnly
            case .cancelled: .userCancelled
            case .notSupported: .featureUnsupported
            case .unreachable: .ubiquitousFileUbiquityServerNotAvailable
            default: .fileWriteUnknown
            }
        return CocoaError(code, userInfo: [NSLocalizedDescriptionKey: message, NSUnderlyingErrorKey: self])
    }

    private static func code(of error: CocoaError) -> Code {
        if let underlying = error.underlying as? POSIXError { return Code(rawValue: underlying.code.rawValue) }
        return switch error.code {
        case .fileNoSuchFile, .fileReadNoSuchFile: .noSuchFile
        case .fileReadNoPermission, .fileWriteNoPermission: .accessDenied
        case .fileWriteFileExists: .fileExists
        case .fileWriteOutOfSpace: .noSpace
        case .fileWriteVolumeReadOnly: .readOnly
        case .userCancelled: .cancelled
        case .featureUnsupported: .notSupported
        default: .other
        }
    }

    init(_ failure: VarlinkClient.Failure, url: URL?) {
        switch failure {
        case .error(let error):
            self.init(Code(rawValue: error.errno?.rawValue ?? EIO), error.description, url: url, cause: error)
        case .connection, .stranger: self.init(.noDaemon, failure.description, url: url, cause: failure)
        case .timedOut: self.init(.timedOut, failure.description, url: url, cause: failure)
        case .interrupted: self.init(.cancelled, url: url)
        case .protocolViolation: self.init(.other, failure.description, url: url, cause: failure)
        }
    }
}

/// Does what may fail in any way, and gives every failure the one type.
func explaining<Value>(_ url: URL? = nil, _ body: () throws -> Value) throws(CoveError) -> Value {
    do { return try body() } catch { throw CoveError(error, url: url) }
}
