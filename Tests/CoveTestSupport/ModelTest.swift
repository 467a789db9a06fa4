import CoveCore
import Foundation

/// Random use of an account against a small reference model.
///
/// The model is what a person expects: a map from path to bytes. Local steps change tree and model alike. The other
/// side changes the source between steps; after each settling, tree, source and model are equal. In spells of
/// concurrent change both sides may touch one document: then every content written must exist somewhere afterwards.
public final class ModelTest<Account: AccountUnderTest> {
    let account: Account
    let source: SourceFolder
    private var random: SeededGenerator
    private let seed: UInt64
    var files: [String: [UInt8]] = [:]
    var directories: Set<String> = []
    var trail: [String] = []
    private var counter = 0
    private var names = 0
    /// How often each kind of step ran.
    public private(set) var counts: [String: Int] = [:]

    /// Is called after each step, with its number.
    public var afterStep: ((Int) async throws -> Void)?

    /// What did not hold, with the seed and the last steps.
    public struct Failure: Error, CustomStringConvertible {
        /// What, when, and how to repeat it.
        public let description: String

        /// What did not hold.
        public init(_ description: String) { self.description = description }
    }

    /// Starts with an empty account.
    public init(_ account: Account, seed: UInt64) {
        self.account = account
        source = SourceFolder(account.source)
        random = SeededGenerator(seed: seed)
        self.seed = seed
    }

    /// Runs so many steps, settling every now and then and at the end.
    public func run(steps: Int) async throws {
        for step in 1...steps {
            counter = step
            try await self.step()
            try compareNames()
            try await afterStep?(step)
            if random.oneIn(25) { try await settleAndCompare() }
        }
        try await settleAndCompare()
    }

    private func step() async throws {
        let kinds: [(String, Int)] = [
            ("write", 10), ("create", 12), ("append", 6), ("truncate", 4), ("overwrite", 6), ("map", 3), ("read", 12),
            ("rename", 6), ("unlink", 5), ("mkdir", 3), ("rmdir", 2), ("moveDirectory", 2), ("saveByRename", 5),
            ("saveByBackup", 4), ("saveByUnlink", 4), ("saveByExchange", 3), ("swap", 2), ("openUnlinked", 3),
            ("restore", 5), ("evict", 6), ("download", 2), ("remote", 5), ("concurrent", 2), ("crash", 2),
        ]
        var pick = Int.random(in: 0..<kinds.reduce(0) { $0 + $1.1 }, using: &random)
        for (name, weight) in kinds {
            if pick < weight {
                counts[name, default: 0] += 1
                do {
                    return try await perform(name)
                } catch let failure as Failure {
                    throw failure
                } catch {
                    throw self.failure("\(name) failed: \(error)")
                }
            }
            pick -= weight
        }
    }

    private func perform(_ kind: String) async throws {
        let tree = account.tree
        switch kind {
        case "create":
            let path = newPath()
            let bytes = content()
            note("create \(path) \(bytes.count)")
            try tree.write(path, bytes)
            files[path] = bytes
        case "write":
            guard let path = anyFile() else { return }
            let bytes = content()
            note("write \(path) \(bytes.count)")
            try tree.write(path, bytes)
            files[path] = bytes
        case "append":
            guard let path = anyFile() else { return }
            let bytes = content(limit: 3000)
            note("append \(path) \(bytes.count)")
            try tree.append(path, bytes)
            files[path]? += bytes
        case "truncate":
            guard let path = anyFile(), var bytes = files[path] else { return }
            let size = Int.random(in: 0...max(1, bytes.count * 2), using: &random)
            note("truncate \(path) \(bytes.count) to \(size)")
            try tree.truncate(path, to: Int64(size))
            if size < bytes.count {
                bytes.removeLast(bytes.count - size)
            } else {
                bytes += [UInt8](repeating: 0, count: size - bytes.count)
            }
            files[path] = bytes
        case "overwrite", "map":
            guard let path = anyFile(), var bytes = files[path], !bytes.isEmpty else { return }
            let offset = Int.random(in: 0..<bytes.count, using: &random)
            let part = random.bytes(Int.random(in: 1...(bytes.count - offset), using: &random))
            note("\(kind) \(path) \(part.count) at \(offset)")
            try tree.overwrite(path, at: Int64(offset), part, mapped: kind == "map")
            bytes.replaceSubrange(offset..<(offset + part.count), with: part)
            files[path] = bytes
        case "read":
            guard let path = anyFile() else { return }
            note("read \(path)")
            try expect(try tree.read(path), files[path] ?? [], path)
        case "rename":
            guard let from = anyFile() else { return }
            let to = random.oneIn(3) ? anyFile() ?? newPath() : newPath()
            note("rename \(from) \(to)")
            try tree.rename(from, to)
            if from != to { files[to] = files.removeValue(forKey: from) }
        case "unlink":
            guard let path = anyFile() else { return }
            note("unlink \(path)")
            try tree.unlink(path)
            files[path] = nil
        case "mkdir":
            let path = newPath()
            note("mkdir \(path)")
            try tree.makeDirectory(path)
            directories.insert(path)
        case "rmdir":
            guard let path = directories.sorted().randomElement(using: &random) else { return }
            note("rmdir \(path)")
            let isEmpty = !(Array(files.keys) + directories).contains { $0.hasPrefix(path + "/") }
            do throws(Errno) {
                try tree.removeDirectory(path)
                directories.remove(path)
            } catch {
                guard !isEmpty, error == .notEmpty else { throw error }
                return
            }
            if !isEmpty { throw failure("rmdir of \(path), which is not empty, succeeded") }
        case "moveDirectory":
            guard let from = directories.sorted().randomElement(using: &random) else { return }
            let to = newPath()
            guard !to.hasPrefix(from + "/") else { return }
            note("rename directory \(from) \(to)")
            try tree.rename(from, to)
            moveInModel(from, to)
        case "saveByRename":
            guard let path = anyFile() else { return }
            let bytes = content()
            let part = sibling(path, "sed\(counter)")
            note("save by rename \(path) \(bytes.count)")
            try tree.write(part, bytes)
            try tree.rename(part, path)
            files[path] = bytes
        case "saveByBackup":
            guard let path = anyFile() else { return }
            let bytes = content()
            note("save by backup \(path) \(bytes.count)")
            try tree.rename(path, path + "~")
            try tree.write(path, bytes)
            try tree.unlink(path + "~")
            files[path] = bytes
        case "saveByUnlink":
            guard let path = anyFile() else { return }
            let bytes = content()
            note("save by unlink \(path) \(bytes.count)")
            try tree.unlink(path)
            try tree.write(path, bytes)
            files[path] = bytes
        case "saveByExchange":
            guard let path = anyFile() else { return }
            let bytes = content()
            let part = sibling(path, "exchange\(counter)")
            note("save by exchange \(path) \(bytes.count)")
            try tree.write(part, bytes)
            try tree.exchange(part, path)
            try tree.unlink(part)
            files[path] = bytes
        case "swap":
            guard let one = anyFile(), let other = anyFile(), one != other else { return }
            note("swap \(one) \(other)")
            try tree.exchange(one, other)
            files.swapAt(one, other)
        case "openUnlinked":
            guard let path = anyFile(), let bytes = files[path] else { return }
            note("unlink \(path) while open")
            let handle = try tree.open(path)
            try tree.unlink(path)
            files[path] = nil
            try tree.append(handle, [1, 2, 3])
            try expect(try tree.read(handle), bytes + [1, 2, 3], path)
            try tree.close(handle)
        case "restore":
            guard let path = anyFile(), let bytes = files.removeValue(forKey: path) else { return }
            note("delete and restore \(path)")
            if let back = try await account.deleteAndRestore(path) { files[back] = bytes }
        case "evict":
            guard let path = anyFile() else { return }
            note("evict \(path)")
            _ = await account.evict(path)
        case "download":
            guard let path = anyFile() else { return }
            note("download \(path)")
            try await account.download(path)
        case "remote": try await remoteSteps()
        case "concurrent": try await concurrentSpell()
        case "crash":
            note("crash")
            try await account.crash()
        default: throw failure("no step \(kind)")
        }
    }

    // MARK: The other side

    /// Changes at the source while both sides agree.
    private func remoteSteps() async throws {
        try await settleAndCompare()
        for _ in 0..<Int.random(in: 1...4, using: &random) {
            switch Int.random(in: 0..<6, using: &random) {
            case 0, 1:
                guard let path = anyFile() else { continue }
                let bytes = content()
                note("remote edit \(path) \(bytes.count)")
                try source.save(path, bytes)
                files[path] = bytes
            case 2:
                let path = newPath()
                let bytes = content()
                note("remote create \(path) \(bytes.count)")
                try source.save(path, bytes)
                files[path] = bytes
            case 3:
                guard let path = anyFile() else { continue }
                note("remote delete \(path)")
                try source.remove(path)
                files[path] = nil
            case 4:
                guard let from = anyFile() else { continue }
                let to = newPath()
                note("remote rename \(from) \(to)")
                try source.rename(from, to)
                files[to] = files.removeValue(forKey: from)
            default:
                let path = newPath()
                note("remote mkdir \(path)")
                try source.makeDirectory(path)
                directories.insert(path)
            }
        }
        try await settleAndCompare()
    }

    /// Both sides change documents without knowing of each other: nothing written may be lost.
    private func concurrentSpell() async throws {
        try await settleAndCompare()
        note("offline")
        try await account.setOffline(true)
        var written: [[UInt8]] = []
        for _ in 0..<Int.random(in: 1...5, using: &random) {
            guard let path = anyFile() else { continue }
            let bytes = content()
            note("offline local edit \(path) \(bytes.count)")
            do throws(Errno) {
                try account.tree.write(path, bytes)
            } catch {
                throw failure("an offline overwrite of \(path) failed: \(error)")
            }
            // Of several edits of one side only the last is promised.
            if let old = files[path] { written.removeAll { $0 == old } }
            files[path] = bytes
            written.append(bytes)
        }
        var remote: [String: [UInt8]] = [:]
        for _ in 0..<Int.random(in: 1...5, using: &random) {
            guard let path = anyFile() else { continue }
            let bytes = content()
            note("remote edit \(path) \(bytes.count) meanwhile")
            try source.save(path, bytes)
            remote[path] = bytes
        }
        if random.oneIn(4) {
            note("crash while offline")
            try await account.crash()
        }
        note("online")
        try await account.setOffline(false)
        try await settle()
        try rebase()
        let found = Set(files.values)
        for bytes in written + remote.values where !found.contains(bytes) {
            throw failure("a content of \(bytes.count) bytes written in a concurrent spell exists nowhere")
        }
    }

    // MARK: Names and contents

    private func newPath() -> String {
        let parents = [""] + directories.sorted()
        let parent = parents.randomElement(using: &random) ?? ""
        names += 1
        let name = "\(["doc", "ünï", "a b", "x"].randomElement(using: &random) ?? "f")\(names).txt"
        return parent.isEmpty ? name : "\(parent)/\(name)"
    }

    private func sibling(_ path: String, _ name: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return name }
        return String(path[...slash]) + name
    }

    private func anyFile() -> String? { files.keys.sorted().randomElement(using: &random) }

    private func content(limit: Int = 40_000) -> [UInt8] {
        // At least eight random bytes, so that no two contents are alike by accident.
        let size =
            random.oneIn(4) ? Int.random(in: 4096...limit.clamped(from: 4097), using: &random) : 8 + counter % 3000
        return random.bytes(size)
    }

    private func moveInModel(_ from: String, _ to: String) {
        func moved(_ path: String) -> String {
            if path == from { return to }
            return path.hasPrefix(from + "/") ? to + path.dropFirst(from.count) : path
        }
        files = Dictionary(uniqueKeysWithValues: files.map { (moved($0.key), $0.value) })
        directories = Set(directories.map(moved))
    }

    func note(_ what: String) {
        trail.append("\(counter): \(what)")
        if trail.count > 60 { trail.removeFirst() }
    }

    func failure(_ what: String) -> Failure {
        Failure("seed \(seed): \(what)\n  " + trail.joined(separator: "\n  "))
    }
}

extension Int {
    fileprivate func clamped(from least: Int) -> Int { Swift.max(self, least) }
}

extension Dictionary {
    fileprivate mutating func swapAt(_ one: Key, _ other: Key) {
        let kept = self[one]
        self[one] = self[other]
        self[other] = kept
    }
}
