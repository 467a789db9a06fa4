internal import CLinux
internal import Glibc

extension System {
    /// The names of a file's extended attributes, by path; a symbolic link is not followed.
    ///
    /// See llistxattr(2).
    public static func attributeNames(_ path: [UInt8]) throws(Errno) -> [[UInt8]] {
        try withCString(path) { path throws(Errno) in
            var room = try retry { cove_llistxattr(path, nil, 0) }
            while room > 0 {
                var buffer = [CChar](repeating: 0, count: room)
                do throws(Errno) {
                    let length = try retry { cove_llistxattr(path, &buffer, buffer.count) }
                    return buffer.prefix(length).split(separator: 0).map { $0.map { UInt8(bitPattern: $0) } }
                } catch {
                    if error != .range { throw error }
                    room = try retry { cove_llistxattr(path, nil, 0) }
                }
            }
            return []
        }
    }

    /// One extended attribute, by path; a symbolic link is not followed.
    ///
    /// See lgetxattr(2).
    public static func attribute(_ path: [UInt8], _ name: [UInt8]) throws(Errno) -> [UInt8] {
        try withCString(path) { path throws(Errno) in
            try withCString(name) { name throws(Errno) in
                while true {
                    let room = try retry { cove_lgetxattr(path, name, nil, 0) }
                    var buffer = [UInt8](repeating: 0, count: max(room, 1))
                    do throws(Errno) {
                        let length = try retry { cove_lgetxattr(path, name, &buffer, buffer.count) }
                        return Array(buffer.prefix(length))
                    } catch {
                        if error != .range { throw error }
                    }
                }
            }
        }
    }

    /// Sets one extended attribute of an open file.
    ///
    /// See fsetxattr(2).
    public static func setAttribute(_ descriptor: Int32, _ name: [UInt8], _ value: [UInt8]) throws(Errno) {
        try withCString(name) { name throws(Errno) in
            try retry { cove_fsetxattr(descriptor, name, value, value.count, 0) }
        }
    }

    /// Removes one extended attribute of an open file.
    ///
    /// See fremovexattr(2).
    public static func removeAttribute(_ descriptor: Int32, _ name: [UInt8]) throws(Errno) {
        try withCString(name) { name throws(Errno) in try retry { cove_fremovexattr(descriptor, name) } }
    }
}
