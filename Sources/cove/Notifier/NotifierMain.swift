internal import CoveCore
internal import Glibc

/// The notifier process: threads that write the daemon's notifications to the mount's device and may wait there.
///
/// It ends with the daemon, whose end closes the socket.
enum NotifierMain {
    /// The descriptors the daemon gives the process.
    static let socket: Int32 = 3
    static let device: Int32 = 4
    /// The longest notification: a name and what goes before it.
    static let maximumLength = 1024
    private static let threadCount = 4

    /// Serves until the socket closes.
    static func run() -> Int32 {
        ProcessSettings.setName("cove-notifier")
        ProcessSettings.closeInherited(above: device)
        for _ in 1..<threadCount { try? BlockingThread.start { serve() } }
        serve()
        return 0
    }

    private static func serve() {
        var buffer = [UInt8](repeating: 0, count: maximumLength)
        while true {
            let count = (try? System.retry { recv(socket, &buffer, buffer.count, 0) }) ?? 0
            guard count > 0 else { _exit(0) }
            // ENOENT says that the kernel held nothing, ENODEV that the mount is gone.
            _ = write(device, buffer, count)
        }
    }
}
