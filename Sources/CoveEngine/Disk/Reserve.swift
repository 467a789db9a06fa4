internal import CoveCore
internal import Glibc
internal import Synchronization

/// Room on the state disk for what the kernel has accepted and not yet handed on: programs were told that it is written.
///
/// A preallocated file, given back to the disk when that is full, and gone after a clean end.
final class Reserve: Sendable {
    /// More takes longer to hand on than anyone waits; a machine that may hold more back has the disk for it, too.
    private static let most: Int64 = 1 << 30
    /// The catalog's log, which has to grow for each of those bytes' rows.
    private static let catalog: Int64 = 20 << 20

    /// How large it is to be.
    let size: Int64
    private let path: String
    private let held: EngineMutex<Int64>

    /// Takes over what an earlier daemon left; `size` of nil asks the kernel how much it may hold back.
    init(directory: String, size: Int64?, disk: DiskRoom?) {
        path = directory + "/reserve"
        let blocks = (try? System.lstat(path)).map { Int64($0.st_blocks) } ?? 0
        held = EngineMutex(.reserve, blocks * 512)
        let disk = disk ?? .empty
        // On a small disk it must not be what fills it.
        let limit = min(disk.total / 50, disk.available.saturatingAdd(blocks * 512) / 4)
        let isInMemory = Reserve.isInMemory(directory)
        let wanted = isInMemory ? 0 : min(Reserve.kernelLimit() + Reserve.catalog, Reserve.most, limit)
        self.size = size ?? max(0, wanted)
    }

    /// On tmpfs(5) a reserve would take the memory that it is to spare.
    private static func isInMemory(_ directory: String) -> Bool {
        guard let descriptor = try? System.open(directory, O_RDONLY | O_DIRECTORY) else { return false }
        defer { System.close(descriptor) }
        return System.fileSystemType(descriptor) == 0x0102_1994
    }

    /// The most dirty bytes of one mount: vm.dirty_bytes or vm.dirty_ratio, and of these what the mount's device may hold,
    /// a fifth where root could raise it and a hundredth else.
    private static func kernelLimit() -> Int64 {
        func number(_ file: String) -> Int64 {
            text(file).flatMap { Int64($0.split(separator: "\n").first ?? "") } ?? 0
        }
        var limit = number("/proc/sys/vm/dirty_bytes")
        if limit == 0 {
            let line = text("/proc/meminfo")?.split(separator: "\n").first { $0.hasPrefix("MemAvailable:") }
            let kilobytes = line?.split(separator: " ").dropFirst().first.flatMap { Int64($0) } ?? 0
            limit = kilobytes * 1024 / 100 * number("/proc/sys/vm/dirty_ratio")
        }
        return geteuid() == 0 ? limit / 5 : limit / 100
    }

    private static func text(_ path: String) -> String? {
        guard let file = try? System.open(path, O_RDONLY) else { return nil }
        defer { System.close(file) }
        var bytes = [UInt8](repeating: 0, count: 4096)
        let count = bytes.withUnsafeMutableBytes { (try? System.pread(file, $0, 0)) ?? 0 }
        return String(decoding: bytes[..<count], as: UTF8.self)
    }

    /// Gives all of it back to the disk; false when there was nothing left.
    func give() -> Bool {
        held.withLock { held in
            guard held > 0, let file = try? System.open(path, O_WRONLY) else { return false }
            defer { System.close(file) }
            guard (try? System.ftruncate(file, 0)) != nil else { return false }
            held = 0
            return true
        }
    }

    /// Takes it from the disk again, if that has more than it; true when all of it is held.
    func take(available: Int64) -> Bool {
        held.withLock { held in
            let missing = size - held
            guard missing > 0 else { return true }
            guard available > missing + missing / 4, let file = try? System.open(path, O_WRONLY | O_CREAT) else {
                return false
            }
            defer { System.close(file) }
            do throws(Errno) {
                try System.fallocate(file, mode: 0, offset: 0, length: size)
                held = size
                return true
            } catch {
                // Where none can be taken, none is needed to go on.
                if error == .notSupported { return true }
                try? System.ftruncate(file, 0)
                held = 0
                return false
            }
        }
    }

    /// At a clean end nothing is held back any more.
    func remove() {
        held.withLock { held in
            try? System.unlink(path)
            held = 0
        }
    }
}
