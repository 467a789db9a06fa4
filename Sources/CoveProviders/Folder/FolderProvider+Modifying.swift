public import CoveCore
internal import Glibc

extension FolderProvider {
    /// Replaces the bytes or sets metadata, if the version is still the base and nobody has the file open for writing.
    ///
    /// What `metadata` leaves open stays as it is, but for the modification time of new bytes.
    public func modify(
        _ item: RemoteReference,
        base: ContentVersion,
        metadata: ItemMetadata,
        content: (any ContentSource)?
    ) async throws(ProviderError) -> RemoteItem {
        let queue = content == nil ? calls : transfers
        return try await queue.run { flag throws(ProviderError) in
            let tree = try self.tree()
            let place = try tree.place(item.path)
            let reader = self.reader(tree)
            let known = try self.current(place, reader)
            guard known.kind == .directory || known.contentVersion == base else {
                throw .conflict(known)
            }
            if let content {
                guard known.kind == .file else { throw .conflict(known) }
                return try self.replace(place, known, base: base, metadata, content, reader, flag)
            }
            switch known.kind {
            case .symbolicLink:
                let writer = MetadataWriter(isStrict: true, log: self.log)
                try attempt("\(item.path)") { () throws(Errno) in
                    try writer.apply(metadata, toLink: place.name, in: place.directory.raw)
                }
                return try self.current(place, reader)
            case .file, .directory: return try self.setMetadata(place, item.id, base: base, metadata, reader)
            case .fifo, .socket, .characterDevice, .blockDevice: throw .noSuchItem
            }
        }
    }

    private func setMetadata(
        _ place: borrowing Place,
        _ id: RemoteID?,
        base: ContentVersion,
        _ metadata: ItemMetadata,
        _ reader: ItemReader
    ) throws(ProviderError) -> RemoteItem {
        let opened = try openForMetadata(place, metadata)
        let file = opened.raw
        let status = try attempt("\(place.path)") { () throws(Errno) in try System.status(file) }
        if status.kind == .directory, !ItemReader.matches(id, status) { throw .noSuchItem }
        // The lease keeps writers out for the moment in which the new time would hide that they wrote.
        if status.kind == .file, metadata.modificationTime != nil {
            do throws(Errno) { try System.takeReadLease(file) } catch .wouldBlock { throw .busy } catch {}
        }
        defer { System.releaseLease(file) }
        let writer = MetadataWriter(isStrict: true, log: log)
        let found = try attempt("\(place.path)") { () throws(Errno) in try System.status(file) }
        if found.kind == .file, found.contentVersion(target: nil) != base { throw conflict(place, reader) }
        let version = try attempt("\(place.path)") { () throws(Errno) in
            try writer.apply(metadata, to: file)
            return try System.status(file).contentVersion(target: nil)
        }
        return try item(file, version: version, at: place, reader)
    }

    /// Opens a file to set its metadata; one that even its owner can't read is made readable first if it is to be.
    private func openForMetadata(
        _ place: borrowing Place,
        _ metadata: ItemMetadata
    ) throws(ProviderError) -> Descriptor {
        let flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY
        let directory = place.directory.raw
        let name = place.name
        return try attempt("\(place.path)") { () throws(Errno) in
            do throws(Errno) {
                return Descriptor(try System.openat(directory, name, flags))
            } catch {
                guard error == .accessDenied, let permissions = metadata.permissions else { throw error }
                let named = Descriptor(try System.openat(directory, name, System.pathOnly | O_NOFOLLOW))
                try System.chmod("/proc/self/fd/\(named.raw)", permissions | 0o600)
                return Descriptor(try System.openat(directory, name, flags))
            }
        }
    }

    private func replace(
        _ place: borrowing Place,
        _ known: RemoteItem,
        base: ContentVersion,
        _ metadata: ItemMetadata,
        _ content: any ContentSource,
        _ reader: ItemReader,
        _ flag: CancellationFlag
    ) throws(ProviderError) -> RemoteItem {
        try checkWriters(place, base: base, reader)
        var scratch = try Scratch(for: place)
        try scratch.fill(content, flag)
        var metadata = metadata
        metadata.permissions = metadata.permissions ?? known.metadata.permissions
        metadata.user = metadata.user ?? known.metadata.user
        metadata.group = metadata.group ?? known.metadata.group
        metadata.extendedAttributes = metadata.extendedAttributes ?? known.metadata.extendedAttributes
        let writer = MetadataWriter(isStrict: false, log: log)
        let version: ContentVersion
        do throws(Errno) {
            try writer.apply(metadata, to: scratch.file.raw)
            version = try scratch.synchronize()
            try scratch.announceExchange(base: base)
        } catch {
            throw ProviderError(error, "\(place.path)")
        }
        try flag.check()
        try exchange(&scratch, place, base: base, reader)
        place.synchronize()
        return try item(scratch.file.raw, version: version, at: place, reader)
    }

    /// Throws `busy` while a program has the file open for writing, `conflict` when it has written already.
    func checkWriters(
        _ place: borrowing Place,
        base: ContentVersion,
        _ reader: ItemReader
    ) throws(ProviderError) {
        guard FolderTree.isOpenForWriting(place.directory.raw, place.name) else { return }
        guard (try? reader.version(place)) == base else { throw conflict(place, reader) }
        throw .busy
    }

    /// Puts the new file in place and looks at what came out: anything but an untouched base is put back.
    ///
    /// Once the old file is out of its place no program can open it any more, so that its version and the absence of
    /// writers are final.
    private func exchange(
        _ scratch: inout Scratch,
        _ place: borrowing Place,
        base: ContentVersion,
        _ reader: ItemReader
    ) throws(ProviderError) {
        let directory = place.directory.raw
        do throws(Errno) {
            try System.renameat(directory, scratch.name, directory, place.name, .exchange)
        } catch {
            guard error == .invalidArgument || error == .notImplemented else {
                throw ProviderError(error, "\(place.path)")
            }
            return try renameOver(&scratch, place, base: base, reader)
        }
        let isBase = (try? reader.version(scratch.name, in: directory)) == base
        let isBusy = FolderTree.isOpenForWriting(directory, scratch.name)
        // Writers are looked for first and the version is read again: nobody can have come in between.
        if isBase, !isBusy, (try? reader.version(scratch.name, in: directory)) == base {
            try? System.unlinkat(directory, scratch.name)
            return scratch.finish()
        }
        putBack(&scratch, place)
        if isBase { throw .busy }
        throw conflict(place, reader)
    }

    private func renameOver(
        _ scratch: inout Scratch,
        _ place: borrowing Place,
        base: ContentVersion,
        _ reader: ItemReader
    ) throws(ProviderError) {
        let directory = place.directory.raw
        try checkWriters(place, base: base, reader)
        guard (try? reader.version(place)) == base else { throw conflict(place, reader) }
        do throws(Errno) {
            try System.renameat(directory, scratch.name, directory, place.name, .replace)
        } catch {
            throw ProviderError(error, "\(place.path)")
        }
        scratch.finish()
    }

    /// Undoes an exchange.
    ///
    /// What a third program put there in the meantime wins the name, and nothing is lost.
    private func putBack(_ scratch: inout Scratch, _ place: borrowing Place) {
        let directory = place.directory.raw
        do throws(Errno) {
            try System.renameat(directory, scratch.name, directory, place.name, .exchange)
        } catch {
            // The new file was deleted or moved away: the name is free for the old one.
            recover(ScratchName(parsing: scratch.name), directory, place.path.parent)
            return scratch.finish()
        }
        guard (try? System.status(directory, scratch.name))?.inode != scratch.inode else { return }
        try? System.renameat(directory, scratch.name, directory, place.name, .exchange)
        recover(ScratchName(parsing: scratch.name), directory, place.path.parent)
        scratch.finish()
    }
}
