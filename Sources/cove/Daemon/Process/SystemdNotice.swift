internal import CoveCore
internal import Glibc

/// Tells systemd how a service stands (sd_notify(3)), where one asks for it with NOTIFY_SOCKET.
enum SystemdNotice {
    /// The mount can be used.
    static func ready() { send("READY=1") }

    /// The service is about to end.
    static func stopping() { send("STOPPING=1") }

    private static func send(_ text: String) {
        guard let path = getenv("NOTIFY_SOCKET").flatMap({ String(validatingCString: $0) }), path.utf8.count < 108
        else {
            return
        }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        // A leading @ stands for the abstract namespace's NUL.
        let bytes = path.hasPrefix("@") ? [0] + path.utf8.dropFirst() : Array(path.utf8)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return }
        defer { System.close(descriptor) }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + bytes.count)
        let message = Array(text.utf8)
        withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
                _ = sendto(descriptor, message, message.count, Int32(MSG_NOSIGNAL), generic, length)
            }
        }
    }
}
