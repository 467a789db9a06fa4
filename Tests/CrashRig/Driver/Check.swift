import CoveCore
import CoveEngine
import CoveTestSupport
import Foundation

/// Starts again after a kill, and compares what is there with what was acknowledged.
struct Check: Sendable {
    let root: String
    let chapter: Chapter

    /// What does not hold, one line each.
    func run() async throws -> [String] {
        guard let log = try StepLog.read("\(root)/steps") else { return ["the steps never began"] }
        StopPoint.arm()
        var model = Model()
        for step in chapter.before + chapter.steps.prefix(log.done) { model.apply(step) }
        var candidates = log.isCutOff ? model.outcomes(of: chapter.steps[log.done]) : [model]
        // A start forgets that sending was held back: one that was killed too may have taken in what was on the other side.
        // A pause holds back what is sent; a look at the source that failed is taken up again in it, and brings what is new.
        candidates = candidates.flatMap { candidate in
            let resumed = candidate.after(.resume)
            if log.isStarted { return [resumed] }
            return candidate.remoteContents.isEmpty ? [candidate] : [candidate, resumed]
        }
        let attributes = Set((chapter.before + chapter.steps).compactMap { $0.attribute })

        let account = try Account(root: root)
        let found = try Snapshot(account.tree, onlyLocal: true, attributes: attributes)
        let (likely, problems) = best(candidates, found, isFinal: false)
        try StepLog(path: "\(root)/steps").write("started")
        account.start()
        try await account.settle()
        var all = problems.map { "after the start: \($0)" }
        let settled = try await final(account, attributes)
        all += best(likely, settled.tree, isFinal: true).problems.map { "at the end: \($0)" }
        all += settled.tree.differences(from: settled.source).map { "at the end: \($0)" }
        await account.stop()
        return all + (try await again(attributes))
    }

    /// Another start finds nothing to do.
    private func again(_ attributes: Set<String>) async throws -> [String] {
        let account = try Account(root: root)
        account.start()
        try await account.settle()
        let statistics = account.engine.statistics()
        let settled = try await final(account, attributes)
        await account.stop()
        var problems = settled.tree.differences(from: settled.source)
        let counts = [
            ("uploads", statistics.contentUpdates), ("moves", statistics.moves), ("deletions", statistics.deletions),
            ("downloads", statistics.downloadsStarted), ("conflicts", 0),
        ]
        for (name, count) in counts where count > 0 { problems.append("\(count) \(name)") }
        return problems.map { "at the next start: \($0)" }
    }

    private func final(_ account: Account, _ attributes: Set<String>) async throws -> (tree: Snapshot, source: Snapshot)
    {
        // Listing a new directory may show more of them.
        let tree = try Snapshot(account.tree, onlyLocal: false, attributes: attributes)
        try await account.settle()
        return (tree, try Snapshot(folder: account.source, attributes: attributes))
    }

    /// The candidates that a tree agrees with; where there is none, all of them and what is wrong with the nearest.
    private func best(_ candidates: [Model], _ tree: Snapshot, isFinal: Bool) -> (models: [Model], problems: [String]) {
        let rated = candidates.map { ($0, $0.differences(from: tree, isFinal: isFinal)) }
        let matching = rated.filter(\.1.isEmpty).map(\.0)
        if !matching.isEmpty { return (matching, []) }
        return (candidates, rated.min { $0.1.count < $1.1.count }?.1 ?? [])
    }
}

extension Step {
    /// The extended attribute that it sets.
    fileprivate var attribute: String? {
        if case .setAttribute(_, let name, _) = self { return name }
        return nil
    }
}
