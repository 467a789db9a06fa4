internal import CoveCore

/// Bytes on their way to one object.
struct S3Upload: Sendable {
    /// What must be so for the object to be written.
    enum Condition: Sendable, Equatable {
        case absent
        case version(ContentVersion)
    }

    /// What came of it.
    enum Outcome: Sendable {
        case stored(S3Object)
        /// The condition does not hold.
        case refused
    }

    /// Bytes in memory, read once, with both hashes as servers want them; the hashes stay when the bytes are let go.
    struct Part: Sendable {
        var bytes: [UInt8]
        var sha256: [UInt8]
        var md5: [UInt8]

        init(_ bytes: [UInt8]) {
            self.bytes = bytes
            sha256 = Digest.hash(bytes, .sha256)
            md5 = Digest.hash(bytes, .md5)
        }
    }

    /// What is sent in one piece, and the least size of a part.
    static let pieceSize: Int64 = 16 << 20

    let key: [UInt8]
    /// All metadata, with the token that tells this upload from others.
    let headers: [(name: String, value: String)]
    let token: String
    let content: (any ContentSource)?
    let condition: Condition

    init(
        _ key: [UInt8],
        _ metadata: ItemMetadata,
        over known: [String: String]? = nil,
        _ content: (any ContentSource)?,
        by editor: String?,
        if condition: Condition
    ) {
        self.key = key
        self.content = content
        self.condition = condition
        // The same for each attempt to send one snapshot.
        if let identity = content?.identity {
            token = String(Digest.hash(identity, .sha256).hexadecimal.prefix(32))
        } else {
            token = "\(DocumentID.random())"
        }
        var headers = S3Object.headers(metadata, over: known, token: token)
        headers.removeAll { $0.name == S3Object.editorHeader }
        if let editor, !editor.isEmpty {
            headers.append((S3Object.editorHeader, PercentEncoding.encode(editor.utf8.prefix(100))))
        }
        self.headers = headers
    }

    var size: Int64 { content?.size ?? 0 }
}

extension S3Provider {
    /// Writes an object, in one piece or in parts; `look` is asked right before and throws what is in the way.
    ///
    /// It gives the object that an earlier attempt has left, if that is what is there.
    func upload(
        _ upload: S3Upload,
        after look: @escaping @Sendable () async throws(ProviderError) -> S3Object?
    ) async throws(ProviderError) -> S3Upload.Outcome {
        if upload.size > pieceSize { return try await uploadInParts(upload, after: look) }
        return try await conditionally(upload.key) { () throws(ProviderError) in
            // Under a claim it is looked later.
            if features.putsConditionally, let object = try await look() { return .stored(object) }
            return try await put(upload, after: look)
        }
    }

    /// What came of one request.
    private enum Answer {
        case found(S3Object)
        case answered(Result<HTTPResponse, S3Failure>, S3Upload.Part)
    }

    /// Sends all in one piece; its bytes are in memory until the server has answered, and no longer.
    private func send(
        _ upload: S3Upload,
        after look: @Sendable () async throws(ProviderError) -> S3Object?
    ) async throws(ProviderError) -> Answer {
        try await buffers.holding(upload.size > 64 << 10 ? 1 : 0) { () throws(ProviderError) in
            var part = try await read(upload, 0..<upload.size)
            if !features.putsConditionally, let object = try await look() { return .found(object) }
            var call = S3Call("PUT", upload.key)
            call.headers = upload.headers
            if let condition = header(upload.condition) { call.headers.append(condition) }
            call.carry(part, checksum: features.keepsChecksums)
            part.bytes = []
            return .answered(
                features.putsConditionally
                    ? try await client.ask(call) : try await askClaimed(call, of: upload.size, lingers: false),
                part
            )
        }
    }

    private func put(
        _ upload: S3Upload,
        after look: @Sendable () async throws(ProviderError) -> S3Object?
    ) async throws(ProviderError) -> S3Upload.Outcome {
        var attempts = 0
        while true {
            attempts += 1
            let (answer, part): (Result<HTTPResponse, S3Failure>, S3Upload.Part)
            switch try await send(upload, after: look) {
            case .found(let object): return .stored(object)
            case .answered(let result, let sent): (answer, part) = (result, sent)
            }
            switch answer {
            case .success(let response):
                try await outlastCopies(onto: upload.key)
                let isClaimed = !features.putsConditionally
                let outcome = try await confirm(
                    upload,
                    response.head["etag"],
                    part,
                    isClaimed: isClaimed,
                    head: response.head
                )
                // New metadata of what was replaced may have brought that back.
                if case .refused = outcome, attempts < 5, case .version(let base) = upload.condition,
                    let object = try await client.head(upload.key), object.version.isSame(as: base),
                    object.isDescribed(since: nil)
                {
                    continue
                }
                return outcome
            case .failure(let failure):
                // Two at once: neither knows who is first.
                if failure.code == .conditionalConflict, attempts < 5 { continue }
                guard failure.isPrecondition || failure.status == 404 && upload.condition != .absent else {
                    throw failure.error
                }
                return try await earlier(upload, part).map { .stored($0) } ?? .refused
            }
        }
    }

    /// The header that makes a request conditional, where the server knows it.
    func header(_ condition: S3Upload.Condition) -> (name: String, value: String)? {
        guard features.putsConditionally else { return nil }
        switch condition {
        case .absent: return ("If-None-Match", "*")
        case .version(let version): return version.isMadeUp ? nil : ("If-Match", features.tag(version))
        }
    }

    /// Looks at what was written; without a claim a copy may have replaced it unseen.
    func confirm(
        _ upload: S3Upload,
        _ tag: String?,
        _ part: S3Upload.Part?,
        isClaimed: Bool,
        head: HTTPHead? = nil
    ) async throws(ProviderError) -> S3Upload.Outcome {
        guard let object = try await acknowledged(upload, head) else { return .refused }
        guard object.token == upload.token else {
            guard let tag else { return .refused }
            var sent = object
            sent.size = upload.size
            sent.version = S3Object.version(tag, size: upload.size, object.modified)
            sent.headers = [:]
            if sent.version == object.version { return .stored(object) }
            // Somebody has written since; what was sent was there, and is what the next change was made on.
            return isClaimed ? .stored(sent) : .refused
        }
        guard isIntact(object, upload, part) else {
            throw .failed("the server did not keep the bytes that it was sent", .inputOutput)
        }
        return .stored(object)
    }

    /// What is there of what was put; a listing tells of the version, whose metadata is then that which was sent.
    private func acknowledged(_ upload: S3Upload, _ head: HTTPHead?) async throws(ProviderError) -> S3Object? {
        guard let head, let tag = head["etag"], let date = head["date"].flatMap({ HTTPDate.parse($0) }),
            upload.condition == .absent
        else { return try await client.head(upload.key) }
        guard var object = try await placed(upload.key) else { return nil }
        if object.headers != nil { return object }
        let version = S3Object.version(tag, size: upload.size, object.modified)
        // What is younger may have another's metadata.
        guard object.version == version, object.size == upload.size, !version.isMadeUp, object.modified <= date else {
            return try await client.head(upload.key)
        }
        object.headers = Dictionary(upload.headers.map { ($0.name, $0.value) }, uniquingKeysWith: { first, _ in first })
        return object
    }

    /// The object, if an earlier attempt to send the same has left it.
    func earlier(_ upload: S3Upload, _ part: S3Upload.Part? = nil) async throws(ProviderError) -> S3Object? {
        // Parts are put together under a claim.
        var isSure = upload.size > pieceSize
        while true {
            guard let object = try await client.head(upload.key), object.token == upload.token,
                isIntact(object, upload, part)
            else { return nil }
            if isSure { return object }
            isSure = true
            try await outlastCopies(onto: upload.key)
        }
    }

    private func isIntact(_ object: S3Object, _ upload: S3Upload, _ part: S3Upload.Part?) -> Bool {
        guard object.size == upload.size else { return false }
        return part.map { isDigest(object.tag, of: $0) } ?? true
    }

    /// False when an ETag that should be a hash of the bytes is another one's.
    func isDigest(_ tag: String, of part: S3Upload.Part) -> Bool {
        guard features.tagIsDigest, tag.utf8.count == 32 else { return true }
        return tag.lowercased() == part.md5.hexadecimal
    }

    /// Reads bytes of the snapshot into memory.
    func read(_ upload: S3Upload, _ range: Range<Int64>) async throws(ProviderError) -> S3Upload.Part {
        guard let content = upload.content, !range.isEmpty else { return S3Upload.Part([]) }
        return try await work.run { flag throws(ProviderError) in
            let count = Int(range.upperBound - range.lowerBound)
            var problem: ProviderError?
            let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
                do throws(ProviderError) {
                    while filled < count {
                        try flag.check()
                        let room = UnsafeMutableRawBufferPointer(
                            rebasing: UnsafeMutableRawBufferPointer(buffer)[filled...]
                        )
                        let piece = UnsafeMutableRawBufferPointer(rebasing: room.prefix(1 << 20))
                        let read = try content.read(at: range.lowerBound + Int64(filled), into: piece)
                        guard read > 0 else { throw .failed("the content ended early", .inputOutput) }
                        filled += read
                    }
                } catch {
                    problem = error
                }
            }
            if let problem { throw problem }
            return S3Upload.Part(bytes)
        }
    }
}

extension S3Call {
    /// Asks for the checksums that the server has.
    static let wantsChecksum = (name: "x-amz-checksum-mode", value: "ENABLED")

    /// Sends bytes along, and what proves them; with a checksum that the server keeps beside them.
    mutating func carry(_ part: S3Upload.Part, checksum: Bool) {
        headers.append(("content-md5", part.md5.base64))
        if checksum { headers.append(("x-amz-checksum-sha256", part.sha256.base64)) }
        payload = part.sha256.hexadecimal
        if !part.bytes.isEmpty { body = .bytes(part.bytes) }
        isBulk = part.bytes.count > 64 << 10
        // When the first attempt has arrived, a condition refuses the second, and the token tells whose it is.
        isRepeatable = true
    }
}
