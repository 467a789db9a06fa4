import CoveCore
import CoveTestSupport
import Foundation

// Programs on CoveKit, each a process of its own.
extension MountedAccount {
    /// The path of something in the mount.
    func path(_ name: String) -> String { "\(mount)/\(name)" }

    /// Starts the driver, which lies beside the tests, with one step for each argument.
    func driver(_ steps: String...) throws -> Command { try Command(Command.built("CoveKitDriver"), steps) }

    /// Makes a fifo that a driver waits at.
    func gate(_ name: String) throws -> Gate { try Gate(scratch.appending(name)) }

    /// The claims that wait for others.
    func waitingClaims() throws -> Int {
        let client = try VarlinkClient(DaemonAddress(socket: scratch.appending("state/coordination/socket")))
        let list: CoordinationInterface.ListReply = try client.call("\(CoordinationInterface.name).List")
        return list.claims.filter { $0.state == "waiting" }.count
    }

    /// Waits until so many claims wait.
    func waitForClaims(_ count: Int) throws {
        try waitUntil("\(count) claims wait") { try waitingClaims() == count }
    }
}
