import CoveCore
import CoveTestSupport
import Foundation

/// A query of a device that goes on through a storm, over the deaths of its daemons: at each pause it knows what a walk finds.
///
/// Its command is asked by one thread alone, that of the storm.
final class StormQuery: @unchecked Sendable {
    private let command: Command
    private let device: Int

    /// Begins to follow all that is in a device's mount.
    init(_ account: MountedAccount, device: Int) throws {
        self.device = device
        command = try account.start(
            "exec $COVE query TRUEPREDICATE $mnt --follow --json --interval 0 --attributes FSSize,FSContentChangeDate,Kind"
        )
    }

    deinit { command.signal(SIGKILL) }

    /// What it has told is there, by the results' ids: a path may be another item's by the time one is told to have left it.
    private func told() throws -> [String: StormTree.Facts] {
        var results: [Int64: (path: String, facts: StormTree.Facts)] = [:]
        // The last line may not be there as a whole.
        for line in command.output.split(separator: "\n", omittingEmptySubsequences: false).dropLast() {
            let event = try JSONValue(parsing: Array(line.utf8))
            guard case .string(let kind) = event["event"], case .string(let path) = event["path"],
                case .integer(let id) = event["id"]
            else { continue }
            guard kind != "removed" else {
                results[id] = nil
                continue
            }
            guard let values = event["values"] else { throw CommandFailure("no values in \(line)") }
            results[id] = (path, StormTree.Facts(values))
        }
        return Dictionary(results.values.map { ($0.path, $0.facts) }, uniquingKeysWith: { first, _ in first })
    }

    private static func lines(_ facts: [String: StormTree.Facts], but others: [String: StormTree.Facts]) -> [String] {
        facts.filter { others[$0.key] != $0.value }.map { "\($0.key) (\($0.value))" }.sorted()
    }

    /// What it tells that is not so, where no program changes anything any more; nil once it tells what a walk finds.
    func problem(in tree: StormTree, deadline: TimeSpan) throws -> String? {
        let end = System.monotonic() + deadline
        while true {
            let told = try told()
            let walk = Result { () throws(Errno) in try tree.facts() }
            if told == (try? walk.get()) { return nil }
            if command.hasEnded(within: 0.1) { return "device \(device): the query has ended: \(command.error)" }
            guard System.monotonic() > end else { continue }
            let there: [String: StormTree.Facts]
            do { there = try walk.get() } catch {
                return "device \(device): what is there can't be told: \(error), the query has \(told.count) results"
            }
            let (missing, wrong) = (Self.lines(there, but: told), Self.lines(told, but: there))
            return "device \(device): the query misses \(missing.prefix(5)) and has \(wrong.prefix(5))"
        }
    }
}
