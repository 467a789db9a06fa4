internal import CoveCore
internal import Glibc

/// The documents of `_cove-drive`, as the daemon reads and writes them: like any program, but without the kernel.
extension Access {
    /// How often a document is fetched that changes while it is read.
    private static let readAttempts = 5

    /// The folder's item, listed; nil where there is none and none is to be made.
    func folder(_ path: RemotePath, making: Bool = false) async throws(Errno) -> ItemID? {
        var current = ItemID.root
        for name in path.names {
            let parent = current
            if let found = try await find(name, in: parent) {
                current = found
            } else {
                guard making else { return nil }
                current = try await onQueue { [self] () throws(Errno) in try makeFolder(parent, name) }
            }
            // What another device makes in it is heard of from now on.
            try await list(current)
        }
        return current
    }

    /// A name's item; the provider is asked for it where the folder was never listed.
    func find(_ name: FileName, in parent: ItemID) async throws(Errno) -> ItemID? {
        let caller = ownCaller
        do throws(Errno) {
            let outcome = try await onQueue { [namespace] () throws(Errno) in
                // The names of containers are found out by way of this.
                try namespace.lookup(parent, name.bytes, caller, mayBeDisplayName: false)
            }
            switch outcome {
            case .now(let found): return found?.id
            case .later(let pending): return try await pending.value()?.id
            }
        } catch .noSuchEntry {
            return nil
        }
    }

    /// Has a folder's names here.
    func list(_ folder: ItemID) async throws(Errno) {
        let caller = ownCaller
        let outcome = try await onQueue { [namespace] () throws(Errno) in try namespace.openDirectory(folder, caller) }
        if case .later(let pending) = outcome { try await pending.value() }
    }

    /// Makes a folder, or finds the one that somebody has made meanwhile.
    private func makeFolder(_ parent: ItemID, _ name: FileName) throws(Errno) -> ItemID {
        do throws(Errno) {
            let made = try namespace.makeDirectory(parent, name.bytes, mode: 0o755, ownCaller)
            kernel?.invalidateEntry(parent, name.bytes)
            return made.id
        } catch .exists {
            let found = try catalog.glance { database throws(Errno) in try database.entry(parent, name.bytes)?.item }
            guard let found else { throw .exists }
            return found
        }
    }

    /// Makes a folder of the root or of one in it, seen by programs that watch; what is there already stays.
    func makeShownFolder(_ path: RemotePath) async throws(Errno) -> ItemID {
        let parent = try await folder(path.parent, making: true) ?? .root
        guard let name = path.name else { return .root }
        return try await onQueue { [self] () throws(Errno) -> ItemID in
            func found() throws(Errno) -> ItemID? {
                try catalog.glance { database throws(Errno) in try database.entry(parent, name.bytes)?.item }
            }
            if let id = try found() { return id }
            if let announcer {
                do throws(Errno) { try announcer.perform(.makeDirectory(path)) } catch .exists {}
                if let id = try found() { return id }
            }
            return try makeFolder(parent, name)
        }
    }

    /// The bytes of a small file, fetched where they are not here; `EFBIG` for a larger one.
    func contents(of id: ItemID, atMost limit: Int) async throws(Errno) -> [UInt8] {
        let size = try await onQueue { [namespace] () throws(Errno) in try namespace.attributes(of: id).size }
        guard size <= Int64(limit) else { throw .fileTooLarge }
        var attempts = 0
        while true {
            try await contents.materialize(id)
            let bytes = try await onQueue { [contents] () throws(Errno) -> [UInt8]? in
                guard case .now(let result) = try contents.read(id, offset: 0, count: limit, thread: 0) else {
                    return nil
                }
                if result.count == 0 { return [] }
                return Array(try System.contents(result.descriptor, atMost: result.count))
            }
            if let bytes { return bytes }
            // It has got another version meanwhile, or was evicted.
            attempts += 1
            guard attempts < Self.readAttempts else { throw .wouldBlock }
        }
    }

    /// Changes an app's or a container's document, on the ground of what it says by then.
    ///
    /// `known`: what holds where the document can't be read. A change that makes nothing other is none.
    func change<Record: Codable & Equatable & Sendable>(
        _ name: FileName,
        in path: RemotePath,
        known: @Sendable () -> Record?,
        _ change: @Sendable (Record?) throws(Errno) -> Record
    ) async throws(Errno) -> Record {
        try await turns.take { () throws(Errno) -> Record in
            var present: Record?
            if let folder = try await folder(path), let item = try await find(name, in: folder) {
                do throws(Errno) {
                    let bytes = try await contents(of: item, atMost: DriveFolder.greatestRecord)
                    present = try? JSONValue(parsing: bytes).decode()
                } catch {
                    // What nobody knows here is another device's, and is not written over.
                    if known() == nil { throw error }
                }
            }
            let changed = try change(present ?? known())
            if changed == present { return changed }
            guard let value = try? JSONValue(encoding: changed) else { throw .invalidArgument }
            try await write(value.bytes + [0x0A], as: name, in: path)
            return changed
        }
    }

    /// Writes a document whole, in its turn: beside it first, so that nobody sees a part.
    func write(_ bytes: [UInt8], as name: FileName, in path: RemotePath) async throws(Errno) {
        try requireDrive()
        guard let parent = try await folder(path, making: true) else { throw .noSuchEntry }
        try await onQueue { [self] () throws(Errno) in
            let caller = ownCaller
            // A name that stays here.
            let beside = name.bytes + [0x7E]
            do throws(Errno) { try namespace.unlink(parent, beside, caller) } catch .noSuchEntry {}
            let flags = O_WRONLY | O_CREAT | O_EXCL
            let made = try namespace.create(parent, beside, mode: 0o600, flags: flags, caller)
            do throws(Errno) {
                defer {
                    contents.finish(made.id, flags: flags)
                    contents.release(made.id, flags: flags)
                }
                _ = try contents.write(made.id, offset: 0, count: bytes.count, clearsPrivileges: false) {
                    descriptor throws(Errno) in
                    try System.pwriteAll(descriptor, bytes, 0)
                    return bytes.count
                }
                try contents.fsync(made.id, dataOnly: false)
            } catch {
                try? namespace.unlink(parent, beside, caller)
                throw error
            }
            try namespace.rename(parent, beside, parent, name.bytes, flags: 0, caller)
            kernel?.invalidateEntry(parent, beside)
            kernel?.invalidateEntry(parent, name.bytes)
        }
    }

    /// Removes a document, in its turn; one that is not there is no error.
    func remove(_ name: FileName, in path: RemotePath) async throws(Errno) {
        try requireDrive()
        guard let parent = try await folder(path) else { return }
        try await onQueue { [self] () throws(Errno) in
            do throws(Errno) { try namespace.unlink(parent, name.bytes, ownCaller) } catch .noSuchEntry { return }
            kernel?.invalidateEntry(parent, name.bytes)
        }
    }

    private func requireDrive() throws(Errno) {
        if configuration.isReadOnly { throw .readOnly }
    }
}
