import CoveCore
import CoveEngine
import CoveTestSupport
import Foundation

/// Random work on a handful of files; each step is logged before it begins and after it is acknowledged.
struct Workload {
    /// What the provider holds at first.
    static let source = [
        (file: 1, path: "a", count: 3000), (file: 2, path: "b", count: 100), (file: 3, path: "d/a", count: 20_000),
    ]
    private static let names = ["a", "b", "c", "d/a", "d/b", "d/c"]

    private let tree: Tree
    private let log: Int32
    private var random: SeededGenerator
    private var step = 0
    private var nextFile = 10
    /// What is in the tree, as this process made it.
    private var files = Dictionary(uniqueKeysWithValues: source.map { ($0.path, (file: $0.file, count: $0.count)) })
    private var handles: [String: ItemID] = [:]
    private let pauses: Bool

    init(_ tree: Tree, log: String, seed: UInt64) async throws {
        self.tree = tree
        self.log = try System.open(log, O_WRONLY | O_CREAT | O_APPEND)
        random = SeededGenerator(seed: seed)
        // In half of the runs nothing is sent but when the workload waits for it.
        pauses = seed % 2 == 0
        if pauses { await tree.engine.pause() }
    }

    private func write(_ line: String) { Array("\(line)\n".utf8).withUnsafeBytes { try? System.writeAll(log, $0) } }

    private mutating func perform(_ what: Step, _ body: () async throws -> Void) async throws {
        step += 1
        write("begin \(what.line)")
        try await body()
        write("end")
    }

    mutating func run(steps: Int) async throws {
        for _ in 0..<steps { try await work() }
    }

    private mutating func work() async throws {
        let path = Workload.names[Int.random(in: 0..<Workload.names.count, using: &random)]
        guard let known = files[path] else { return try await create(path) }
        switch Int.random(in: 0..<20, using: &random) {
        case 0..<5:
            let first = Int.random(in: 0...known.count, using: &random)
            try await overwrite(path, first, Int.random(in: 1...3000, using: &random))
        case 5..<8:
            let id = try await handle(path)
            let engine = tree.engine
            try await perform(.fsync(file: known.file)) { try engine.fsync(id, dataOnly: false) }
        case 8..<10: try close(path)
        case 10..<12: try await save(path)
        case 12:
            let count = random.oneIn(2) ? 0 : Int.random(in: 0...(known.count + 600), using: &random)
            let id = try await handle(path)
            let tree = tree
            try await perform(.cut(file: known.file, count: count)) { try tree.cut(id, to: count * 8) }
            files[path]?.count = count
            if random.oneIn(2) { try await overwrite(path, 0, Int.random(in: 1...3000, using: &random)) }
        case 13: try await rename(path)
        case 14:
            try close(path)
            let tree = tree
            try await perform(.unlink(path: path)) { try await tree.unlink(path) }
            files[path] = nil
        case 15: _ = try await tree.read(path)
        case 16:
            try close(path)
            tree.evict(path)
        case 17:
            let engine = tree.engine
            try await perform(.syncDirectory) { try engine.syncDirectory(.root) }
        default:
            for path in handles.keys.sorted() { try close(path) }
            let tree = tree
            try await perform(.settle) { try await tree.settle() }
            if pauses { await tree.engine.pause() }
        }
    }

    private mutating func handle(_ path: String) async throws -> ItemID {
        if let open = handles[path] { return open }
        let id = try await tree.open(path)
        handles[path] = id
        return id
    }

    private mutating func close(_ path: String) throws {
        if let id = handles.removeValue(forKey: path) { try tree.close(id) }
    }

    private mutating func create(_ path: String) async throws {
        nextFile += 1
        let file = nextFile
        let tree = tree
        var made: ItemID?
        try await perform(.create(file: file, path: path)) { made = try await tree.create(path) }
        files[path] = (file, 0)
        handles[path] = made
        try await overwrite(path, 0, Int.random(in: 1...3000, using: &random))
        if random.oneIn(2) { try close(path) }
    }

    private mutating func overwrite(_ path: String, _ first: Int, _ count: Int) async throws {
        guard let known = files[path] else { return }
        let id = try await handle(path)
        let words = Array(repeating: Word.make(file: known.file, step: step + 1), count: count)
        let tree = tree
        try await perform(.write(file: known.file, first: first, count: count)) {
            try tree.write(id, at: first * 8, Word.bytes(words))
        }
        files[path]?.count = max(known.count, first + count)
    }

    /// As editors do: another file is renamed over it, synced or not.
    private mutating func save(_ path: String) async throws {
        let other = "\(path).new"
        try await create(other)
        if random.oneIn(2), let made = files[other] {
            let id = try await handle(other)
            let engine = tree.engine
            try await perform(.fsync(file: made.file)) { try engine.fsync(id, dataOnly: true) }
        }
        try await move(other, path)
    }

    private mutating func rename(_ path: String) async throws {
        let target = Workload.names[Int.random(in: 0..<Workload.names.count, using: &random)]
        if target != path { try await move(path, target) }
    }

    private mutating func move(_ from: String, _ to: String) async throws {
        try close(from)
        try close(to)
        let tree = tree
        try await perform(.rename(from: from, to: to)) { try await tree.rename(from, to) }
        files[to] = files.removeValue(forKey: from)
    }
}
