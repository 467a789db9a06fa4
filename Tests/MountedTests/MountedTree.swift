import CoveCore
import CoveTestSupport
import Foundation

/// A mount as programs use it, by system calls of this process.
final class MountedTree: FileTree {
    private let root: String

    init(_ root: String) { self.root = root }

    private func full(_ path: String) -> String { path.isEmpty ? root : "\(root)/\(path)" }

    private func withFile<R>(
        _ path: String,
        _ flags: Int32,
        _ body: (Int32) throws(Errno) -> R
    ) throws(Errno) -> R {
        let file = try System.open(full(path), flags, 0o644)
        defer { System.close(file) }
        return try body(file)
    }

    private func writeAll(_ file: Int32, _ bytes: [UInt8]) throws(Errno) {
        let result = bytes.withUnsafeBytes { buffer in
            Result { () throws(Errno) in try System.writeAll(file, buffer) }
        }
        try result.get()
    }

    func list(_ path: String) throws(Errno) -> [String: ItemKind] {
        guard let directory = opendir(full(path)) else { throw .current }
        defer { closedir(directory) }
        var names: [String: ItemKind] = [:]
        errno = 0
        while let entry = readdir(directory) {
            let bytes = withUnsafeBytes(of: entry.pointee.d_name) { Array($0.prefix { $0 != 0 }) }
            let name = String(decoding: bytes, as: UTF8.self)
            guard name != ".", name != ".." else { continue }
            guard names[name] == nil else { throw .exists }
            names[name] = Int(entry.pointee.d_type) == DT_DIR ? .directory : .file
        }
        guard errno == 0 else { throw .current }
        return names
    }

    func size(_ path: String) throws(Errno) -> Int64 { try Int64(System.lstat(full(path)).st_size) }

    func read(_ path: String) throws(Errno) -> [UInt8] {
        try withFile(path, O_RDONLY) { file throws(Errno) in try read(file) }
    }

    func write(_ path: String, _ bytes: [UInt8]) throws(Errno) {
        try withFile(path, O_WRONLY | O_CREAT | O_TRUNC) { file throws(Errno) in try writeAll(file, bytes) }
    }

    func overwrite(_ path: String, at offset: Int64, _ bytes: [UInt8], mapped: Bool) throws(Errno) {
        try withFile(path, O_RDWR) { file throws(Errno) in
            guard mapped else {
                let result = bytes.withUnsafeBytes { buffer in
                    Result { () throws(Errno) in try System.pwriteAll(file, buffer, offset) }
                }
                return try result.get()
            }
            let length = Int(offset) + bytes.count
            guard let memory = mmap(nil, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), memory != MAP_FAILED
            else { throw .current }
            memory.advanced(by: Int(offset)).copyMemory(from: bytes, byteCount: bytes.count)
            try System.retry { msync(memory, length, Int32(MS_SYNC)) }
            munmap(memory, length)
        }
    }

    func append(_ path: String, _ bytes: [UInt8]) throws(Errno) {
        try withFile(path, O_WRONLY | O_APPEND) { file throws(Errno) in try writeAll(file, bytes) }
    }

    func truncate(_ path: String, to size: Int64) throws(Errno) {
        let path = full(path)
        try System.retry { Foundation.truncate(path, off_t(size)) }
    }

    func rename(_ from: String, _ to: String) throws(Errno) { try System.rename(full(from), full(to)) }

    func exchange(_ first: String, _ second: String) throws(Errno) {
        try System.renameat(AT_FDCWD, Array(full(first).utf8), AT_FDCWD, Array(full(second).utf8), .exchange)
    }

    func unlink(_ path: String) throws(Errno) { try System.unlink(full(path)) }

    func makeDirectory(_ path: String) throws(Errno) { try System.mkdir(full(path), 0o755) }

    func removeDirectory(_ path: String) throws(Errno) {
        let path = full(path)
        try System.retry { rmdir(path) }
    }

    func open(_ path: String) throws(Errno) -> Int32 { try System.open(full(path), O_RDWR) }

    func read(_ handle: Int32) throws(Errno) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: try Int(System.fstat(handle).st_size))
        let count = bytes.withUnsafeMutableBytes { buffer in
            Result { () throws(Errno) in try System.pread(handle, buffer, 0) }
        }
        return Array(bytes.prefix(try count.get()))
    }

    func append(_ handle: Int32, _ bytes: [UInt8]) throws(Errno) {
        try System.retry { lseek(handle, 0, SEEK_END) }
        try writeAll(handle, bytes)
    }

    func close(_ handle: Int32) throws(Errno) { try System.retry { Foundation.close(handle) } }
}
