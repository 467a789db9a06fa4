internal import CoveCore

/// A file's flags of chattr(1) that can be kept: those that are advice for programs, such as one that makes backups.
///
/// No source keeps them. What others promise (a file that nobody can change, or one that is only added to) this file system would
/// have to hold against other devices, which it can't; they are refused.
public struct FileFlags: OptionSet, Sendable {
    /// FS_NODUMP_FL and FS_NOATIME_FL as they are there.
    public let rawValue: UInt32
    /// dump(8) and backup programs leave the file out.
    public static let noDump = FileFlags(rawValue: 0x40)
    /// Reading the file changes no access time, as nowhere in a mount.
    public static let noAccessTime = FileFlags(rawValue: 0x80)
    /// All that can be kept.
    public static let kept: FileFlags = [.noDump, .noAccessTime]

    /// Takes flags as they are.
    public init(rawValue: UInt32) { self.rawValue = rawValue }
}

extension Namespace {
    /// Under this name, which no program can use, an item's flags are beside its extended attributes.
    static let flagsName = Array("cove.flags".utf8)

    /// An item's flags; of most there are none.
    func fileFlags(_ id: ItemID) throws(Errno) -> FileFlags {
        let value = try catalog.read { database throws(Errno) in
            try database.extendedAttribute(Self.flagsName, of: id)
        }
        return FileFlags(rawValue: UInt32(value?.first ?? 0)).intersection(.kept)
    }

    /// Sets an item's flags, all at once; `EOPNOTSUPP` for one that can't be kept.
    ///
    /// The change time stays: the kernel, which keeps it, does not look for another one after this call.
    func setFileFlags(_ id: ItemID, _ flags: FileFlags, _ caller: Caller) throws(Errno) {
        try requireWritable()
        guard flags.isSubset(of: .kept) else { throw .notSupported }
        if try contents.earlierResult(caller) != nil { return }
        try catalog.write(for: caller) { database throws(Errno) in
            _ = try database.existingItem(id)
            if flags.isEmpty {
                try database.removeExtendedAttribute(Self.flagsName, of: id)
            } else {
                try database.setExtendedAttribute(Self.flagsName, [UInt8(flags.rawValue)], of: id)
            }
        }
    }
}
