import CoveCore
import Foundation

/// Tells what happened to a name of a directory, in the order in which the kernel did it: inotify(7).
final class NameWatch {
    private let descriptor: Int32
    private let name: String

    /// Something that happened to the name.
    struct Event {
        var isArrival: Bool
        /// The name it had before, of a file of the same directory that was renamed.
        var formerName: String?
    }

    /// Watches a name of a directory from now on.
    init(_ name: String, in folder: String) throws(Errno) {
        self.name = name
        descriptor = try System.retry { inotify_init1(Int32(IN_CLOEXEC | IN_NONBLOCK)) }
        let events = UInt32(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)
        do throws(Errno) {
            let descriptor = descriptor
            _ = try System.retry { inotify_add_watch(descriptor, folder, events) }
        } catch {
            System.close(descriptor)
            throw error
        }
    }

    deinit { System.close(descriptor) }

    /// What happened so far and was not told yet.
    func events() -> [Event] {
        var events: [Event] = []
        var sources: [UInt32: String] = [:]
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = Foundation.read(descriptor, &buffer, buffer.count)
            guard count > 0 else { return events }
            var offset = 0
            buffer.withUnsafeBytes { bytes in
                while offset < count {
                    let head = bytes.loadUnaligned(fromByteOffset: offset, as: inotify_event.self)
                    let text = bytes[(offset + 16)..<(offset + 16 + Int(head.len))].prefix { $0 != 0 }
                    let changed = String(decoding: text, as: UTF8.self)
                    if head.mask & UInt32(IN_MOVED_FROM) != 0 { sources[head.cookie] = changed }
                    if changed == name {
                        let isArrival = head.mask & UInt32(IN_CREATE | IN_MOVED_TO) != 0
                        let former = head.mask & UInt32(IN_MOVED_TO) != 0 ? sources[head.cookie] : nil
                        events.append(Event(isArrival: isArrival, formerName: former))
                    }
                    offset += 16 + Int(head.len)
                }
            }
        }
    }
}
