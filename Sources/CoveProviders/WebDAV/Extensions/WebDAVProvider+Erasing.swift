public import CoveCore

/// Erasing everything: the note, and what is hidden.
extension WebDAVProvider {
    private static let note = RemotePath([ErasureNote.name])
    /// What is hidden in the root, where that is not listed.
    private static let known = [".cove", ".cove-thumbnails", ".cove-published", ".cove-uploads", ".cove-news"]

    /// Reads the note.
    public func erasure() async throws(ProviderError) -> [UInt8]? {
        var request = HTTPRequest("GET", address.url(Self.note))
        request.isRepeatable = true
        let response = try await client.send(request)
        if response.head.isSuccess { return Array(response.body.prefix(ErasureNote.greatestSize)) }
        if [403, 404, 405, 409, 410].contains(response.status) { return nil }
        throw refusal(response, "\(Self.note)")
    }

    /// Puts the note, in place of an earlier one.
    public func noteErasure(_ note: [UInt8]) async throws(ProviderError) {
        let response = try await put(Self.note, note, [("Content-Type", "text/plain")])
        guard response.head.isSuccess else { throw refusal(response, "\(Self.note)") }
    }

    /// Deletes all hidden names of the root, with what is in them.
    public func eraseRest() async throws(ProviderError) {
        let found = try await pick(in: .root) { name, resource in
            ErasureNote.isOver(name) ? (name: name, isDirectory: resource.isCollection) : nil
        }
        var names: [[UInt8]: Bool] = [:]
        for name in Self.known { names[Array(name.utf8)] = true }
        for (name, isDirectory) in found { names[name] = isDirectory }
        for (name, isDirectory) in names {
            let path = RemotePath([FileName(unchecked: name)])
            let response = try await send("DELETE", path, isDirectory: isDirectory)
            guard response.isGone else { throw refusal(response, "\(path)") }
        }
    }
}
