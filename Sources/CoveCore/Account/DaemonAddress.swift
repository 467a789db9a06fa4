internal import Glibc

/// Where a daemon answers, and as whom: a service of another user there is a stranger.
public struct DaemonAddress: Sendable, Hashable {
    /// The socket's path.
    public var socket: String
    /// The users that the daemon may run as, as this process sees them: the owner of the mount.
    public var owners: Set<UInt32>

    /// Names a socket that one of the users serves.
    public init(socket: String, owners: Set<UInt32>) {
        self.socket = socket
        self.owners = owners
    }

    /// Names a socket that this process's own user serves.
    public init(socket: String) { self.init(socket: socket, owners: [geteuid()]) }

    /// True for the same socket, by the bytes of its path.
    public static func == (left: DaemonAddress, right: DaemonAddress) -> Bool {
        LocalPath.isSame(left.socket, right.socket) && left.owners == right.owners
    }

    /// Takes what `==` compares.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(Array(socket.utf8))
        hasher.combine(owners)
    }
}
