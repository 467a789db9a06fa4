internal import CoveCore
internal import Glibc
internal import Synchronization

/// Copies of items as they were when a claim for uploading was granted: a file as it is, a directory as one zip file.
struct Snapshots {
    let coordinator: Coordinator

    private var folder: String { coordinator.configuration.stateDirectory + "/snapshots" }

    /// Drops what an earlier daemon left, but for the snapshots of claims that go on; these.
    func clear(keeping claims: Set<Int>) -> [Int: [String]] {
        var kept: [Int: [String]] = [:]
        for name in (try? System.names(in: folder)) ?? [] {
            let place = "\(folder)/\(name)"
            if let claim = Int(name.prefix { $0 != "-" }), claims.contains(claim) {
                kept[claim, default: []] += ((try? System.names(in: place)) ?? []).map { "\(place)/\($0)" }
            } else {
                Self.removeFolder(place)
            }
        }
        return kept
    }

    /// Makes the snapshot of a claim's item of that index; its absolute path.
    ///
    /// A claim may name one item twice, by one name or by two.
    func make(_ item: ItemID, kind: ItemKind, path: RemotePath, claim: Int, index: Int) throws(Errno) -> String {
        let place = "\(folder)/\(claim)-\(index)"
        try System.makeDirectories(place)
        let name = String(decoding: path.name?.bytes ?? Array("root".utf8), as: UTF8.self)
        // As long as it may be, whatever became longer.
        let called = FileName(unchecked: Array((kind == .file ? name : "\(name).zip").utf8)).inserting("")
        let target = "\(place)/" + String(decoding: called.bytes, as: UTF8.self)
        do throws(Errno) {
            let file = try System.open(target, O_RDWR | O_CREAT | O_EXCL, 0o600)
            defer { System.close(file) }
            if kind == .file {
                _ = try copy(item, into: file, at: 0)
            } else {
                var writer = ZipWriter(file, now: coordinator.clock.now())
                try add(item, "\(name)/", to: &writer)
                try writer.finish()
            }
            return target
        } catch {
            Self.removeFolder(place)
            throw error
        }
    }

    /// Drops a snapshot and the folder that was made for it.
    static func remove(_ path: String) {
        guard let slash = path.lastIndex(of: "/") else { return }
        removeFolder(String(path[..<slash]))
    }

    private static func removeFolder(_ folder: String) {
        for name in (try? System.names(in: folder)) ?? [] { try? System.unlink("\(folder)/\(name)") }
        _ = rmdir(folder)
    }

    /// Copies an item's bytes, a reflink where the disk can; how many there are.
    ///
    /// Others use the item meanwhile, and what they write to it has it copied again. Whoever never rests waits for the last
    /// copy.
    private func copy(_ id: ItemID, into target: Int32, at offset: Int64) throws(Errno) -> Int64 {
        let contents = coordinator.contents
        return try contents.live.use(id) { item throws(Errno) in
            for attempt in 1...3 {
                let isLast = attempt == 3
                // What an earlier copy left there takes room.
                try System.ftruncate(target, offset)
                let taken = try item.state.withLock { state throws(Errno) -> Taken in
                    _ = try contents.loadBytes(id, &state)
                    contents.completeMaterialization(item, &state)
                    // It may have been evicted since its bytes came, or be lost.
                    guard let row = state.row, row.residency == .whole || row.size == 0 else { throw .busy }
                    let content = try contents.descriptor(id, &state)
                    if let clone = try? contents.store.copy(content, size: row.size, limit: 0) {
                        return Taken(file: clone, size: row.size, isClone: true)
                    }
                    // What a program asks for in vain says nothing of the disk.
                    guard coordinator.disk.hasRoom(for: row.size) else { throw .noSpace }
                    let file = try System.retry { dup(content) }
                    if isLast {
                        defer { System.close(file) }
                        let size = try fill(target, at: offset, from: file, size: row.size)
                        guard size == row.size else { throw .inputOutput }
                        return Taken(file: -1, size: size)
                    }
                    return Taken(file: file, size: row.size, age: ContentAge(state))
                }
                guard taken.file >= 0 else { return taken.size }
                defer { System.close(taken.file) }
                let size = try fill(target, at: offset, from: taken.file, size: taken.size)
                let isSame = try item.state.withLock { state throws(Errno) in
                    _ = try contents.load(id, &state)
                    return taken.isClone || taken.age != nil && ContentAge(state) == taken.age
                }
                guard isSame else { continue }
                // Nobody has cut it.
                guard size == taken.size else { throw .inputOutput }
                return size
            }
            throw .busy
        }
    }

    /// What is to be copied: a file that nobody changes, or one that has that age; -1 for what is copied already.
    private struct Taken {
        var file: Int32
        var size: Int64
        var isClone = false
        var age: ContentAge?
    }

    /// Copies so many bytes behind those that a file has; how many there were.
    private func fill(_ target: Int32, at offset: Int64, from source: Int32, size: Int64) throws(Errno) -> Int64 {
        if offset == 0, (try? System.clone(source, to: target)) != nil {
            return min(size, Int64(try System.fstat(target).st_size))
        }
        var done: Int64 = 0
        while done < size {
            let count = try System.copyFileRange(
                from: source,
                at: done,
                to: target,
                at: offset + done,
                count: Int(min(size - done, 64 << 20))
            )
            if count == 0 { break }
            done += Int64(count)
        }
        return done
    }

    /// Adds a directory and all in it: one directory after the other, however deep they lie in each other.
    private func add(_ root: ItemID, _ path: String, to writer: inout ZipWriter) throws(Errno) {
        var waiting = [(root, path)]
        while let (directory, path) = waiting.popLast() {
            try writer.addDirectory(path)
            for (name, row) in try entries(of: directory)
            where !coordinator.namespace.localNames.matches(name, row.kind) {
                let inner = path + String(decoding: name, as: UTF8.self)
                switch row.kind {
                case .directory: waiting.append((row.id, inner + "/"))
                case .symbolicLink: try writer.addLink(inner, to: row.target ?? [])
                case .file:
                    try writer.addFile(inner, permissions: row.permissions, modified: row.modificationTime) {
                        file,
                        offset throws(Errno) in try copy(row.id, into: file, at: offset)
                    }
                default: continue
                }
            }
        }
    }

    private func entries(of directory: ItemID) throws(Errno) -> [(name: [UInt8], row: ItemRow)] {
        try coordinator.catalog.read { database throws(Errno) in
            var found: [(name: [UInt8], row: ItemRow)] = []
            var failure: Errno?
            try database.eachEntry(of: directory, after: 0) { entry in
                do throws(Errno) {
                    found.append((entry.name, try database.existingItem(entry.item)))
                } catch {
                    failure = error
                }
                return failure == nil
            }
            if let failure { throw failure }
            return found
        }
    }
}

/// Tells whether an item's bytes are those of an earlier look; never so for what is being written just then.
private struct ContentAge: Equatable {
    let generation: Int64?
    let size: Int64?
    let lastWrite: MonotonicTime
    let seen: ContentStamp?

    /// Nil while a write is on its way.
    init?(_ state: borrowing LiveItem.State) {
        guard state.writesInFlight == 0 else { return nil }
        generation = state.row?.generation
        size = state.row?.size
        lastWrite = state.lastWrite
        seen = state.seen
    }
}
