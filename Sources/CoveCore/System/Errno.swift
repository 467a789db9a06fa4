internal import Glibc

/// An errno value as a Swift error.
public struct Errno: Error, RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// The C value, positive.
    public let rawValue: Int32

    /// Wraps a C value.
    @inlinable
    public init(rawValue: Int32) { self.rawValue = rawValue }

    /// Wraps a C value.
    @inlinable
    public init(_ rawValue: Int32) { self.rawValue = rawValue }

    /// The calling thread's last error.
    public static var current: Errno { Errno(Glibc.errno) }

    /// The C library's words for the value.
    public var description: String { String(cString: strerror(rawValue)) }
}

extension Errno {
    /// EPERM.
    public static let notPermitted = Errno(EPERM)
    /// ENOENT.
    public static let noSuchEntry = Errno(ENOENT)
    /// EINTR.
    public static let interrupted = Errno(EINTR)
    /// EIO.
    public static let inputOutput = Errno(EIO)
    /// ENXIO.
    public static let noSuchDeviceOrAddress = Errno(ENXIO)
    /// EBADF.
    public static let badDescriptor = Errno(EBADF)
    /// EAGAIN.
    public static let wouldBlock = Errno(EAGAIN)
    /// EACCES.
    public static let accessDenied = Errno(EACCES)
    /// EBUSY.
    public static let busy = Errno(EBUSY)
    /// EEXIST.
    public static let exists = Errno(EEXIST)
    /// EXDEV.
    public static let crossDevice = Errno(EXDEV)
    /// ENOTDIR.
    public static let notDirectory = Errno(ENOTDIR)
    /// EISDIR.
    public static let isDirectory = Errno(EISDIR)
    /// EINVAL.
    public static let invalidArgument = Errno(EINVAL)
    /// EFBIG.
    public static let fileTooLarge = Errno(EFBIG)
    /// ENOSPC.
    public static let noSpace = Errno(ENOSPC)
    /// EROFS.
    public static let readOnly = Errno(EROFS)
    /// EMLINK.
    public static let tooManyLinks = Errno(EMLINK)
    /// ENOTTY.
    public static let noSuchControl = Errno(ENOTTY)
    /// ERANGE.
    public static let range = Errno(ERANGE)
    /// EDEADLK.
    public static let deadlock = Errno(EDEADLK)
    /// ENAMETOOLONG.
    public static let nameTooLong = Errno(ENAMETOOLONG)
    /// ENOSYS.
    public static let notImplemented = Errno(ENOSYS)
    /// ENOTEMPTY.
    public static let notEmpty = Errno(ENOTEMPTY)
    /// ENODATA.
    public static let noData = Errno(ENODATA)
    /// E2BIG.
    public static let argumentListTooLong = Errno(E2BIG)
    /// EOPNOTSUPP.
    public static let notSupported = Errno(EOPNOTSUPP)
    /// ETIMEDOUT.
    public static let timedOut = Errno(ETIMEDOUT)
    /// ENOTCONN.
    public static let notConnected = Errno(ENOTCONN)
    /// ECONNRESET.
    public static let connectionReset = Errno(ECONNRESET)
    /// EHOSTUNREACH.
    public static let hostUnreachable = Errno(EHOSTUNREACH)
    /// ESTALE.
    public static let stale = Errno(ESTALE)
    /// EDQUOT.
    public static let quotaExceeded = Errno(EDQUOT)
    /// ECANCELED.
    public static let cancelled = Errno(ECANCELED)
    /// ENOKEY.
    public static let keyRejected = Errno(ENOKEY)
}
