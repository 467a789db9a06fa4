public import CoveCore

extension S3Provider {
    /// Creates a file or a directory under a free name.
    public func create(
        _ template: ItemTemplate,
        name: FileName,
        in directory: RemoteReference,
        content: (any ContentSource)?
    ) async throws(ProviderError) -> RemoteItem {
        let path = try await newPath(name, in: directory)
        try await settleMoves(around: path)
        switch template.kind {
        case .file: return try await createFile(path, template.metadata, content)
        case .directory: return try await createDirectory(path)
        case .symbolicLink: throw .unsupported("a symbolic link")
        case .fifo, .socket, .characterDevice, .blockDevice: throw .unsupported("a special file")
        }
    }

    /// The path of a new name; throws where the server could not keep it.
    func newPath(_ name: FileName, in directory: RemoteReference) async throws(ProviderError) -> RemotePath {
        if name.isReserved, !name.isPassing { throw .unsupported("\(name): a name that Cove keeps for itself") }
        if let problem = FileName.problem(with: name.bytes) { throw .unsupported(problem) }
        let path = directory.path.appending(name)
        if let problem = problem(with: path) { throw .unsupported(problem) }
        let kept = features.kept
        if let problem = kept.problem(with: name) { throw .unsupported("\(name): \(problem)") }
        if let folded = kept.folded(name) {
            let folder = directoryKey(directory.path)
            var twin: FileName?
            try await client.eachPage(of: folder, delimiter: true) { listing throws(ProviderError) in
                for key in listing.objects.map(\.key) + listing.prefixes {
                    let other = FileName(unchecked: Array(key.dropFirst(folder.count).prefix { $0 != 0x2F }))
                    if other != name, kept.folded(other) == folded { twin = other }
                }
            }
            if let twin { throw .unsupported("\(name): the server takes it for \(twin)") }
        }
        return path
    }

    /// What has a name that is to be free; throws when there is no directory for it.
    func occupant(_ path: RemotePath) async throws(ProviderError) -> RemoteItem? {
        let (item, hasParent) = try await both { () throws(ProviderError) in
            try await self.find(path)
        } and: { () throws(ProviderError) in
            try await self.hasDirectory(path.parent)
        }
        guard hasParent else { throw .noSuchItem }
        return item
    }

    /// The same for a file, as its folder's listing tells it; where a PUT knows no conditions, it is asked for by itself too.
    private func occupant(beforeFile path: RemotePath) async throws(ProviderError) -> RemoteItem? {
        let key = key(path)
        let (object, view) = try await both { () throws(ProviderError) in
            self.features.putsConditionally ? nil : try await self.client.head(key)
        } and: { () throws(ProviderError) in
            try await self.look(around: key)
        }
        guard view.isThere else { throw .noSuchItem }
        if let object = object ?? view.objects[key] { return object.item(at: path) }
        return view.directories.contains(key) ? S3Object.directory(at: path) : nil
    }

    private func createFile(
        _ path: RemotePath,
        _ metadata: ItemMetadata,
        _ content: (any ContentSource)?
    ) async throws(ProviderError) -> RemoteItem {
        let sent = S3Upload(key(path), metadata, content, by: editor, if: .absent)
        let outcome = try await upload(sent) { () throws(ProviderError) in
            guard let other = try await self.occupant(beforeFile: path) else { return nil }
            guard other.kind == .file else { throw .filenameCollision(other) }
            if let object = try await self.earlier(sent) { return object }
            // The server may have taken back what an earlier attempt put.
            guard let left = try await self.find(path) else { return nil }
            throw .filenameCollision(left)
        }
        switch outcome {
        case .stored(let object): return object.item(at: path)
        case .refused:
            let other = try await find(path)
            // The server has taken back what was put.
            if other == nil, features.cleansLate { throw .busy }
            throw .filenameCollision(other)
        }
    }

    private func createDirectory(_ path: RemotePath) async throws(ProviderError) -> RemoteItem {
        let marker = markerKey(path)
        // The claim is on the name, which a file may want too.
        let isDone = try await besideNoFile(directoryKey(path), .byMakingFolder, for: nil) { () throws(ProviderError) in
            if let other = try await occupant(path) { throw .filenameCollision(other) }
            _ = try await writeMarker(marker, isNew: true)
        }
        if !isDone { throw .filenameCollision(try await find(path)) }
        noteMarked(marker)
        return S3Object.directory(at: path)
    }

    /// Writes the object that stands for a directory; false when a file has its name.
    func writeMarker(_ key: [UInt8], isNew: Bool) async throws(ProviderError) -> Bool {
        let directory = S3Names.directory(of: key)
        let name = Array(directory.dropLast())
        var call = S3Call("PUT", key)
        call.headers = [("content-type", "application/x-directory")]
        if let condition = header(.absent) { call.headers.append(condition) }
        call.isRepeatable = true
        if !isClaimYoung(name) { throw .busy }
        guard case .failure(let failure) = try await client.ask(call) else { return true }
        guard failure.isPrecondition else { throw failure.error }
        let isThere = features.cleansLate ? try await isStored(key) : true
        if isThere {
            if isNew { throw .filenameCollision(nil) }
            return true
        }
        // It is a folder in which nothing is that the server takes for the object, or a file: that would be replaced.
        call.headers.removeAll { $0.name.lowercased() == "if-none-match" }
        let plain = call
        @Sendable func put() async throws(ProviderError) {
            if !isClaimYoung(name) { throw .busy }
            _ = try await client.send(plain)
        }
        // Where making a folder takes files away the name is claimed already.
        if features.takesFiles.contains(.byMakingFolder) {
            try await put()
            return true
        }
        let isDone = try await besideNoFile(directory, .byDeleting, for: "delete", put)
        if !isDone, isNew { throw .filenameCollision(nil) }
        return isDone
    }

    /// True for the object of a directory that a listing tells of: SeaweedFS answers for that of any folder it remembers.
    func isStored(_ marker: [UInt8]) async throws(ProviderError) -> Bool {
        guard features.cleansLate else { return try await client.head(marker) != nil }
        return try await client.list(marker, delimiter: false, limit: 1).objects.first?.key == marker
    }
}
