internal import CoveCore
internal import CoveEngine
internal import Glibc
internal import Synchronization

/// Walks a folder beside what an account shows of the same, and has equal files taken over.
struct Adoption {
    /// A file on both sides, by its path below them.
    private struct Pair: Sendable {
        var names: [[UInt8]]
        var size: Int64
    }

    /// What was found, by paths below both sides.
    private struct Findings {
        var pairs: [Pair] = []
        var onlyThere: [[[UInt8]]] = []
        var differing: [[[UInt8]]] = []
        var report = AdoptionReport()
    }

    /// Several files are asked about at a time: each answer may be the source's.
    private static let width = 8
    private static let depthLimit = 200
    /// What the programs that kept such folders left in them for themselves.
    private static let foreignNames = [
        ".sync_*.db*", "._sync_*.db*", ".owncloudsync.log*", ".nextcloudsync.log*", ".stfolder", ".stversions",
        ".dropbox*",
    ]

    private let folder: [UInt8]
    private let shown: String
    private let into: ItemLocation
    private let trustsDates: Bool
    private let adds: Bool
    private let isTrial: Bool

    init(
        _ folder: [UInt8],
        into place: [UInt8],
        trustsDates: Bool,
        adds: Bool,
        isTrial: Bool
    ) throws(Failure) {
        shown = String(decoding: folder, as: UTF8.self)
        into = try Failure.locating(place)
        self.folder = try Failure.explaining(shown, remedy: "check the path") { () throws(Errno) in
            try ItemLocation.resolve(folder + [0x2F])
        }
        if (try? ItemLocation.find(folder + [0x2F])) != nil {
            throw Failure(shown, "it is in an account itself", "name the folder of the other program")
        }
        (self.trustsDates, self.adds, self.isTrial) = (trustsDates, adds, isTrial)
    }

    func run() throws(Failure) -> AdoptionReport {
        var found = Findings()
        let connection = try AccountConnection(into.daemon, name: into.shown)
        guard try connection.info(into).kind == "directory" else {
            throw Failure(into.shown, "it is no folder", "name one")
        }
        try walk([], connection, &found)
        try adopt(&found)
        if adds, !isTrial { add(&found) }
        var report = found.report
        report.unverified.sort()
        report.onlyThere = found.onlyThere.map(Self.text)
        report.differing = found.differing.map(Self.text).sorted()
        return report
    }

    // MARK: Looking

    /// Compares a folder's names on both sides.
    private func walk(
        _ names: [[UInt8]],
        _ connection: AccountConnection,
        _ found: inout Findings
    ) throws(Failure) {
        guard names.count < Self.depthLimit else {
            found.report.failures[Self.text(names)] = "folders too deep to be looked into"
            return
        }
        var here: [[UInt8]: ItemStatus] = [:]
        for item in try list(names, connection) { here[item.rawName] = item }
        let children: [[UInt8]]
        do throws(Errno) { children = try System.rawNames(in: Self.join(folder, names)) } catch {
            found.report.failures[names.isEmpty ? shown : Self.text(names)] = "can't be read: \(error)"
            return
        }
        for name in children.sorted(by: { $0.lexicographicallyPrecedes($1) }) where !Self.isForeign(name) {
            let inner = names + [name]
            guard let status = try? System.statat(AT_FDCWD, Self.join(folder, inner)) else { continue }
            guard let item = here[name] else {
                found.onlyThere.append(inner)
                continue
            }
            switch (status.st_mode & S_IFMT, item.kind) {
            case (S_IFDIR, "directory"): try walk(inner, connection, &found)
            case (S_IFREG, "file"): compare(inner, status, item, &found)
            case (S_IFLNK, "symlink"):
                let (one, other) = (Self.join(folder, inner), Self.join(into.absolute, inner))
                if let target = try? System.readlinkat(AT_FDCWD, one),
                    target == (try? System.readlinkat(AT_FDCWD, other))
                {
                    found.report.present += 1
                } else {
                    found.differing.append(inner)
                }
            default: found.differing.append(inner)
            }
        }
    }

    private func compare(_ names: [[UInt8]], _ status: stat, _ item: ItemStatus, _ found: inout Findings) {
        guard Int64(status.st_size) == item.size else { return found.differing.append(names) }
        guard item.state == "materialized" || item.state == "local" || item.size == 0 else {
            return found.pairs.append(Pair(names: names, size: item.size))
        }
        let isSameDate = abs(Timestamp(status.st_mtim).secondsSinceEpoch - item.modificationTime) < 0.000_001
        if trustsDates && isSameDate || Self.isEqual(Self.join(folder, names), Self.join(into.absolute, names)) {
            found.report.present += 1
        } else {
            found.differing.append(names)
        }
    }

    private func list(_ names: [[UInt8]], _ connection: AccountConnection) throws(Failure) -> [ItemStatus] {
        var items: [ItemStatus] = []
        let last: ItemInterface.ListReply = try connection.stream(
            "\(ItemInterface.name).List",
            ItemInterface.Request(path: PathParameter(place(names))),
            subject: names.isEmpty ? into.shown : Self.text(names)
        ) { (reply: ItemInterface.ListReply) in items += reply.items }
        return items + last.items
    }

    private func place(_ names: [[UInt8]]) -> RemotePath {
        names.reduce(into.path) { $0.appending(FileName(unchecked: $1)) }
    }

    // MARK: Taking over

    private func adopt(_ found: inout Findings) throws(Failure) {
        let pairs = found.pairs
        guard !pairs.isEmpty else { return }
        let work = AdoptionWork(pairs.count)
        for _ in 0..<min(Self.width, pairs.count) {
            work.begin()
            do throws(Errno) {
                try BlockingThread.start { [self] in
                    let connection = Result { () throws(Failure) in
                        try AccountConnection(into.daemon, name: into.shown)
                    }
                    while let index = work.next() {
                        work.put(index, connection.flatMap { ask(pairs[index], $0) })
                    }
                    work.end()
                }
            } catch {
                work.end()
                throw Failure(nil, "no thread can be started: \(error)", "check the limit of processes")
            }
        }
        let progress = ProgressBar()
        defer { progress.clear() }
        while work.isGoingOn {
            progress.show("\(shown): \(work.results.count) of \(pairs.count) files")
            _ = poll(nil, 0, 20)
        }
        for (index, outcome) in work.results.sorted(by: { $0.key < $1.key }) { note(pairs[index], outcome, &found) }
    }

    private func note(_ pair: Pair, _ outcome: Result<AdoptionOutcome, Failure>, _ found: inout Findings) {
        let name = Self.text(pair.names)
        func fail(_ why: String) { found.report.failures[name] = why }
        switch outcome {
        case .success(.adopted):
            found.report.adopted += 1
            found.report.adoptedBytes = found.report.adoptedBytes.saturatingAdd(pair.size)
        case .success(.present): found.report.present += 1
        case .success(.differs): found.differing.append(pair.names)
        case .success(.unverified): found.report.unverified.append(name)
        case .success(.changed): fail("it changed while it was read; try again")
        case .success(.busy): fail("something uses it, or has changed it; try again later")
        case .success(.noRoom):
            fail("the cache's limit would be exceeded; raise it and mount again with `-o cache-size=`")
        case .failure(let failure): fail(failure.what)
        }
    }

    private func ask(_ pair: Pair, _ connection: AccountConnection) -> Result<AdoptionOutcome, Failure> {
        let request = ItemInterface.AdoptRequest(
            path: PathParameter(place(pair.names)),
            file: Self.join(folder, pair.names),
            trustDates: trustsDates,
            isTrial: isTrial
        )
        return Result { () throws(Failure) in
            let reply: ItemInterface.AdoptReply = try connection.call(
                "\(ItemInterface.name).Adopt",
                request,
                subject: Self.text(pair.names),
                timeout: nil
            )
            guard let outcome = AdoptionOutcome(rawValue: reply.outcome) else {
                throw Failure(Self.text(pair.names), reply.outcome, "use the same version of cove everywhere")
            }
            return outcome
        }
    }

    // MARK: Bringing in

    private func add(_ found: inout Findings) {
        let progress = ProgressBar()
        defer { progress.clear() }
        for names in found.onlyThere { bring(names, as: names, &found, progress) }
        for names in found.differing {
            guard let last = names.last, let status = try? System.statat(AT_FDCWD, Self.join(folder, names)) else {
                continue
            }
            // The same name each time: what came in before is known by it.
            let copy = ConflictCopy.name(
                of: FileName(unchecked: last),
                host: Daemon.hostName,
                at: Timestamp(status.st_mtim)
            )
            let target = names.dropLast() + [copy.bytes]
            let there = try? System.statat(AT_FDCWD, Self.join(into.absolute, target))
            if let there, there.st_size == status.st_size { continue }
            bring(names, as: Array(target), &found, progress)
        }
        let added = Set(found.report.added)
        found.onlyThere.removeAll { added.contains(Self.text($0)) }
    }

    private func bring(
        _ names: [[UInt8]],
        as target: [[UInt8]],
        _ found: inout Findings,
        _ progress: ProgressBar
    ) {
        let name = Self.text(target)
        do throws(CrossingMove.Failure) {
            try CrossingMove(
                from: Self.join(folder, names),
                to: Self.join(into.absolute, target),
                keepsSource: true,
                progress: { progress.show("\(name): \(Units.size($0.bytes)) copied") }
            ).run()
            found.report.added.append(name)
        } catch {
            found.report.failures[name] = error.message
        }
    }

    // MARK: Names and bytes

    private static func isForeign(_ name: [UInt8]) -> Bool {
        let isReserved = FileName(unchecked: name).isReserved
        return isReserved
            || foreignNames.contains { glob in (try? System.withCString(name) { fnmatch(glob, $0, 0) }) == 0 }
    }

    private static func join(_ base: [UInt8], _ names: some Sequence<[UInt8]>) -> [UInt8] {
        names.reduce(base == [0x2F] ? [] : base) { $0 + [0x2F] + $1 }
    }

    private static func text(_ names: [[UInt8]]) -> String {
        String(decoding: Array(names.joined(separator: [0x2F])), as: UTF8.self)
    }

    /// True for two files of equal bytes, which are both on this disk.
    private static func isEqual(_ first: [UInt8], _ second: [UInt8]) -> Bool {
        guard let one = try? System.openat(AT_FDCWD, first, O_RDONLY | O_NOFOLLOW | O_NONBLOCK) else { return false }
        defer { System.close(one) }
        guard let two = try? System.openat(AT_FDCWD, second, O_RDONLY | O_NOFOLLOW | O_NONBLOCK) else { return false }
        defer { System.close(two) }
        var (left, right) = ([UInt8](repeating: 0, count: 1 << 20), [UInt8](repeating: 0, count: 1 << 20))
        var offset: Int64 = 0
        while true {
            guard let count = try? System.pread(one, into: &left, count: left.count, offset),
                let other = try? System.pread(two, into: &right, count: right.count, offset), count == other
            else { return false }
            if count == 0 { return true }
            guard left[..<count] == right[..<count] else { return false }
            offset += Int64(count)
        }
    }
}

/// Files that several threads ask about, each once.
private final class AdoptionWork: Sendable {
    private struct State {
        var next = 0
        var working = 0
        var results: [Int: Result<AdoptionOutcome, Failure>] = [:]
        /// The source is away: what is left would fail like this one.
        var isHopeless = false
    }

    private let count: Int
    private let state = Mutex(State())

    init(_ count: Int) { self.count = count }

    /// What is known by now.
    var results: [Int: Result<AdoptionOutcome, Failure>] { state.withLock { $0.results } }
    /// True while threads work.
    var isGoingOn: Bool { state.withLock { $0.working > 0 } }

    func begin() { state.withLock { $0.working += 1 } }
    func end() { state.withLock { $0.working -= 1 } }

    /// The next file to be asked about; nil when there is none.
    func next() -> Int? {
        state.withLock { state in
            guard state.next < count, !state.isHopeless else { return nil }
            defer { state.next += 1 }
            return state.next
        }
    }

    func put(_ index: Int, _ result: Result<AdoptionOutcome, Failure>) {
        state.withLock { state in
            state.results[index] = result
            if case .failure(let failure) = result, failure.errno == .hostUnreachable || failure.isDaemonGone {
                state.isHopeless = true
            }
        }
    }
}
