internal import CoveCore

/// A part that the server has.
struct S3SentPart: Sendable {
    var tag: String
    /// The hash of its bytes; nil where they never were here.
    var sha256: [UInt8]?
}

/// Uploads in parts, which go on after a crash with what is not at the server yet.
extension S3Provider {
    func uploadInParts(
        _ upload: S3Upload,
        after look: @escaping @Sendable () async throws(ProviderError) -> S3Object?
    ) async throws(ProviderError) -> S3Upload.Outcome {
        journal.begin(upload.key)
        defer { journal.end(upload.key) }
        let (known, object) = try await both { () throws(ProviderError) in
            try await self.work.run { _ throws(ProviderError) in self.journal.record(upload.key) }
        } and: { () throws(ProviderError) in
            try await look()
        }
        if let object {
            if let known { await abort(known) }
            return .stored(object)
        }
        let (begun, sent) = try await resume(upload, known)
        let record = if let begun { begun } else { try await begin(upload) }
        do throws(ProviderError) {
            let parts = try await makeParts(record, of: upload.size, sent) { number throws(ProviderError) in
                try await self.sendPart(number, upload, record)
            }
            let task = taskName(upload.token)
            let outcome = try await exclusively([upload.key], for: task) {
                () throws(ProviderError) -> S3Upload.Outcome in
                if let object = try await look() { return .stored(object) }
                return try await complete(upload, record, parts)
            }
            if case .refused = outcome { await abort(record) }
            await forget(upload.key)
            return outcome
        } catch {
            // Bytes that can't be told from others' next time, and those that nobody wants there, are not kept.
            switch error {
            case .filenameCollision, .conflict, .noSuchItem: await abort(record)
            default: if upload.content?.identity == nil { await abort(record) }
            }
            throw error
        }
    }

    /// Names what is sent: the snapshot, and the metadata that was given when the upload began.
    private func identity(of upload: S3Upload) -> String {
        let kept = upload.headers + (features.keepsChecksums ? [("", "SHA256")] : [])
        let headers = kept.map { "\($0.name): \($0.value)" }.joined(separator: "\n")
        return "\(upload.token)-\(upload.size)-\(Digest.hash(Array(headers.utf8), .sha256).hexadecimal.prefix(16))"
    }

    private func begin(_ upload: S3Upload) async throws(ProviderError) -> UploadRecord {
        var headers = upload.headers
        if features.keepsChecksums { headers.append(("x-amz-checksum-algorithm", "SHA256")) }
        return try await begin(upload.key, headers, identity(of: upload), size: upload.size, parts: pieceSize)
    }

    /// Begins an object in parts, and notes it.
    func begin(
        _ key: [UInt8],
        _ headers: [(name: String, value: String)],
        _ identity: String,
        size: Int64,
        parts: Int64
    ) async throws(ProviderError) -> UploadRecord {
        var call = S3Call("POST", key, query: [("uploads", "")])
        call.headers = headers
        let answer = try S3Document.read(try await client.send(call).body)
        guard let name = answer["UploadId"], !name.isEmpty else { throw .failed("the server names no upload", nil) }
        // A part for each of 10,000, the most there can be, in whole MiB.
        let least = (size / 10_000 / (1 << 20) + 1) * (1 << 20)
        let record = UploadRecord(
            key: key,
            upload: name,
            identity: identity,
            partSize: max(parts, least),
            started: System.now().seconds
        )
        do throws(ProviderError) {
            try await work.run { _ throws(ProviderError) in try self.journal.save(record) }
        } catch {
            await abort(record)
            throw error
        }
        return record
    }

    /// Finds an earlier upload of the same snapshot, and the parts that the server has of it.
    private func resume(
        _ upload: S3Upload,
        _ known: UploadRecord?
    ) async throws(ProviderError) -> (record: UploadRecord?, sent: [Int: S3SentPart]) {
        guard let known else { return (nil, [:]) }
        guard known.identity == identity(of: upload), let parts = try await listParts(known) else {
            await abort(known)
            return (nil, [:])
        }
        var sent: [Int: S3SentPart] = [:]
        for (number, part) in parts {
            let range = known.range(number, of: upload.size)
            guard !range.isEmpty, part.size == range.upperBound - range.lowerBound else { continue }
            sent[number] = try await buffers.holding(Self.units(range)) { () throws(ProviderError) in
                let bytes = try await read(upload, range)
                return isDigest(part.tag, of: bytes) ? S3SentPart(tag: part.tag, sha256: bytes.sha256) : nil
            }
        }
        log("\(upload.token): goes on with \(sent.count) parts that are there already")
        return (known, sent)
    }

    /// The parts that the server has; nil when it does not know the upload any more.
    func listParts(
        _ record: UploadRecord
    ) async throws(ProviderError) -> [Int: (tag: String, size: Int64)]? {
        var parts: [Int: (tag: String, size: Int64)] = [:]
        var marker = 0
        while true {
            var call = S3Call("GET", record.key, query: [("uploadId", record.upload), ("max-parts", "1000")])
            if marker > 0 { call.query.append(("part-number-marker", "\(marker)")) }
            let response: HTTPResponse
            switch try await client.ask(call) {
            case .success(let success): response = success
            case .failure(let failure):
                if failure.status == 404 { return nil }
                throw failure.error
            }
            let before = marker
            let answer = try S3Document.read(response.body, rows: ["Part"]) { _, fields in
                guard let number = fields.text("PartNumber").flatMap({ Int($0) }), (1...10_000).contains(number),
                    let size = fields.text("Size").flatMap({ Int64($0) }), let tag = fields.text("ETag")
                else { return }
                parts[number] = (S3Object.tag(tag), size)
                marker = max(marker, number)
            }
            guard answer["IsTruncated"] == "true", marker > before else { return parts }
        }
    }

    private static func units(_ range: Range<Int64>) -> Int {
        Int((range.upperBound - range.lowerBound + S3Upload.pieceSize - 1) / S3Upload.pieceSize)
    }

    /// Makes the parts that are missing, a few at a time; gives all.
    func makeParts(
        _ record: UploadRecord,
        of size: Int64,
        _ sent: [Int: S3SentPart],
        _ make: @escaping @Sendable (_ number: Int) async throws(ProviderError) -> S3SentPart
    ) async throws(ProviderError) -> [S3SentPart] {
        let numbers = record.numbers(of: size)
        // Servers take no more; one that tells of a larger object is not asked for millions of parts.
        guard numbers.count <= 10_000 else { throw .unsupported("an object of \(size) bytes has too many parts") }
        await keepParts(record)
        var missing = numbers.filter { sent[$0] == nil }.makeIterator()
        @Sendable func result(_ number: Int) async -> (Int, Result<S3SentPart, ProviderError>) {
            do throws(ProviderError) { return (number, .success(try await make(number))) } catch {
                return (number, .failure(error))
            }
        }
        let outcome = await withTaskGroup(of: (Int, Result<S3SentPart, ProviderError>).self) { group in
            var parts = sent
            var failure: ProviderError?
            var running = 0
            while true {
                while running < Self.parallelParts, failure == nil, let number = missing.next() {
                    group.addTask { await result(number) }
                    running += 1
                }
                guard running > 0, let (number, result) = await group.next() else { break }
                running -= 1
                switch result {
                case .success(let part):
                    parts[number] = part
                    await keepParts(record)
                case .failure(let error):
                    failure = failure ?? error
                    group.cancelAll()
                }
            }
            return failure.map { Result<[Int: S3SentPart], ProviderError>.failure($0) } ?? .success(parts)
        }
        return try outcome.get().sorted { $0.key < $1.key }.map(\.value)
    }

    private static var parallelParts: Int { 4 }

    private func sendPart(
        _ number: Int,
        _ upload: S3Upload,
        _ record: UploadRecord
    ) async throws(ProviderError) -> S3SentPart {
        let range = record.range(number, of: upload.size)
        return try await buffers.holding(Self.units(range)) { () throws(ProviderError) -> S3SentPart in
            let part = try await read(upload, range)
            var call = record.part(number)
            call.carry(part, checksum: features.keepsChecksums)
            switch try await client.ask(call) {
            case .success(let response):
                let tag = S3Object.tag(response.head["etag"])
                guard isDigest(tag, of: part) else {
                    throw .failed("the server did not keep the bytes that it was sent", .inputOutput)
                }
                return S3SentPart(tag: tag, sha256: part.sha256)
            case .failure(let failure):
                // The next attempt begins anew.
                if failure.code == .noSuchUpload { await forget(record.key) }
                throw failure.code == .noSuchUpload ? .failed(failure.text, nil) : failure.error
            }
        }
    }

    private func complete(
        _ upload: S3Upload,
        _ record: UploadRecord,
        _ parts: [S3SentPart]
    ) async throws(ProviderError) -> S3Upload.Outcome {
        switch try await askClaimed(completion(record, parts, upload.condition), of: upload.size) {
        case .success(let response):
            let tag = (try? S3Document.read(response.body))?["ETag"]
            return try await confirm(upload, tag, nil, isClaimed: true)
        case .failure(let failure):
            guard failure.isPrecondition || failure.status == 404 else { throw failure.error }
            // An earlier request may have completed it.
            if let object = try await earlier(upload) { return .stored(object) }
            if failure.code == .noSuchUpload {
                await forget(record.key)
                throw .failed(failure.text, nil)
            }
            return .refused
        }
    }

    /// The request that makes an object of parts.
    func completion(
        _ record: UploadRecord,
        _ parts: [S3SentPart],
        _ condition: S3Upload.Condition?
    ) -> S3Call {
        let rows = parts.enumerated().map { index, part in
            let sum = part.sha256.flatMap { features.keepsChecksums ? $0.base64 : nil }
            let checksum = sum.map { "<ChecksumSHA256>\($0)</ChecksumSHA256>" } ?? ""
            let tag = "<ETag>&quot;\(Self.escaped(part.tag))&quot;</ETag>"
            return "<Part><PartNumber>\(index + 1)</PartNumber>\(tag)\(checksum)</Part>"
        }
        let space = "http://s3.amazonaws.com/doc/2006-03-01/"
        let text = "<CompleteMultipartUpload xmlns=\"\(space)\">\(rows.joined())</CompleteMultipartUpload>"
        var call = S3Call("POST", record.key, query: [("uploadId", record.upload)])
        call.carry(S3Upload.Part(Array(text.utf8)), checksum: false)
        call.isBulk = true
        if let condition = condition.flatMap({ header($0) }) { call.headers.append(condition) }
        return call
    }

    private static func escaped(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
    }

    /// Makes the server drop the parts of an upload; also when the task is called off.
    func abort(_ record: UploadRecord) async {
        let client = client
        let isGone = await Task {
            let result = try? await client.ask(S3Call("DELETE", record.key, query: [("uploadId", record.upload)]))
            guard case .failure(let failure) = result else { return result != nil }
            return failure.status == 404
        }.value
        // What is still there is dropped another day.
        if isGone { await forget(record.key) }
    }

    func forget(_ key: [UInt8]) async {
        let (work, journal) = (work, journal)
        await Task { try? await work.run { _ throws(ProviderError) in journal.remove(key) } }.value
    }

    /// Notes that an upload goes on, lest it be taken for an old one.
    private func keepParts(_ record: UploadRecord) async {
        let (work, journal, now) = (work, journal, System.now().seconds)
        guard journal.isDue(record.key, at: now) else { return }
        try? await work.run { _ throws(ProviderError) in journal.refresh(record.key, at: now) }
    }

    /// Drops uploads that nobody has gone on with for a day.
    func abortOldUploads() async {
        let old = (try? await work.run { _ throws(ProviderError) in self.journal.abandoned(at: System.now().seconds) })
        for record in old ?? [] where !journal.isUnderway(record.key) { await abort(record) }
    }
}

extension UploadRecord {
    /// The request that makes a part.
    func part(_ number: Int) -> S3Call {
        S3Call("PUT", key, query: [("partNumber", "\(number)"), ("uploadId", upload)])
    }
}
