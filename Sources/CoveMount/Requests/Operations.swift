internal import CFuse
internal import CoveCore
internal import CoveEngine
internal import Glibc

extension fuse_lowlevel_ops {
    /// libfuse's callbacks: each wraps its request and calls the operation of the same name.
    ///
    /// What is missing is answered ENOSYS by libfuse, and the kernel does not ask again: poll, bmap, and the
    /// locks, which are the kernel's own. What libfuse does not know comes as what it knows (shim.h): TMPFILE as a CREATE, and
    /// STATX as a GETATTR. Nodes of the hidden tree have operations of their own.
    static var cove: fuse_lowlevel_ops {
        var table = fuse_lowlevel_ops()
        table.`init` = { context, information in
            guard let context, let information else { return }
            Unmanaged<Connection>.fromOpaque(context).takeUnretainedValue().negotiate(&information.pointee)
        }
        table.addNames()
        table.addAttributes()
        table.addFiles()
        table.addDirectories()
        return table
    }

    private mutating func addNames() {
        lookup = { request, parent, name in
            let name = bytes(of: name)
            if let hidden = HiddenNode(ItemID(parent)) { return Request(request).lookup(hidden: hidden, name) }
            if parent == FUSE_ROOT_ID, name == HiddenNode.name { return Request(request).lookupHiddenTree() }
            // No path has these: the kernel has a file handle, and asks what it is of, or where that is.
            if (1...2).contains(name.count), name.allSatisfy({ $0 == 0x2E }) {
                if name.count == 1 { return Request(request).lookup(number: ItemID(parent)) }
                return Request(request).lookupParent(of: ItemID(parent))
            }
            Request(request).lookup(ItemID(parent), name)
        }
        mknod = { request, parent, name, mode, device in
            if isHidden(parent) { return Request(request).refuseHidden() }
            Request(request).mknod(ItemID(parent), bytes(of: name), mode: mode, device: device)
        }
        mkdir = { request, parent, name, mode in
            if isHidden(parent) { return Request(request).refuseHidden() }
            Request(request).mkdir(ItemID(parent), bytes(of: name), mode: mode)
        }
        symlink = { request, target, parent, name in
            if isHidden(parent) { return Request(request).refuseHidden() }
            Request(request).symlink(target: bytes(of: target), ItemID(parent), bytes(of: name))
        }
        link = { request, node, parent, name in
            if isHidden(node, parent) { return Request(request).refuseHidden() }
            Request(request).link(ItemID(node), ItemID(parent), bytes(of: name))
        }
        unlink = { request, parent, name in
            if isHidden(parent) { return Request(request).refuseHidden() }
            Request(request).unlink(ItemID(parent), bytes(of: name))
        }
        rmdir = { request, parent, name in
            if isHidden(parent) { return Request(request).refuseHidden() }
            Request(request).rmdir(ItemID(parent), bytes(of: name))
        }
        rename = { request, parent, name, newParent, newName, flags in
            if isHidden(parent, newParent) { return Request(request).refuseHidden() }
            Request(request).rename(
                ItemID(parent),
                bytes(of: name),
                to: ItemID(newParent),
                bytes(of: newName),
                flags: flags
            )
        }
        readlink = { request, node in Request(request).readlink(ItemID(node)) }
        forget = { request, node, _ in Request(request).forget(CollectionOfOne(ItemID(node))) }
        forget_multi = { request, count, nodes in
            Request(request).forget(UnsafeBufferPointer(start: nodes, count: count).lazy.map { ItemID($0.ino) })
        }
    }

    private mutating func addAttributes() {
        getattr = { request, node, _ in
            if let hidden = HiddenNode(ItemID(node)) { return Request(request).getattr(hidden: hidden) }
            Request(request).getattr(ItemID(node))
        }
        setattr = { request, node, status, valid, file in
            if isHidden(node) { return Request(request).refuseHidden() }
            Request(request).setattr(ItemID(node), status, valid: valid, hasHandle: file != nil)
        }
        access = { request, _, _ in Request(request).access() }
        statfs = { request, _ in Request(request).statfs() }
        getxattr = { request, node, name, limit in
            if isHidden(node) { return Request(request).getxattrHidden() }
            Request(request).getxattr(ItemID(node), bytes(of: name), limit: limit)
        }
        listxattr = { request, node, limit in
            if isHidden(node) { return Request(request).listxattrHidden(limit: limit) }
            Request(request).listxattr(ItemID(node), limit: limit)
        }
        setxattr = { request, node, name, value, size, flags in
            if isHidden(node) { return Request(request).refuseHidden() }
            let value = UnsafeRawBufferPointer(start: value, count: value == nil ? 0 : size)
            Request(request).setxattr(ItemID(node), bytes(of: name), value, flags: flags)
        }
        removexattr = { request, node, name in
            if isHidden(node) { return Request(request).refuseHidden() }
            Request(request).removexattr(ItemID(node), bytes(of: name))
        }
        ioctl = { request, node, command, _, _, _, input, count, room in
            if isHidden(node) { return Request(request).fail(.noSuchControl) }
            let input = UnsafeRawBufferPointer(start: input, count: input == nil ? 0 : count)
            Request(request).ioctl(ItemID(node), command, input, room: room)
        }
    }

    private mutating func addFiles() {
        open = { request, node, file in
            let flags = file?.pointee.flags ?? 0
            if let hidden = HiddenNode(ItemID(node)) { return Request(request).open(hidden: hidden, flags: flags) }
            Request(request).open(ItemID(node), flags: flags)
        }
        create = { request, parent, name, mode, file in
            if isHidden(parent) { return Request(request).refuseHidden() }
            let name = bytes(of: name)
            let flags = file?.pointee.flags ?? 0
            if name == unnamed { return Request(request).createUnnamed(ItemID(parent), mode: mode, flags: flags) }
            Request(request).create(ItemID(parent), name, mode: mode, flags: flags)
        }
        read = { request, node, count, offset, file in
            if let hidden = HiddenNode(ItemID(node)) {
                return Request(request).read(hidden: hidden, offset: Int64(offset), count: count)
            }
            let flags = file?.pointee.flags ?? 0
            Request(request).read(ItemID(node), offset: Int64(offset), count: count, flags: flags)
        }
        write_buf = { request, node, source, offset, file in
            if isHidden(node) { return Request(request).refuseHidden() }
            let isFromCache = file?.pointee.writepage == 1
            Request(request).write(ItemID(node), source, offset: Int64(offset), isFromCache: isFromCache)
        }
        flush = { request, node, _ in
            if isHidden(node) { return Request(request).finishHidden() }
            Request(request).flush(ItemID(node))
        }
        fsync = { request, node, dataOnly, _ in
            if isHidden(node) { return Request(request).finishHidden() }
            Request(request).fsync(ItemID(node), dataOnly: dataOnly != 0)
        }
        release = { request, node, file in
            if isHidden(node) { return Request(request).finishHidden() }
            Request(request).release(ItemID(node), flags: file?.pointee.flags ?? 0)
        }
        fallocate = { request, node, mode, offset, length, _ in
            if isHidden(node) { return Request(request).refuseHidden() }
            Request(request).fallocate(ItemID(node), mode: mode, offset: Int64(offset), length: Int64(length))
        }
        copy_file_range = { request, node, offset, _, newNode, newOffset, _, count, _ in
            if isHidden(newNode) { return Request(request).refuseHidden() }
            // The kernel then reads and writes the bytes.
            if isHidden(node) { return Request(request).fail(.notSupported) }
            Request(request).copyFileRange(
                from: ItemID(node),
                at: Int64(offset),
                to: ItemID(newNode),
                at: Int64(newOffset),
                count: count
            )
        }
        // No lseek: the kernel then answers SEEK_DATA and SEEK_HOLE by itself, all of a file being data. It alone knows
        // how long a file is that has writes in its cache, and a copier takes what is beyond the end for a hole.
    }

    private mutating func addDirectories() {
        opendir = { request, node, _ in Request(request).opendir(ItemID(node)) }
        readdir = { request, node, limit, offset, _ in
            let cookie = UInt64(truncatingIfNeeded: offset)
            Request(request).readdir(ItemID(node), after: cookie, limit: limit, plus: false)
        }
        readdirplus = { request, node, limit, offset, _ in
            let cookie = UInt64(truncatingIfNeeded: offset)
            Request(request).readdir(ItemID(node), after: cookie, limit: limit, plus: true)
        }
        releasedir = { request, node, _ in Request(request).releasedir(ItemID(node)) }
        fsyncdir = { request, node, _, _ in Request(request).fsyncdir(ItemID(node)) }
    }
}

/// What the kernel calls a file that has no name, of `O_TMPFILE`.
private let unnamed = Array("/".utf8)

/// True when one of the nodes is of the hidden tree.
@inline(__always)
private func isHidden(_ node: fuse_ino_t, _ other: fuse_ino_t = 0) -> Bool {
    HiddenNode.contains(ItemID(node)) || HiddenNode.contains(ItemID(other))
}
