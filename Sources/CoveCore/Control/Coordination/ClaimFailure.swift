/// Why a claim was not granted.
public struct ClaimFailure: Error, Equatable, Sendable {
    /// `ECANCELED`, `EDEADLK`, `ETIMEDOUT`, a presenter's or the source's.
    public var errno: Errno
    /// A presenter's own words, or what to do.
    public var message: String?
    /// The item it is about.
    public var path: RemotePath?

    /// Makes a failure.
    public init(_ errno: Errno, _ message: String? = nil, path: RemotePath? = nil) {
        self.errno = errno
        self.message = message
        self.path = path
    }
}
