public import CoveCore
internal import Synchronization

/// A move of a directory of which nobody has seen the end.
struct S3Move: Sendable {
    var from: RemotePath
    var to: RemotePath
    /// The key of what tells of it.
    var note: [UInt8]
    /// It is under way, and whoever asked for it knows.
    var isActive = false
    /// How often it could not be finished.
    var failures = 0

    /// True for what it changes, for what is below, and for the directories that list it.
    func concerns(_ path: RemotePath) -> Bool {
        [from, to].contains { $0.parent == path || path.isInside($0) }
    }
}

/// A move that a note tells of, and since when this device knows.
struct S3ForeignMove: Sendable {
    var move: DirectoryMove
    var since: MonotonicTime
}

/// Moving directories: all copies first, then the deletion of what was copied, under a note that survives a crash.
extension S3Provider {
    private var notes: [UInt8] { address.prefix + Array(".cove/moves/".utf8) }

    func directoryMove(_ source: RemotePath, _ target: RemotePath) -> S3Move {
        let text = source.bytes + [0x0A] + target.bytes
        return S3Move(
            from: source,
            to: target,
            note: notes + Array(Digest.hash(text, .sha256).hexadecimal.prefix(32).utf8)
        )
    }

    /// Moves all below a directory; asked again, or started again, it goes on where it was cut off.
    func moveDirectory(_ source: RemotePath, to target: RemotePath) async throws(ProviderError) -> RemoteItem {
        let move = directoryMove(source, target)
        begin(move)
        do throws(ProviderError) {
            try await carryOut(move)
        } catch {
            // Without a note nothing has happened; whether there is one is found out later.
            pause(move)
            throw error
        }
        return S3Object.directory(at: target)
    }

    private func carryOut(_ move: S3Move) async throws(ProviderError) {
        let (source, target) = (move.from, move.to)
        if try await client.head(move.note) == nil {
            if let other = try await occupant(target) { throw .filenameCollision(other) }
            guard try await hasDirectory(source) else { throw .noSuchItem }
            try await keepStanding(source.parent)
            // One that the server only remembers could not be moved.
            if features.cleansLate { try await keepStanding(source) }
            var call = S3Call("PUT", move.note)
            call.headers = [
                (Self.fromHeader, PercentEncoding.encode(source.bytes)),
                (Self.toHeader, PercentEncoding.encode(target.bytes)),
            ]
            call.isRepeatable = true
            _ = try await client.send(call)
        }
        try await finish(move, isNew: true)
    }

    private static let fromHeader = "x-amz-meta-cove-from"
    private static let toHeader = "x-amz-meta-cove-to"

    /// No more moves than these are taken for cut off.
    private static let mostMoves = 1000

    /// Learns of the moves that a crash has cut off.
    func findMoves() async throws(ProviderError) {
        try await client.eachPage(of: notes) { listing throws(ProviderError) in
            for object in listing.objects where unfinishedMoves.count < Self.mostMoves {
                if let move = try await move(of: object.key) { note(move) }
            }
        }
    }

    /// What a note tells of.
    private func move(of note: [UInt8]) async throws(ProviderError) -> S3Move? {
        guard let headers = try await client.head(note)?.headers,
            let source = headers[Self.fromHeader].flatMap({ PercentEncoding.decode($0.utf8) }),
            let target = headers[Self.toHeader].flatMap({ PercentEncoding.decode($0.utf8) })
        else { return nil }
        return S3Move(from: RemotePath(unchecked: source), to: RemotePath(unchecked: target), note: note)
    }

    /// The moves that go on, whichever device makes them.
    ///
    /// Another device's is waited for no longer than this one is patient. One of its own that could not be finished ends by
    /// then, with what is at either place: later on, another directory may have the name.
    public func movesUnderway() async throws(ProviderError) -> [DirectoryMove]? {
        let known = foreignMoves
        let now = System.monotonic()
        var found: [[UInt8]: S3ForeignMove] = [:]
        try await client.eachPage(of: notes) { listing throws(ProviderError) in
            for object in listing.objects where found.count < Self.mostMoves {
                if let foreign = known[object.key] {
                    found[object.key] = foreign
                } else if let move = try await move(of: object.key) {
                    found[object.key] = S3ForeignMove(move: DirectoryMove(from: move.from, to: move.to), since: now)
                }
            }
        }
        foreignMoves = found
        for move in takeGivenUp(before: now - patience) {
            do throws(ProviderError) {
                try await close(move)
                found[move.note] = nil
            } catch {
                log("\(move.from): that its move to \(move.to) is over can't be told: \(error)")
                leaveAlone(move)
            }
        }
        return found.values.filter { now - $0.since < patience }.map(\.move)
    }

    /// Finishes all moves that were cut off.
    func finishMoves() async {
        try? await findMoves()
        for move in unfinishedMoves {
            do throws(ProviderError) {
                try await finish(move)
                log("\(move.from): its move to \(move.to) was cut off and is finished now")
            } catch {
                if Task.isCancelled { return }
                if !error.parksAccount { _ = giveUp(move) }
                log("\(move.from): its move to \(move.to) was cut off and can't be finished: \(error)")
            }
        }
    }

    /// Finishes what was cut off around a path: until then neither place tells the truth.
    ///
    /// One that is asked for again goes on where that is done.
    func settleMoves(around path: RemotePath, before asked: S3Move? = nil) async throws(ProviderError) {
        for move in unfinishedMoves where move.concerns(path) && move.note != asked?.note {
            do throws(ProviderError) {
                try await finish(move)
            } catch {
                if error.parksAccount || error == .cancelled || !giveUp(move) { throw error }
                log("\(move.from): its move to \(move.to) was cut off and can't be finished: \(error)")
            }
        }
    }

    /// Carries out a move that has a note; unless it is new it may be finished already, and then the note is gone.
    private func finish(_ move: S3Move, isNew: Bool = false) async throws(ProviderError) {
        // A server may tell for a moment that there is no note where one was just put.
        if !isNew, try await client.head(move.note) == nil { return forgetCutOff(move) }
        do throws(ProviderError) {
            try await relocate(move)
            if features.cleansLate { try await forget(move.from) }
            // Nor may a listing show what is there.
            if try await !hasDirectory(move.to) {
                let isLeft = try await hasDirectory(move.from)
                if isNew || isLeft { throw .busy }
            }
        } catch {
            if error == .cancelled || error.isUnanswered || error.parksAccount { throw error }
            guard let obstacle = try await obstacle(to: move) else { throw error }
            try await close(move)
            throw .filenameCollision(obstacle)
        }
        try await close(move)
    }

    /// Has the server forget the folders of a directory from which all has gone.
    private func forget(_ directory: RemotePath) async throws(ProviderError) {
        let key = directoryKey(directory)
        if try await client.hasAny(key) { return }
        _ = try await besideNoFile(key, .byDeleting, for: "delete") { () throws(ProviderError) in
            try await sweepAll(key)
        }
    }

    /// The file that has taken the name that a directory was to get, of which nothing is there yet: it can't be finished.
    private func obstacle(to move: S3Move) async throws(ProviderError) -> RemoteItem? {
        guard let object = try await client.head(key(move.to)), try await !hasDirectory(move.to),
            try await hasDirectory(move.from)
        else { return nil }
        return object.item(at: move.to)
    }

    /// Ends a move by taking back its note.
    private func close(_ move: S3Move) async throws(ProviderError) {
        _ = try await client.ask(S3Call("DELETE", move.note)).get { $0.status == 404 }
        forget(move)
    }

    /// Moves what listings show until one shows nothing more that can go.
    private func relocate(_ move: S3Move) async throws(ProviderError) {
        for _ in 0..<10 {
            guard try await relocateListed(move) else { return }
        }
        throw .busy
    }

    /// Copies all that a listing shows, then deletes what was copied; false when nothing was.
    private func relocateListed(_ move: S3Move) async throws(ProviderError) -> Bool {
        let from = directoryKey(move.from)
        let to = directoryKey(move.to)
        let isAny = Mutex(false)
        try await each(below: from) { object throws(ProviderError) in
            let key = to + object.key.dropFirst(from.count)
            if try await self.copyBelow(object, to: key, move) != nil { isAny.withLock { $0 = true } }
        }
        guard isAny.withLock({ $0 }) else { return false }
        forgetMarked(from)
        let markers = Mutex<[S3Object]>([])
        let directories = Mutex<Set<[UInt8]>>([])
        try await each(below: from) { object throws(ProviderError) in
            // What has come since the first pass is copied now.
            guard let copied = try await self.copyBelow(object, to: to + object.key.dropFirst(from.count), move) else {
                return
            }
            if S3Names.isMarker(object.key) { return markers.withLock { $0.append(object) } }
            // Others may be finishing the move, and another one may bring back what they have moved.
            _ = try await self.deleteObject(copied, alone: true)
            let ends = object.key.indices.dropFirst(from.count - 1).filter { object.key[$0] == 0x2F }
            directories.withLock { $0.formUnion(ends.map { Array(object.key[...$0]) }) }
        }
        // To some servers these are directories, which go when they are empty.
        let deepestFirst = markers.withLock { $0 }.sorted { $1.key.lexicographicallyPrecedes($0.key) }
        for marker in deepestFirst {
            let directory = S3Names.directory(of: marker.key)
            _ = try await besideNoFile(directory, .byDeleting, for: "delete") { () throws(ProviderError) in
                if !isClaimYoung(Array(directory.dropLast())) { throw .busy }
                _ = try await deleteAlone(marker)
            }
        }
        let unmarked = directories.withLock { $0 }.subtracting(deepestFirst.map(\.key))
        for key in unmarked.sorted(by: { $1.lexicographicallyPrecedes($0) }) {
            _ = try await besideNoFile(key, .byDeleting, for: "delete") { () throws(ProviderError) in
                try await sweep(key)
            }
        }
        return true
    }

    /// Deletes the key of a folder that holds nothing any more: SeaweedFS lists it for ever.
    ///
    /// Where versions are kept it would leave one for nothing. No file may have the name.
    func sweep(_ key: [UInt8]) async throws(ProviderError) {
        guard !features.keepsVersions else { return }
        if try await !client.list(key, delimiter: false, limit: 1).objects.isEmpty { return }
        try await belowNoFile(key) { () throws(ProviderError) in try await deleteFolderObject(key, of: key) }
    }

    /// The same for a folder and all that the server remembers in it, the deepest first: else it would be listed on.
    func sweepAll(_ key: [UInt8], depth: Int = 0) async throws(ProviderError) {
        if features.cleansLate, depth < 100 {
            var remembered: [[UInt8]] = []
            try await client.eachPage(of: key, delimiter: true) { listing throws(ProviderError) in
                remembered += listing.prefixes.filter { $0.count > key.count && $0.starts(with: key) }
            }
            for inner in remembered {
                _ = try await besideNoFile(inner, .byDeleting, for: "delete") { () throws(ProviderError) in
                    try await sweepAll(inner, depth: depth + 1)
                }
            }
        }
        try await sweep(key)
    }

    /// Deletes what stands for a directory, while the claim on its name is young: the machine may have slept.
    func deleteFolderObject(_ key: [UInt8], of directory: [UInt8]) async throws(ProviderError) {
        if !isClaimYoung(Array(directory.dropLast())) { throw .busy }
        do throws(ProviderError) {
            _ = try await client.ask(S3Call("DELETE", key)).get { $0.status == 404 }
        } catch {
            if error.isUnanswered { doubtDeletion(of: key) }
            throw error
        }
    }

    /// Runs what deletes an object, unless a file has the name of the folder that it is in: then the object is gone.
    ///
    /// Some servers take the file away with it.
    func belowNoFile(
        _ key: [UInt8],
        _ body: () async throws(ProviderError) -> Void
    ) async throws(ProviderError) {
        guard features.takesFiles.contains(.byDeletingBelow), let slash = key.dropLast().lastIndex(of: 0x2F) else {
            return try await body()
        }
        _ = try await besideNoFile(Array(key[...slash]), .byDeleting, for: "delete", body)
    }

    /// Runs what may take a file away that has the name of a directory, unless there is one; false when there is.
    ///
    /// Whoever does the same work with it does so together with others, on whichever device. Who makes a file there looks again
    /// whether it stayed when nobody claims its key any more.
    func besideNoFile(
        _ directory: [UInt8],
        _ ways: FileTaking,
        for work: String?,
        _ body: () async throws(ProviderError) -> Void
    ) async throws(ProviderError) -> Bool {
        let takesFiles = !features.takesFiles.isDisjoint(with: ways)
        if directory == address.prefix || features.putsConditionally && !takesFiles {
            try await body()
            return true
        }
        let file = Array(directory.dropLast())
        let task = work.map { String(Digest.hash(Array("\($0) ".utf8) + directory, .sha256).hexadecimal.prefix(32)) }
        return try await exclusively([file], for: task) { () throws(ProviderError) in
            if takesFiles, try await client.head(file) != nil { return false }
            defer { if features.cleansLate, ways == .byDeleting { doubt(file, for: address.lateCleaning) } }
            // The machine may have slept.
            if !isClaimYoung(file) { throw .busy }
            try await body()
            return true
        }
    }

    /// Runs the body for every object below a key, a few at a time.
    private func each(
        below key: [UInt8],
        _ body: @escaping @Sendable (S3Object) async throws(ProviderError) -> Void
    ) async throws(ProviderError) {
        try await client.eachPage(of: key) { listing throws(ProviderError) in
            var rest = listing.objects.makeIterator()
            let failure = await withTaskGroup(of: ProviderError?.self) { group in
                @Sendable func run(_ object: S3Object) async -> ProviderError? {
                    do throws(ProviderError) { try await body(object) } catch { return error }
                    return nil
                }
                var running = 0
                var failure: ProviderError?
                while true {
                    while running < 8, failure == nil, let object = rest.next() {
                        group.addTask { await run(object) }
                        running += 1
                    }
                    guard running > 0, let result = await group.next() else { return failure }
                    running -= 1
                    failure = failure ?? result
                }
            }
            if let failure { throw failure }
        }
    }
}
