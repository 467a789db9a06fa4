public import CoveCore
internal import Glibc

extension FolderProvider {
    /// Creates an item.
    ///
    /// A file appears complete, under its name or not at all.
    public func create(
        _ template: ItemTemplate,
        name: FileName,
        in directory: RemoteReference,
        content: (any ContentSource)?
    ) async throws(ProviderError) -> RemoteItem {
        let queue = content == nil ? calls : transfers
        return try await queue.run { flag throws(ProviderError) in
            let tree = try self.tree()
            let place = try self.newPlace(name, in: directory, tree)
            let reader = self.reader(tree)
            switch template.kind {
            case .file: return try self.createFile(place, template.metadata, content, reader, flag)
            case .directory:
                let item = try self.createDirectory(place, template.metadata, reader)
                // Its maker knows it as empty and will not list it: what others put into it must be noticed.
                let opened = try self.openWatched(place.path, in: tree)
                let cursor = try attempt("\(place.path)") { () throws(Errno) in
                    try DirectoryCursor(System.openat(opened.raw, [], O_RDONLY | O_DIRECTORY), path: place.path)
                }
                if let name = try? cursor.next(), !name.isEmpty { try self.watcher().report(place.path) }
                return item
            case .symbolicLink:
                return try self.createLink(place, to: template.linkTarget ?? [], template.metadata, reader)
            case .fifo, .socket, .characterDevice, .blockDevice: throw .unsupported("a special file")
            }
        }
    }

    /// The place for a new name.
    ///
    /// Throws `filenameCollision` when anything has the name already.
    func newPlace(
        _ name: FileName,
        in directory: RemoteReference,
        _ tree: borrowing FolderTree
    ) throws(ProviderError) -> Place {
        if name.isReserved, !name.isPassing { throw .unsupported("\(name): a name that Cove keeps for itself") }
        if let problem = FileName.problem(with: name.bytes) { throw .unsupported(problem) }
        let place = try tree.place(directory.path.appending(name))
        if try place.statusIfPresent() != nil { throw collision(place, reader(tree)) }
        return place
    }

    func collision(_ place: borrowing Place, _ reader: ItemReader) -> ProviderError {
        .filenameCollision((try? reader.item(place)) ?? nil)
    }

    func conflict(_ place: borrowing Place, _ reader: ItemReader) -> ProviderError {
        .conflict((try? reader.item(place)) ?? nil)
    }

    private func createFile(
        _ place: borrowing Place,
        _ metadata: ItemMetadata,
        _ content: (any ContentSource)?,
        _ reader: ItemReader,
        _ flag: CancellationFlag
    ) throws(ProviderError) -> RemoteItem {
        var scratch = try Scratch(for: place)
        if let content { try scratch.fill(content, flag) }
        var metadata = metadata
        metadata.permissions = metadata.permissions ?? 0o644
        return try finish(&scratch, as: place, metadata, reader)
    }

    /// Dresses a filled file, gives it its free name, and says what it became.
    func finish(
        _ scratch: inout Scratch,
        as place: borrowing Place,
        _ metadata: ItemMetadata,
        _ reader: ItemReader
    ) throws(ProviderError) -> RemoteItem {
        let file = scratch.file.raw
        let writer = MetadataWriter(isStrict: false, log: log)
        let version: ContentVersion
        do throws(Errno) {
            try writer.apply(metadata, to: file)
            version = try scratch.synchronize()
            try scratch.publish(as: place.name)
        } catch .exists {
            throw collision(place, reader)
        } catch {
            throw ProviderError(error, "\(place.path)")
        }
        place.synchronize()
        return try item(file, version: version, at: place, reader)
    }

    /// The item an open file is, with the version it had before any other program could change it.
    func item(
        _ file: Int32,
        version: ContentVersion,
        at place: borrowing Place,
        _ reader: ItemReader
    ) throws(ProviderError) -> RemoteItem {
        let item = try attempt("\(place.path)") { () throws(Errno) in
            try reader.item(System.status(file), place.name, in: place.directory.raw, path: place.path)
        }
        guard var item else { throw .noSuchItem }
        item.contentVersion = version
        return item
    }

    private func createDirectory(
        _ place: borrowing Place,
        _ metadata: ItemMetadata,
        _ reader: ItemReader
    ) throws(ProviderError) -> RemoteItem {
        let writer = MetadataWriter(isStrict: false, log: log)
        do throws(Errno) {
            try System.mkdirat(place.directory.raw, place.name, mode_t(metadata.permissions ?? 0o755) | 0o700)
            let opened = Descriptor(
                try System.openat(place.directory.raw, place.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
            )
            try writer.apply(metadata, to: opened.raw)
        } catch .exists {
            throw collision(place, reader)
        } catch {
            throw ProviderError(error, "\(place.path)")
        }
        place.synchronize()
        return try current(place, reader)
    }

    private func createLink(
        _ place: borrowing Place,
        to target: [UInt8],
        _ metadata: ItemMetadata,
        _ reader: ItemReader
    ) throws(ProviderError) -> RemoteItem {
        let writer = MetadataWriter(isStrict: false, log: log)
        do throws(Errno) {
            try System.symlinkat(target, place.directory.raw, place.name)
            try writer.apply(metadata, toLink: place.name, in: place.directory.raw)
        } catch .exists {
            throw collision(place, reader)
        } catch {
            throw ProviderError(error, "\(place.path)")
        }
        place.synchronize()
        return try current(place, reader)
    }

    /// Copies one version to a free name, sharing its blocks where the file system can.
    public func copy(
        _ item: RemoteReference,
        version: ContentVersion,
        to directory: RemoteReference,
        name: FileName
    ) async throws(ProviderError) -> RemoteItem {
        try await transfers.run { flag throws(ProviderError) in
            let tree = try self.tree()
            let reader = self.reader(tree)
            let source = try tree.place(item.path)
            let place = try self.newPlace(name, in: directory, tree)
            let known = try self.current(source, reader)
            guard known.contentVersion == version else { throw self.conflict(source, reader) }
            switch known.kind {
            case .symbolicLink: return try self.createLink(place, to: known.linkTarget ?? [], known.metadata, reader)
            case .file: break
            case .directory, .fifo, .socket, .characterDevice, .blockDevice:
                throw .unsupported("\(item.path): only files are copied at the source")
            }
            let file = try attempt("\(item.path)") { () throws(Errno) in
                try tree.open(item.path, O_RDONLY | O_NONBLOCK | O_NOCTTY)
            }
            var scratch = try Scratch(for: place)
            try self.copyBytes(file.raw, known.size, to: scratch.file.raw, flag)
            let after = try attempt("\(item.path)") { () throws(Errno) in try System.status(file.raw) }
            guard after.contentVersion(target: nil) == version else { throw self.conflict(source, reader) }
            return try self.finish(&scratch, as: place, known.metadata, reader)
        }
    }

    private func copyBytes(
        _ source: Int32,
        _ size: Int64,
        to target: Int32,
        _ flag: CancellationFlag
    ) throws(ProviderError) {
        if (try? System.clone(source, to: target)) != nil { return }
        var offset: Int64 = 0
        while offset < size {
            try flag.check()
            let room = Int(min(size - offset, 4 << 20))
            let at = offset
            let count = try attempt("copying at the source") { () throws(Errno) in
                do throws(Errno) {
                    return try System.copyFileRange(from: source, at: at, to: target, at: at, count: room)
                } catch {
                    let isUnable = [.crossDevice, .invalidArgument, .notSupported, .notImplemented].contains(error)
                    if !isUnable { throw error }
                    return try Self.copyThroughMemory(source, to: target, at: at, room)
                }
            }
            if count == 0 { return }
            offset += Int64(count)
        }
    }

    private static func copyThroughMemory(
        _ source: Int32,
        to target: Int32,
        at offset: Int64,
        _ room: Int
    ) throws(Errno) -> Int {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: min(room, chunkSize), alignment: 4096)
        defer { buffer.deallocate() }
        let count = try System.pread(source, buffer, offset)
        try System.pwriteAll(target, UnsafeRawBufferPointer(rebasing: buffer.prefix(count)), offset)
        return count
    }
}
