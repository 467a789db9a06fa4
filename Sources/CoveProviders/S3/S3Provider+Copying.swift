internal import CoveCore

/// Copying at the server what is too large for one request.
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
}
