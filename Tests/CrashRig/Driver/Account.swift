import CoveCore
import CoveEngine
import CoveProviders
import CoveTestSupport
import Foundation

/// An engine over a folder, with all its places below one root.
final class Account {
    let root: String
    let engine: Engine
    let tree: EngineTree
    private var handles: [String: ItemID] = [:]
    /// There with `CRASH_PASSTHROUGH`.
    private let kernel: PassingKernel?
    private var outside = 0

    var source: String { "\(root)/source" }

    struct Failure: Error, CustomStringConvertible { let description: String }

    /// Opens the state, which recovers it; sync begins with `start`.
    init(root: String) throws {
        self.root = root
        for name in ["source", "state", "outside"] {
            try FileManager.default.createDirectory(atPath: "\(root)/\(name)", withIntermediateDirectories: true)
        }
        var configuration = EngineConfiguration(
            account: "crash",
            source: "dir://\(root)/source",
            mountpoint: "/nowhere",
            stateDirectory: "\(root)/state",
            hostName: "here"
        )
        configuration.settleTime = .zero
        configuration.openFileRest = .milliseconds(200)
        configuration.cacheLimit = 1 << 40
        let level: Log.Level = ProcessInfo.processInfo.environment["COVE_TEST_LOG"] == nil ? .error : .debug
        let log = Log(path: "\(root)/engine.log", echoToStandardError: false, minimum: level)
        engine = try Engine(configuration: configuration, provider: FolderProvider(root: "\(root)/source"), log: log)
        tree = EngineTree(engine)
        let passes = ProcessInfo.processInfo.environment["CRASH_PASSTHROUGH"] != nil
        kernel = passes ? PassingKernel(engine, state: "\(root)/state") : nil
    }

    func start() { engine.start(kernel: nil, announcer: nil) }

    func stop() async { await engine.stop() }

    /// Waits until source and tree have nothing to tell each other.
    func settle() async throws {
        for _ in 0..<2 {
            var report: SyncReport
            var attempt = 0
            repeat {
                await engine.sync(nil, acceptDeletions: true, acceptLocalDeletions: true)
                report = await engine.waitUntilSettled(nil, timeout: .seconds(20))
                attempt += 1
            } while !report.isSettled && !report.errors.isEmpty && attempt < 3
            guard report.isSettled else {
                throw Failure(description: "not settled: \(report.remaining) left, \(report.errors)")
            }
        }
    }

    /// Does one step.
    func perform(_ step: Step) async throws {
        switch step {
        case .create(let path, let handle):
            let (parent, name) = try tree.split(path)
            let id = try engine.create(parent, name, mode: 0o100644, flags: O_RDWR, tree.caller).id
            handles[handle] = id
            // Whatever else may go through the engine, a new file does not.
            if let kernel, try !kernel.open(handle, of: id, engine) {
                throw Failure(description: "\(path) does not pass by the engine")
            }
        case .open(let path, let handle, let truncating):
            let id = try tree.open(path, O_RDWR | (truncating ? O_TRUNC : 0))
            handles[handle] = id
            _ = try kernel?.open(handle, of: id, engine)
        case .write(let handle, let offset, let content):
            if try kernel?.write(handle, at: Int64(offset), content.bytes) == true { return }
            try tree.write(try id(handle), at: Int64(offset), content.bytes)
        case .fsync(let handle): try engine.fsync(try id(handle), dataOnly: false)
        case .flush(let handle): try engine.flush(try id(handle))
        case .release(let handle):
            kernel?.close(handle)
            engine.finish(try id(handle), flags: O_RDWR)
            engine.release(try id(handle), flags: O_RDWR)
            handles[handle] = nil
        case .truncate(let path, let size): try tree.truncate(path, to: Int64(size))
        case .rename(let from, let to): try tree.rename(from, to)
        case .exchange(let one, let other): try tree.exchange(one, other)
        case .link(let path, let name):
            let (parent, last) = try tree.split(name)
            _ = try engine.link(try tree.resolve(path), parent, last, tree.caller)
        case .unlink(let path): try tree.unlink(path)
        case .makeDirectory(let path): try tree.makeDirectory(path)
        case .removeDirectory(let path): try tree.removeDirectory(path)
        case .symlink(let path, let target):
            let (parent, name) = try tree.split(path)
            _ = try engine.makeSymbolicLink(parent, name, target: Array(target.utf8), tree.caller)
        case .setAttribute(let path, let name, let value):
            let id = try tree.resolve(path)
            try engine.setExtendedAttribute(id, Array(name.utf8), value.bytes, flags: 0, tree.caller)
        case .chmod(let path, let permissions):
            var change = AttributeChange()
            change.permissions = permissions
            _ = try engine.setAttributes(of: try tree.resolve(path), change, hasHandle: false, tree.caller)
        case .read(let path, let offset, let count):
            if count == .max {
                _ = try tree.read(path)
            } else {
                let id = try tree.open(path, O_RDONLY)
                _ = try tree.read(id, at: Int64(offset), count: count)
                engine.release(id, flags: O_RDONLY)
            }
        case .evict(let path): _ = try? engine.evict(RemotePath(unchecked: Array(path.utf8)))
        case .pause: await engine.pause()
        case .resume: await engine.resume()
        case .settle:
            try await settle()
            try listAll()
        case .arrival(let path):
            try waitUntil("the source has \(path)") { (try? System.lstat("\(source)/\(path)")) != nil }
        case .glimpse(let start):
            try? waitUntil("something is seen", deadline: 0.2) {
                try System.names(in: source).contains { $0.hasPrefix(start) }
            }
        case .remoteSave, .remoteRemove, .remoteRename, .remoteMakeDirectory: try performRemotely(step)
        }
    }

    /// Lists every directory, as a person's look at the tree does.
    private func listAll() throws {
        var pending = [""]
        while let directory = pending.popLast() {
            for (name, kind) in try tree.list(directory) where kind == .directory {
                pending.append(directory.isEmpty ? name : "\(directory)/\(name)")
            }
        }
    }

    /// Changes the source in one call each, as nothing that a program does there is cut off with this process.
    private func performRemotely(_ step: Step) throws {
        StopPoint.ignore(true)
        defer { StopPoint.ignore(false) }
        outside += 1
        let place = "\(root)/outside/\(outside)"
        let folder = SourceFolder(source)
        switch step {
        case .remoteSave(let path, let content):
            try Data(content.bytes).write(to: URL(fileURLWithPath: place))
            try System.rename(place, "\(source)/\(path)")
        case .remoteRemove(let path): try System.rename("\(source)/\(path)", place)
        case .remoteRename(let from, let to): try folder.rename(from, to)
        case .remoteMakeDirectory(let path): try folder.makeDirectory(path)
        default: throw Failure(description: "\(step) is not another device's")
        }
    }

    private func id(_ handle: String) throws -> ItemID {
        guard let id = handles[handle] else { throw Failure(description: "\(handle) is not open") }
        return id
    }
}

/// The library that ends this process at a call, where it is preloaded.
enum StopPoint {
    /// Begins to count calls.
    static func arm() { call("crash_count", true) }

    /// Leaves out what this thread does in the name of somebody else.
    static func ignore(_ on: Bool) { call("crash_ignore", on) }

    private static func call(_ name: String, _ on: Bool) {
        guard let symbol = dlsym(nil, name) else { return }
        unsafeBitCast(symbol, to: (@convention(c) (Int32) -> Void).self)(on ? 1 : 0)
    }
}
