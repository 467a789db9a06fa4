internal import CoveCore
internal import Foundation
internal import Glibc

/// What a document's file or package looked like when the document last read or wrote it.
struct DocumentStamp: Sendable, Equatable {
    private let inode: UInt64
    private let size: Int64
    /// Of a package: all that is in it.
    private let tree: Int?
    /// The same without the times of a file's last change other than of its bytes.
    private let treeBytes: Int?
    /// The last change of the file, or of a file in the package.
    let modificationTime: Timestamp

    /// Looks at what is at a URL, or at what a symbolic link there points at; nil where there is nothing.
    ///
    /// Blocks. A package costs one look at each of its items, whose bytes are not read.
    init?(_ url: URL) {
        guard let status = try? System.statFollowing(url.path) else { return nil }
        inode = UInt64(status.st_ino)
        guard status.st_mode & S_IFMT == S_IFDIR else {
            modificationTime = Timestamp(status.st_mtim)
            size = Int64(status.st_size)
            tree = nil
            treeBytes = nil
            return
        }
        // Names and dates of the package itself count as little as its attributes: what is inside tells.
        let contents = TreeStamp(url.path)
        modificationTime = max(contents.newest, Timestamp(status.st_mtim))
        size = 0
        tree = contents.value
        treeBytes = contents.bytes
    }

    var date: Date {
        Date(timeIntervalSince1970: modificationTime.secondsSinceEpoch)
    }

    static func == (left: DocumentStamp, right: DocumentStamp) -> Bool {
        guard left.inode == right.inode, left.tree == right.tree else { return false }
        return left.tree != nil || (left.size, left.modificationTime) == (right.size, right.modificationTime)
    }

    /// True where nothing but attributes may have changed, or files have got second names, as in a save of their package.
    func hasSameBytes(as other: DocumentStamp) -> Bool {
        guard inode == other.inode, treeBytes == other.treeBytes else { return false }
        return treeBytes != nil || self == other
    }
}

/// What a file looked like: another stamp means other bytes, or other attributes.
struct FileStamp: Sendable, Hashable {
    let kind: ItemKind
    let inode: UInt64
    let size: Int64
    let modificationTime: Timestamp
    let changeTime: Timestamp

    /// Looks at a name, not following a symbolic link.
    init(_ path: String) throws(Errno) { self.init(try System.status(AT_FDCWD, Array(path.utf8))) }

    /// Takes what is known of a file.
    init(_ status: FileStatus) {
        kind = status.kind
        inode = status.inode
        size = status.size
        modificationTime = status.modificationTime
        changeTime = status.changeTime
    }

    /// True for the same bytes under another name: a link changes nothing but the time of the change.
    func hasSameBytes(as other: FileStamp) -> Bool {
        (kind, inode, size, modificationTime) == (other.kind, other.inode, other.size, other.modificationTime)
    }
}

/// All that is below a directory, as one number: names, inodes, sizes and times.
private struct TreeStamp {
    private(set) var value = 0
    private(set) var bytes = 0
    private(set) var newest = Timestamp.distantPast

    init(_ root: String) {
        var hasher = Hasher()
        var byteHasher = Hasher()
        // A list of what is still to be looked at, not recursion: the depth is not ours to choose.
        var left = [root]
        while let directory = left.popLast() {
            guard let names = try? System.names(in: directory) else {
                // It went in between, or can't be read: the next look differs, or saving fails by itself.
                hasher.combine(Array(directory.utf8))
                byteHasher.combine(Array(directory.utf8))
                continue
            }
            // By their bytes: what only looks the same is another name.
            for name in names.sorted(by: { $0.utf8.lexicographicallyPrecedes($1.utf8) }) {
                let path = "\(directory)/\(name)"
                hasher.combine(Array(name.utf8))
                byteHasher.combine(Array(name.utf8))
                guard let stamp = try? FileStamp(path) else { continue }
                byteHasher.combine(stamp.inode)
                guard stamp.kind == .directory else {
                    hasher.combine(stamp)
                    byteHasher.combine(stamp.size)
                    byteHasher.combine(stamp.modificationTime)
                    newest = max(newest, stamp.modificationTime)
                    continue
                }
                hasher.combine(stamp.inode)
                left.append(path)
            }
            hasher.combine(names.count)
            byteHasher.combine(names.count)
        }
        value = hasher.finalize()
        bytes = byteHasher.finalize()
    }
}
