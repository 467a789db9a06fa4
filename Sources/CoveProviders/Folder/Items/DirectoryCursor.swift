internal import CoveCore
internal import Glibc

/// A directory being read.
///
/// Only one holder at a time uses it: the table or one operation.
final class DirectoryCursor: @unchecked Sendable {
    let path: RemotePath
    private let stream: OpaquePointer

    /// Takes over an open directory.
    init(_ descriptor: Int32, path: RemotePath) throws(Errno) {
        guard let stream = fdopendir(descriptor) else {
            let error = Errno.current
            System.close(descriptor)
            throw error
        }
        self.stream = stream
        self.path = path
    }

    deinit { closedir(stream) }

    var descriptor: Int32 { dirfd(stream) }

    /// The next name but `.` and `..`; nil at the end.
    func next() throws(Errno) -> [UInt8]? {
        while true {
            errno = 0
            guard let entry = readdir(stream) else {
                let error = Errno.current
                if error.rawValue != 0 { throw error }
                return nil
            }
            let name = Self.name(entry)
            if name != [0x2E], name != [0x2E, 0x2E] { return name }
        }
    }

    private static func name(_ entry: UnsafeMutablePointer<dirent>) -> [UInt8] {
        // d_name is longer than declared where names are, so it is read through a pointer, up to its NUL.
        let start = UnsafeRawPointer(entry) + (MemoryLayout<dirent>.offset(of: \.d_name) ?? 19)
        let length = strlen(start.assumingMemoryBound(to: CChar.self))
        return Array(UnsafeRawBufferPointer(start: start, count: length))
    }
}
