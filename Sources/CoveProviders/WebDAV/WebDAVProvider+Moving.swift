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
        if path == item.path { return try await check(item, base: base) }
        try await checkName(path)
        if path.isInside(item.path) { throw .notPermitted("a directory can't be moved into itself") }
        if let base, !path.names.contains(where: \.isReserved), isConditional(base), try !server().putsInPlace {
            return try await moveConditionally(item.path, base, to: path)
        }
        let isVersioned = base?.bytes.isEmpty == false
        return try await relocate(item.path, check(item, base: base), to: path, isVersioned: isVersioned)
    }

    /// True when the server can be told to move this version only.
    private func isConditional(_ base: ContentVersion) -> Bool {
        DAVResource.tag(of: base) != nil && (try? server().heedsMoveConditions) == true
    }

    /// Moves a file of a version to a name that must be free, and that no other device puts anything to meanwhile.
    private func moveConditionally(
        _ path: RemotePath,
        _ base: ContentVersion,
        to target: RemotePath
    ) async throws(ProviderError) -> RemoteItem {
        let condition = condition(base)
        let source = path.parent == target.parent ? path.name : nil
        return try await placing(target, EmptyContent(), seeing: source) { staged throws(ProviderError) in
            if case .taken(let other) = staged.target { throw .filenameCollision(self.item(other, target)) }
            let response = try await self.conditionally(path, base) { () throws(ProviderError) in
                let response = try await self.move(path, to: target, isDirectory: false, overwrite: false, condition)
                if response.status == 412, let other = try await self.lookIfPresent(target) {
                    throw .filenameCollision(other)
                }
                return response
            }
            let server = try self.server()
            if [201, 204].contains(response.status), server.isOwn(response), server.keepsVersionOnMove,
                let seen = staged.seen, seen.contentVersion.isSame(as: base)
            {
                return (self.item(seen, target), isMoved: false)
            }
            return (try await self.settleMove(response, path, base, target), isMoved: false)
        }
    }

    /// What a MOVE of a version left.
    private func settleMove(
        _ response: HTTPResponse,
        _ path: RemotePath,
        _ base: ContentVersion,
        _ target: RemotePath
    ) async throws(ProviderError) -> RemoteItem {
        guard (200...204).contains(response.status) || response.status == 404 || response.status == 409 else {
            let error = try await refusal(response, at: path)
            if error == .noSuchItem, let moved = try await lookIfPresent(target), moved.contentVersion.isSame(as: base)
            {
                return moved
            }
            throw error
        }
        // One whose answer got lost was sent again; else a folder or the item itself is missing.
        let moved = try await look(target)
        let keeps = try server().keepsVersionOnMove
        guard moved.contentVersion.isSame(as: base) || !keeps else {
            if response.head.isSuccess { throw .conflict(try await lookIfPresent(path)) }
            throw .noSuchItem
        }
        return moved
    }

    /// Throws unless what is at a path is the item meant, and a file of the base version.
    private func check(_ item: RemoteReference, base: ContentVersion?) async throws(ProviderError) -> RemoteItem {
        let current = try await look(item.path)
        let isSame = !capabilities.stableIDs || item.id == nil || item.id == current.id
        if current.kind == .directory {
            guard isSame, !item.isFile else { throw .noSuchItem }
            if let base, !base.bytes.isEmpty { throw .conflict(current) }
        } else if base.map({ !current.contentVersion.isSame(as: $0) }) ?? !isSame {
            throw .conflict(current)
        }
        return current
    }

    /// Moves an item to a name that must be free; a file goes back when only this version of it is to be moved, and
    /// another one was.
    private func relocate(
        _ path: RemotePath,
        _ source: RemoteItem,
        to target: RemotePath,
        isVersioned: Bool = true
    ) async throws(ProviderError) -> RemoteItem {
        let isDirectory = source.kind == .directory
        if try !server().heedsOverwrite, let other = try await lookIfPresent(target) { throw .filenameCollision(other) }
        let response: HTTPResponse
        let server = try server()
        // Where bytes are put in place nobody looks for hidden names.
        if isDirectory || target.names.contains(where: \.isReserved) || server.putsInPlace {
            response = try await move(path, to: target, isDirectory: isDirectory, overwrite: false)
        } else if server.heedsLocks, !server.heedsMoveConditions {
            response = try await lockingFree(path, target)
        } else {
            response = try await placing(target, EmptyContent()) { staged throws(ProviderError) in
                if case .taken(let other) = staged.target { throw .filenameCollision(self.item(other, target)) }
                return (try await self.move(path, to: target, isDirectory: false, overwrite: false), isMoved: false)
            }
        }
        switch response.status {
        case 201 where !isVersioned && server.isOwn(response) && server.keepsVersionOnMove,
            204 where !isVersioned && server.isOwn(response) && server.keepsVersionOnMove:
            return moved(source, to: target)
        case 200...204: break
        case 412: throw .filenameCollision(try await lookIfPresent(target))
        case 404, 409:
            // A MOVE whose answer got lost was sent again; else a folder or the item itself is missing.
            guard let there = try await lookIfPresent(target) else { throw .noSuchItem }
            if isSame(there, source) { return there }
            // So nginx answers where a directory has the name of a file.
            if try await lookIfPresent(path) != nil { throw .filenameCollision(there) }
            throw .noSuchItem
        case 400, 403, 405:
            // So some answer where a directory is to take the name of a file.
            if let other = try await lookIfPresent(target) { throw .filenameCollision(other) }
            throw try await refusal(response, making: target)
        default: throw try await refusal(response, making: target)
        }
        guard let moved = try await lookIfPresent(target) else {
            // Somebody has moved it on, or it was never moved.
            if try await lookIfPresent(path) != nil { throw Self.notDone(path) }
            throw .noSuchItem
        }
        guard isDirectory || isSame(moved, source) else {
            // Another device's newer version was moved: it goes back.
            try await bringBack(target, to: path, isDirectory: false)
            throw .conflict(try await lookIfPresent(path))
        }
        return moved
    }

    /// An item at another place; where it has changed since it was seen, its next listing tells.
    private func moved(_ source: RemoteItem, to target: RemotePath) -> RemoteItem {
        var item = source
        item.name = target.name?.bytes ?? []
        if !capabilities.stableIDs { item.id = RemoteID(id(of: target)) }
        return item
    }

    /// Moves a file to a locked name that must be free; the answer is 412 when it is not.
    func lockingFree(_ path: RemotePath, _ target: RemotePath) async throws(ProviderError) -> HTTPResponse {
        var isTaken = false
        return try await locking(target, isRefusal: { $0.status == 423 || $0.status == 412 && !isTaken }) {
            (lock) async throws(ProviderError) -> HTTPResponse in
            let isFree = lock.hasMadeFile
            let condition = self.condition(lock)
            let response = try await self.move(path, to: target, isDirectory: false, overwrite: isFree, [condition])
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
        default:
            if try await lookIfPresent(item.path) == nil { throw .noSuchItem }
            throw try await refusal(response, making: target)
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
            if let base, try server().heedsDeleteConditions, DAVResource.tag(of: base) != nil {
                return try await delete(item.path, base)
            }
            let current = try await check(item, base: base)
            if current.kind == .directory { return try await removeDirectory(item.path) }
            guard try server().heedsDeleteConditions, DAVResource.tag(of: current.contentVersion) != nil else {
                return try await removeAside(item.path, current)
            }
            try await delete(item.path, current.contentVersion)
        } catch .noSuchItem {
            throw try await disbelief(item, base: base)
        }
    }

    /// Deletes a file of a version; the server refuses when something else is there.
    private func delete(_ path: RemotePath, _ version: ContentVersion) async throws(ProviderError) {
        let condition = condition(version)
        let response = try await conditionally(path, version) { () throws(ProviderError) in
            try await self.send("DELETE", path, condition)
        }
        guard response.isGone else { throw try await refusal(response, at: path) }
        if response.status == 404 || response.status == 410 { throw .noSuchItem }
        if response.status == 204, try server().isOwn(response) { return }
        guard let there = try await lookIfPresent(path) else { throw .noSuchItem }
        if there.contentVersion == version { throw Self.notDone(path) }
    }

    /// Looks again before it is believed that something is gone: a server whose disk is away, or another one in its place,
    /// says so of everything.
    ///
    /// The other one may go between two answers, as the login page of a network does: of the item only what is said after
    /// the root was there counts.
    private func disbelief(_ item: RemoteReference, base: ContentVersion?) async throws(ProviderError) -> ProviderError
    {
        do throws(ProviderError) {
            _ = try await properties(.root, isDirectory: true)
        } catch .noSuchItem {
            return Self.withoutRoot
        }
        do throws(ProviderError) { _ = try await check(item, base: base) } catch { return error }
        return Self.notDone(item.path)
    }

    /// Deletes where no condition is heeded: moved aside first, and deleted if it is what was meant.
    private func removeAside(_ path: RemotePath, _ current: RemoteItem) async throws(ProviderError) {
        let aside = path.parent.appending(Leftover.deleting(path, current.contentVersion))
        _ = try await relocate(path, current, to: aside)
        let response = try await send("DELETE", aside)
        guard response.isGone else { throw try await refusal(response, at: aside) }
    }

    /// Deletes an empty directory.
    ///
    /// DELETE takes all that is in it along: so it is moved aside, where nobody adds to it.
    private func removeDirectory(_ path: RemotePath) async throws(ProviderError) {
        guard try await isEmpty(path) else { throw .directoryNotEmpty }
        let aside = path.parent.appending(Leftover.deleting(path, .directory))
        let moved = try await move(path, to: aside, isDirectory: true, overwrite: false)
        guard (200...204).contains(moved.status) else {
            if moved.status == 404 { throw .noSuchItem }
            throw try await refusal(moved, making: aside)
        }
        try await requireEmpty(aside, movedFrom: path)
        try await removeEmpty(aside)
    }

    /// Ends the deletion of a directory that is hidden and was found to be empty.
    ///
    /// Where names with a dot are not listed, what nobody can see may be in it: it goes where nothing is deleted.
    func removeEmpty(_ aside: RemotePath) async throws(ProviderError) {
        guard try server().hidesDotNames else {
            let response = try await send("DELETE", aside, isDirectory: true)
            guard response.isGone else { throw try await refusal(response, at: aside) }
            return
        }
        try await makeTrashFolder()
        let kept = FileName(unchecked: Array("directory-\(DocumentID.random())".utf8))
        let response = try await move(aside, to: Self.trashPath.appending(kept), isDirectory: true, overwrite: false)
        guard response.head.isSuccess || response.isGone else { throw refusal(response, "\(aside)") }
    }

    /// Looks at what was moved aside in order to be deleted: when another device has put something in since it was looked at,
    /// or a file in its place, it gets its place again.
    private func requireEmpty(_ aside: RemotePath, movedFrom path: RemotePath) async throws(ProviderError) {
        do throws(ProviderError) {
            if try await isEmpty(aside) { return }
        } catch .noSuchItem {
            if let other = try await lookIfPresent(aside), other.kind != .directory {
                try await bringBack(aside, to: path, isDirectory: false)
            } else if try await lookIfPresent(path) != nil {
                throw Self.notDone(path)
            }
            throw .noSuchItem
        }
        try await bringBack(aside, to: path, isDirectory: true)
        throw .directoryNotEmpty
    }

    /// Gives what was moved aside its place again, or one beside it when that is taken.
    func bringBack(
        _ aside: RemotePath,
        to path: RemotePath,
        isDirectory: Bool
    ) async throws(ProviderError) {
        for name in path.name?.recoveryNames ?? [] {
            let place = path.parent.appending(name)
            if try !server().heedsOverwrite, try await lookIfPresent(place) != nil { continue }
            let back = try await move(aside, to: place, isDirectory: isDirectory, overwrite: false)
            if back.head.isSuccess { return log("\(place): it was not meant to go, and is back") }
            if back.status == 412 { continue }
            if try await lookIfPresent(place) != nil { continue }
            // An earlier attempt has done it, whose answer got lost; or it is another device's work by now.
            if try await lookIfPresent(aside) == nil { return }
            guard !path.parent.isRoot, try await lookIfPresent(path.parent)?.kind != .directory else {
                throw refusal(back, "\(path)")
            }
            // Its folder is gone: the nearest one above has it.
            return try await bringBack(aside, to: path.parent.parent.appending(name), isDirectory: isDirectory)
        }
        throw .filenameCollision(nil)
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
        if let base, isConditional(base) {
            let response = try await move(item.path, to: target, isDirectory: false, overwrite: false, condition(base))
            if response.status == 201, let kept = try await lookIfPresent(target), isKept(kept, base) { return kept }
        }
        let source: RemoteItem
        do throws(ProviderError) {
            source = try await check(item, base: base)
        } catch {
            switch error {
            case .noSuchItem, .conflict: break
            default: throw error
            }
            if let before = try await lookIfPresent(target), before.kind != .directory {
                // Asked again after the answer got lost.
                if isKept(before, base) { return before }
                // What an earlier attempt moved here was newer, and it did not come to bring that back.
                try await bringBack(target, to: item.path, isDirectory: false)
                throw .conflict(try await lookIfPresent(item.path))
            }
            throw error == .noSuchItem ? try await disbelief(item, base: base) : error
        }
        do throws(ProviderError) {
            return try await relocate(item.path, source, to: target)
        } catch {
            // What a server says of a folder that is missing differs, and another call may have made it meanwhile.
            if error.isUnanswered { throw error }
            try await makeTrashFolder()
        }
        do throws(ProviderError) {
            return try await relocate(item.path, source, to: target)
        } catch .noSuchItem {
            throw try await disbelief(item, base: base)
        }
    }

    private static let trashPath = RemotePath(unchecked: Array(".cove/trash".utf8))

    /// Makes the trash; of many that need it at once one does.
    private func makeTrashFolder() async throws(ProviderError) {
        _ = try await folderMaking.look(at: Self.trashPath, for: []) { [weak self] _ throws(ProviderError) in
            guard let self else { throw .cancelled }
            for path in [Self.trashPath.parent, Self.trashPath] where try await lookIfPresent(path) == nil {
                let made = try await send("MKCOL", path, isDirectory: true)
                if made.head.isSuccess || made.status == 405 { continue }
                // Apache forbids it when somebody else makes it at the same moment.
                if try await lookIfPresent(path) == nil { throw refusal(made, "\(path)") }
            }
            return true
        }
    }

    private func isKept(_ item: RemoteItem, _ base: ContentVersion?) -> Bool {
        let keeps = (try? server().keepsVersionOnMove) ?? false
        return !keeps || base.map { item.contentVersion.isSame(as: $0) } ?? true
    }
}
