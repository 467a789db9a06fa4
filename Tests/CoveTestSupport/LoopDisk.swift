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

    deinit { _ = try? Command.run("umount", ["-l", path], mayFail: true) }

    /// Mounts it; what was durable is there.
    public func mount(options: String = "") throws {
        try Command.run("mount", ["-o", options.isEmpty ? "loop" : "loop,\(options)", image, path])
    }

    /// Unmounts it, once nothing uses it any more.
    public func unmount() throws { try Command.run("umount", [path]) }
}
