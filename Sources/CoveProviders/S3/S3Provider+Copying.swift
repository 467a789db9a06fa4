internal import CoveCore

/// Copying at the server: what is too large for one request, and what is below a directory that moves.
extension S3Provider {
    /// What a part of a copy has at most; several are made at a time.
    private static var copiedPiece: Int64 { 512 << 20 }

    /// Copies one version of an object in parts; false when it has changed, or when the target is taken.
    ///
    /// Nil where the server can't do so. Asked for again with the same headers, it goes on where it was cut off.
    func copyInParts(
        _ source: S3Object,
        to key: [UInt8],
        _ headers: [(name: String, value: String)],
        _ condition: S3Upload.Condition?
    ) async throws(ProviderError) -> Bool? {
        let lines = [source.key.hexadecimal, "\(source.version)"] + headers.map { "\($0.name): \($0.value)" }
        let digest = Digest.hash(Array(lines.joined(separator: "\n").utf8), .sha256).hexadecimal
        let identity = "copy-\(source.size)-\(digest.prefix(32))"
        journal.begin(key)
        defer { journal.end(key) }
        let known = try await work.run { _ throws(ProviderError) in self.journal.record(key) }
        var (record, made) = (known, [Int: S3SentPart]())
        if let known {
            if known.identity == identity, let parts = try await listParts(known) {
                for (number, part) in parts where part.size == Int64(known.range(number, of: source.size).count) {
                    made[number] = S3SentPart(tag: part.tag)
                }
            } else {
                await abort(known)
                record = nil
            }
        }
        if record == nil {
            let piece = min(copyLimit, Self.copiedPiece)
            record = try await begin(key, headers, identity, size: source.size, parts: piece)
        }
        guard let record else { return nil }
        do throws(ProviderError) {
            let parts = try await makeParts(record, of: source.size, made) { number throws(ProviderError) in
                try await self.copyPart(number, source, record)
            }
            if case .failure(let failure) = try await askClaimed(completion(record, parts, condition), of: source.size)
            {
                // An earlier request may have completed it, as the caller sees.
                guard failure.isPrecondition || failure.status == 404 else { throw failure.error }
                await abort(record)
                return false
            }
            await forget(key)
            return true
        } catch {
            switch error {
            case .conflict:
                await abort(record)
                return false
            case .unsupported:
                await abort(record)
                return nil
            // It goes on another time.
            case .serverUnreachable, .notAuthenticated, .timedOut, .cancelled, .busy: throw error
            default:
                await abort(record)
                throw error
            }
        }
    }

    private func copyPart(
        _ number: Int,
        _ source: S3Object,
        _ record: UploadRecord
    ) async throws(ProviderError) -> S3SentPart {
        let range = record.range(number, of: source.size)
        var call = record.part(number)
        call.headers = [
            ("x-amz-copy-source", address.copySource(source.key)),
            ("x-amz-copy-source-range", "bytes=\(range.lowerBound)-\(range.upperBound - 1)"),
        ]
        if !source.version.isMadeUp {
            call.headers.append(("x-amz-copy-source-if-match", features.tag(source.version)))
        }
        call.isRepeatable = true
        call.isBulk = true
        switch try await client.ask(call) {
        case .success(let response):
            guard let tag = (try? S3Document.read(response.body))?["ETag"] else {
                throw .unsupported("the server does not copy in parts")
            }
            return S3SentPart(tag: S3Object.tag(tag))
        case .failure(let failure):
            if failure.isPrecondition { throw .conflict(nil) }
            if failure.code == .noSuchUpload { await forget(record.key) }
            switch failure.error {
            case .failed(let text, _) where failure.code != .noSuchUpload: throw .unsupported(text)
            default: throw failure.error
            }
        }
    }

    // MARK: for a directory that moves

    /// Makes sure that a copy of an object is there; what was copied, nil when something else is there, or keeps it out.
    func copyBelow(
        _ object: S3Object,
        to key: [UInt8],
        _ move: S3Move
    ) async throws(ProviderError) -> S3Object? {
        do throws(ProviderError) {
            return try await place(object, at: key, move)
        } catch {
            if error == .cancelled || error.isUnanswered || error.parksAccount { throw error }
            // Some keep no file beside a directory of its name, nor anything below a file.
            guard try await isTaken(key, below: directoryKey(move.to)) else { throw error }
            return nil
        }
    }

    private func place(
        _ object: S3Object,
        at key: [UInt8],
        _ move: S3Move
    ) async throws(ProviderError) -> S3Object? {
        let isMarker = object.size == 0 && S3Names.isMarker(key)
        if let there = try await client.head(key) {
            // The object that stands for a directory is like any other of its kind.
            if isMarker, there.size == 0 { return object }
            guard let known = try await client.head(object.key), known.version == object.version else { return nil }
            return there.token == Self.moveToken(known, to: key) ? known : nil
        }
        if isMarker {
            var isMade = false
            let isDone = try await besideNoFile(S3Names.directory(of: key), .byMakingFolder, for: "keep") {
                () throws(ProviderError) in
                isMade = try await writeMarker(key, isNew: false)
            }
            return isDone && isMade ? object : nil
        }
        // Nobody wants both. Where rclone is asked to put a file in a directory's place, it refuses, but then shows everybody
        // a file there for a while, and nothing of what is in the directory.
        if try await look(around: key).directories.contains(key) { return nil }
        // Whoever finishes a move that was cut off goes on with its claims.
        let task = String(decoding: move.note.suffix(32), as: UTF8.self)
        return try await exclusively([key], for: task) { () throws(ProviderError) -> S3Object? in
            guard let known = try await client.head(object.key), known.version == object.version else { return nil }
            let token = Self.moveToken(known, to: key)
            if let there = try await client.head(key) { return there.token == token ? known : nil }
            let headers = S3Object.headers(ItemMetadata(), over: known.headers, token: token)
            do throws(ProviderError) {
                guard try await copyObject(known, to: key, headers, condition: .absent) else { return nil }
            } catch .noSuchItem {
                return nil
            }
            guard let there = try await client.head(key) else { return nil }
            return there.token == token && there.size == known.size ? known : nil
        }
    }

    /// True where a directory has a file's name, or a file that of a directory on the way to it.
    private func isTaken(_ key: [UInt8], below directory: [UInt8]) async throws(ProviderError) -> Bool {
        // From the top, as others can't even be asked for what is below a file.
        for index in key.indices.dropFirst(directory.count - 1) where key[index] == 0x2F {
            if try await client.head(Array(key[..<index])) != nil { return true }
        }
        return try await look(around: key).directories.contains(key)
    }
}
