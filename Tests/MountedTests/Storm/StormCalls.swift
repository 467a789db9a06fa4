import CoveCore
import CoveTestSupport
import Foundation
import Synchronization

/// The calls of all programs of a storm: which run, and which failed as no call may.
final class StormCalls: Sendable {
    /// A call on the cloud's bytes fails after 30 s without progress; the rest is for a busy machine.
    private static let limit = TimeSpan.seconds(90)

    private struct State {
        var last = 0
        var running: [Int: (what: String, since: MonotonicTime, tree: StormTree)] = [:]
        var failures: [String: Int] = [:]
        var wrong: [String] = []
        var staleNames: [String] = []
        var hung: [String] = []
        var longest = (time: TimeSpan.zero, what: "")
        var isOver = false
    }

    private let state = Mutex(State())
    private let ledger: StormLedger

    init(_ ledger: StormLedger) { self.ledger = ledger }

    /// What programs may be told of names, whatever others do meanwhile.
    private static let usual: Set<Errno> = [
        .noSuchEntry, .exists, .notEmpty, .notDirectory, .isDirectory, .invalidArgument,
    ]
    /// What they may be told of what they have open: its bytes are gone, or it was opened as a file and is a folder.
    private static let usualOfHandles: Set<Errno> = [.stale, .isDirectory]
    /// What they may be told while the source can't be reached, or answers what it should not.
    private static let ofFaults: Set<Errno> = [
        .hostUnreachable, .timedOut, .connectionReset, .keyRejected, .quotaExceeded, .busy, .inputOutput,
    ]

    /// Carries out one call of a program; by name it may never be told ESTALE.
    func call<R>(_ name: String, _ path: String, _ tree: StormTree, byName: Bool, _ body: () throws(Errno) -> R)
        throws(Errno) -> R
    {
        let start = System.monotonic()
        let number = state.withLock { state in
            state.last += 1
            state.running[state.last] = ("\(name) \(path) on device \(tree.device)", start, tree)
            return state.last
        }
        defer { end(number, start) }
        do {
            return try body()
        } catch {
            if !tree.isDead { failed("\(name) \(path) on device \(tree.device)", name, error, tree, byName: byName) }
            throw error
        }
    }

    private func end(_ number: Int, _ start: MonotonicTime) {
        let time = System.monotonic() - start
        state.withLock { state in
            guard let call = state.running.removeValue(forKey: number), time > state.longest.time else { return }
            state.longest = (time, call.what)
        }
    }

    private func failed(_ call: String, _ name: String, _ error: Errno, _ tree: StormTree, byName: Bool) {
        let isUsual = (byName ? Self.usual : Self.usualOfHandles).contains(error)
        let isExpected = isUsual || tree.mayBeCutOff && Self.ofFaults.contains(error)
        if !isExpected { ledger.note("\(call): \(error)") }
        state.withLock { state in
            state.failures["\(name): \(error)", default: 0] += 1
            if error == .stale, byName { state.staleNames.append(call) }
            if !isExpected, error != .stale { state.wrong.append("\(call): \(error)") }
        }
    }

    /// Looks at what runs until the storm is over, and ends what runs too long with its whole mount.
    func watch() {
        while state.withLock({ !$0.isOver }) {
            let now = System.monotonic()
            let hung = state.withLock { state in
                let hung = state.running.filter { now - $0.value.since > Self.limit && !$0.value.tree.isDead }
                state.hung += hung.values.map(\.what)
                return hung.values.map(\.tree)
            }
            for tree in hung { tree.abort() }
            _ = poll(nil, 0, 100)
        }
    }

    /// Ends the watch.
    func end() { state.withLock { $0.isOver = true } }

    /// True once a call hung: its mount is gone.
    var hasHung: Bool { state.withLock { !$0.hung.isEmpty } }

    /// What was wrong.
    var problems: [String] {
        state.withLock { state in
            state.hung.map { "hung: \($0)" } + state.staleNames.map { "ESTALE: \($0)" }
                + state.wrong.map { "unexpected: \($0)" }
        }
    }

    /// How many calls there were, and how many failed with what.
    var summary: String {
        state.withLock { state in
            let failures = state.failures.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }
            return "\(state.last) calls, \(state.staleNames.count) by name told ESTALE, the longest "
                + "\(state.longest.time.milliseconds) ms (\(state.longest.what)); \(failures.joined(separator: ", "))"
        }
    }
}
