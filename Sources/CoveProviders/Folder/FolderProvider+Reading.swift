public import CoveCore
internal import Glibc

extension FolderProvider {
    /// Lists a directory, 1000 names a page, and watches it from before its first name is read.
    public func list(_ directory: RemoteReference, page: Page?) async throws(ProviderError) -> Listing {
        try await calls.run { flag throws(ProviderError) in
            let tree = try self.tree()
            if let page {
                guard let cursor = self.cursors.take(page), cursor.path == directory.path else { throw .pageExpired }
                return try self.read(cursor, in: tree, flag)
            }
            let path = directory.path
            let opened = try self.openWatched(path, in: tree)
            let cursor = try attempt("\(path)") { () throws(Errno) in
                try DirectoryCursor(System.openat(opened.raw, [], O_RDONLY | O_DIRECTORY), path: path)
            }
            return try self.read(cursor, in: tree, flag)
        }
    }

    /// Opens a directory that is watched from now on, under the path that it has.
    func openWatched(_ path: RemotePath, in tree: borrowing FolderTree) throws(ProviderError) -> Descriptor {
        var attempts = 0
        while true {
            let opened = try attempt("\(path)") { () throws(Errno) in try tree.open(path, O_RDONLY | O_DIRECTORY) }
            attempts += 1
            if try watcher().watch(path, opened.raw, in: tree) || attempts == 10 { return opened }
        }
    }

    private func read(
        _ cursor: DirectoryCursor,
        in tree: borrowing FolderTree,
        _ flag: CancellationFlag
    ) throws(ProviderError) -> Listing {
        let reader = reader(tree)
        let watcher = try watcher()
        var items: [RemoteItem] = []
        var seen = 0
        while seen < Self.pageSize {
            if seen & 0x3F == 0 { try flag.check() }
            guard let name = try attempt("\(cursor.path)", { () throws(Errno) in try cursor.next() }) else {
                return Listing(items: items, next: nil)
            }
            seen += 1
            let isPassing = FileName(unchecked: name).isPassing
            if !isPassing, FileName(unchecked: name).isReserved {
                removeLeftover(name, cursor.descriptor, cursor.path)
                continue
            }
            let path = cursor.path.appending(FileName(unchecked: name))
            do throws(Errno) {
                let status = try System.status(cursor.descriptor, name)
                guard let item = try reader.item(status, name, in: cursor.descriptor, path: path) else { continue }
                if item.kind == .directory, !isPassing { watcher.adopt(status, at: path) }
                items.append(item)
            } catch .noSuchEntry {
                continue
            } catch {
                throw ProviderError(error, "\(path)")
            }
        }
        return Listing(items: items, next: cursors.put(cursor))
    }

    static var pageSize: Int { 1000 }

    /// Looks a name up, in a directory that is watched from then on; names of Cove's own and items no provider holds are not
    /// there.
    public func lookup(_ name: FileName, in directory: RemoteReference) async throws(ProviderError) -> RemoteItem {
        try await calls.run { _ throws(ProviderError) in
            if name.isReserved, !name.isPassing { throw .noSuchItem }
            let tree = try self.tree()
            // What was found is known from then on, though the directory may never be listed.
            // One that can't be opened can be looked into all the same.
            if try !self.watcher().isWatched(directory.path, in: tree) {
                _ = try? self.openWatched(directory.path, in: tree)
            }
            return try self.current(tree.place(directory.path.appending(name)), self.reader(tree))
        }
    }

    /// The item that has a name now.
    ///
    /// Throws `noSuchItem` when there is none that a provider holds.
    func current(_ place: borrowing Place, _ reader: ItemReader) throws(ProviderError) -> RemoteItem {
        let item = try attempt("\(place.path)") { () throws(Errno) in try reader.item(place) }
        guard let item else { throw .noSuchItem }
        return item
    }

    /// Reads one version's bytes; each chunk is checked to be of that version before the sink sees it.
    public func fetch(
        _ item: RemoteReference,
        version: ContentVersion,
        range: Range<Int64>,
        into sink: any ContentSink
    ) async throws(ProviderError) {
        try await transfers.run { flag throws(ProviderError) in
            let tree = try self.tree()
            let file = try self.openFile(item.path, in: tree)
            let status = try attempt("\(item.path)") { () throws(Errno) in try System.status(file.raw) }
            guard status.kind == .file, status.contentVersion(target: nil) == version else {
                throw .versionNoLongerAvailable
            }
            Self.settle(status)
            let end = min(range.upperBound, status.size)
            var offset = max(range.lowerBound, 0)
            guard offset < end else { return }
            let room = min(Int(end - offset), Self.chunkSize)
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: room, alignment: 4096)
            defer { buffer.deallocate() }
            while offset < end {
                try flag.check()
                let part = UnsafeMutableRawBufferPointer(rebasing: buffer.prefix(Int(min(Int64(room), end - offset))))
                let (count, now) = try attempt("\(item.path)") { () throws(Errno) in
                    (try System.pread(file.raw, part, offset), try System.status(file.raw))
                }
                guard count > 0, now.contentVersion(target: nil) == version else { throw .versionNoLongerAvailable }
                try sink.write(UnsafeRawBufferPointer(rebasing: part.prefix(count)), at: offset)
                offset += Int64(count)
            }
        }
    }

    /// Compares byte by byte: what is here costs nothing else.
    public func matches(
        _ item: RemoteReference,
        version: ContentVersion,
        _ content: any ContentSource
    ) async throws(ProviderError) -> Bool? {
        let comparison = ContentComparison(content)
        do throws(ProviderError) {
            try await fetch(item, version: version, range: 0..<content.size, into: comparison)
        } catch {
            guard comparison.differs else { throw error }
            return false
        }
        let now = try await lookup(
            item.path.name ?? FileName(unchecked: []),
            in: RemoteReference(id: nil, path: item.path.parent)
        )
        guard now.contentVersion.isSame(as: version) else { throw .versionNoLongerAvailable }
        return now.size == content.size && comparison.isComplete
    }

    static var chunkSize: Int { 1 << 20 }

    private func openFile(_ path: RemotePath, in tree: borrowing FolderTree) throws(ProviderError) -> Descriptor {
        do throws(Errno) {
            return try tree.open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY)
        } catch Errno(ELOOP) {
            throw .versionNoLongerAvailable
        } catch {
            throw ProviderError(error, "\(path)")
        }
    }

    /// Waits until a file changed just now can't change again under the same time stamp.
    ///
    /// Before Linux 6.13 time stamps step with the kernel's timer, at worst every 10 ms; a write within the same step
    /// would leave the version as it is.
    static func settle(_ status: FileStatus) {
        let age = System.now() - status.modificationTime
        let step = TimeSpan.milliseconds(10)
        if age >= .zero, age < step { (step - age).block() }
    }
}
