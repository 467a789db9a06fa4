import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// Random use of an account in which names are excluded and included, against a model of names and bytes.
@Suite(.timeLimit(.minutes(10))) struct ExclusionModelTests {
    @Test(arguments: 0..<(Int(ProcessInfo.processInfo.environment["COVE_MODEL_PARTS"] ?? "") ?? 4))
    func `what is written to excluded names is never sent, and nothing is lost`(_ part: Int) async throws {
        let environment = ProcessInfo.processInfo.environment
        let seed = environment["COVE_MODEL_SEED"].flatMap(UInt64.init) ?? UInt64.random(in: 0...UInt64(UInt32.max))
        let steps = environment["COVE_MODEL_STEPS"].flatMap(Int.init) ?? 400
        print("exclusion model part \(part): seed \(seed &+ UInt64(part)), \(steps) steps")
        try await excludingAccount(
            answers: ProviderAnswers(part: part).wrap(seed: seed &+ UInt64(part)),
            configure: { if part % 4 > 0 { $0.settleTime = .milliseconds(30) } }
        ) { account, source, watch in
            var model = ExclusionModel(account, source, watch, seed: seed &+ UInt64(part))
            do { try await model.run(steps: steps) } catch {
                throw ModelFailure(
                    description:
                        "seed \(seed &+ UInt64(part)): \(error)\n\(model.trail.suffix(25).joined(separator: "\n"))"
                )
            }
        }
    }
}

private struct ModelFailure: Error, CustomStringConvertible { let description: String }

private struct ExclusionModel {
    private let account: EngineAccount
    private let source: SourceFolder
    private let watch: SentBytesWatch
    private var random: SeededGenerator
    /// What was done.
    private(set) var trail: [String] = []
    /// The bytes of each file, and the names of each.
    private var bytes: [Int: [UInt8]] = [:]
    private var files: [String: Int] = [:]
    private var folders: Set<String> = []
    /// Names that are excluded themselves.
    private var excluded: Set<String> = []
    /// What is never to be sent.
    private var secrets: Set<String> = []
    private var number = 0

    private static let names = ["a", "b", "c", "t"]

    init(_ account: EngineAccount, _ source: SourceFolder, _ watch: SentBytesWatch, seed: UInt64) {
        (self.account, self.source, self.watch) = (account, source, watch)
        random = SeededGenerator(seed: seed)
    }

    mutating func run(steps: Int) async throws {
        for step in 0..<steps {
            try await act(step)
            if random.oneIn(12) { try await compare() }
        }
        try await compare()
    }

    // MARK: The model

    private func isOut(_ path: String) -> Bool {
        var parts = path.split(separator: "/")
        while !parts.isEmpty {
            if excluded.contains(parts.joined(separator: "/")) { return true }
            parts.removeLast()
        }
        return false
    }

    /// True for what is in an excluded folder.
    private func isInside(_ path: String) -> Bool {
        guard let slash = path.lastIndex(of: "/") else { return false }
        return isOut(String(path[..<slash]))
    }

    private func names(of file: Int) -> [String] { files.filter { $0.value == file }.map(\.key) }

    private mutating func fresh(at path: String) -> [UInt8] {
        number += 1
        let token = "<\(number)>"
        if isOut(path) { secrets.insert(token) }
        return text(token) + [UInt8](repeating: 0x2E, count: Int.random(in: 0..<3000, using: &random))
    }

    /// What a file holds may be sent from now on.
    private mutating func release(_ path: String) {
        guard let file = files[path], let content = bytes[file] else { return }
        let held = String(decoding: content, as: UTF8.self)
        secrets = secrets.filter { !held.contains($0) }
    }

    /// A name goes, with what is excluded below it to where it is then.
    private mutating func relocate(_ from: String, _ to: String) {
        func moved(_ path: String) -> String { path == from ? to : to + path.dropFirst(from.count) }
        for (path, file) in files where path == from || path.hasPrefix(from + "/") {
            files[path] = nil
            files[moved(path)] = file
        }
        for path in folders where path == from || path.hasPrefix(from + "/") {
            folders.remove(path)
            folders.insert(moved(path))
        }
        for path in excluded where path.hasPrefix(from + "/") {
            excluded.remove(path)
            excluded.insert(moved(path))
        }
    }

    private mutating func freshPath() -> String {
        let name = Self.names.randomElement(using: &random) ?? "a"
        guard let folder = folders.sorted().randomElement(using: &random), random.oneIn(2) else { return name }
        return "\(folder)/\(name)"
    }

    private mutating func knownPath() -> String? { files.keys.sorted().randomElement(using: &random) }

    // MARK: Steps

    private mutating func act(_ step: Int) async throws {
        let choice = Int.random(in: 0..<100, using: &random)
        do {
            switch choice {
            case ..<25: try write(freshPath(), step)
            case ..<32: try append(step)
            case ..<47: try rename(step)
            case ..<53: try exchange(step)
            case ..<58: try link(step)
            case ..<64: try unlink(step)
            case ..<68: try folder(step)
            case ..<72: try renameFolder(step)
            case ..<81: try await exclude(step)
            case ..<88: try await include(step)
            case ..<94: try await meddle(step)
            case ..<96: if let path = knownPath() { _ = await account.evict(path) }
            case ..<98:
                trail.append("\(step) die")
                try await account.die()
            default: try await account.settle()
            }
        } catch let error as Errno where error == .crossDevice {
            trail.append("\(step) was another device")
        }
    }

    private mutating func write(_ path: String, _ step: Int) throws {
        if folders.contains(path) { return }
        let content = fresh(at: path)
        trail.append(
            "\(step) write \(path) \(String(decoding: content.prefix(6), as: UTF8.self)) \(isOut(path) ? "out" : "")"
        )
        let isNew = files[path] == nil
        // Half of the new files are saved by a scratch file that takes the name.
        let scratch = (path.lastIndex(of: "/").map { String(path[...$0]) } ?? "") + ".#new"
        if random.oneIn(3) {
            try account.tree.write(scratch, content)
            try account.tree.rename(scratch, path)
            number += 1
            files[path] = number
        } else {
            try account.tree.write(path, content)
            if isNew {
                number += 1
                files[path] = number
            }
        }
        if let file = files[path] { bytes[file] = content }
    }

    private mutating func append(_ step: Int) throws {
        guard let path = knownPath(), let file = files[path] else { return }
        let content = fresh(at: path)
        trail.append(
            "\(step) append \(path) \(String(decoding: content.prefix(6), as: UTF8.self)) \(isOut(path) ? "out" : "")"
        )
        try account.tree.append(path, content)
        bytes[file, default: []] += content
    }

    private mutating func rename(_ step: Int) throws {
        guard let from = knownPath() else { return }
        let to = freshPath()
        guard from != to, !folders.contains(to), files[from] != files[to] || files[to] == nil else { return }
        trail.append("\(step) rename \(from) \(to)")
        try account.tree.rename(from, to)
        files[to] = files.removeValue(forKey: from)
        if excluded.contains(from) || excluded.contains(to) {
            // Its other names have the same bytes.
            if let file = files[to] { excluded.formUnion(names(of: file)) }
        }
        if !isOut(to) { release(to) }
    }

    private mutating func exchange(_ step: Int) throws {
        guard let one = knownPath(), let other = knownPath(), files[one] != files[other] else { return }
        trail.append("\(step) exchange \(one) \(other)")
        try account.tree.exchange(one, other)
        if excluded.contains(one) != excluded.contains(other) {
            excluded.formUnion([one, other])
            for path in [one, other] { if let file = files[path] { excluded.formUnion(names(of: file)) } }
        }
        (files[one], files[other]) = (files[other], files[one])
        for path in [one, other] where !isOut(path) { release(path) }
    }

    private mutating func link(_ step: Int) throws {
        guard let from = knownPath() else { return }
        let to = freshPath()
        guard files[to] == nil, !folders.contains(to) else { return }
        trail.append("\(step) link \(from) \(to)")
        let (parent, name) = try account.tree.split(to)
        _ = try account.engine.link(account.tree.resolve(from), parent, name, .unknown)
        files[to] = files[from]
        guard let file = files[to] else { return }
        if excluded.contains(to) || names(of: file).contains(where: { excluded.contains($0) }) {
            excluded.formUnion(names(of: file))
        }
    }

    private mutating func unlink(_ step: Int) throws {
        guard let path = knownPath() else { return }
        trail.append("\(step) unlink \(path)")
        try account.tree.unlink(path)
        files[path] = nil
    }

    private mutating func folder(_ step: Int) throws {
        let path = ["d", "e"].randomElement(using: &random) ?? "d"
        guard !folders.contains(path), files[path] == nil else { return }
        trail.append("\(step) mkdir \(path)")
        try account.tree.makeDirectory(path)
        folders.insert(path)
    }

    private mutating func renameFolder(_ step: Int) throws {
        guard let from = folders.sorted().randomElement(using: &random) else { return }
        let to = from == "d" ? "e" : "d"
        // Bytes with a name outside would be both.
        let isLinked = files.contains { path, file in
            path.hasPrefix(from + "/") && names(of: file).contains { !$0.hasPrefix(from + "/") }
        }
        guard !folders.contains(to), files[to] == nil, !isLinked else { return }
        trail.append("\(step) rename folder \(from) \(to)")
        try account.tree.rename(from, to)
        if excluded.contains(from) { excluded.insert(to) }
        relocate(from, to)
    }

    private mutating func exclude(_ step: Int) async throws {
        let path = (random.oneIn(4) ? folders.sorted().randomElement(using: &random) : knownPath()) ?? "a"
        guard files[path] != nil || folders.contains(path) else { return }
        // A file of which a name is outside goes on to be sent by that.
        let isLinked = files.contains { name, file in
            name.hasPrefix(path + "/") && names(of: file).contains { !$0.hasPrefix(path + "/") }
        }
        if isLinked { return }
        trail.append("\(step) exclude \(path)")
        try await account.engine.setExcluded(RemotePath(unchecked: Array(path.utf8)), true)
        excluded.insert(path)
        if let file = files[path] { excluded.formUnion(names(of: file)) }
    }

    private mutating func include(_ step: Int) async throws {
        guard let path = excluded.sorted().randomElement(using: &random) else { return }
        trail.append("\(step) include \(path)")
        try await account.engine.setExcluded(RemotePath(unchecked: Array(path.utf8)), false)
        excluded.remove(path)
        if let file = files[path] { excluded.subtract(names(of: file)) }
        for path in files.keys where !isOut(path) { release(path) }
    }

    /// Another device makes, changes or deletes something, while nothing goes on here.
    private mutating func meddle(_ step: Int) async throws {
        try await compare()
        let path = freshPath()
        guard !folders.contains(path), !isInside(path) else { return }
        trail.append("\(step) another device \(path) \(excluded.contains(path) ? "out" : "")")
        if !excluded.contains(path), files[path] != nil, random.oneIn(3) {
            try source.remove(path)
            files[path] = nil
            return try await account.settle()
        }
        number += 1
        let content = text("<\(number)>theirs")
        try source.save(path, content)
        try await account.settle()
        // A version of the same size and moment may be seen only later.
        for _ in 0..<20 where (try? account.tree.read(path)) != content { try await account.settle() }
        if excluded.remove(path) != nil, let mine = files[path] {
            // It has the name; what is excluded is beside it.
            let folder = path.lastIndex(of: "/").map { String(path[..<$0]) } ?? ""
            let found = try account.tree.list(folder).keys.map { folder.isEmpty ? $0 : "\(folder)/\($0)" }
            let new = found.filter { $0.contains("(conflict") && files[$0] == nil }
            guard new.count == 1, let name = new.first else {
                throw ModelFailure(description: "conflict names: \(new)")
            }
            files[name] = mine
            excluded.insert(name)
        }
        number += 1
        files[path] = number
        bytes[number] = content
    }

    // MARK: Comparing

    private mutating func compare() async throws {
        try await account.settle()
        for (path, file) in files where try account.tree.read(path) != bytes[file] {
            let found = String(decoding: try account.tree.read(path), as: UTF8.self).prefix(80)
            throw ModelFailure(
                description:
                    "\(path) is \(found), not \(bytes[file].map { String(decoding: $0, as: UTF8.self).prefix(80) } ?? "")"
            )
        }
        var here: Set<String> = []
        for folder in [""] + folders.sorted() {
            for (name, kind) in try account.tree.list(folder) where kind == .file {
                here.insert(folder.isEmpty ? name : "\(folder)/\(name)")
            }
        }
        guard here == Set(files.keys) else {
            throw ModelFailure(description: "here is \(here.sorted()), not \(files.keys.sorted())")
        }
        let there = try source.snapshot()
        for (path, file) in files
        where isOut(path) == (there[path] != nil) || !isOut(path) && there[path] != bytes[file] {
            throw ModelFailure(description: "\(path), \(isOut(path) ? "excluded" : "open"), is otherwise at the source")
        }
        let strange = there.keys.filter { files[$0] == nil && !folders.contains($0) }
        guard strange.isEmpty else { throw ModelFailure(description: "the source has \(strange)") }
        for folder in folders where (there[folder] != nil) == isOut(folder) {
            throw ModelFailure(description: "the folder \(folder) is otherwise at the source")
        }
        for secret in secrets where watch.has(text(secret)) {
            throw ModelFailure(description: "\(secret) was sent")
        }
    }
}
