internal import CoveCore
internal import Glibc

/// One notification that a daemon writes to /dev/fuse on its own account.
enum KernelNotice: Hashable {
    /// The item's attributes are asked for again.
    case attributes(ItemID)
    /// So are its pages; of a directory, its cached listing.
    case content(ItemID)
    /// The name is looked up again; a directory that proves to be the same stays, for the programs in it.
    case entry(ItemID, [UInt8])
    /// What was read and not answered is sent again (Linux 6.9).
    case resend

    // enum fuse_notify_code of <linux/fuse.h>.
    private var code: Int32 {
        switch self {
        case .attributes, .content: 2  // FUSE_NOTIFY_INVAL_INODE
        case .entry: 3  // FUSE_NOTIFY_INVAL_ENTRY
        case .resend: 7  // FUSE_NOTIFY_RESEND
        }
    }

    /// What is written: a header (length, code, 0), then `struct fuse_notify_*`.
    var bytes: [UInt8] {
        var body: [UInt8] = []
        func add(_ value: some FixedWidthInteger) { withUnsafeBytes(of: value) { body.append(contentsOf: $0) } }
        switch self {
        case .attributes(let id):
            add(id.rawValue)
            add(Int64(-1))
            add(Int64(0))
        case .content(let id):
            add(id.rawValue)
            add(Int64(0))
            add(Int64(0))
        case .entry(let parent, let name):
            add(parent.rawValue)
            add(UInt32(name.count))
            // FUSE_EXPIRE_ONLY (Linux 6.2): else getcwd fails in the directory. An older kernel takes it for padding.
            add(UInt32(1))
            body += name + [0]
        case .resend: break
        }
        let length = UInt32(16 + body.count)
        var header: [UInt8] = []
        for part in [length, UInt32(bitPattern: code), 0, 0] {
            withUnsafeBytes(of: part) { header.append(contentsOf: $0) }
        }
        return header + body
    }

    /// Hands it to the kernel; where it invalidates pages or a name, that may wait for other requests.
    func write(to device: Int32) throws(Errno) {
        let bytes = bytes
        try System.retry { Glibc.write(device, bytes, bytes.count) }
    }
}
