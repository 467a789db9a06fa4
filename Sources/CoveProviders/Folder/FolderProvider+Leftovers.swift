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
        bringBack(directory, scratch.bytes, to: directory, path.appending(FileName(unchecked: scratch.original)))
    }

    /// Gives a file that was moved aside its place again, or one beside it when that is taken.
    func bringBack(_ aside: Int32, _ name: [UInt8], to directory: Int32, _ path: RemotePath) {
        for free in path.name?.recoveryNames ?? [] {
            do throws(Errno) {
                try FolderTree.renameExclusively(aside, name, directory, free.bytes)
                return log("\(path.parent.appending(free)): it was not meant to go, and is back")
            } catch {
                if error == .exists { continue }
                return log("\(path): kept as \(FileName(unchecked: name)): \(error)")
            }
        }
    }
}
