public import CoveCore

extension S3Provider {
    /// Replaces the bytes, or the metadata alone by a copy of the object onto itself.
    ///
    /// What `metadata` leaves open stays as it is, but for the modification time of new bytes.
    public func modify(
        _ item: RemoteReference,
        base: ContentVersion,
        metadata: ItemMetadata,
        content: (any ContentSource)?
    ) async throws(ProviderError) -> RemoteItem {
        let path = item.path
        try await settleMoves(around: path)
        if let content { return try await replace(path, base: base, metadata, content) }
        guard let known = try await client.head(key(path)) else {
            let directory = S3Object.directory(at: path)
            guard try await hasDirectory(path) else { throw .noSuchItem }
            guard base.bytes.isEmpty else { throw .conflict(directory) }
            return directory
        }
        guard known.version.isSame(as: base) else { throw .conflict(known.item(at: path)) }
        return try await describe(known, at: path, metadata)
    }

    private func replace(
        _ path: RemotePath,
        base: ContentVersion,
        _ metadata: ItemMetadata,
        _ content: any ContentSource
    ) async throws(ProviderError) -> RemoteItem {
        let key = key(path)
        var kept = try await client.head(key)?.headers
        kept?[S3Object.timeHeader] = nil
        // It says how the bytes before were coded.
        kept?["content-encoding"] = nil
        let sent = S3Upload(key, metadata, over: kept, content, by: editor, if: .version(base))
        let outcome = try await upload(sent) { () throws(ProviderError) in
            guard let known = try await self.client.head(key) else {
                guard try await self.hasDirectory(path) else { throw .noSuchItem }
                throw .conflict(S3Object.directory(at: path))
            }
            if known.version.isSame(as: base) { return nil }
            guard let object = try await self.earlier(sent) else { throw .conflict(known.item(at: path)) }
            return object
        }
        switch outcome {
        case .stored(let object): return object.item(at: path)
        case .refused:
            guard let other = try await find(path) else { throw .noSuchItem }
            throw .conflict(other)
        }
    }

    private func describe(
        _ known: S3Object,
        at path: RemotePath,
        _ metadata: ItemMetadata
    ) async throws(ProviderError) -> RemoteItem {
        let before = known.item(at: path)
        let isSame =
            (metadata.modificationTime ?? before.metadata.modificationTime) == before.metadata.modificationTime
            && (metadata.permissions ?? before.metadata.permissions) == before.metadata.permissions
        if isSame { return before }
        // Others see by the time of the change, in whole seconds, that there was one.
        try await outlive(known)
        let token = "\(S3Object.describing)\(DocumentID.random())"
        let task = taskName("\(known.version) \(S3Object.headers(metadata, over: known.headers, token: nil))")
        return try await exclusively([known.key], for: task) { () throws(ProviderError) in
            let current = try await client.head(known.key)
            if let current, current.version == known.version, current.modified != known.modified { throw .busy }
            let headers = S3Object.headers(metadata, over: known.headers, token: token)
            guard current?.version == known.version,
                try await copyObject(known, to: known.key, headers, condition: nil)
            else {
                guard let other = try await find(path) else { throw .noSuchItem }
                throw .conflict(other)
            }
            var described = try await client.head(known.key)
            if let found = described, found.token == token, found.modified == known.modified {
                described = try await rewrite(found)
            }
            guard let after = described else { throw .noSuchItem }
            guard after.token == token, mayBeSame(after, known) else { throw .conflict(after.item(at: path)) }
            return after.item(at: path)
        }
    }

    /// False when two objects have different bytes; some servers give a new ETag with new metadata.
    private func mayBeSame(_ one: S3Object, _ other: S3Object) -> Bool {
        guard one.size == other.size else { return false }
        let tags = [one, other].map(\.tag)
        return tags[0] == tags[1] || !features.tagIsDigest || tags.contains { $0.utf8.count != 32 }
    }

    /// Copies an object away and back, on a server that does not date a change of metadata.
    private func rewrite(_ object: S3Object) async throws(ProviderError) -> S3Object? {
        let aside = address.prefix + Array(".cove/aside/\(object.token ?? "")".utf8)
        let headers = S3Object.headers(ItemMetadata(), over: object.headers, token: object.token)
        if try await copyObject(object, to: aside, headers, condition: nil), let copy = try await client.head(aside) {
            if copy.version == object.version, try await client.head(object.key)?.token == object.token {
                _ = try await copyObject(copy, to: object.key, headers, condition: nil)
            }
            _ = try await client.ask(S3Call("DELETE", aside))
        }
        return try await client.head(object.key)
    }

    /// Waits until the server's clock has left the second in which the object was changed.
    private func outlive(_ object: S3Object) async throws(ProviderError) {
        guard let asked = object.asked else { return }
        let left = object.modified.wholeSecond - asked.wholeSecond
        guard left >= .zero, left < .seconds(2) else { return }
        try await rest(left + .seconds(1))
    }

    /// Deletes a file of the base version, or an empty directory.
    public func delete(_ item: RemoteReference, base: ContentVersion?) async throws(ProviderError) {
        let path = item.path
        try await settleMoves(around: path)
        let key = key(path)
        guard let known = try await client.head(key) else {
            // The file is gone: a directory that has its name by now was not meant.
            if base?.bytes.isEmpty == false { throw try await find(path).map { .conflict($0) } ?? .noSuchItem }
            let isDone = try await besideNoFile(directoryKey(path), .byDeleting, for: "delete") {
                () throws(ProviderError) in
                try await deleteDirectory(path)
            }
            if isDone { return }
            // A file has come in its place.
            throw .conflict(try await find(path))
        }
        if let base, !known.version.isSame(as: base) { throw .conflict(known.item(at: path)) }
        try await keepStanding(path.parent)
        guard try await deleteObject(known) else {
            guard let other = try await find(path) else { return }
            throw .conflict(other)
        }
    }

    /// Deletes an object of the version that is known; false when it has changed.
    ///
    /// What has gone and come back with the same bytes only who does so alone can tell: a condition is about the bytes.
    func deleteObject(_ object: S3Object, alone: Bool = false) async throws(ProviderError) -> Bool {
        if alone || !features.deletesConditionally {
            let text = "delete \(object.version) \(object.origin ?? "") "
            let task = taskName(text + String(decoding: object.key, as: UTF8.self))
            return try await exclusively([object.key], for: task) { () throws(ProviderError) in
                guard let known = try await client.head(object.key) else { return true }
                return isSame(known, as: object) ? try await deleteClaimed(object) : false
            }
        }
        for _ in 0..<5 {
            guard try await deleteClaimed(object) else { return false }
            // New metadata may have brought it back.
            try await outlastCopies(onto: object.key)
            guard let again = try await client.head(object.key), again.version == object.version,
                again.isDescribed(since: object), isSame(again, as: object)
            else { return true }
        }
        throw .busy
    }

    /// True for an object that has not gone since another look at it, though it may have got new metadata.
    func isSame(_ object: S3Object, as other: S3Object) -> Bool {
        // A listing tells nothing of marks.
        object.version == other.version && (other.headers == nil || object.origin == other.origin)
    }

    /// Deletes an object that nobody else changes, or that has a condition against it; false when it has changed.
    func deleteClaimed(_ object: S3Object) async throws(ProviderError) -> Bool {
        var isGone = true
        try await belowNoFile(object.key) { () throws(ProviderError) in isGone = try await deleteAlone(object) }
        return isGone
    }

    /// The same where no file has the folder's name for as long.
    func deleteAlone(_ object: S3Object) async throws(ProviderError) -> Bool {
        var call = S3Call("DELETE", object.key)
        call.isRepeatable = false
        let isConditional = features.deletesConditionally && !object.version.isMadeUp
        if isConditional { call.headers.append(("If-Match", features.tag(object.version))) }
        for attempt in 1... {
            // The machine may have slept.
            if !isClaimYoung(object.key) { throw .busy }
            do throws(ProviderError) {
                let answer = try await client.ask(call)
                // Something in front of the server has not waited for it.
                if case .failure(let failure) = answer, failure.isGateway { doubtDeletion(of: object.key) }
                guard isConditional, attempt < 3, case .failure(let failure) = answer, failure.passes else {
                    return try await isDeleted(object, answer, isFirst: attempt == 1)
                }
            } catch {
                if error.isUnanswered { doubtDeletion(of: object.key) }
                guard isConditional, attempt < 3, error.isUnanswered, error != .cancelled else { throw error }
            }
            // It may be gone, and another with the same bytes have come since: the condition would not tell.
            guard let again = try await client.head(object.key), isSame(again, as: object) else { return true }
            try await rest(.milliseconds(100).doubled(attempt))
        }
        throw .busy
    }

    /// What an answer says of a deletion; after an attempt without one, another object in its place does not say that it stayed.
    private func isDeleted(
        _ object: S3Object,
        _ answer: Result<HTTPResponse, S3Failure>,
        isFirst: Bool
    ) async throws(ProviderError) -> Bool {
        switch answer {
        case .success(let response):
            // The login page of a network answers otherwise.
            guard response.status != 204, try await client.head(object.key)?.version == object.version else {
                return true
            }
            throw .failed("something answered that an object was deleted, and it was not", nil)
        case .failure(let failure):
            if failure.status == 404, failure.code != .noSuchBucket { return true }
            guard failure.isPrecondition else { throw failure.error }
            if !isFirst { return true }
            return try await client.head(object.key) == nil
        }
    }

    private func deleteDirectory(_ path: RemotePath) async throws(ProviderError) {
        let key = directoryKey(path)
        let markers = S3Names.markers(of: key)
        var objects = try await client.list(key, delimiter: false, limit: markers.count + 1).objects
        if !objects.allSatisfy({ markers.contains($0.key) }), try await dropThumbnails(in: key) {
            objects = try await client.list(key, delimiter: false, limit: markers.count + 1).objects
        }
        let listed = objects.map(\.key)
        if listed.isEmpty {
            try await sweepAll(key)
            throw .noSuchItem
        }
        guard objects.allSatisfy({ $0.size == 0 && markers.contains($0.key) }) else { throw .directoryNotEmpty }
        try await keepStanding(path.parent)
        forgetMarked(key)
        for marker in listed.reversed() { try await deleteFolderObject(marker, of: key) }
        if features.cleansLate {
            try await sweepAll(key)
        } else if features.names.keepsSlashes, !listed.contains(key) {
            try await sweep(key)
        }
    }
}

extension Result where Success == HTTPResponse, Failure == S3Failure {
    /// The answer; nil for a failure that is as good as a success, all others are thrown.
    func get(_ isFine: (S3Failure) -> Bool) throws(ProviderError) -> HTTPResponse? {
        switch self {
        case .success(let response): return response
        case .failure(let failure):
            if isFine(failure) { return nil }
            throw failure.error
        }
    }
}
