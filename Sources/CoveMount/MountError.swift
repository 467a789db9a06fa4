/// Why a mount could not be made or ended, in one line: what happened; what to do.
public struct MountError: Error, Sendable, CustomStringConvertible {
    /// The kinds a caller may want to tell apart.
    public enum Code: Sendable, Hashable {
        /// The mount point does not exist.
        case missing
        /// The mount point is no directory.
        case notDirectory
        /// The mount point holds files.
        case notEmpty
        /// Another file system is mounted there.
        case occupied
        /// A mount whose daemon has died is there.
        case dead
        /// The source lies in the mount, or the mount in the source.
        case overlapsSource
        /// libfuse or the kernel does not know an option.
        case badOption
        /// The mount point may not be used by this user.
        case notPermitted
        /// Anything else that a system call reported.
        case system
    }

    /// The kind.
    public let code: Code
    /// What happened; what to do.
    public let description: String

    /// Makes an error from its kind and its line.
    public init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }
}
