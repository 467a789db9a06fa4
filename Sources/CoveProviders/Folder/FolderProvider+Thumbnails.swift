public import CoveCore
internal import Glibc

/// Pictures, as `ThumbnailFolder` has them.
extension FolderProvider {
    /// Which files have one, of whatever version.
    public func thumbnails(
        of names: [FileName],
        in directory: RemoteReference
    ) async throws(ProviderError) -> Set<FileName> {
        try await calls.run { _ throws(ProviderError) in
            let tree = try self.tree()
            guard let folder = try self.thumbnails(of: directory.path, tree) else { return [] }
            let listed = try attempt("\(directory.path)") { () throws(Errno) in
                try System.names(in: "/proc/self/fd/\(folder.raw)/.")
            }
            return ThumbnailFolder.files(of: names, among: Set(listed.map { Array($0.utf8) }))
        }
    }

    /// The one of a version.
    public func thumbnail(
        of item: RemoteReference,
        version: ContentVersion
    ) async throws(ProviderError) -> [UInt8]? {
        try await calls.run { _ throws(ProviderError) in
            let tree = try self.tree()
            return try self.stored(for: item.path, tree).flatMap { ThumbnailFolder.open($0, version) }
        }
    }

    /// Puts one in place in a rename, without waiting for the disk: another one can be made of the document.
    public func setThumbnail(
        _ picture: [UInt8]?,
        of item: RemoteReference,
        version: ContentVersion
    ) async throws(ProviderError) {
        try await calls.run { _ throws(ProviderError) in
            let tree = try self.tree()
            let path = ThumbnailFolder.place(of: item.path)
            guard let picture else {
                guard let known = try self.stored(for: item.path, tree), ThumbnailFolder.open(known, version) != nil,
                    let folder = try self.thumbnails(of: item.path.parent, tree)
                else { return }
                try attempt("\(path)") { () throws(Errno) in
                    try System.unlinkat(folder.raw, path.name?.bytes ?? [])
                }
                // It goes with its last picture.
                let place = try tree.place(path.parent)
                try? System.unlinkat(place.directory.raw, place.name, directory: true)
                return
            }
            let bytes = try ThumbnailFolder.seal(picture, version)
            for attempt in 0... {
                do throws(ProviderError) {
                    return try self.store(bytes, at: path, tree)
                } catch {
                    // Another device has just removed the folder with its last picture.
                    guard error == .noSuchItem, attempt < 3 else { throw error }
                }
            }
        }
    }

    private func store(
        _ bytes: [UInt8],
        at path: RemotePath,
        _ tree: borrowing FolderTree
    ) throws(ProviderError) {
        for folder in [path.parent.parent, path.parent] {
            let place = try tree.place(folder)
            do throws(Errno) {
                try System.mkdirat(place.directory.raw, place.name, 0o777)
            } catch {
                if error != .exists { throw ProviderError(error, "\(folder)") }
            }
        }
        let place = try tree.place(path)
        var scratch = try Scratch(for: place)
        let (file, name) = (scratch.file.raw, scratch.name)
        let directory = place.directory.raw
        try attempt("\(path)") { () throws(Errno) in
            try System.pwriteAll(file, bytes, 0)
            try System.fchmod(file, 0o644)
            try System.renameat(directory, name, directory, path.name?.bytes ?? [], .replace)
        }
        scratch.finish()
    }

    /// The folder with the pictures of a directory's files; nil where there is none yet.
    private func thumbnails(
        of directory: RemotePath,
        _ tree: borrowing FolderTree
    ) throws(ProviderError) -> Descriptor? {
        do throws(Errno) {
            return try tree.open(ThumbnailFolder.folder(of: directory), O_RDONLY | O_DIRECTORY)
        } catch {
            guard error == .noSuchEntry || error == .notDirectory else { throw ProviderError(error, "\(directory)") }
            return nil
        }
    }

    private func stored(for item: RemotePath, _ tree: borrowing FolderTree) throws(ProviderError) -> [UInt8]? {
        do throws(Errno) {
            let file = try tree.open(ThumbnailFolder.place(of: item), O_RDONLY | O_NONBLOCK | O_NOCTTY)
            let status = try System.fstat(file.raw)
            guard status.st_mode & S_IFMT == S_IFREG, status.st_size <= Picture.greatestSize else { return nil }
            return try System.contents(file.raw, atMost: Int(status.st_size))
        } catch {
            guard error == .noSuchEntry || error == .notDirectory else { throw ProviderError(error, "\(item)") }
            return nil
        }
    }

    /// Removes the pictures of a source whose root a directory was, if that is all that is in it.
    ///
    /// What is no picture there stays.
    func removeThumbnails(in directory: RemotePath, _ tree: borrowing FolderTree) {
        func each(_ path: RemotePath, _ body: (_ folder: Int32, _ name: [UInt8]) -> Void) {
            guard let folder = try? tree.open(path, O_RDONLY | O_DIRECTORY),
                let names = try? System.rawNames(in: Array("/proc/self/fd/\(folder.raw)/.".utf8))
            else { return }
            for name in names { body(folder.raw, name) }
        }
        let root = directory.appending(ThumbnailFolder.name)
        var others = 0
        each(directory) { _, name in if name != ThumbnailFolder.name.bytes { others += 1 } }
        guard others == 0 else { return }
        each(root) { folder, name in
            each(root.appending(FileName(unchecked: name))) { inner, picture in
                if ThumbnailFolder.isPicture(picture) { try? System.unlinkat(inner, picture) }
            }
            try? System.unlinkat(folder, name, directory: true)
        }
        if let place = try? tree.place(root) {
            try? System.unlinkat(place.directory.raw, place.name, directory: true)
        }
    }
}
