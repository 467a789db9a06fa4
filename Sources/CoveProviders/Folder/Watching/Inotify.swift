internal import CoveCore
internal import Glibc

/// One event of inotify(7).
struct InotifyEvent {
    let watch: Int32
    let mask: UInt32
    let cookie: UInt32
    let name: [UInt8]

    func has(_ flag: Int) -> Bool { mask & UInt32(truncatingIfNeeded: flag) != 0 }
}

/// The calls of inotify(7).
enum Inotify {
    private static let mask =
        IN_CREATE | IN_CLOSE_WRITE | IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE | IN_DELETE_SELF
        | IN_MOVE_SELF

    /// Starts an instance, non-blocking.
    static func open() throws(Errno) -> Int32 {
        try System.retry { inotify_init1(Int32(O_NONBLOCK | O_CLOEXEC)) }
    }

    /// Watches an open directory, whatever its path is.
    static func add(_ instance: Int32, _ directory: Int32) throws(Errno) -> Int32 {
        let flags = UInt32(mask) | UInt32(IN_ONLYDIR) | UInt32(IN_EXCL_UNLINK)
        return try System.retry { inotify_add_watch(instance, "/proc/self/fd/\(directory)", flags) }
    }

    static func remove(_ instance: Int32, _ watch: Int32) { _ = inotify_rm_watch(instance, watch) }

    /// Reads what is there, without waiting.
    static func read(_ instance: Int32, into buffer: UnsafeMutableRawBufferPointer) -> [InotifyEvent] {
        let length = (try? System.retry { Glibc.read(instance, buffer.baseAddress, buffer.count) }) ?? 0
        var events: [InotifyEvent] = []
        var offset = 0
        while offset + 16 <= length {
            let size = Int(buffer.loadUnaligned(fromByteOffset: offset + 12, as: UInt32.self))
            let end = min(offset + 16 + size, length)
            events.append(
                InotifyEvent(
                    watch: buffer.loadUnaligned(fromByteOffset: offset, as: Int32.self),
                    mask: buffer.loadUnaligned(fromByteOffset: offset + 4, as: UInt32.self),
                    cookie: buffer.loadUnaligned(fromByteOffset: offset + 8, as: UInt32.self),
                    name: Array(buffer[(offset + 16)..<end].prefix { $0 != 0 })
                )
            )
            offset = end
        }
        return events
    }
}
