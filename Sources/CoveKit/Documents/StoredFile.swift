internal import CoveCore
public import Foundation
internal import Glibc
internal import Synchronization

/// A file inside a package that was not read when the package was: it is read when it is needed.
///
/// A save that leaves it in place takes it over without reading or writing its bytes. It is of the package that it was found
/// in, and follows that one's moves and the saves of its document; once another program has changed it, it is stale.
public final class StoredFile: Sendable, Equatable {
    private struct State {
        /// Where it is in the package, such as `Pictures/1.png`.
        var path: String
        var stamp: FileStamp
    }

    let package: PackageLocation
    private let state: Mutex<State>

    init(_ path: String, _ stamp: FileStamp, in package: PackageLocation) {
        self.package = package
        state = Mutex(State(path: path, stamp: stamp))
    }

    /// Bytes.
    public var size: Int64 { stamp.size }

    /// The last change.
    public var modificationDate: Date { Date(timeIntervalSince1970: stamp.modificationTime.secondsSinceEpoch) }

    var stamp: FileStamp { state.withLock { $0.stamp } }

    /// The bytes; throws ESTALE when another program has changed the file since the package was read or saved.
    ///
    /// Blocks.
    @available(*, noasync)
    public func read() throws(CoveError) -> Data { try bytes() }

    /// The bytes; throws ESTALE when another program has changed the file since the package was read or saved.
    public func read() async throws(CoveError) -> Data {
        try await FileThreads.run { () throws(CoveError) in try self.bytes() }
    }

    func bytes() throws(CoveError) -> Data {
        try opened { file in
            // Piece by piece: a size alone, however large, takes no memory.
            var bytes = Data()
            var buffer = [UInt8](repeating: 0, count: 1 << 20)
            while true {
                let count = try System.pread(file, into: &buffer, count: buffer.count, Int64(bytes.count))
                if count == 0 { return bytes }
                bytes.append(contentsOf: buffer[..<count])
            }
        }
    }

    /// Gives the file a second name, or makes a copy where the file system has no second names.
    ///
    /// Blocks.
    func takeOver(to path: String) throws {
        let (old, stamp) = place
        guard (try? FileStamp(old))?.hasSameBytes(as: stamp) == true else { throw staleness }
        do throws(Errno) {
            try System.linkat(AT_FDCWD, Array(old.utf8), AT_FDCWD, Array(path.utf8))
            guard try FileStamp(path).hasSameBytes(as: stamp) else { throw .stale }
        } catch {
            switch error {
            case .notPermitted, .notSupported, .crossDevice, Errno(EMLINK), Errno(ENOSYS): try copy(to: path)
            case .stale: throw staleness
            default: throw error
            }
        }
    }

    private func copy(to path: String) throws {
        try opened { file in
            let copy = try System.open(path, O_WRONLY | O_CREAT | O_EXCL, 0o666)
            defer { System.close(copy) }
            var buffer = [UInt8](repeating: 0, count: 1 << 20)
            var offset: Int64 = 0
            while true {
                let count = try System.pread(file, into: &buffer, count: buffer.count, offset)
                if count == 0 { break }
                try System.pwriteAll(copy, Array(buffer[..<count]), offset)
                offset += Int64(count)
            }
        }
    }

    /// After a save that took the file over: it is where the save has put it.
    func note(_ path: String, savedAs stamp: FileStamp) {
        state.withLock { state in
            state.path = path
            state.stamp = stamp
        }
    }

    private var place: (path: String, stamp: FileStamp) {
        let state = state.withLock { ($0.path, $0.stamp) }
        return ("\(package.url.path)/\(state.0)", state.1)
    }

    /// Lends the open file to the body, and sees before and after that it is the one that is known.
    private func opened<Value>(_ body: (Int32) throws -> Value) throws(CoveError) -> Value {
        let (path, stamp) = place
        return try explaining(URL(fileURLWithPath: path)) {
            let file: Int32
            do throws(Errno) { file = try System.open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK) } catch {
                throw error == .noSuchEntry ? staleness : error
            }
            defer { System.close(file) }
            guard FileStamp(try System.status(file)).hasSameBytes(as: stamp) else { throw staleness }
            let value = try body(file)
            guard FileStamp(try System.status(file)).hasSameBytes(as: stamp) else { throw staleness }
            return value
        }
    }

    private var staleness: CoveError {
        let url = URL(fileURLWithPath: place.path)
        return CoveError(.stale, "another program has changed it; read the package again", url: url)
    }

    /// True for the same file.
    public static func == (left: StoredFile, right: StoredFile) -> Bool {
        left === right || left.place == right.place
    }
}

/// Where a package is whose files are read later.
final class PackageLocation: Sendable {
    private let current: Mutex<URL>

    init(_ url: URL) { current = Mutex(url) }

    var url: URL {
        get { current.withLock { $0 } }
        set { current.withLock { $0 = newValue } }
    }
}
