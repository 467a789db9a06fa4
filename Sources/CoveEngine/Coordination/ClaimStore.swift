internal import CoveClaims
internal import CoveCore
internal import Glibc

/// Granted claims and presenters where they outlive the daemon: a file of lines, one for each that came, moved or ended.
///
/// It is not synced: what ends the machine ends the holders too.
final class ClaimStore {
    /// A claim that was held when the daemon before this one died.
    struct Kept: Codable, Sendable {
        var number: Int
        var session: String
        var process: Int32
        var began: UInt64
        var coordinator: String?
        var purpose: String?
        var intents: [CoordinationInterface.Intent]
        /// The coordinator's own presenter.
        var presenter: Int?
        /// Which of the items were there when it was granted.
        var existed: [Bool]?
        /// The names that items have left a moment ago, and may come back to.
        var homes: [KeptHome]?
        /// The presenters that let it in, who hear of its end.
        var letIn: [LetIn]?
    }

    /// A presenter as it was when the daemon before this one died.
    struct KeptPresenter: Codable, Sendable {
        var number: Int
        var session: String
        var process: Int32
        var began: UInt64
        /// Where its item is.
        var path: PathParameter?
        /// Where its program knows that to be, if it has not heard of a move yet.
        var known: PathParameter?
        /// The names that its item has left a moment ago, and may come back to.
        var homes: [KeptHome]?
        var messages: [String]
        var observes: [String]
        var purpose: String?
        /// The name by which its program has the item, and the row of the reference that it is.
        var alias: PathParameter?
        var reference: Int64?
    }

    /// A name that an item has left, until a time of the clock that never steps.
    struct KeptHome: Codable, Sendable {
        var index: Int
        var left: PathParameter
        var path: PathParameter
        var until: MonotonicTime

        init(_ home: Home) {
            index = home.index
            left = PathParameter(home.left)
            path = PathParameter(home.path)
            until = home.until
        }
    }

    /// A thread whose call cuts a file, and which was told to look the file up again: there it waits for a claim.
    struct KeptWait: Codable, Sendable {
        var thread: Int32
        var item: UInt64
        /// Those of an open; nil for truncate(2).
        var flags: Int32?
    }

    private struct Line: Codable {
        var granted: Kept?
        var ended: Int?
        var waits: KeptWait?
        var waitEnded: Int32?
        var presents: KeptPresenter?
        var presenterEnded: Int?
    }

    private static let least = 1 << 20

    private let path: String
    private var descriptor: Int32
    private var length = 0
    /// Beyond this it is written anew; twice of what that left, so that it stays rare.
    private var longest = ClaimStore.least
    private static let most = 1 << 30
    private var kept: [Int: Kept] = [:]
    private var waits: [Int32: KeptWait] = [:]
    private var presents: [Int: KeptPresenter] = [:]

    /// Reads what an earlier daemon of the mount left, or begins anew.
    init(path: String, goesOn: Bool) throws(Errno) {
        self.path = path
        descriptor = try System.open(path, O_RDWR | O_CREAT | (goesOn ? 0 : O_TRUNC), 0o600)
        guard goesOn else { return }
        // Its lines are short; what is larger is none of it.
        let size = Int(try System.fstat(descriptor).st_size)
        var bytes = [UInt8](repeating: 0, count: size > Self.most ? 0 : size)
        length = try System.pread(descriptor, into: &bytes, count: bytes.count, 0)
        // The last line may be cut off: the next one takes its place.
        length = bytes[..<length].lastIndex(of: 0x0A).map { $0 + 1 } ?? 0
        try System.ftruncate(descriptor, Int64(length))
        for line in bytes[..<length].split(separator: 0x0A) {
            guard let line = try? JSONValue(parsing: Array(line)).decode(as: Line.self) else { continue }
            let number = line.granted?.number ?? line.presents?.number ?? 0
            guard Self.numbers.contains(number) else { continue }
            if let granted = line.granted { kept[granted.number] = granted }
            if let ended = line.ended { kept[ended] = nil }
            if let wait = line.waits { waits[wait.thread] = wait }
            if let thread = line.waitEnded { waits[thread] = nil }
            if let presenter = line.presents { presents[presenter.number] = presenter }
            if let number = line.presenterEnded { presents[number] = nil }
        }
    }

    deinit { System.close(descriptor) }

    /// What is held, in the order of the grants.
    var claims: [Kept] { kept.values.sorted { $0.number < $1.number } }

    /// The presenters, in the order they came.
    var presenters: [KeptPresenter] { presents.values.sorted { $0.number < $1.number } }

    /// The greatest number in use.
    var lastNumber: Int { max(kept.keys.max() ?? 0, presents.keys.max() ?? 0) }

    /// Numbers are far below this; what names others is no line of this file.
    private static let numbers = 0..<1 << 52

    /// Forgets what did not come to be again.
    func keepOnly(claims: Set<Int>, presenters: Set<Int>) {
        for number in kept.keys where !claims.contains(number) { drop(number) }
        for number in presents.keys where !presenters.contains(number) { dropPresenter(number) }
    }

    /// The threads that wait in a look-up.
    var lookups: [KeptWait] { Array(waits.values) }

    func keep(_ wait: KeptWait) {
        waits[wait.thread] = wait
        append(Line(waits: wait))
    }

    func dropWait(of thread: Int32) {
        if waits.removeValue(forKey: thread) != nil { append(end: Line(waitEnded: thread)) }
    }

    func keep(_ presenter: Presenter, homes: [Home] = [], token: String, process: Int32, began: UInt64) {
        let path = presenter.node?.path
        let hearsOfMoves = presenter.implements.contains(.didMove) && presenter.alias == nil
        let known = hearsOfMoves ? presenter.knownPath : path
        let entry = KeptPresenter(
            number: presenter.number,
            session: token,
            process: process,
            began: began,
            path: path.map { PathParameter($0) },
            known: known == path ? nil : known.map { PathParameter($0) },
            homes: homes.isEmpty ? nil : homes.map { KeptHome($0) },
            messages: presenter.implements.map(\.rawValue).sorted(),
            observes: presenter.observes.sorted(),
            purpose: presenter.purpose,
            alias: presenter.alias.map { PathParameter($0.path) },
            reference: presenter.alias?.reference
        )
        presents[presenter.number] = entry
        append(Line(presents: entry))
    }

    func dropPresenter(_ number: Int) {
        if presents.removeValue(forKey: number) != nil { append(end: Line(presenterEnded: number)) }
    }

    func keep(_ claim: Claim, homes: [Home] = [], letIn: [LetIn], token: String, process: Int32, began: UInt64) {
        let intents = claim.intents.map { intent in
            let path = PathParameter(intent.node.path)
            switch intent.use {
            case .read:
                let snapshot: [CoordinationInterface.ReadingOption] = intent.use.isForUploading ? [.forUploading] : []
                return CoordinationInterface.Intent(reading: path, [.withoutChanges] + snapshot)
            case .write(let option): return CoordinationInterface.Intent(writing: path, option)
            }
        }
        let entry = Kept(
            number: claim.number,
            session: token,
            process: process,
            began: began,
            coordinator: claim.request.coordinator,
            purpose: claim.request.purpose,
            intents: intents,
            presenter: claim.request.presenter,
            existed: claim.intents.allSatisfy(\.existed) ? nil : claim.intents.map(\.existed),
            homes: homes.isEmpty ? nil : homes.map { KeptHome($0) },
            letIn: letIn.isEmpty ? nil : letIn
        )
        kept[claim.number] = entry
        append(Line(granted: entry))
    }

    func drop(_ number: Int) {
        if kept.removeValue(forKey: number) != nil { append(end: Line(ended: number)) }
    }

    private func append(end line: Line) {
        if kept.isEmpty, waits.isEmpty, presents.isEmpty {
            try? System.ftruncate(descriptor, 0)
            length = 0
        } else {
            append(line)
        }
    }

    private func append(_ line: Line) {
        if length > longest { compact() }
        guard let bytes = Self.bytes(of: line) else { return }
        // On a full disk the next line takes the place of what was written of this one.
        guard (try? System.pwriteAll(descriptor, bytes, Int64(length))) != nil else { return }
        length += bytes.count
    }

    private static func bytes(of line: Line) -> [UInt8]? { (try? JSONValue(encoding: line)).map { $0.bytes + [0x0A] } }

    private func compact() {
        // One line after the other: there may be a hundred thousand.
        var bytes: [UInt8] = []
        bytes.reserveCapacity(length)
        func add(_ line: Line) { bytes += Self.bytes(of: line) ?? [] }
        for granted in kept.values { add(Line(granted: granted)) }
        for waiting in waits.values { add(Line(waits: waiting)) }
        for presented in presents.values { add(Line(presents: presented)) }
        longest = 2 * length
        guard let file = try? System.open(path + ".new", O_RDWR | O_CREAT | O_TRUNC, 0o600) else { return }
        do throws(Errno) {
            try System.pwriteAll(file, bytes, 0)
            try System.rename(path + ".new", path)
            System.close(descriptor)
            descriptor = file
            length = bytes.count
            longest = max(Self.least, 2 * length)
        } catch {
            System.close(file)
        }
    }
}
