public import CoveCore
internal import Glibc

/// Erasing everything: the note, and what is hidden.
extension FolderProvider {
    /// Reads the note.
    public func erasure() async throws(ProviderError) -> [UInt8]? {
        try await calls.run { _ throws(ProviderError) in
            let tree = try self.tree()
            do throws(Errno) {
                let file = Descriptor(try System.openPlain(tree.root.raw, ErasureNote.name.bytes, O_RDONLY))
                return try System.contents(file.raw, atMost: ErasureNote.greatestSize)
            } catch {
                if error == .noSuchEntry || error == .invalidArgument { return nil }
                throw ProviderError(error, "\(ErasureNote.name)")
            }
        }
    }

    /// Writes the note, in place of an earlier one.
    public func noteErasure(_ note: [UInt8]) async throws(ProviderError) {
        try await calls.run { _ throws(ProviderError) in
            let tree = try self.tree()
            let name = ErasureNote.name.bytes
            try attempt("\(ErasureNote.name)") { () throws(Errno) in
                System.removeTree(tree.root.raw, name)
                let flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW
                let file = Descriptor(try System.openat(tree.root.raw, name, flags, 0o644))
                try System.pwriteAll(file.raw, note, 0)
                try System.fsync(file.raw)
            }
            FolderTree.synchronize(tree.root.raw)
        }
    }

    /// Removes all hidden names of the root.
    public func eraseRest() async throws(ProviderError) {
        try await calls.run { _ throws(ProviderError) in
            let tree = try self.tree()
            let root = Array("/proc/self/fd/\(tree.root.raw)".utf8)
            let names = try attempt("/") { () throws(Errno) in try System.rawNames(in: root) }
            for name in names where ErasureNote.isOver(name) {
                System.removeTree(tree.root.raw, name)
                guard (try? System.statat(tree.root.raw, name)) == nil else {
                    throw .failed("\(FileName(unchecked: name)): it can't be removed", nil)
                }
            }
            FolderTree.synchronize(tree.root.raw)
        }
    }
}
