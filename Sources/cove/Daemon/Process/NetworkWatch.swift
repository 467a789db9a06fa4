internal import CLinux
internal import CoveCore
internal import Glibc

/// Hears from the kernel when a link, an address or a route comes or goes.
enum NetworkWatch {
    /// Calls the body on a thread of its own, once for all that changes within a moment.
    ///
    /// Where the kernel won't tell, the usual pauses between attempts are all there is.
    static func start(_ changed: @escaping @Sendable () -> Void) throws(Errno) {
        let socket = cove_route_socket()
        guard socket >= 0 else { return }
        do throws(Errno) {
            try BlockingThread.start {
                var buffer = [UInt8](repeating: 0, count: 16 << 10)
                while true {
                    // An overrun (ENOBUFS) tells of changes too.
                    let count = recv(socket, &buffer, buffer.count, 0)
                    if count < 0, Errno.current != Errno(ENOBUFS), Errno.current != .interrupted { break }
                    var entry = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
                    while poll(&entry, 1, 200) > 0, recv(socket, &buffer, buffer.count, 0) > 0 {}
                    changed()
                }
                System.close(socket)
            }
        } catch {
            System.close(socket)
            throw error
        }
    }
}
