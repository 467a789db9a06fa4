internal import CLinux
import CoveCore
import Foundation

/// A small ext4 file system in a file, mounted through a loop device; for root.
public final class LoopDisk {
    /// Where it is mounted.
    public let path: String
    private let image: String

    /// Makes the file system in a folder, and mounts it there.
    public init(in folder: String, megabytes: Int, options: String = "") throws {
        path = "\(folder)/disk"
        image = "\(folder)/disk.img"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        try Command.run("truncate", ["-s", "\(megabytes)M", image])
        try Command.run("mkfs.ext4", ["-q", "-F", "-m", "0", image])
        try mount(options: options)
    }

    /// Mounts a copy of what is durable on a disk that failed.
    public init(in folder: String, copying other: LoopDisk) throws {
        path = "\(folder)/disk"
        image = "\(folder)/disk.img"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        try Command.run("cp", ["--sparse=always", other.image, image])
        try mount()
    }

    deinit { _ = try? Command.run("umount", ["-l", path], mayFail: true) }

    /// Mounts it; what was durable is there.
    public func mount(options: String = "") throws {
        try Command.run("mount", ["-o", options.isEmpty ? "loop" : "loop,\(options)", image, path])
    }

    /// Fails from now on, and forgets all that was not durable: EXT4_IOC_SHUTDOWN.
    public func fail() throws {
        let call = "import fcntl, os, sys; fcntl.ioctl(os.open(sys.argv[1], 0), 0x8004587d, b'\\2\\0\\0\\0')"
        try Command.run("python3", ["-c", call, path])
    }

    /// Takes no more writes, as after an error that its file system found; it must be mounted with errors=remount-ro.
    public func becomeReadOnly() throws {
        let device = try Command.run("findmnt", ["-n", "-o", "SOURCE", path]).output.split(separator: "\n")[0]
        let name = device.split(separator: "/").last ?? ""
        try Command.run("sh", ["-c", "echo test > /sys/fs/ext4/\(name)/trigger_fs_error"])
    }

    /// Unmounts it, once nothing uses it any more.
    public func unmount() throws {
        // A process started meanwhile may have inherited a descriptor for a moment.
        try waitUntil("\(path) is unmounted") {
            try Command.run("umount", [path], mayFail: true).status == 0
        }
    }
}
