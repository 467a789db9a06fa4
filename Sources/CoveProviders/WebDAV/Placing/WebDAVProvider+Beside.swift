internal import CoveCore

/// Sending files to a server that can't take them in one step.
extension WebDAVProvider {
    func createBeside(
        _ path: RemotePath,
        _ metadata: ItemMetadata,
        _ content: any ContentSource
    ) async throws(ProviderError) -> RemoteItem {
        if let sent = unanswered[path], try await lookIfPresent(path)?.contentVersion == sent {
            return try await modifyBeside(path, sent, metadata, content)
        }
        let heedsOverwrite = try server().heedsOverwrite
        // Many bytes are not sent for nothing.
        if content.size > 1 << 20 || !heedsOverwrite, let other = try await lookIfPresent(path) {
            throw .filenameCollision(other)
        }
        return try await beside(path, metadata, content) {
            (staged, sent, _) async throws(ProviderError) -> RemoteItem? in
            if case .taken(let other) = staged.target { throw .filenameCollision(self.item(other, path)) }
            let response = try await self.move(staged.path, to: path, isDirectory: false, overwrite: false)
            if response.status == 412 { throw .filenameCollision(try await self.lookIfPresent(path)) }
            return try await self.settle(response, sent, at: path, over: nil)
        }
    }

    /// Some servers trip over a change that another device makes meanwhile: then that is what happened.
    func explained(
        _ error: ProviderError,
        _ path: RemotePath,
        _ base: ContentVersion
    ) async -> ProviderError {
        switch error {
        case .failed, .noSuchItem:
            guard let current = try? await lookAgain(path), !current.contentVersion.isSame(as: base) else {
                return error
            }
            return .conflict(current)
        default: return error
        }
    }

    func modifyBeside(
        _ path: RemotePath,
        _ known: ContentVersion,
        _ metadata: ItemMetadata,
        _ content: any ContentSource
    ) async throws(ProviderError) -> RemoteItem {
        let server = try server()
        // Many bytes are not sent for nothing.
        if content.size > 1 << 20 { _ = try check(try await lookAgain(path), is: known, path) }
        return try await beside(path, metadata, content) {
            (staged, sent, isLast) async throws(ProviderError) -> RemoteItem? in
            let response: HTTPResponse
            var base = known
            if server.heedsMoveConditions || !server.heedsLocks {
                let current = try await self.current(staged, path)
                base = try self.check(current, is: known, path)
                guard isLast || self.differs(sent, from: current) else { return nil }
                let condition = server.heedsMoveConditions ? self.condition(replacing: base, at: path) : []
                response = try await self.conditionally(path, base) { () throws(ProviderError) in
                    try await self.move(staged.path, to: path, isDirectory: false, overwrite: true, condition)
                }
            } else {
                var isSame = false
                do throws(ProviderError) {
                    response = try await self.locking(path) { (lock) async throws(ProviderError) -> HTTPResponse in
                        if lock.hasMadeFile { throw .noSuchItem }
                        let current = try await self.lookAgain(path)
                        base = try self.check(current, is: known, path)
                        isSame = !isLast && !self.differs(sent, from: current)
                        if isSame { throw .busy }
                        let condition = self.condition(lock)
                        return try await self.move(
                            staged.path,
                            to: path,
                            isDirectory: false,
                            overwrite: true,
                            [condition]
                        )
                    }
                } catch .busy where isSame {
                    return nil
                }
            }
            return try await self.settle(response, sent, at: path, over: base)
        }
    }

    /// What is to be replaced, seen after the bytes were sent.
    private func current(_ staged: Staged, _ path: RemotePath) async throws(ProviderError) -> RemoteItem {
        if case .taken(let there) = staged.target { return item(there, path) }
        // Not looked at, or some servers replace in two steps.
        return try await lookAgain(path)
    }

    /// The version that may be replaced: the base, or what this device sent and got no answer for.
    private func check(
        _ current: RemoteItem,
        is base: ContentVersion,
        _ path: RemotePath
    ) throws(ProviderError) -> ContentVersion {
        guard current.kind == .file,
            current.contentVersion.isSame(as: base) || current.contentVersion == unanswered[path]
        else {
            throw .conflict(current)
        }
        return current.contentVersion
    }

    /// False where versions are dates and sizes, and two have one second and one size.
    private func differs(_ sent: RemoteItem, from current: RemoteItem) -> Bool {
        sent.contentVersion != current.contentVersion
    }

    /// Within so many a clock that counts in two seconds has gone on.
    private static let attempts = 4

    /// Uploads under a hidden name first, where nobody else writes: so its version is known for sure, and an upload
    /// that breaks off has broken nothing.
    ///
    /// The body gives nil for what must be sent again, under another date. The last time it gives something: a server whose
    /// dates never change can't tell the two versions apart, but it has the bytes.
    private func beside(
        _ path: RemotePath,
        _ metadata: ItemMetadata,
        _ content: any ContentSource,
        _ place: (Staged, RemoteItem, _ isLast: Bool) async throws(ProviderError) -> RemoteItem?
    ) async throws(ProviderError) -> RemoteItem {
        let sum = try await checksum(of: content)
        var metadata = metadata
        do throws(ProviderError) {
            for attempt in 0..<Self.attempts {
                let headers = dateHeaders(metadata) + checksumHeaders(sum)
                let placed = try await placing(path, content, headers) { staged throws(ProviderError) in
                    let sent = self.item(staged.resource, path)
                    var isRight = sent.kind == .file && sent.size == content.size
                    if isRight, sum != nil { isRight = try await self.look(staged.path, after: sum).isRight }
                    guard isRight else { throw .failed("\(path): the server kept other bytes", .inputOutput) }
                    self.unanswered.begin(path, sent.contentVersion)
                    let isLast = attempt == Self.attempts - 1 || staged.resource.modified == nil
                    let placed = try await place(staged, sent, isLast)
                    return (placed, isMoved: placed != nil)
                }
                self.unanswered.end(path)
                if let placed { return placed }
                // Where the date is the file's own, no other comes by itself.
                if let date = metadata.modificationTime, !dateHeaders(metadata).isEmpty {
                    metadata.modificationTime = date + .seconds(1)
                } else {
                    do { try await Task.sleep(for: .milliseconds(1100)) } catch { throw .cancelled }
                }
            }
            throw .busy
        } catch {
            // Of what was refused nothing arrives any more.
            if !error.isUnanswered { unanswered.end(path) }
            throw error
        }
    }

    /// What a MOVE of an upload made, in the place of a version.
    private func settle(
        _ response: HTTPResponse,
        _ sent: RemoteItem,
        at path: RemotePath,
        over base: ContentVersion?
    ) async throws(ProviderError) -> RemoteItem {
        let server = try server()
        switch response.status {
        case 201 where server.isOwn(response), 204 where server.isOwn(response):
            if server.keepsVersionOnMove, !capabilities.stableIDs { return sent }
        case 200...204: break
        case 404, 409:
            // A MOVE whose answer got lost was sent again: it is there already.
            let found = try await look(path)
            if found.contentVersion == sent.contentVersion { return found }
            // So nginx answers where a directory has the name.
            if base == nil { throw .filenameCollision(found) }
            if found.kind == .directory { throw .conflict(found) }
            throw .noSuchItem
        default: throw try await refusal(response, making: path)
        }
        let found = try await look(path)
        if found.contentVersion == sent.contentVersion { return found }
        if found.contentVersion == base { throw Self.notDone(path) }
        guard server.keepsVersionOnMove || found.size != sent.size else { return found }
        // Somebody was quicker than this look: what was sent is the base of what is there.
        var item = sent
        (item.name, item.id) = (found.name, found.id)
        return item
    }

    /// Throws unless a file of the version is there.
    @discardableResult
    func expect(_ path: RemotePath, _ base: ContentVersion) async throws(ProviderError) -> RemoteItem {
        let current = try await lookAgain(path)
        guard current.kind == .file, current.contentVersion.isSame(as: base) else { throw .conflict(current) }
        return current
    }

    /// Looks at what is to be replaced, twice where it seems gone: some servers replace in two steps.
    func lookAgain(_ path: RemotePath) async throws(ProviderError) -> RemoteItem {
        do throws(ProviderError) { return try await look(path) } catch .noSuchItem {
            do { try await Task.sleep(for: .milliseconds(100)) } catch { throw .cancelled }
            return try await look(path)
        }
    }
}
