public import CoveCore

extension WebDAVProvider {
    /// Fetches by GET with a range; no byte is given on before the answer's version is the one wanted.
    ///
    /// What comes whole and has a checksum, or a tag that is one, is checked before it is given on.
    public func fetch(
        _ item: RemoteReference,
        version: ContentVersion,
        range: Range<Int64>,
        into sink: any ContentSink
    ) async throws(ProviderError) {
        if range.isEmpty { return try check(try await look(item.path), is: version) }
        let checked = CheckedSink(range, into: sink)
        let digest = digestCheck(of: version)
        let receiver = RangeReceiver(range, into: checked) { (head) throws(ProviderError) in
            try Self.check(head, is: version)
            let size = head.contentRange?.size ?? (head.status == 200 ? head.contentLength : nil)
            let checks = [Checksum.strongest(in: head)?.isRight, digest].compactMap(\.self)
            if !checks.isEmpty, checked.hold(size: size) { checked.expect(checks) }
        }
        let response: HTTPResponse
        do throws(ProviderError) {
            response = try await client.fetch(HTTPRequest("GET", address.url(item.path)), receiver)
        } catch .versionNoLongerAvailable {
            // Unless it is something on the way that answered.
            try check(try await look(item.path), is: version)
            throw .failed("the server sent the bytes as of another version than it says it has", .inputOutput)
        }
        switch response.status {
        case 200..<300:
            // Less than there is to be: some servers answer with what they remember of a file that has changed.
            if receiver.position < range.upperBound { try check(try await look(item.path), is: version) }
            guard checked.isComplete else { throw .serverUnreachable("the server sent fewer bytes than it has") }
            if checked.isRight { return try checked.finish() }
            // A server that writes in place may have sent what it was in the middle of replacing.
            try check(try await look(item.path), is: version)
            throw .failed("the bytes that came do not have the checksum that the server gives", .inputOutput)
        // The range lies beyond the end, or the file became shorter.
        case 416: try check(try await look(item.path), is: version)
        case 412: throw .versionNoLongerAvailable
        // So some refuse where a directory has the name by now, or a file has that of its directory.
        case 400, 403, 405, 409:
            try check(try await look(item.path), is: version)
            throw refusal(response, "\(item.path)")
        case 300..<400 where response.head["location"]?.hasSuffix("/") == true: throw .noSuchItem
        default: throw refusal(response, "\(item.path)")
        }
    }

    /// What the bytes of a version must pass where its tag is a hash of them: a server may tell the tag of what is there, and send
    /// as much of it as was there before.
    private func digestCheck(of version: ContentVersion) -> CheckedSink.Check? {
        guard (try? server().tagIsDigest) == true, let tag = DAVResource.tag(of: version)?.text.lowercased(),
            tag.utf8.count == 32
        else { return nil }
        return { Digest.hash($0, .md5).hexadecimal == tag }
    }

    private func check(_ item: RemoteItem, is version: ContentVersion) throws(ProviderError) {
        guard item.kind == .file else { throw .noSuchItem }
        guard item.contentVersion == version else { throw .versionNoLongerAvailable }
    }

    private static func check(_ head: HTTPHead, is version: ContentVersion) throws(ProviderError) {
        let size = head.contentRange?.size ?? (head.status == 200 ? head.contentLength : nil)
        let modified = head["last-modified"].flatMap { HTTPDate.parse($0) }
        guard DAVResource.isVersion(version, tag: head["etag"], modified: modified, size: size) else {
            throw .versionNoLongerAvailable
        }
    }
}
