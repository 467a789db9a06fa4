import CoveCore
import Foundation

/// Compares what is there after the power came back with what may be there.
struct Check {
    let history: History
    private(set) var violations: [String] = []
    private var tree: [String: [UInt64]] = [:]
    private var found: [Int: [(path: String, words: [UInt64])]] = [:]

    /// Reads the log of a workload.
    init(log: String) throws {
        var history = History(source: Workload.source)
        var pending: Step?
        for line in try String(contentsOfFile: log, encoding: .utf8).split(separator: "\n") {
            let words = line.split(separator: " ")
            if words[0] == "end" {
                if let step = pending { history.take(step, isAcknowledged: true) }
                pending = nil
            } else {
                pending = Step(Array(words.dropFirst()))
            }
        }
        if let step = pending { history.take(step, isAcknowledged: false) }
        self.history = history
    }

    private static func isConflict(_ path: String) -> Bool { path.contains("(conflict from") }

    /// `tree` and `source`: all files with their bytes, after everything was sent and taken in.
    mutating func compare(tree: [String: [UInt8]], source: [String: [UInt8]]) {
        if tree != source {
            violations.append("tree \(tree.mapValues(\.count)) and source \(source.mapValues(\.count)) differ")
        }
        for (path, bytes) in tree.sorted(by: { $0.key < $1.key }) { identify(path, bytes) }
        for file in history.states.keys.sorted() {
            checkSynced(file)
            checkBase(file)
        }
        for (path, words) in self.tree where !Check.isConflict(path) { checkWhole(path, words) }
        guard !violations.isEmpty else { return }
        for (path, words) in self.tree {
            let zeros = words.indices.filter { words[$0] == 0 }
            let empty = zeros.first.map { ", \(zeros.count) zero, from \($0) to \(zeros.last ?? $0)" } ?? ""
            violations.append(
                "(there is \(path): \(words.count) words of \(words.first.flatMap { Word.file($0) } ?? 0)\(empty))"
            )
        }
    }

    /// Every word was written to this very file at this very place.
    private mutating func identify(_ path: String, _ bytes: [UInt8]) {
        guard let words = Word.words(bytes) else {
            violations.append("\(path): \(bytes.count) bytes are no whole words")
            return
        }
        tree[path] = words
        guard let first = words.first(where: { $0 != 0 }) else {
            guard !words.isEmpty else { return }
            // A file that was cut and grown is nothing but zeros.
            let owners = history.states.filter { $0.value.contains { $0.path == path && $0.words == words } }.keys
            for file in owners { found[file, default: []].append((path, words)) }
            if owners.isEmpty, !mayBeZeros(path) { violations.append("\(path): \(words.count) words, all zero") }
            return
        }
        guard let file = Word.file(first), let states = history.states[file] else {
            violations.append("\(path): holds what no step wrote")
            return
        }
        for (index, word) in words.enumerated() {
            let isKnown =
                word == 0
                ? states.contains { index < $0.words.count && $0.words[index] == 0 } || mayLack(file, index, path)
                : Word.file(word) == file
                    && history.writes[file]?.contains { $0.step == Word.step(word) && $0.range.contains(index) } == true
            if !isKnown {
                violations.append("\(path): word \(index) of file \(file) is \(String(word, radix: 16))")
                break
            }
        }
        found[file, default: []].append((path, words))
    }

    /// Where a disk has the size of a file but not its bytes there are zeros: in what replaces nothing, and never was synced.
    private func mayLack(_ file: Int, _ index: Int, _ path: String) -> Bool {
        let synced = history.synced[file]
        // What was cut since is no longer the synced one.
        let safe = synced.flatMap { step in history.states[file]?[step...].map(\.words.count).min() } ?? 0
        guard index >= safe else { return false }
        guard let settled = history.settled[file], !Check.isConflict(path) else { return true }
        return synced ?? 0 > settled.first ?? 0
    }

    private func mayBeZeros(_ path: String) -> Bool {
        Check.isConflict(path)
            || history.states.keys.contains { history.settled[$0] == nil && history.names(of: $0).contains(path) }
    }

    /// What was synced is there: exactly, or under what was written later.
    private mutating func checkSynced(_ file: Int) {
        guard let step = history.synced[file], let states = history.states[file] else { return }
        let names = history.names(of: file)
        guard !names.contains(nil) else { return }
        let since = states[step...]
        let synced = states[step].words
        // What was emptied since has nothing to lose.
        guard !since.contains(where: \.words.isEmpty) else { return }
        let tree = tree
        let candidates = (found[file] ?? []) + tree.filter { $0.value.isEmpty }.map { ($0.key, $0.value) }
        let isThere = candidates.contains { path, words in
            // Its name may be another's by now: of an upload whose answer got lost.
            let isTaken = names.contains { name in
                name.flatMap { tree[$0] }.map { !$0.contains { Word.file($0) == file } } ?? false
            }
            let isExact = since.allSatisfy { $0.words == synced }
            guard names.contains(path) || isTaken || Check.isConflict(path) && !isExact else { return false }
            if isExact { return words == synced }
            let sizes = since.map(\.words.count)
            guard words.count >= sizes.min() ?? 0, words.count <= sizes.max() ?? 0 else { return false }
            return words.enumerated().allSatisfy { index, word in
                index < synced.count && word == synced[index] || Word.file(word) == file && Word.step(word) > step
                    || word == 0
                        && (index >= synced.count || isCleared(index, sizes)
                            || since.contains { index < $0.words.count && $0.words[index] == 0 })
            }
        }
        if !isThere { violations.append("file \(file), synced in step \(step), is not there: \(names)") }
    }

    /// True behind an end that a file was cut to: the disk clears the rest of that block, which may become durable before
    /// the new size does.
    private func isCleared(_ index: Int, _ sizes: [Int]) -> Bool {
        let block = 4096 / 8
        return sizes.contains { $0 <= index && index < ($0 + block - 1) / block * block }
    }

    /// What the provider had is there under its name, in some version.
    private mutating func checkBase(_ file: Int) {
        guard history.settled[file] != nil else { return }
        let names = history.names(of: file)
        guard !names.contains(nil) else { return }
        let isThere = names.contains { name in
            guard let name, let words = tree[name] else { return false }
            return words.isEmpty || found[file]?.contains { $0.path == name } == true
        }
        if !isThere { violations.append("file \(file), which the source had, is not there: \(names)") }
    }

    /// What the provider had is only replaced by a whole later version, or by what was synced since.
    private mutating func checkWhole(_ path: String, _ words: [UInt64]) {
        if words.isEmpty {
            let mayBe = history.states.contains { file, states in
                let isReplaceable = history.settled[file] == nil || states.contains { $0.words.isEmpty }
                return isReplaceable && history.names(of: file).contains(path)
            }
            if !mayBe { violations.append("\(path): was emptied") }
            return
        }
        guard let file = words.lazy.compactMap({ Word.file($0) }).first, let states = history.states[file],
            let settled = history.settled[file]?.first, (history.synced[file] ?? 0) <= settled
        else { return }
        if !states.contains(where: { $0.words == words }) {
            violations.append("\(path): a version of file \(file) that never was replaced one that the source had")
        }
    }
}
