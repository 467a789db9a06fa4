public import CoveCore
public import CoveEngine
import Foundation

/// Drives an engine as the kernel would, without FUSE.
public final class EngineTree: FileTree {
    /// An open item.
    public typealias Handle = ItemID

    /// What is driven.
    public let engine: Engine
    /// Root, from no thread.
    public let caller = Caller(thread: 0, user: 0, group: 0)

    /// Takes an engine, started or not.
    public init(_ engine: Engine) { self.engine = engine }

    /// Walks a path as the kernel does.
    public func resolve(_ path: String) throws(Errno) -> ItemID {
        var current = ItemID.root
        for name in path.split(separator: "/") {
            guard let found = try wait(try engine.lookup(current, Array(name.utf8), caller)) else {
                throw .noSuchEntry
            }
            current = found.id
        }
        return current
    }

    /// The directory that holds a path, and the last name.
    public func split(_ path: String) throws(Errno) -> (ItemID, [UInt8]) {
        guard let slash = path.lastIndex(of: "/") else { return (.root, Array(path.utf8)) }
        return (try resolve(String(path[..<slash])), Array(path[path.index(after: slash)...].utf8))
    }

    /// Waits on this thread, which is none of Swift's cooperative pool's when the tests call it through `onThread`.
    public func wait<T: Sendable>(_ outcome: Outcome<T>) throws(Errno) -> T {
        switch outcome {
        case .now(let value): return value
        case .later(let pending):
            let done = DispatchSemaphore(value: 0)
            let box = Box<T>()
            pending.whenDone { result in
                box.set(result)
                done.signal()
            }
            guard done.wait(timeout: .now() + 60) == .success, let result = box.get() else { throw .timedOut }
            return try result.get()
        }
    }

    /// The names in a directory, with what they are.
    public func list(_ path: String) throws(Errno) -> [String: ItemKind] {
        let id = try resolve(path)
        try wait(try engine.openDirectory(id, caller))
        var names: [String: ItemKind] = [:]
        var cookie: UInt64 = 0
        // Until nothing comes, as the kernel does.
        var count = 1
        while count > 0 {
            // A few at a time, so that cookies are used.
            count = 0
            try engine.readDirectory(id, after: cookie, plus: true) { entry in
                if count == 7 { return false }
                count += 1
                cookie = entry.cookie
                let name = String(decoding: entry.name, as: UTF8.self)
                if name != ".", name != ".." { names[name] = entry.attributes.kind }
                return true
            }
        }
        engine.releaseDirectory(id)
        return names
    }

    /// Size of a file.
    public func size(_ path: String) throws(Errno) -> Int64 { try engine.attributes(of: try resolve(path)).size }

    /// All bytes of a file.
    public func read(_ path: String) throws(Errno) -> [UInt8] {
        let id = try open(path, O_RDONLY)
        defer { engine.release(id, flags: O_RDONLY) }
        return try read(id)
    }

    /// All bytes of an open file.
    public func read(_ id: ItemID) throws(Errno) -> [UInt8] {
        var bytes: [UInt8] = []
        while true {
            let part = try read(id, at: Int64(bytes.count), count: 16384)
            if part.isEmpty { return bytes }
            bytes += part
        }
    }

    /// Some bytes of an open file.
    public func read(_ id: ItemID, at offset: Int64, count: Int) throws(Errno) -> [UInt8] {
        let result = try wait(try engine.read(id, offset: offset, count: count))
        guard result.count > 0 else { return [] }
        var buffer = [UInt8](repeating: 0, count: result.count)
        let read = buffer.withUnsafeMutableBytes { pread(result.descriptor, $0.baseAddress, $0.count, off_t(offset)) }
        guard read == result.count else { throw .inputOutput }
        withExtendedLifetime(result) {}
        return buffer
    }

    /// open(2): the kernel walks the path once more where another version has the name since.
    public func open(_ path: String, _ flags: Int32) throws(Errno) -> ItemID {
        do throws(Errno) { return try openOnce(path, flags) } catch .stale { return try openOnce(path, flags) }
    }

    private func openOnce(_ path: String, _ flags: Int32) throws(Errno) -> ItemID {
        let id = try resolve(path)
        try wait(try engine.open(id, flags: flags, caller))
        return id
    }

    /// Opens for reading and writing.
    public func open(_ path: String) throws(Errno) -> ItemID { try open(path, O_RDWR) }

    /// close(2).
    public func close(_ id: ItemID) throws(Errno) {
        try engine.flush(id)
        engine.release(id, flags: O_RDWR)
    }

    /// Writes into an open file.
    public func write(_ id: ItemID, at offset: Int64, _ bytes: [UInt8]) throws(Errno) {
        let written = try engine.write(id, offset: offset, count: bytes.count, clearsPrivileges: false) {
            descriptor throws(Errno) in
            let count = bytes.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, off_t(offset)) }
            guard count == bytes.count else { throw .current }
            return count
        }
        guard written == bytes.count else { throw .inputOutput }
    }

    /// Makes or replaces a file in place, as `>` does.
    public func write(_ path: String, _ bytes: [UInt8]) throws(Errno) {
        let (parent, name) = try split(path)
        let id: ItemID
        var existing: ItemID?
        do throws(Errno) {
            existing = try wait(try engine.lookup(parent, name, caller))?.id
        } catch {
            guard error == .noSuchEntry else { throw error }
        }
        if let existing {
            id = existing
            try wait(try engine.open(id, flags: O_WRONLY | O_TRUNC, caller))
        } else {
            id = try engine.create(parent, name, mode: 0o100644, flags: O_WRONLY, caller).id
        }
        if !bytes.isEmpty { try write(id, at: 0, bytes) }
        try engine.flush(id)
        engine.release(id, flags: O_WRONLY)
    }

    /// Writes at an offset of a file that is there.
    public func overwrite(_ path: String, at offset: Int64, _ bytes: [UInt8], mapped: Bool) throws(Errno) {
        let id = try open(path, O_RDWR)
        try write(id, at: offset, bytes)
        try close(id)
    }

    /// Writes at the end, as `>>` does.
    public func append(_ path: String, _ bytes: [UInt8]) throws(Errno) {
        let id = try open(path, O_RDWR)
        try write(id, at: try engine.attributes(of: id).size, bytes)
        try close(id)
    }

    /// Appends to an open file.
    public func append(_ id: ItemID, _ bytes: [UInt8]) throws(Errno) {
        try write(id, at: try engine.attributes(of: id).size, bytes)
    }

    /// Cuts or grows.
    public func truncate(_ path: String, to size: Int64) throws(Errno) {
        var change = AttributeChange()
        change.size = size
        _ = try engine.setAttributes(of: try resolve(path), change, hasHandle: false, caller)
    }

    /// rename(2).
    public func rename(_ from: String, _ to: String) throws(Errno) { try rename(from, to, flags: 0) }

    /// renameat2(2) with RENAME_EXCHANGE.
    public func exchange(_ first: String, _ second: String) throws(Errno) { try rename(first, second, flags: 2) }

    private func rename(_ from: String, _ to: String, flags: UInt32) throws(Errno) {
        let (parent, name) = try split(from)
        let (newParent, newName) = try split(to)
        try engine.rename(parent, name, newParent, newName, flags: flags, caller)
    }

    /// unlink(2).
    public func unlink(_ path: String) throws(Errno) {
        let (parent, name) = try split(path)
        try engine.unlink(parent, name, caller)
    }

    /// mkdir(2).
    public func makeDirectory(_ path: String) throws(Errno) {
        let (parent, name) = try split(path)
        _ = try engine.makeDirectory(parent, name, mode: 0o40755, caller)
    }

    /// rmdir(2).
    public func removeDirectory(_ path: String) throws(Errno) {
        let (parent, name) = try split(path)
        try engine.removeDirectory(parent, name, caller)
    }
}

private final class Box<T: Sendable>: @unchecked Sendable {
    private let lock = NSLock()
    private var value: Result<T, Errno>?
    func set(_ result: Result<T, Errno>) { lock.withLock { value = result } }
    func get() -> Result<T, Errno>? { lock.withLock { value } }
}
