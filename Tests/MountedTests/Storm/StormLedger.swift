import CoveCore
import Foundation
import Synchronization

/// What the programs of a storm wrote and did away with, and what was wrong with what they read.
final class StormLedger: Sendable {
    private struct State {
        var written: [StormRecord: String] = [:]
        /// How many programs have done away with a record: one of them that takes it back speaks for itself alone.
        var given: [StormRecord: Int] = [:]
        var unfinished: Set<StormRecord> = []
        var unseen = 0
        var reads = 0
        var torn: [String] = []
        var counts: [String: Int] = [:]
        var steps: [(time: MonotonicTime, step: String)] = []
    }

    private let state = Mutex(State())
    private let start = System.monotonic()

    /// Notes a record whose file was closed: it may go only where a program saw it and did away with it.
    func wrote(_ record: StormRecord, _ how: String) {
        note("\(record.name) written: \(how)")
        state.withLock { $0.written[record] = how }
    }

    /// Notes a record whose program was told that writing it failed: a part of it may be there.
    func leftUnfinished(_ record: StormRecord) {
        note("\(record.name) unfinished")
        _ = state.withLock { $0.unfinished.insert(record) }
    }

    /// Notes records that a program has seen and is about to do away with.
    func gaveUp(_ records: [StormRecord], _ how: String) {
        note("\(records.map(\.name).joined(separator: " ")) given up: \(how)")
        state.withLock { state in for record in Set(records) { state.given[record, default: 0] += 1 } }
    }

    /// Takes that back: the call failed and did nothing.
    func tookBack(_ records: [StormRecord]) {
        note("\(records.map(\.name).joined(separator: " ")) not given up after all")
        state.withLock { state in
            for record in Set(records) {
                let count = state.given[record, default: 0] - 1
                state.given[record] = count > 0 ? count : nil
            }
        }
    }

    /// Notes that something came to a name between a program's look at it and its call, which took it away unseen.
    func tookUnseen(_ how: String) {
        note("took away unseen: \(how)")
        state.withLock { $0.unseen += 1 }
    }

    /// The records of bytes that a program read as a file's; notes where they are not what somebody wrote as a whole.
    @discardableResult
    func read(_ bytes: [UInt8], _ where: String) -> StormRecord.Contents {
        let contents = StormRecord.parse(bytes)
        let isTorn = contents.garbage != nil && !mayBeBroken(contents)
        if isTorn { note("torn: \(`where`): \(contents.garbage ?? "")") }
        state.withLock { state in
            state.reads += 1
            if isTorn { state.torn.append("\(`where`): \(contents.garbage ?? "")") }
        }
        return contents
    }

    /// A program that was told of no good end may have left a part of its record, or of the head of it.
    private func mayBeBroken(_ contents: StormRecord.Contents) -> Bool {
        state.withLock { state in
            guard let broken = contents.broken else { return !state.unfinished.isEmpty }
            let before = contents.records.map(\.record)
            return state.unfinished.contains(broken) || before.contains { state.unfinished.contains($0) }
        }
    }

    /// Notes a step, for a storm that fails.
    func note(_ step: String) {
        state.withLock { $0.steps.append((System.monotonic(), step)) }
    }

    /// Counts what was done.
    func count(_ what: String) { state.withLock { $0.counts[what, default: 0] += 1 } }

    /// How often something was done.
    func count(of what: String) -> Int { state.withLock { $0.counts[what] ?? 0 } }

    /// Everything counted, in one line.
    var summary: String {
        state.withLock { state in
            let counts = state.counts.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }
            return "\(state.written.count) written, \(state.given.count) given up, \(state.reads) reads, "
                + "\(state.unseen) taken unseen; \(counts.joined(separator: ", "))"
        }
    }

    /// How many records were written.
    var writes: Int { state.withLock { $0.written.count } }

    /// How often a program took away what it had not seen.
    var unseen: Int { state.withLock { $0.unseen } }

    /// The reads that gave what nobody wrote as a whole.
    var torn: [String] { state.withLock { $0.torn } }

    /// The records that must be somewhere and are not among those found, with what became of them.
    func lost(_ found: Set<StormRecord>) -> [(record: StormRecord, history: String)] {
        state.withLock { state in
            let lost = state.written.keys.filter { state.given[$0] == nil && !found.contains($0) }
            return lost.sorted { ($0.device, $0.number) < ($1.device, $1.number) }.map { record in
                (record, lines(state, about: record.name).joined(separator: "; "))
            }
        }
    }

    /// All steps, a line each.
    var history: String { steps(with: "").joined(separator: "\n") }

    /// The steps in which a text occurs, with the time since the beginning.
    func steps(with text: String) -> [String] { state.withLock { lines($0, about: text) } }

    private func lines(_ state: State, about text: String) -> [String] {
        state.steps.filter { text.isEmpty || $0.step.contains(text) }.map {
            "\(($0.time - start).seconds) \($0.step)"
        }
    }
}
