internal import CoveCore
internal import Glibc

/// Finds out what the source's file system can do, without writing to it.
struct SourceProbe {
    let capabilities: ProviderCapabilities
    /// True where other machines can change the files unseen by inotify(7).
    let isRemote: Bool

    init(_ tree: borrowing FolderTree, path: String) {
        let type = System.fileSystemType(tree.root.raw)
        isRemote = Self.remote.contains(type)
        let isPlain = Self.plain.contains(type)
        var found = ProviderCapabilities()
        found.ranges = true
        // Network file systems can't exchange two names: there the base is checked just before the rename.
        found.conditionalWrites = !isRemote
        found.serverSideCopy = true
        found.trash = true
        found.replacesAtOnce = !isRemote
        found.stableIDs = (try? System.status(tree.root.raw))?.birthTime != .epoch
        found.symbolicLinks = !isPlain
        found.permissions = !isPlain
        found.ownership = !isPlain && geteuid() == 0
        found.extendedAttributes = Self.hasAttributes(tree.root.raw)
        found.keepsThumbnails = true
        found.readOnly = access(path, W_OK) != 0
        found.erases = !found.readOnly
        capabilities = found
    }

    private static func hasAttributes(_ root: Int32) -> Bool {
        do throws(Errno) {
            _ = try System.attribute(ItemReader.procPath(root, [0x2E]), Array("user.cove-probe".utf8))
            return true
        } catch {
            return error == .noData
        }
    }

    /// NFS, SMB, CIFS, SMB2, FUSE, 9P, Ceph, AFS: see statfs(2).
    private static let remote: Set<Int64> = [
        0x6969, 0x517B, 0xFF53_4D42, 0xFE53_4D42, 0x6573_5546, 0x0102_1997, 0x00C3_6400, 0x5346_414F,
    ]

    /// FAT and exFAT keep neither modes nor links.
    private static let plain: Set<Int64> = [0x4D44, 0x2011_BAB0]
}
