public import CoveCore

extension S3Provider {
    /// Renames or moves, also out of the trash: a copy at the server, then a deletion.
    public func move(
        _ item: RemoteReference,
        base: ContentVersion?,
        to directory: RemoteReference,
        name: FileName
    ) async throws(ProviderError) -> RemoteItem {
        let target = try await newPath(name, in: directory)
        let source = item.path
        let asked = directoryMove(source, target)
        try await settleMoves(around: source, before: asked)
        try await settleMoves(around: target, before: asked)
        let known = try await client.head(key(source))
        if let known, let base, !known.version.isSame(as: base) { throw .conflict(known.item(at: source)) }
        if source == target {
            if let known { return known.item(at: source) }
            guard try await hasDirectory(source) else { throw .noSuchItem }
            return S3Object.directory(at: source)
        }
        if target.isInside(source) { throw .notPermitted("a directory can't be moved into itself") }
        if let known { return try await relocate(known, at: source, to: target) }
        // The engine may know a file where a directory is by now.
        if item.isFile || base?.bytes.isEmpty == false { throw .noSuchItem }
        return try await moveDirectory(source, to: target)
    }

    /// Copies one version of a file to a free name.
    public func copy(
        _ item: RemoteReference,
        version: ContentVersion,
        to directory: RemoteReference,
        name: FileName
    ) async throws(ProviderError) -> RemoteItem {
        let target = try await newPath(name, in: directory)
        try await settleMoves(around: item.path)
        try await settleMoves(around: target)
        guard let known = try await client.head(key(item.path)) else {
            guard try await hasDirectory(item.path) else { throw .noSuchItem }
            if !version.bytes.isEmpty { throw .versionNoLongerAvailable }
            throw .unsupported("\(item.path): only files are copied at the source")
        }
        guard known.version.isSame(as: version) else { throw .conflict(known.item(at: item.path)) }
        let token = "\(DocumentID.random())"
        return try await exclusively([key(target)]) { () throws(ProviderError) in
            if let other = try await occupant(target) { throw .filenameCollision(other) }
            return try await duplicate(known, at: item.path, to: target, token).item(at: target)
        }
    }

    /// Moves a file to `.cove/trash` under the prefix.
    public func trash(
        _ item: RemoteReference,
        base: ContentVersion?,
        as token: String
    ) async throws(ProviderError) -> RemoteItem? {
        guard let name = FileName(token) else { throw .unsupported("\(token): not a name") }
        let target = RemotePath([
            FileName(unchecked: Array(".cove".utf8)), FileName(unchecked: Array("trash".utf8)), name,
        ])
        try await settleMoves(around: item.path)
        guard let known = try await client.head(key(item.path)) else {
            // Asked again after the answer got lost.
            guard let kept = try await client.head(key(target)) else { throw .noSuchItem }
            return kept.item(at: target)
        }
        if let base, !known.version.isSame(as: base) { throw .conflict(known.item(at: item.path)) }
        return try await relocate(known, at: item.path, to: target)
    }

    /// Moves an object; one that changes meanwhile stays where it is.
    private func relocate(
        _ known: S3Object,
        at source: RemotePath,
        to target: RemotePath
    ) async throws(ProviderError) -> RemoteItem {
        let key = key(target)
        let token = Self.moveToken(known, to: key)
        let isHidden = target.names.first?.isReserved == true && target.names.first?.isPassing == false
        // Nobody else makes hidden names. A condition on the deletion of the source is about its bytes: it would not tell what
        // another device has moved back meanwhile.
        let keys = (isHidden ? [] : [key]) + [known.key]
        return try await exclusively(keys, for: taskName(token)) { () throws(ProviderError) in
            if try await client.head(known.key).map({ isSame($0, as: known) }) != true {
                guard let other = try await find(source) else { throw .noSuchItem }
                throw .conflict(other)
            }
            if let other = isHidden ? try await find(target) : try await occupant(target) {
                // An earlier attempt may have come so far.
                guard other.kind == .file, let copy = try await client.head(key),
                    copy.token == token || isHidden && copy.version == known.version
                else { throw .filenameCollision(other) }
                return try await removeMoved(known, at: source, copy, at: target)
            }
            let copy = try await duplicate(known, at: source, to: target, token)
            return try await removeMoved(known, at: source, copy, at: target)
        }
    }

    private func removeMoved(
        _ known: S3Object,
        at source: RemotePath,
        _ copy: S3Object,
        at target: RemotePath
    ) async throws(ProviderError) -> RemoteItem {
        try await keepStanding(source.parent)
        if try await deleteClaimed(known) { return copy.item(at: target) }
        _ = try await deleteClaimed(copy)
        guard let other = try await find(source) else { throw .noSuchItem }
        throw .conflict(other)
    }

    /// Copies one version to a name that is free.
    private func duplicate(
        _ known: S3Object,
        at source: RemotePath,
        to target: RemotePath,
        _ token: String
    ) async throws(ProviderError) -> S3Object {
        let key = key(target)
        let headers = S3Object.headers(ItemMetadata(), over: known.headers, token: token)
        let isDone = try await copyObject(known, to: key, headers, condition: .absent)
        let copy = try await client.head(key)
        if let copy, copy.token == token {
            guard copy.size == known.size else {
                _ = try await deleteClaimed(copy)
                throw .conflict(try await find(source))
            }
            return copy
        }
        if !isDone, let current = try await client.head(known.key), current.version == known.version {
            throw .filenameCollision(copy?.item(at: target))
        }
        guard let current = try await find(source) else { throw .noSuchItem }
        throw .conflict(current)
    }

    /// What a copy that is a step of a move is marked with: the same for every attempt.
    ///
    /// It depends on what the object itself is marked with, whatever metadata it got since: one that came back by another move
    /// is not the same, though its key and its bytes are.
    static func moveToken(_ object: S3Object, to key: [UInt8]) -> String {
        let text = object.key + [0] + object.version.bytes + [0] + key + [0] + Array((object.origin ?? "").utf8)
        return String(Digest.hash(text, .sha256).hexadecimal.prefix(32))
    }

    /// What this device's claims for one change are marked with, however often that is tried.
    func taskName(_ text: String) -> String {
        String(Digest.hash(Array("\(owner) \(text)".utf8), .sha256).hexadecimal.prefix(32))
    }

    /// Copies one version of an object; false when it has changed, or when the target is taken.
    func copyObject(
        _ source: S3Object,
        to key: [UInt8],
        _ headers: [(name: String, value: String)],
        condition: S3Upload.Condition?
    ) async throws(ProviderError) -> Bool {
        if source.size > copyLimit, let isDone = try await copyInParts(source, to: key, headers, condition) {
            return isDone
        }
        var call = S3Call("PUT", key)
        call.headers = headers
        call.headers += [
            ("x-amz-copy-source", address.copySource(source.key)), ("x-amz-metadata-directive", "REPLACE"),
        ]
        if !source.version.isMadeUp {
            call.headers.append(("x-amz-copy-source-if-match", features.tag(source.version)))
        }
        if condition == .absent, features.copiesConditionally { call.headers.append(("If-None-Match", "*")) }
        call.isBulk = true
        switch try await askClaimed(call, of: source.size) {
        case .success: return true
        case .failure(let failure):
            if failure.status == 404, failure.code != .noSuchBucket { throw .noSuchItem }
            guard failure.isPrecondition else { throw failure.error }
            return false
        }
    }
}
