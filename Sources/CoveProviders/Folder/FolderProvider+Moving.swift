public import CoveCore
internal import Glibc

extension FolderProvider {
    /// Renames or moves, also out of the trash.
    ///
    /// Throws `notPermitted` for a directory into itself.
    public func move(
        _ item: RemoteReference,
        base: ContentVersion?,
        to directory: RemoteReference,
        name: FileName
    ) async throws(ProviderError) -> RemoteItem {
        try await calls.run { _ throws(ProviderError) in
            let tree = try self.tree()
            let reader = self.reader(tree)
            let source = try tree.place(item.path)
            let path = directory.path.appending(name)
            if path == item.path {
                try self.check(source, item.id, base: base, reader)
                return try self.current(source, reader)
            }
            if path.isInside(item.path) { throw .notPermitted("a directory can't be moved into itself") }
            let target = try self.newPlace(name, in: directory, tree)
            return try self.relocate(source, item.id, base: base, to: target, reader)
        }
    }

    /// Moves a file or directory to `.cove/trash` in the root; nil where that is on another file system.
    public func trash(
        _ item: RemoteReference,
        base: ContentVersion?,
        as token: String
    ) async throws(ProviderError) -> RemoteItem? {
        try await calls.run { _ throws(ProviderError) in
            guard let token = FileName(token), let cove = FileName(".cove"), let trash = FileName("trash") else {
                throw .unsupported("\(token): not a name")
            }
            let tree = try self.tree()
            let reader = self.reader(tree)
            let above = RemotePath([cove])
            for name in [above, above.appending(trash)] {
                let place = try tree.place(name)
                do throws(Errno) { try System.mkdirat(place.directory.raw, place.name, 0o700) } catch .exists {} catch {
                    throw ProviderError(error, "\(name)")
                }
            }
            let target = try tree.place(above.appending(trash).appending(token))
            if let before = try target.statusIfPresent() {
                // Asked again after the answer got lost; that of a change of the item may have got lost too.
                let isSame = ItemReader.matches(item.id, before) && item.id != nil
                let isDone = isSame ? true : try !self.isThere(item.path, tree)
                if isDone { return try self.current(target, reader) }
            }
            do throws(ProviderError) {
                return try self.relocate(tree.place(item.path), item.id, base: base, to: target, reader)
            } catch .unsupported {
                return nil
            }
        }
    }

    private func isThere(_ path: RemotePath, _ tree: borrowing FolderTree) throws(ProviderError) -> Bool {
        do throws(ProviderError) {
            return try tree.place(path).statusIfPresent() != nil
        } catch .noSuchItem {
            return false
        }
    }

    /// Checks that what has a name is the item meant, and a file of the base version.
    @discardableResult
    private func check(
        _ place: borrowing Place,
        _ id: RemoteID?,
        base: ContentVersion?,
        _ reader: ItemReader
    ) throws(ProviderError) -> (status: FileStatus, version: ContentVersion) {
        guard let status = try place.statusIfPresent(), status.kind.isSynced else { throw .noSuchItem }
        let version = try attempt("\(place.path)") { () throws(Errno) in try reader.version(place) }
        if status.kind == .directory {
            guard ItemReader.matches(id, status) else { throw .noSuchItem }
            // The engine may know a file where a directory is by now.
            if let base, base != version { throw conflict(place, reader) }
        } else if base.map({ $0 != version }) ?? !ItemReader.matches(id, status) {
            throw conflict(place, reader)
        }
        return (status, version)
    }

    /// Moves, then looks at what was moved: another program's newer version goes back to where it was.
    private func relocate(
        _ source: borrowing Place,
        _ id: RemoteID?,
        base: ContentVersion?,
        to target: borrowing Place,
        _ reader: ItemReader
    ) throws(ProviderError) -> RemoteItem {
        let (status, version) = try check(source, id, base: base, reader)
        let from = source.directory.raw
        let to = target.directory.raw
        do throws(Errno) {
            try FolderTree.renameExclusively(from, source.name, to, target.name)
        } catch .exists {
            throw collision(target, reader)
        } catch {
            throw ProviderError(error, "\(source.path)")
        }
        let moved = try? target.status()
        let isSame = moved?.identity == status.identity && (try? reader.version(target)) == version
        if !isSame, moved != nil {
            bringBack(to, target.name, to: from, source.path)
            throw conflict(source, reader)
        }
        target.synchronize()
        source.synchronize()
        return try current(target, reader)
    }

    /// Deletes a file or an empty directory; one that other programs have open for writing is busy.
    public func delete(_ item: RemoteReference, base: ContentVersion?) async throws(ProviderError) {
        try await calls.run { _ throws(ProviderError) in
            let tree = try self.tree()
            let reader = self.reader(tree)
            let place = try tree.place(item.path)
            let (status, version) = try self.check(place, item.id, base: base, reader)
            if status.kind == .directory {
                try self.removeDirectory(place, in: tree)
            } else {
                try self.removeFile(place, status, version, reader)
            }
        }
    }

    private func removeDirectory(_ place: borrowing Place, in tree: borrowing FolderTree) throws(ProviderError) {
        let parent = place.directory.raw
        do throws(Errno) {
            try System.unlinkat(parent, place.name, directory: true)
        } catch {
            guard error == .notEmpty || error == .exists else { throw ProviderError(error, "\(place.path)") }
            let directory = try tree.directory(place.path)
            removeLeftovers(directory.raw, place.path)
            removeThumbnails(in: place.path, tree)
            do throws(Errno) { try System.unlinkat(parent, place.name, directory: true) } catch {
                throw error == .exists ? .directoryNotEmpty : ProviderError(error, "\(place.path)")
            }
        }
    }

    /// Takes the file out of its place, where nobody can open it any more, and only then decides.
    private func removeFile(
        _ place: borrowing Place,
        _ status: FileStatus,
        _ version: ContentVersion,
        _ reader: ItemReader
    ) throws(ProviderError) {
        let directory = place.directory.raw
        let isFile = status.kind == .file
        if isFile { try checkWriters(place, base: version, reader) }
        let aside = ScratchName(.aside, base: version, for: place.name)
        try attempt("\(place.path)") { () throws(Errno) in
            try FolderTree.renameExclusively(directory, place.name, directory, aside.bytes)
        }
        let isBusy = isFile && FolderTree.isOpenForWriting(directory, aside.bytes)
        let isSame = (try? reader.version(aside.bytes, in: directory)) == version
        if isSame, !isBusy {
            try? System.unlinkat(directory, aside.bytes)
            return
        }
        recover(aside, directory, place.path.parent)
        throw isSame ? .busy : conflict(place, reader)
    }
}
