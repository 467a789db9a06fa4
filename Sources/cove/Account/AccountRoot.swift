internal import CoveCore
internal import Glibc

/// The root of an account's mount, held open: whatever is mounted over it or unmounted from then on, it stays the account's.
final class AccountRoot: Sendable {
    let descriptor: Int32
    /// Where what is in it is found.
    var path: [UInt8] { Array("/proc/self/fd/\(descriptor)".utf8) }

    /// Opens it; fails where something else is mounted there, or nothing.
    init(_ connection: AccountConnection, _ status: AccountStatus) throws(Failure) {
        let mount = status.mountpoint
        descriptor = try Failure.explaining(mount, remedy: "mount the account again") { () throws(Errno) in
            try System.open(mount, O_RDONLY | O_DIRECTORY)
        }
        let name = try? System.attribute(descriptor, Array("user.cove.account".utf8))
        let socket = try? System.attribute(descriptor, Array("user.cove.socket".utf8))
        guard name == Array(status.account.utf8), socket != nil,
            socket == connection.socketPath.map({ Array($0.utf8) })
        else {
            throw Failure(mount, "it does not show the account here", "run this where the account is mounted")
        }
    }

    deinit { System.close(descriptor) }
}
