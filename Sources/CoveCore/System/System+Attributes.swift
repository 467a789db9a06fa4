internal import CLinux
internal import Glibc

extension System {
    /// The names of an entry's extended attributes; a symbolic link is not followed.
    ///
    /// See llistxattr(2). The path is in bytes, which need not be UTF-8.
    public static func attributeNames(_ path: [UInt8]) throws(Errno) -> [[UInt8]] {
        try withCString(path) { path throws(Errno) in
            let list = try grow { cove_llistxattr(path, $0?.assumingMemoryBound(to: CChar.self), $1) }
            return list.split(separator: 0).map(Array.init)
        }
    }

    /// The names of an open file's extended attributes.
    ///
    /// See flistxattr(2).
    public static func attributeNames(_ descriptor: Int32) throws(Errno) -> [[UInt8]] {
        let list = try grow { cove_flistxattr(descriptor, $0?.assumingMemoryBound(to: CChar.self), $1) }
        return list.split(separator: 0).map(Array.init)
    }

    /// One extended attribute of an entry; a symbolic link is not followed.
    ///
    /// See lgetxattr(2). The path is in bytes, which need not be UTF-8.
    public static func attribute(_ path: [UInt8], _ name: [UInt8]) throws(Errno) -> [UInt8] {
        try withCString(path) { path throws(Errno) in
            try withCString(name) { name throws(Errno) in try grow { cove_lgetxattr(path, name, $0, $1) } }
        }
    }

    /// One extended attribute of an open file.
    ///
    /// See fgetxattr(2).
    public static func attribute(_ descriptor: Int32, _ name: [UInt8]) throws(Errno) -> [UInt8] {
        try withCString(name) { name throws(Errno) in try grow { cove_fgetxattr(descriptor, name, $0, $1) } }
    }

    /// Sets one extended attribute of what has a path, also of a symbolic link; see lsetxattr(2).
    public static func setAttribute(_ path: [UInt8], _ name: [UInt8], _ value: [UInt8]) throws(Errno) {
        try withCString(path) { path throws(Errno) in
            try withCString(name) { name throws(Errno) in
                try retry { cove_lsetxattr(path, name, value, value.count, 0) }
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

    /// Asks for the length, then for the bytes, again when they have grown in between.
    private static func grow(_ call: (UnsafeMutableRawPointer?, Int) -> Int) throws(Errno) -> [UInt8] {
        while true {
            let room = try retry { call(nil, 0) }
            if room == 0 { return [] }
            var buffer = [UInt8](repeating: 0, count: room)
            do throws(Errno) {
                let length = try retry { buffer.withUnsafeMutableBytes { call($0.baseAddress, $0.count) } }
                return Array(buffer.prefix(length))
            } catch {
                if error != .range { throw error }
            }
        }
    }
}
