import CoveCore
import CoveTestSupport
import Foundation
import Synchronization

/// A mount as the programs of a storm use it, from one start of its keeper to its end.
///
/// It is reached through an open directory: once the mount has died, no name leads to the folder below it.
final class StormTree: Sendable {
    let device: Int
    /// True when the line to the source may fail.
    let mayBeCutOff: Bool
    private let root: Int32
    /// Its number below /sys/fs/fuse/connections, which is the device's.
    private let connection: UInt64
    private let calls: StormCalls
    private let state = Atomic(false)

    init(device: Int, mount: String, mayBeCutOff: Bool, calls: StormCalls) throws {
        self.device = device
        self.mayBeCutOff = mayBeCutOff
        self.calls = calls
        root = try System.open(mount, O_RDONLY | O_DIRECTORY)
        let number = try UInt64(System.fstat(root).st_dev)
        connection = number & 0xFF | (number >> 12) & 0xFFF00
    }

    deinit { System.close(root) }

    /// True once its processes were killed: from then on any call may fail.
    var isDead: Bool { state.load(ordering: .acquiring) }

    /// Tells that its processes are about to be killed.
    func die() { state.store(true, ordering: .releasing) }

    /// Ends all its calls.
    func abort() {
        die()
        try? "1".write(toFile: "/sys/fs/fuse/connections/\(connection)/abort", atomically: false, encoding: .utf8)
    }

    /// A path that leads into this mount.
    func full(_ path: String) -> String { "/proc/self/fd/\(root)/\(path.isEmpty ? "." : path)" }

    private func named<R>(_ name: String, _ path: String, _ body: () throws(Errno) -> R) throws(Errno) -> R {
        try calls.call(name, path, self, byName: true, body)
    }

    private func byHandle<R>(_ name: String, _ file: StormFile, _ body: () throws(Errno) -> R) throws(Errno) -> R {
        try calls.call(name, file.path, self, byName: false, body)
    }

    /// The names in a directory, with what they are.
    func list(_ path: String) throws(Errno) -> [String: ItemKind] {
        try named("list", path) { () throws(Errno) in try MountedTree(full("")).list(path) }
    }

    func lstat(_ path: String) throws(Errno) -> stat {
        try named("lstat", path) { () throws(Errno) in try System.lstat(full(path)) }
    }

    func makeDirectory(_ path: String) throws(Errno) {
        try named("mkdir", path) { () throws(Errno) in try System.mkdir(full(path), 0o755) }
    }

    func removeDirectory(_ path: String) throws(Errno) {
        try named("rmdir", path) { () throws(Errno) in
            let path = full(path)
            try System.retry { rmdir(path) }
        }
    }

    func unlink(_ path: String) throws(Errno) {
        try named("unlink", path) { () throws(Errno) in try System.unlink(full(path)) }
    }

    func rename(_ from: String, _ to: String, _ mode: RenameMode = .exclusive) throws(Errno) {
        try named("rename", "\(from) to \(to)") { () throws(Errno) in
            try System.renameat(AT_FDCWD, Array(full(from).utf8), AT_FDCWD, Array(full(to).utf8), mode)
        }
    }

    func open(_ path: String, _ flags: Int32) throws(Errno) -> StormFile {
        let descriptor = try named("open", path) { () throws(Errno) in try System.open(full(path), flags, 0o644) }
        return StormFile(path, descriptor)
    }

    func close(_ file: StormFile) throws(Errno) {
        try byHandle("close", file) { () throws(Errno) in
            guard Foundation.close(file.descriptor) == 0 else { throw .current }
        }
    }

    func item(_ file: StormFile) throws(Errno) -> UInt64 {
        try byHandle("fstat", file) { () throws(Errno) in try UInt64(System.fstat(file.descriptor).st_ino) }
    }

    func read(_ file: StormFile) throws(Errno) -> [UInt8] {
        try byHandle("read", file) { () throws(Errno) in
            var bytes: [UInt8] = []
            while true {
                let size = try Int(System.fstat(file.descriptor).st_size)
                var part = [UInt8](repeating: 0, count: max(size - bytes.count, 1))
                let count = try System.pread(file.descriptor, into: &part, count: part.count, Int64(bytes.count))
                guard count > 0 else { return bytes }
                bytes += part.prefix(count)
            }
        }
    }

    func write(_ file: StormFile, at offset: Int64, _ bytes: [UInt8]) throws(Errno) {
        try byHandle("write", file) { () throws(Errno) in try System.pwriteAll(file.descriptor, bytes, offset) }
    }

    /// Writes where the handle is, which may be the end.
    func write(_ file: StormFile, _ bytes: [UInt8]) throws(Errno) {
        try byHandle("write", file) { () throws(Errno) in
            let result = bytes.withUnsafeBytes { buffer in
                Result { () throws(Errno) in try System.writeAll(file.descriptor, buffer) }
            }
            try result.get()
        }
    }

    func truncate(_ file: StormFile, to size: Int) throws(Errno) {
        try byHandle("ftruncate", file) { () throws(Errno) in try System.ftruncate(file.descriptor, Int64(size)) }
    }

    /// What a query and stat(2) both tell of an item; of a directory that it is one.
    struct Facts: Equatable {
        let isDirectory: Bool
        let size: Int64
        /// In microseconds since 1970: numbers in JSON tell no more.
        let modified: Int64

        init(_ kind: ItemKind, _ status: stat) {
            isDirectory = kind == .directory
            size = isDirectory ? 0 : Int64(status.st_size)
            let nanoseconds = Timestamp(status.st_mtim).nanosecondsSinceEpoch
            modified = isDirectory ? 0 : Int64((Double(nanoseconds) / 1000).rounded())
        }

        init(_ values: JSONValue) {
            isDirectory = values["Kind"]?.text == "directory"
            size = isDirectory ? 0 : Self.number(values["FSSize"], times: 1)
            modified = isDirectory ? 0 : Self.number(values["FSContentChangeDate"], times: 1e6)
        }

        private static func number(_ value: JSONValue?, times factor: Double) -> Int64 {
            switch value {
            case .integer(let number): Int64((Double(number) * factor).rounded())
            case .double(let number): Int64((number * factor).rounded())
            default: -1
            }
        }

        /// Equal but for rounding.
        static func == (first: Facts, second: Facts) -> Bool {
            first.isDirectory == second.isDirectory && first.size == second.size
                && abs(first.modified - second.modified) <= 2
        }
    }

    /// All files and directories; nothing is read for it.
    func facts() throws(Errno) -> [String: Facts] {
        var result: [String: Facts] = [:]
        var folders = [""]
        while let folder = folders.popLast() {
            for (name, kind) in try list(folder) {
                let path = folder.isEmpty ? name : "\(folder)/\(name)"
                if kind == .directory { folders.append(path) }
                result[path] = Facts(kind, try lstat(path))
            }
        }
        return result
    }

    /// All files with their bytes and all directories.
    func snapshot() throws -> [String: [UInt8]?] {
        var result: [String: [UInt8]?] = [:]
        var folders = [""]
        while let folder = folders.popLast() {
            for (name, kind) in try list(folder) {
                let path = folder.isEmpty ? name : "\(folder)/\(name)"
                if kind == .directory {
                    folders.append(path)
                    result[path] = .some(nil)
                    continue
                }
                let file = try open(path, O_RDONLY)
                defer { try? close(file) }
                result[path] = try read(file)
            }
        }
        return result
    }
}

/// A file that a program has open.
struct StormFile {
    let path: String
    let descriptor: Int32

    init(_ path: String, _ descriptor: Int32) {
        self.path = path
        self.descriptor = descriptor
    }
}
