internal import Glibc

/// One line of the mount table.
public struct Mount: Sendable, Hashable {
    /// The mount's id.
    public let id: Int
    /// The major part of `st_dev`.
    public let majorDevice: UInt32
    /// The minor part of `st_dev`; for FUSE it names the connection.
    public let minorDevice: UInt32
    /// The directory of the file system that is mounted, `/` unless it is a bind mount.
    public let root: String
    /// Where it is mounted.
    public let path: String
    /// The file system type, `fuse.cove` for Cove's own.
    public let type: String
    /// What is mounted, `cove:ACCOUNT` for Cove's own.
    public let source: String
    /// The user who mounted it, in the mount's own user namespace; nil where it is no FUSE mount.
    public let owner: UInt32?

    /// True for a mount of Cove's.
    public var isCove: Bool { type == "fuse.cove" }

    /// True for all of an account, not a part of one, mounted by this process's user.
    public var isWholeOwnAccount: Bool { isCove && root == "/" && owners.contains(geteuid()) }

    /// The users that its daemon may run as, as this process sees them.
    public var owners: Set<UInt32> {
        guard let owner else { return [] }
        // The mount's namespace is this process's own, or one around it.
        return Set([owner, UserMap.own().inside(owner)].compactMap(\.self))
    }
}

/// The mounts this process sees, read from /proc/self/mountinfo (proc_pid_mountinfo(5)) without touching any of them.
public enum MountTable {
    /// All mounts, in the order they were made.
    public static func read() throws(Errno) -> [Mount] {
        let descriptor = try System.open("/proc/self/mountinfo", O_RDONLY)
        defer { System.close(descriptor) }
        var text: [UInt8] = []
        let block = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)
        defer { block.deallocate() }
        while case let count = try System.pread(descriptor, block, Int64(text.count)), count > 0 {
            text.append(contentsOf: block[..<count])
        }
        return parse(text)
    }

    /// Reads the lines of a mountinfo file; a line it can't read is left out.
    public static func parse(_ text: [UInt8]) -> [Mount] {
        text.split(separator: 0x0A).compactMap { line in
            let fields = line.split(separator: 0x20)
            // ID PARENT MAJOR:MINOR ROOT PATH OPTIONS TAG… - TYPE SOURCE SUPEROPTIONS
            guard fields.count >= 9, let dash = fields[6...].firstIndex(where: { $0.elementsEqual([0x2D]) }),
                dash + 2 < fields.endIndex, let id = Int(unescape(fields[0]))
            else { return nil }
            let device = fields[2].split(separator: 0x3A).map { UInt32(unescape($0)) ?? 0 }
            guard device.count == 2 else { return nil }
            return Mount(
                id: id,
                majorDevice: device[0],
                minorDevice: device[1],
                root: unescape(fields[3]),
                path: unescape(fields[4]),
                type: unescape(fields[dash + 1]),
                source: unescape(fields[dash + 2]),
                owner: dash + 3 < fields.endIndex ? owner(unescape(fields[dash + 3])) : nil
            )
        }
    }

    /// The mount that shows a path: the topmost of those mounted at the path or nearest above it.
    ///
    /// The path is absolute. Symbolic links on the way are followed as far as they can be without entering a mount of
    /// Cove's, which may be dead.
    public static func mount(holding path: String) throws(Errno) -> Mount? {
        let mounts = try read()
        return holder(of: resolve(path, mounts), mounts)
    }

    /// The mount of Cove's that shows a path, nil when another file system does.
    public static func coveMount(holding path: String) throws(Errno) -> Mount? {
        try mount(holding: path).flatMap { $0.isCove ? $0 : nil }
    }

    /// A path from the mount's top, as the account knows it: nil when the mount doesn't show it.
    public static func relativePath(of path: String, in mount: Mount) throws(Errno) -> RemotePath? {
        let resolved = resolve(path, try read())
        guard contains(mount.path, resolved) else { return nil }
        let inside = resolved.utf8.dropFirst(mount.path == "/" ? 0 : mount.path.utf8.count)
        let names = (Array(mount.root.utf8) + [0x2F] + inside).split(separator: 0x2F)
        return RemotePath(names.map { FileName(unchecked: Array($0)) })
    }

    private static func holder(of path: String, _ mounts: [Mount]) -> Mount? {
        var best: Mount?
        for mount in mounts where contains(mount.path, path) {
            if mount.path.utf8.count >= (best?.path.utf8.count ?? 0) { best = mount }
        }
        return best
    }

    /// True when the path is the directory or below it.
    public static func contains(_ directory: String, _ path: String) -> Bool {
        directory == "/" || path == directory || path.hasPrefix(directory + "/")
    }

    /// Makes a path absolute and free of `.`, `..` and of symbolic links outside of Cove's mounts.
    private static func resolve(_ path: String, _ mounts: [Mount]) -> String {
        var done = path.hasPrefix("/") ? "" : workingDirectory
        for name in path.split(separator: "/") where name != "." {
            if name == ".." {
                done = String(done[..<(done.lastIndex(of: "/") ?? done.startIndex)])
                continue
            }
            done += "/" + name
            // The lookup of a mount point itself enters the mount.
            if holder(of: done, mounts)?.isCove == true { continue }
            if let target = realpath(done, nil) {
                done = String(cString: target)
                free(target)
                if done == "/" { done = "" }
            }
        }
        return done.isEmpty ? "/" : done
    }

    private static var workingDirectory: String {
        guard let directory = getcwd(nil, 0) else { return "" }
        defer { free(directory) }
        let path = String(cString: directory)
        return path == "/" ? "" : path
    }

    /// The user that the options of a FUSE file system name; programs can't choose it, see mount.fuse3(8).
    private static func owner(_ options: String) -> UInt32? {
        options.split(separator: ",").last { $0.hasPrefix("user_id=") }.flatMap { UInt32($0.dropFirst(8)) }
    }

    /// Undoes the octal escapes of space, tab, newline and backslash.
    private static func unescape(_ field: ArraySlice<UInt8>) -> String {
        var bytes: [UInt8] = []
        var rest = field
        while let byte = rest.popFirst() {
            if byte == 0x5C, let value = octal(rest.prefix(3)) {
                bytes.append(value)
                rest = rest.dropFirst(3)
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func octal(_ digits: ArraySlice<UInt8>) -> UInt8? {
        guard digits.count == 3 else { return nil }
        var value = 0
        for digit in digits {
            guard (0x30...0x37).contains(digit) else { return nil }
            value = value * 8 + Int(digit - 0x30)
        }
        return UInt8(exactly: value)
    }
}
