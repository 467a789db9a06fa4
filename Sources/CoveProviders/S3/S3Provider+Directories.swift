internal import CoveCore
internal import Synchronization

/// Moving directories: all copies first, then the deletion of what was copied, under a note that survives a crash.
extension S3Provider {
    private var notes: [UInt8] { address.prefix + Array(".cove/moves/".utf8) }

    /// Moves all below a directory; asked again, or started again, it goes on where it was cut off.
    func moveDirectory(_ source: RemotePath, to target: RemotePath) async throws(ProviderError) -> RemoteItem {
        let text = source.bytes + [0x0A] + target.bytes
        let note = notes + Array(Digest.hash(text, .sha256).hexadecimal.prefix(32).utf8)
        if try await client.head(note) == nil {
            if let other = try await occupant(target) { throw .filenameCollision(other) }
            guard try await hasDirectory(source) else { throw .noSuchItem }
            try await keepStanding(source.parent)
            var call = S3Call("PUT", note)
            call.headers = [
                (Self.fromHeader, PercentEncoding.encode(source.bytes)),
                (Self.toHeader, PercentEncoding.encode(target.bytes)),
            ]
            call.isRepeatable = true
            _ = try await client.send(call)
        }
        try await carryOut(source, to: target)
        _ = try await client.ask(S3Call("DELETE", note))
        return S3Object.directory(at: target)
    }

    private static let fromHeader = "x-amz-meta-cove-from"
    private static let toHeader = "x-amz-meta-cove-to"

    /// Finishes the moves that a crash has cut off.
    func finishMoves() async {
        var token: String?
        repeat {
            guard let listing = try? await client.list(notes, delimiter: false, from: token) else { return }
            for object in listing.objects {
                guard !Task.isCancelled, let note = try? await client.head(object.key),
                    let source = note.headers?[Self.fromHeader].flatMap({ PercentEncoding.decode($0.utf8) }),
                    let target = note.headers?[Self.toHeader].flatMap({ PercentEncoding.decode($0.utf8) })
                else { continue }
                let (from, to) = (RemotePath(unchecked: source), RemotePath(unchecked: target))
                do throws(ProviderError) {
                    try await carryOut(from, to: to)
                    _ = try await client.ask(S3Call("DELETE", object.key))
                    log("\(from): its move to \(to) was cut off and is finished now")
                } catch {
                    log("\(from): its move to \(to) was cut off and can't be finished: \(error)")
                }
            }
            token = listing.next
        } while token != nil
    }

    private func carryOut(_ source: RemotePath, to target: RemotePath) async throws(ProviderError) {
        let from = directoryKey(source)
        let to = directoryKey(target)
        try await each(below: from) { object throws(ProviderError) in
            _ = try await self.copyBelow(object, to: to + object.key.dropFirst(from.count))
        }
        forgetMarked(from)
        let markers = Mutex<[S3Object]>([])
        try await each(below: from) { object throws(ProviderError) in
            // What has come since the first pass is copied now.
            guard try await self.copyBelow(object, to: to + object.key.dropFirst(from.count)) else { return }
            if S3Names.isMarker(object.key) { return markers.withLock { $0.append(object) } }
            _ = try await self.deleteObject(object)
        }
        // To some servers these are directories, which go when they are empty.
        let deepestFirst = markers.withLock { $0 }.sorted { $1.key.lexicographicallyPrecedes($0.key) }
        for marker in deepestFirst { _ = try await deleteObject(marker) }
    }

    /// Makes sure that a copy of an object is there; false when something else is.
    private func copyBelow(_ object: S3Object, to key: [UInt8]) async throws(ProviderError) -> Bool {
        let token = Self.moveToken(object, to: key)
        let isMarker = object.size == 0 && S3Names.isMarker(key)
        if let there = try await client.head(key) {
            if there.token == token { return true }
            // The object that stands for a directory is like any other of its kind.
            return isMarker && there.size == 0
        }
        if isMarker {
            try await writeMarker(key, isNew: false)
            return true
        }
        guard let known = try await client.head(object.key), known.version == object.version else { return false }
        let headers = S3Object.headers(ItemMetadata(), over: known.headers, token: token)
        do throws(ProviderError) {
            guard try await copyObject(known, to: key, headers, condition: .absent) else { return false }
        } catch .noSuchItem {
            return false
        }
        guard let there = try await client.head(key) else { return false }
        return there.token == token && there.size == known.size
    }

    /// Runs the body for every object below a key, a few at a time.
    private func each(
        below key: [UInt8],
        _ body: @escaping @Sendable (S3Object) async throws(ProviderError) -> Void
    ) async throws(ProviderError) {
        var token: String?
        repeat {
            let listing = try await client.list(key, delimiter: false, from: token)
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
            if listing.next != nil, listing.next == token { throw .failed("the server's listing has no end", nil) }
            token = listing.next
        } while token != nil
    }
}
