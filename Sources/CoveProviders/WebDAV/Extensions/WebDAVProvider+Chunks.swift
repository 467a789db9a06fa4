internal import CoveCore

/// Uploads in chunks, as ownCloud and Nextcloud take them: they go on after a crash with what is not at the server yet.
///
/// A collection is made for the upload, chunks are put into it under their numbers, and a MOVE of its `.file` makes them
/// the file, on conditions like those of any MOVE.
extension WebDAVProvider {
    /// What must be so for the file to be made.
    enum Assembly: Sendable {
        case absent
        case tag(String)
    }

    static func uploadName() -> String { "cove-\(DocumentID.random())" }

    /// Sends the chunks that are missing, and has the server make the file; the answer is that of the MOVE.
    func putInChunks(
        _ path: RemotePath,
        _ content: any ContentSource,
        _ headers: [(name: String, value: String)],
        if condition: Assembly
    ) async throws(ProviderError) -> HTTPResponse {
        journal.begin(path.bytes)
        defer { journal.end(path.bytes) }
        let record = try await chunkRecord(path, content)
        await keepChunks(record)
        do throws(ProviderError) {
            let sent = try await resume(record, content.size, to: path)
            let missing = record.numbers(of: content.size).filter { !sent.contains($0) }
            try await sendChunks(missing, content, record, to: path)
            let response = try await assemble(record.upload, content.size, to: path, condition, headers)
            if response.head.isSuccess { await forgetChunks(path) }
            return response
        } catch {
            // Bytes that can't be told from others' next time are not kept.
            if content.identity == nil { await abandonChunks(path) }
            throw error
        }
    }

    /// The upload to go on with, or a new one, which is noted before anything of it is at the server.
    private func chunkRecord(
        _ path: RemotePath,
        _ content: any ContentSource
    ) async throws(ProviderError) -> UploadRecord {
        let hash = content.identity.map { Digest.hash($0, .sha256).hexadecimal } ?? "\(DocumentID.random())"
        let identity = "\(hash)-\(content.size)"
        if let known = try await work.run({ _ throws(ProviderError) in self.journal.record(path.bytes) }) {
            if known.identity == identity { return known }
            await dropChunks(known.upload)
        }
        // At most 10,000 of them, in whole MiB.
        let least = (content.size / 10_000 / (1 << 20) + 1) * (1 << 20)
        let record = UploadRecord(
            key: path.bytes,
            upload: Self.uploadName(),
            identity: identity,
            partSize: max(pieceSize, least),
            started: System.now().seconds
        )
        try await work.run { _ throws(ProviderError) in try self.journal.save(record) }
        return record
    }

    /// The numbers of the chunks that the server has whole; an upload that it does not know is begun.
    private func resume(
        _ record: UploadRecord,
        _ size: Int64,
        to path: RemotePath
    ) async throws(ProviderError) -> Set<Int> {
        guard let home else { throw .unsupported("there is no place for uploads") }
        do throws(ProviderError) {
            let found = try await propfind(
                home.uploads(record.upload),
                depth: 1,
                MultistatusReader.request,
                limit: 20_000
            )
            let numbers = record.numbers(of: size)
            let sent = found.compactMap { resource -> Int? in
                guard let name = resource.href.split(separator: 0x2F).last,
                    let number = Int(String(decoding: name, as: UTF8.self)), numbers.contains(number),
                    resource.size == Int64(record.range(number, of: size).count)
                else { return nil }
                return number
            }
            if !sent.isEmpty { log("\(path): goes on with \(sent.count) chunks that are there already") }
            return Set(sent)
        } catch .noSuchItem {
            let made = try await beginChunks(record.upload, to: path)
            guard made.head.isSuccess else { throw refusal(made, "\(path)") }
            return []
        }
    }

    private func sendChunks(
        _ numbers: [Int],
        _ content: any ContentSource,
        _ record: UploadRecord,
        to path: RemotePath
    ) async throws(ProviderError) {
        var missing = numbers.makeIterator()
        let failure = await withTaskGroup(of: ProviderError?.self) { group in
            var failure: ProviderError?
            var running = 0
            while true {
                while running < Self.parallelChunks, failure == nil, let number = missing.next() {
                    group.addTask { await self.sendChunk(number, content, record, to: path) }
                    running += 1
                }
                guard running > 0, let outcome = await group.next() else { return failure }
                running -= 1
                if let error = outcome, failure == nil {
                    failure = error
                    group.cancelAll()
                }
            }
        }
        if let failure { throw failure }
    }

    private static var parallelChunks: Int { 3 }

    private func sendChunk(
        _ number: Int,
        _ content: any ContentSource,
        _ record: UploadRecord,
        to path: RemotePath
    ) async -> ProviderError? {
        do throws(ProviderError) {
            let range = record.range(number, of: content.size)
            let response = try await putChunk(number, of: content, range, record.upload, to: path)
            if response.head.isSuccess {
                await keepChunks(record)
                return nil
            }
            // The server has dropped the upload: the next attempt begins anew.
            if response.status == 404 || response.status == 409 {
                await forgetChunks(path)
                return .failed("\(path): the server has dropped the upload", nil)
            }
            return refusal(response, "\(path)")
        } catch {
            return error
        }
    }

    // MARK: the requests

    func beginChunks(_ upload: String, to path: RemotePath) async throws(ProviderError) -> HTTPResponse {
        guard let home else { throw .unsupported("there is no place for uploads") }
        var request = HTTPRequest("MKCOL", home.uploads(upload))
        request.headers = [("Destination", address.url(path))]
        return try await client.send(request)
    }

    func putChunk(
        _ number: Int,
        of content: any ContentSource,
        _ range: Range<Int64>,
        _ upload: String,
        to path: RemotePath
    ) async throws(ProviderError) -> HTTPResponse {
        guard let home else { throw .unsupported("there is no place for uploads") }
        // They are put together in the order of their names.
        let digits = String(number)
        let name = String(repeating: "0", count: max(0, 5 - digits.count)) + digits
        var request = HTTPRequest("PUT", home.uploads(upload, name))
        request.headers = [("Destination", address.url(path)), ("OC-Total-Length", "\(content.size)")]
        request.body = .content(content, range)
        request.isBulk = true
        request.isRepeatable = true
        return try await client.send(request)
    }

    func assemble(
        _ upload: String,
        _ size: Int64,
        to path: RemotePath,
        _ condition: Assembly,
        _ headers: [(name: String, value: String)]
    ) async throws(ProviderError) -> HTTPResponse {
        guard let home else { throw .unsupported("there is no place for uploads") }
        let target = address.url(path)
        var request = HTTPRequest("MOVE", home.uploads(upload, ".file"))
        request.headers = headers + [("Destination", target), ("OC-Total-Length", "\(size)")]
        switch condition {
        case .absent: request.headers.append(("Overwrite", "F"))
        case .tag(let tag): request.headers += [("Overwrite", "T"), ("If", "<\(target)> ([\(tag)])")]
        }
        // All bytes may have to be copied before it answers.
        request.patience = 20
        return try await client.send(request)
    }

    // MARK: around an upload

    /// Before many bytes are sent: what an earlier attempt has left, if its answer got lost; throws what is in the way.
    func earlier(
        _ path: RemotePath,
        _ content: any ContentSource,
        _ sum: Checksum?,
        over base: ContentVersion?
    ) async throws(ProviderError) -> RemoteItem? {
        guard try server().takesChunks, content.size > pieceSize else { return nil }
        let resource: DAVResource
        do throws(ProviderError) {
            resource = try await properties(path, checksumRequest)
        } catch .noSuchItem {
            if base == nil { return nil }
            throw .noSuchItem
        }
        let found = item(resource, path)
        if found.contentVersion == base { return nil }
        let isSame = sum.map { Checksum.all(in: resource.checksums ?? "").contains($0) } ?? false
        if isSame, found.size == content.size {
            await abandonChunks(path)
            return found
        }
        throw base == nil ? .filenameCollision(found) : .conflict(found)
    }

    /// Chunks that can't become what they were sent for are not kept.
    func droppingChunks(
        _ path: RemotePath,
        _ body: () async throws(ProviderError) -> RemoteItem
    ) async throws(ProviderError) -> RemoteItem {
        do throws(ProviderError) {
            return try await body()
        } catch {
            switch error {
            case .filenameCollision, .conflict, .noSuchItem: await abandonChunks(path)
            default: break
            }
            throw error
        }
    }

    // MARK: the end of an upload

    /// Has the server drop the chunks of an upload; what stays it drops by itself a day later.
    func dropChunks(_ upload: String) async {
        guard let home else { return }
        // Whoever called it off does not wait for this to be called off too.
        await Task { _ = try? await client.send(HTTPRequest("DELETE", home.uploads(upload))) }.value
    }

    /// What was sent for a path is not wanted any more.
    func abandonChunks(_ path: RemotePath) async {
        let record = await Task { try? await work.run { _ throws(ProviderError) in self.journal.record(path.bytes) } }
            .value
        guard let record = record ?? nil else { return }
        await dropChunks(record.upload)
        await forgetChunks(path)
    }

    private func forgetChunks(_ path: RemotePath) async {
        await Task { try? await work.run { _ throws(ProviderError) in self.journal.remove(path.bytes) } }.value
    }

    /// Notes that an upload goes on, lest it be taken for an old one.
    private func keepChunks(_ record: UploadRecord) async {
        let now = System.now().seconds
        guard journal.isDue(record.key, at: now) else { return }
        try? await work.run { _ throws(ProviderError) in self.journal.refresh(record.key, at: now) }
    }

    /// Drops uploads that nobody has gone on with for a day.
    func dropOldChunks() async {
        let old = (try? await work.run { _ throws(ProviderError) in self.journal.abandoned(at: System.now().seconds) })
        for record in old ?? [] where !journal.isUnderway(record.key) {
            await abandonChunks(RemotePath(unchecked: record.key))
        }
    }
}
