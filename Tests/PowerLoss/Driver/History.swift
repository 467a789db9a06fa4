import Foundation

/// One step of the workload, as its log tells it; files are known by numbers, whatever their names.
enum Step: Equatable {
    case create(file: Int, path: String)
    case write(file: Int, first: Int, count: Int)
    case cut(file: Int, count: Int)
    case fsync(file: Int)
    case syncDirectory
    case rename(from: String, to: String)
    case unlink(path: String)
    case settle

    var line: String {
        switch self {
        case .create(let file, let path): "create \(file) \(path)"
        case .write(let file, let first, let count): "write \(file) \(first) \(count)"
        case .cut(let file, let count): "cut \(file) \(count)"
        case .fsync(let file): "fsync \(file)"
        case .syncDirectory: "syncDirectory"
        case .rename(let from, let to): "rename \(from) \(to)"
        case .unlink(let path): "unlink \(path)"
        case .settle: "settle"
        }
    }

    init?(_ words: [Substring]) {
        let numbers = words.map { Int($0) ?? 0 }
        switch words.first {
        case "create": self = .create(file: numbers[1], path: String(words[2]))
        case "write": self = .write(file: numbers[1], first: numbers[2], count: numbers[3])
        case "cut": self = .cut(file: numbers[1], count: numbers[2])
        case "fsync": self = .fsync(file: numbers[1])
        case "syncDirectory": self = .syncDirectory
        case "rename": self = .rename(from: String(words[1]), to: String(words[2]))
        case "unlink": self = .unlink(path: String(words[1]))
        case "settle": self = .settle
        default: return nil
        }
    }
}

/// Bytes are written in words that tell their file and the step that wrote them.
enum Word {
    static func make(file: Int, step: Int) -> UInt64 { 0xC0 << 56 | UInt64(file) << 32 | UInt64(step) }

    static func file(_ word: UInt64) -> Int? { word >> 56 == 0xC0 ? Int(word >> 32 & 0xFF_FFFF) : nil }

    static func step(_ word: UInt64) -> Int { Int(word & 0xFFFF_FFFF) }

    static func bytes(_ words: [UInt64]) -> [UInt8] { words.withUnsafeBytes { Array($0) } }

    /// Nil where the bytes are no whole words.
    static func words(_ bytes: [UInt8]) -> [UInt64]? {
        guard bytes.count % 8 == 0 else { return nil }
        return bytes.withUnsafeBytes { buffer in
            (0..<bytes.count / 8).map { buffer.loadUnaligned(fromByteOffset: $0 * 8, as: UInt64.self) }
        }
    }
}

/// What each file was after each step; the last one may have been under way.
struct History {
    struct State: Equatable {
        /// Nil: the file is gone, or not yet there.
        var path: String?
        var words: [UInt64] = []
    }

    /// The states of each file, one a step; index 0 is the start.
    private(set) var states: [Int: [State]] = [:]
    /// Steps that wrote, by file.
    private(set) var writes: [Int: [(step: Int, range: Range<Int>)]] = [:]
    /// The last acknowledged fsync of each file, as a step.
    private(set) var synced: [Int: Int] = [:]
    /// The steps after which the provider had a file as it was then.
    private(set) var settled: [Int: [Int]] = [:]
    /// The last step that made all names durable.
    private(set) var barrier = 0
    private(set) var steps = 0

    /// `source`: files that were at the provider before, by path.
    init(source: [(file: Int, path: String, count: Int)]) {
        for (file, path, count) in source {
            states[file] = [State(path: path, words: Array(repeating: Word.make(file: file, step: 0), count: count))]
            writes[file] = [(0, 0..<count)]
            settled[file] = [0]
        }
    }

    /// Takes the log's next step.
    mutating func take(_ step: Step, isAcknowledged: Bool) {
        steps += 1
        var next = states.mapValues { $0.last ?? State() }
        func find(_ path: String) -> Int? { next.first { $0.value.path == path }?.key }
        switch step {
        case .create(let file, let path):
            states[file] = Array(repeating: State(), count: steps)
            next[file] = State(path: path)
            writes[file] = []
        case .write(let file, let first, let count):
            var words = next[file]?.words ?? []
            while words.count < first + count { words.append(0) }
            for index in first..<(first + count) { words[index] = Word.make(file: file, step: steps) }
            next[file]?.words = words
            writes[file]?.append((steps, first..<(first + count)))
        case .cut(let file, let count):
            var words = Array((next[file]?.words ?? []).prefix(count))
            while words.count < count { words.append(0) }
            next[file]?.words = words
            writes[file]?.append((steps, 0..<0))
        case .fsync(let file) where isAcknowledged:
            // What the provider has needs no sync, and may not even be here.
            let known = settled[file]?.last ?? -1
            if writes[file]?.contains(where: { $0.step > known }) == true { synced[file] = steps }
            barrier = steps
        case .syncDirectory where isAcknowledged: barrier = steps
        case .fsync, .syncDirectory: break
        case .rename(let from, let to):
            let moved = find(from)
            if let old = find(to), old != moved { next[old]?.path = nil }
            if let moved { next[moved]?.path = to }
        case .unlink(let path): if let file = find(path) { next[file]?.path = nil }
        case .settle:
            guard isAcknowledged else { break }
            for (file, state) in next where state.path != nil { settled[file, default: []].append(steps) }
        }
        for (file, state) in next { states[file, default: []].append(state) }
    }

    func names(of file: Int) -> [String?] { (states[file] ?? [])[barrier...].map(\.path) }
}
