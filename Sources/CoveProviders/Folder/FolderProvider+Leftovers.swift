internal import CoveCore
internal import Glibc

extension FolderProvider {
    /// Deals with a file that a dead process left: bytes under way go, another program's work gets a name again.
    func removeLeftover(_ name: [UInt8], _ directory: Int32, _ path: RemotePath) {
        guard let scratch = ScratchName(parsing: name), let status = try? System.status(directory, name),
            scratch.isAbandoned(status)
        else { return }
        let target = status.kind == .symbolicLink ? (try? System.readlinkat(directory, name)) : nil
        let isOurs = scratch.kind == .upload || status.inode == scratch.inode
        if isOurs || (status.kind.isSynced && scratch.allowsDeleting(status.contentVersion(target: target))) {
            try? System.unlinkat(directory, name)
        } else {
            recover(scratch, directory, path)
        }
    }

    /// Deals with all of a directory's leftovers.
    func removeLeftovers(_ directory: Int32, _ path: RemotePath) {
        guard let descriptor = try? System.openat(directory, [], O_RDONLY | O_DIRECTORY),
            let cursor = try? DirectoryCursor(descriptor, path: path)
        else { return }
        while let name = (try? cursor.next()) ?? nil {
            if FileName(unchecked: name).isReserved { removeLeftover(name, directory, path) }
        }
    }

    /// Gives a file that must not be deleted its name back, or one beside it when that is taken.
    func recover(_ scratch: ScratchName?, _ directory: Int32, _ path: RemotePath) {
        guard let scratch else { return }
        let name = FileName(unchecked: scratch.original)
        for attempt in 0..<100 {
            let suffix = attempt < 2 ? " (recovered)" : " (recovered \(attempt))"
            let free = attempt == 0 ? name : name.inserting(suffix)
            do throws(Errno) {
                try FolderTree.renameExclusively(directory, scratch.bytes, directory, free.bytes)
                log("\(path.appending(free)): recovered from an operation that was cut off")
                return
            } catch {
                if error == .exists { continue }
                return log("\(path.appending(name)): kept as \(FileName(unchecked: scratch.bytes)): \(error)")
            }
        }
    }
}
