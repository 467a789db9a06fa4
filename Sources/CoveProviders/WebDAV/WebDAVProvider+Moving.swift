public import CoveCore

extension WebDAVProvider {
    /// Renames or moves by MOVE, also out of the trash; a newer version than the base goes back to where it was.
    public func move(
        _ item: RemoteReference,
        base: ContentVersion?,
        to directory: RemoteReference,
        name: FileName
    ) async throws(ProviderError) -> RemoteItem {
        let path = directory.path.appending(name)
        let source = try await check(item, base: base)
        if path == item.path { return source }
        try checkShown(name, server())
        if path.isInside(item.path) { throw .notPermitted("a directory can't be moved into itself") }
        return try await relocate(item.path, source, to: path)
    }

    /// Throws unless what is at a path is the item meant, and a file of the base version.
    private func check(_ item: RemoteReference, base: ContentVersion?) async throws(ProviderError) -> RemoteItem {
        let current = try await look(item.path)
        let isSame = !capabilities.stableIDs || item.id == nil || item.id == current.id
        if current.kind == .directory {
            guard isSame else { throw .noSuchItem }
            if let base, !base.bytes.isEmpty { throw .conflict(current) }
        } else if base.map({ $0 != current.contentVersion }) ?? !isSame {
            throw .conflict(current)
        }
        return current
    }

    private func relocate(
        _ path: RemotePath,
        _ source: RemoteItem,
        to target: RemotePath
    ) async throws(ProviderError) -> RemoteItem {
        let isDirectory = source.kind == .directory
        if try !server().heedsOverwrite, let other = try await lookIfPresent(target) { throw .filenameCollision(other) }
        let response: HTTPResponse
        if !isDirectory, !target.names.contains(where: \.isReserved), try server().heedsLocks {
            response = try await lockingFree(path, target)
        } else {
            response = try await move(path, to: target, isDirectory: isDirectory, overwrite: false)
        }
        switch response.status {
        case 200...204: break
        case 412: throw .filenameCollision(try await lookIfPresent(target))
        case 404, 409:
            // A MOVE whose answer got lost was sent again; else a folder or the item itself is missing.
            guard let there = try await lookIfPresent(target), isSame(there, source) else { throw .noSuchItem }
            return there
        default: throw refusal(response, "\(path)")
        }
        let moved = try await look(target)
        guard isDirectory || isSame(moved, source) else {
            // Another device's newer version was moved: it goes back.
            _ = try await move(target, to: path, isDirectory: false, overwrite: false)
            throw .conflict(try await lookIfPresent(path))
        }
        return moved
    }

    /// Moves a file to a locked name that must be free; the answer is 412 when it is not.
    func lockingFree(_ path: RemotePath, _ target: RemotePath) async throws(ProviderError) -> HTTPResponse {
        var isTaken = false
        return try await locking(target, isRefusal: { $0.status == 423 || $0.status == 412 && !isTaken }) {
            (lock) async throws(ProviderError) -> HTTPResponse in
            let isFree = lock.hasMadeFile
            let response = try await self.move(path, to: target, isDirectory: false, overwrite: isFree, lock: lock)
            if response.status == 412, !isFree { isTaken = try await self.lookIfPresent(target) != nil }
            return response
        }
    }

    /// True for one file before and after a MOVE.
    private func isSame(_ one: RemoteItem, _ other: RemoteItem) -> Bool {
        guard one.kind == other.kind else { return false }
        if one.contentVersion == other.contentVersion { return true }
        let keeps = (try? server().keepsVersionOnMove) ?? false
        return !keeps && one.size == other.size && one.metadata.modificationTime == other.metadata.modificationTime
    }

    /// Copies a file by COPY; the source is looked at again after it, so that the copy is of the version.
    public func copy(
        _ item: RemoteReference,
        version: ContentVersion,
        to directory: RemoteReference,
        name: FileName
    ) async throws(ProviderError) -> RemoteItem {
        let target = directory.path.appending(name)
        try await expect(item.path, version)
        let response = try await move(item.path, to: target, isDirectory: false, overwrite: false, method: "COPY")
        switch response.status {
        case 200...204: break
        case 412: throw .filenameCollision(try await lookIfPresent(target))
        case 404, 409: throw .noSuchItem
        default: throw refusal(response, "\(item.path)")
        }
        let copy = try await look(target)
        do throws(ProviderError) {
            try await expect(item.path, version)
        } catch {
            try await delete(RemoteReference(id: nil, path: target), base: copy.contentVersion)
            throw error
        }
        return copy
    }

    /// Deletes a file of the base version, or a directory with nothing in it.
    public func delete(_ item: RemoteReference, base: ContentVersion?) async throws(ProviderError) {
        do throws(ProviderError) {
            let current = try await check(item, base: base)
            if current.kind == .directory { return try await removeDirectory(item.path) }
            guard try server().heedsDeleteConditions, let tag = DAVResource.tag(of: current.contentVersion) else {
                return try await removeAside(item.path, current)
            }
            let response = try await conditionally(item.path, current.contentVersion) { () throws(ProviderError) in
                try await self.send("DELETE", item.path, [("If-Match", tag)])
            }
            guard response.isGone else { throw refusal(response, "\(item.path)") }
        } catch .noSuchItem {
            try await requireRoot()
        }
    }

    /// Before it is believed that something is gone: a server whose disk is away, or another one in its place, says so of
    /// everything.
    private func requireRoot() async throws(ProviderError) {
        do throws(ProviderError) {
            _ = try await properties(.root, isDirectory: true)
        } catch .noSuchItem {
            throw Self.withoutRoot
        }
    }

    /// Deletes where no condition is heeded: moved aside first, and deleted if it is what was meant.
    private func removeAside(_ path: RemotePath, _ current: RemoteItem) async throws(ProviderError) {
        let aside = path.parent.appending(Leftover.deleting(path, current.contentVersion))
        _ = try await relocate(path, current, to: aside)
        let response = try await send("DELETE", aside)
        guard response.isGone else { throw refusal(response, "\(path)") }
    }

    /// Deletes an empty directory.
    ///
    /// DELETE takes all that is in it along: so it is moved aside, where nobody adds to it.
    private func removeDirectory(_ path: RemotePath) async throws(ProviderError) {
        guard try await isEmpty(path) else { throw .directoryNotEmpty }
        if try server().hidesDotNames {
            // What can't be seen may be in it: it goes where nothing is deleted.
            let kept = FileName(unchecked: Array("directory-\(DocumentID.random())".utf8))
            try await makeTrashFolder()
            _ = try await relocate(path, look(path), to: Self.trashPath.appending(kept))
            return
        }
        let aside = path.parent.appending(Leftover.deleting(path, ContentVersion([])))
        let moved = try await move(path, to: aside, isDirectory: true, overwrite: false)
        guard (200...204).contains(moved.status) else {
            if moved.status == 404 { return }
            throw refusal(moved, "\(path)")
        }
        guard try await isEmpty(aside) else {
            let back = try await move(aside, to: path, isDirectory: true, overwrite: false)
            guard back.head.isSuccess else { throw refusal(back, "\(path)") }
            throw .directoryNotEmpty
        }
        let response = try await send("DELETE", aside, isDirectory: true)
        guard response.isGone else { throw refusal(response, "\(path)") }
    }

    /// True when a directory holds nothing but leftovers.
    func isEmpty(_ path: RemotePath) async throws(ProviderError) -> Bool {
        try await DAVListing(self, path).next().items.isEmpty
    }

    /// Moves a file into `.cove/trash` of the root.
    public func trash(
        _ item: RemoteReference,
        base: ContentVersion?,
        as token: String
    ) async throws(ProviderError) -> RemoteItem? {
        guard let token = FileName(token) else { throw .unsupported("\(token): not a name") }
        guard capabilities.trash else { return nil }
        let target = Self.trashPath.appending(token)
        if let before = try await lookIfPresent(target) {
            // Asked again after the answer got lost.
            guard try await lookIfPresent(item.path) == nil, base == nil || isKept(before, base) else {
                throw .filenameCollision(before)
            }
            return before
        }
        let source: RemoteItem
        do throws(ProviderError) { source = try await check(item, base: base) } catch .noSuchItem {
            try await requireRoot()
            throw .noSuchItem
        }
        try await makeTrashFolder()
        return try await relocate(item.path, source, to: target)
    }

    private static let trashPath = RemotePath(unchecked: Array(".cove/trash".utf8))

    private func makeTrashFolder() async throws(ProviderError) {
        for path in [Self.trashPath.parent, Self.trashPath] where try await lookIfPresent(path) == nil {
            let made = try await send("MKCOL", path, isDirectory: true)
            guard made.head.isSuccess || made.status == 405 else { throw refusal(made, "\(path)") }
        }
    }

    private func isKept(_ item: RemoteItem, _ base: ContentVersion?) -> Bool {
        let keeps = (try? server().keepsVersionOnMove) ?? false
        return !keeps || item.contentVersion == base
    }
}
