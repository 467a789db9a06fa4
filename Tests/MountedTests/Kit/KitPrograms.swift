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

    /// The claims that wait for others, or are in another state.
    func waitingClaims(_ state: String = "waiting") throws -> Int {
        let client = try VarlinkClient(DaemonAddress(socket: scratch.appending("state/coordination/socket")))
        let list: CoordinationInterface.ListReply = try client.call("\(CoordinationInterface.name).List")
        return list.claims.filter { $0.state == state }.count
    }

    /// Waits until so many claims wait, or are in another state.
    func waitForClaims(_ count: Int, _ state: String = "waiting") throws {
        try waitUntil("\(count) claims are \(state)") { try waitingClaims(state) == count }
    }
}
