public import CoveCore
public import CoveEngine
import Foundation
import Synchronization

/// What the kernel does with `-o passthrough`, for a driver that has an engine and no mount: it writes to content files by itself.
///
/// The engine hears of what it writes nothing but the open, the flush and the release.
public final class PassingKernel: BackingFiles {
    private struct State {
        var next = UInt32(1)
        /// By the driver's name for a handle, the content file that the kernel has opened for it.
        var files: [String: Int32] = [:]
    }

    private let directory: String
    private let state = Mutex(State())

    /// Lets an engine's files pass, whose state is in a directory.
    public init(_ engine: Engine, state directory: String) {
        self.directory = directory
        engine.passThrough(by: self)
    }

    deinit { state.withLock { $0.files.values.forEach { System.close($0) } } }

    /// Takes every content file.
    public func register(_ descriptor: Int32) throws(Errno) -> UInt32 {
        state.withLock { state in
            defer { state.next += 1 }
            return state.next
        }
    }

    /// There is nothing to be forgotten.
    public func unregister(_ number: UInt32) {}

    /// Opens the content file for a handle that the engine has just given; false where its bytes go through the engine.
    public func open(_ handle: String, of id: ItemID, _ engine: Engine) throws(Errno) -> Bool {
        guard engine.backingNumber(of: id) != nil else { return false }
        let name = "\(directory)/content/\(String(id.rawValue & 0xFF, radix: 16))/\(id.rawValue)"
        let file = try System.open(name, O_RDWR)
        if let old = state.withLock({ $0.files.updateValue(file, forKey: handle) }) { System.close(old) }
        return true
    }

    /// Writes; false where the handle's bytes go through the engine.
    public func write(_ handle: String, at offset: Int64, _ bytes: [UInt8]) throws(Errno) -> Bool {
        guard let file = state.withLock({ $0.files[handle] }) else { return false }
        try System.pwriteAll(file, bytes, offset)
        return true
    }

    /// The last moment of a handle, before the engine is told.
    public func close(_ handle: String) {
        if let file = state.withLock({ $0.files.removeValue(forKey: handle) }) { System.close(file) }
    }
}
