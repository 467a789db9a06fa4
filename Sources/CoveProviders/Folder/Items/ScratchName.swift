internal import CoveCore
internal import Glibc

/// The name of a file under way: `.cove-upload-KINDHOST-PID-RANDOM-INODE-BASE-NAME`.
///
/// It says enough for whoever finds it after a crash to tell bytes that were only being sent, which can go, from what
/// was taken out of its place and may be another program's work, which must not.
struct ScratchName {
    enum Kind: UInt8 {
        /// Bytes on their way here: they are still where they come from.
        case upload = 0x75
        /// About to trade places, or has: it holds the new bytes or the old ones.
        case exchange = 0x78
        /// Set aside to be deleted.
        case aside = 0x64
    }

    let kind: Kind
    let host: [UInt8]
    let process: Int32
    /// Of the new bytes' file; 0 when there is none.
    let inode: UInt64
    /// The hash of the version that may be deleted.
    let base: [UInt8]
    /// The name the file had or is to have, cut to fit.
    let original: [UInt8]
    let bytes: [UInt8]

    private static let prefix = Array(".cove-upload-".utf8)

    init(_ kind: Kind, inode: UInt64 = 0, base: ContentVersion = ContentVersion([]), for original: [UInt8]) {
        self.kind = kind
        host = Self.thisHost
        process = getpid()
        self.inode = inode
        self.base = Array(stableHash(base.bytes).utf8)
        let random = DocumentID.random().description.prefix(8)
        let fields = "-\(process)-\(random)-\(String(inode, radix: 16))-"
        let head = Self.prefix + [kind.rawValue] + host + Array(fields.utf8) + self.base + [0x2D]
        self.original = Array(original.prefix(FileName.maximumLength - head.count))
        bytes = head + self.original
    }

    init?(parsing name: [UInt8]) {
        guard name.starts(with: Self.prefix) else { return nil }
        let fields = name.dropFirst(Self.prefix.count).split(
            separator: 0x2D,
            maxSplits: 5,
            omittingEmptySubsequences: false
        )
        guard fields.count == 6, let first = fields[0].first, let kind = Kind(rawValue: first),
            let process = Int32(String(decoding: fields[1], as: UTF8.self)),
            let inode = UInt64(String(decoding: fields[3], as: UTF8.self), radix: 16)
        else { return nil }
        self.kind = kind
        host = Array(fields[0].dropFirst())
        self.process = process
        self.inode = inode
        base = Array(fields[4])
        original = Array(fields[5])
        bytes = name
    }

    /// True when nobody is at work on it any more: its process is dead, or it has not been touched for a day.
    func isAbandoned(_ status: FileStatus) -> Bool {
        if host == Self.thisHost, kill(process, 0) == -1, Errno.current == Errno(ESRCH) { return true }
        return System.now() - status.changeTime > .seconds(86_400)
    }

    func allowsDeleting(_ version: ContentVersion) -> Bool { Array(stableHash(version.bytes).utf8) == base }

    /// Where process ids mean what they mean here: one boot of one machine, one process namespace.
    private static let thisHost: [UInt8] = {
        let boot = (try? System.openat(AT_FDCWD, Array("/proc/sys/kernel/random/boot_id".utf8), O_RDONLY)) ?? -1
        var buffer = [UInt8](repeating: 0, count: 64)
        let length = buffer.withUnsafeMutableBytes { (try? System.pread(boot, $0, 0)) ?? 0 }
        if boot >= 0 { System.close(boot) }
        let space = (try? System.readlinkat(AT_FDCWD, Array("/proc/self/ns/pid".utf8))) ?? []
        return Array(stableHash(Array(buffer.prefix(length)) + space).utf8.prefix(8))
    }()
}
