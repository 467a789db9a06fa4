import CoveCore
import CoveEngine
import CoveProviders
import CoveTestSupport
import Foundation

/// An engine on a state directory, driven as the kernel would drive it.
struct Tree {
    let engine: Engine
    /// There with `COVE_POWER_PASSTHROUGH`.
    private let kernel: PassingKernel?
    private let caller = Caller(thread: 0, user: 0, group: 0)

    init(state: String, source: String) throws {
        var configuration = EngineConfiguration(
            account: "power",
            source: "dir://\(source)",
            mountpoint: "/nowhere",
            stateDirectory: state,
            hostName: "here"
        )
        configuration.settleTime = .zero
        configuration.tombstoneTime = .zero
        configuration.cacheLimit = 1 << 40
        configuration.reserve = 1 << 20
        let isVerbose = ProcessInfo.processInfo.environment["COVE_TEST_LOG"] != nil
        let log = Log(path: nil, echoToStandardError: true, minimum: isVerbose ? .debug : .notice)
        engine = try Engine(configuration: configuration, provider: FolderProvider(root: source), log: log)
        let passes = ProcessInfo.processInfo.environment["COVE_POWER_PASSTHROUGH"] != nil
        kernel = passes ? PassingKernel(engine, state: state) : nil
        engine.start(kernel: nil, announcer: nil)
    }

    func wait<T: Sendable>(_ outcome: Outcome<T>) async throws -> T {
        switch outcome {
        case .now(let value): value
        case .later(let pending):
            try await withCheckedContinuation { continuation in
                pending.whenDone { continuation.resume(returning: $0) }
            }.get()
        }
    }

    func resolve(_ path: String) async throws -> ItemID {
        var current = ItemID.root
        for name in path.split(separator: "/") {
            guard let found = try await wait(try engine.lookup(current, Array(name.utf8), caller)) else {
                throw Errno.noSuchEntry
            }
            current = found.id
        }
        return current
    }

    private func split(_ path: String) async throws -> (ItemID, [UInt8]) {
        guard let slash = path.lastIndex(of: "/") else { return (.root, Array(path.utf8)) }
        return (try await resolve(String(path[..<slash])), Array(path[path.index(after: slash)...].utf8))
    }

    func create(_ path: String) async throws -> ItemID {
        let (parent, name) = try await split(path)
        let id = try engine.create(parent, name, mode: 0o100644, flags: O_RDWR, caller).id
        // Whatever else may go through the engine, a new file does not.
        if let kernel, try !kernel.open("\(id)", of: id, engine) { throw Unpassed(description: path) }
        return id
    }

    func open(_ path: String) async throws -> ItemID {
        let id = try await resolve(path)
        try await wait(try engine.open(id, flags: O_RDWR, caller))
        _ = try kernel?.open("\(id)", of: id, engine)
        return id
    }

    func close(_ id: ItemID) throws {
        try engine.flush(id)
        kernel?.close("\(id)")
        engine.finish(id, flags: O_RDWR)
        engine.release(id, flags: O_RDWR)
    }

    func write(_ id: ItemID, at offset: Int, _ bytes: [UInt8]) throws {
        if try kernel?.write("\(id)", at: Int64(offset), bytes) == true { return }
        _ = try engine.write(id, offset: Int64(offset), count: bytes.count, clearsPrivileges: false) {
            descriptor throws(Errno) in
            let count = bytes.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, off_t(offset)) }
            guard count == bytes.count else { throw .current }
            return count
        }
    }

    func cut(_ id: ItemID, to size: Int) throws {
        var change = AttributeChange()
        change.size = Int64(size)
        _ = try engine.setAttributes(of: id, change, hasHandle: true, caller)
    }

    func rename(_ from: String, _ to: String) async throws {
        let (parent, name) = try await split(from)
        let (newParent, newName) = try await split(to)
        try engine.rename(parent, name, newParent, newName, flags: 0, caller)
    }

    func unlink(_ path: String) async throws {
        let (parent, name) = try await split(path)
        try engine.unlink(parent, name, caller)
    }

    func evict(_ path: String) { _ = try? engine.evict(RemotePath(unchecked: Array(path.utf8))) }

    func read(_ path: String) async throws -> [UInt8] {
        var attempt = 0
        while true {
            do {
                return try await readOnce(path)
            } catch let error as Errno where error == .stale && attempt < 200 {
                // The kernel walks the path again, too.
                attempt += 1
                try await Task.sleep(for: .milliseconds(50))
            }
        }
    }

    private func readOnce(_ path: String) async throws -> [UInt8] {
        let id = try await resolve(path)
        try await wait(try engine.open(id, flags: O_RDONLY, caller))
        defer { engine.release(id, flags: O_RDONLY) }
        var bytes: [UInt8] = []
        while true {
            let result = try await wait(try engine.read(id, offset: Int64(bytes.count), count: 1 << 17))
            if result.count == 0 { return bytes }
            var buffer = [UInt8](repeating: 0, count: result.count)
            let offset = off_t(bytes.count)
            let count = buffer.withUnsafeMutableBytes { pread(result.descriptor, $0.baseAddress, $0.count, offset) }
            guard count == result.count else { throw Torn(description: "\(path): \(count) bytes at \(offset)") }
            withExtendedLifetime(result) {}
            bytes += buffer
        }
    }

    /// All files below a directory.
    func files(below path: String = "") async throws -> [String] {
        let id = try await resolve(path)
        try await wait(try engine.openDirectory(id, caller))
        var found: [(String, ItemKind)] = []
        try engine.readDirectory(id, after: 0, plus: true) { entry in
            let name = String(decoding: entry.name, as: UTF8.self)
            if name != ".", name != ".." {
                found.append((path.isEmpty ? name : "\(path)/\(name)", entry.attributes.kind))
            }
            return true
        }
        var files: [String] = []
        for (path, kind) in found {
            if kind == .directory { files += try await self.files(below: path) } else { files.append(path) }
        }
        return files
    }

    func settle() async throws {
        await engine.resume()
        for _ in 0..<2 {
            await engine.sync(nil, acceptDeletions: true, acceptLocalDeletions: true)
            let report = await engine.waitUntilSettled(nil, timeout: .seconds(60))
            guard report.isSettled else { throw NotSettled(description: "\(report)") }
        }
    }

    /// The file ends before its size.
    struct Torn: Error, CustomStringConvertible { let description: String }

    /// A new file that goes through the engine, though the kernel was to write it.
    struct Unpassed: Error, CustomStringConvertible { let description: String }

    struct NotSettled: Error, CustomStringConvertible { let description: String }
}
