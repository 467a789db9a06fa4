import CoveCore
import CoveTestSupport
import Foundation
import Synchronization

@testable import CoveEngine

/// Follows a query and keeps what its updates make of the results, as a program would.
final class LiveWatch: Sendable {
    struct State {
        var results: [Int64: QueryResult] = [:]
        /// What was told, in order: `found`, `gathered`, and `+`, `~` and `-` with the path.
        var told: [String] = []
        var updates = 0
        var faults: [String] = []
        var ended: Result<Void, Errno>?
        var isInPart = false

        var paths: [String] { results.values.map { "\($0.path)" }.sorted() }
    }

    let request: QueryRequest
    private let state = Mutex(State())
    private let news = DispatchSemaphore(value: 0)
    private let task = Mutex<Task<Void, Never>?>(nil)

    init(_ engine: Engine, _ request: QueryRequest, interval: TimeSpan = .zero) {
        self.request = request
        task.withLock {
            $0 = Task { [self] in
                let result: Result<Void, Errno>
                do throws(Errno) {
                    try await engine.follow(request, interval: interval) { event in
                        state.withLock { take(event, &$0) }
                        news.signal()
                        return true
                    }
                    result = .success(())
                } catch {
                    result = .failure(error)
                }
                state.withLock { $0.ended = result }
                news.signal()
            }
        }
    }

    /// Waits until something is told, or for a moment in which the engine may have changed without that.
    private func awaitNews() { _ = news.wait(timeout: .now() + .milliseconds(20)) }

    var now: State { state.withLock { $0 } }

    func stop() async {
        let task = task.withLock { $0 }
        task?.cancel()
        await task?.value
    }

    private func take(_ event: QueryEvent, _ state: inout State) {
        switch event {
        case .found(let results):
            state.told.append("found")
            for result in results {
                if state.results.updateValue(result, forKey: result.id) != nil {
                    state.faults.append("\(result.path) was found twice")
                }
            }
        case .gathered: state.told.append("gathered")
        case .changed(let changes):
            if !state.isInPart { state.updates += 1 }
            state.isInPart = changes.isPart
            if changes.isEmpty { state.faults.append("an empty update") }
            for result in changes.added {
                state.told.append("+\(result.path)")
                if state.results.updateValue(result, forKey: result.id) != nil {
                    state.faults.append("\(result.path) was added twice")
                }
            }
            for result in changes.changed {
                state.told.append("~\(result.path)")
                guard let former = state.results.updateValue(result, forKey: result.id) else {
                    state.faults.append("\(result.path) changed before it was there")
                    continue
                }
                if former == result { state.faults.append("\(result.path) did not change") }
            }
            for id in changes.removed {
                guard let former = state.results.removeValue(forKey: id) else {
                    state.faults.append("\(id) went before it was there")
                    continue
                }
                state.told.append("-\(former.path)")
            }
        }
    }

    /// Waits until what is told holds; says what was there instead when that takes too long.
    func wait(_ holds: @escaping @Sendable (State) -> Bool) throws -> String? {
        let deadline = System.monotonic() + .seconds(20)
        while true {
            let now = now
            if !now.faults.isEmpty { return now.faults.joined(separator: "; ") }
            if holds(now) { return nil }
            if System.monotonic() > deadline { return "\(now.paths), told \(now.told.suffix(20))" }
            awaitNews()
        }
    }

    /// Waits until these are the results.
    func wait(for paths: [String], gathered: Bool = false) throws -> String? {
        try wait { $0.paths == paths && (!gathered || $0.told.contains("gathered")) }
    }

    /// Compares with what the same query finds when it is asked now; says what is different when that does not end.
    func difference(from engine: Engine) async throws -> String? {
        var request = request
        request.listedOnly = true
        let deadline = System.monotonic() + .seconds(20)
        while true {
            let found = Mutex<[QueryResult]>([])
            _ = try await engine.query(request) { results in
                found.withLock { $0 += results }
                return true
            }
            let now = now
            if !now.faults.isEmpty { return "\(request.predicate): \(now.faults.joined(separator: "; "))" }
            let expected = found.withLock { Dictionary(uniqueKeysWithValues: $0.map { ($0.id, $0) }) }
            if now.results == expected { return nil }
            guard System.monotonic() > deadline else {
                awaitNews()
                continue
            }
            let wrong = Set(now.results.keys).union(expected.keys).filter { now.results[$0] != expected[$0] }
            return "\(request.predicate): "
                + wrong.sorted().prefix(5).map { Self.difference(now.results[$0], expected[$0]) }.joined(
                    separator: "; "
                )
        }
    }

    private static func difference(_ told: QueryResult?, _ found: QueryResult?) -> String {
        guard let told else { return "\(found?.path ?? .root) was not told" }
        guard let found else { return "\(told.path) is none any more" }
        var parts = ["\(told.path)"]
        if told.path != found.path { parts.append("is at \(found.path)") }
        if told.item != found.item || told.document != found.document { parts.append("is another") }
        for key in QueryKey.allCases where told.values[key] != found.values[key] {
            func text(_ value: QueryValue?) -> String { value.map { "\($0)" } ?? "nothing" }
            parts.append("\(key): \(text(told.values[key])) was told, is \(text(found.values[key]))")
        }
        return parts.joined(separator: " ")
    }
}
