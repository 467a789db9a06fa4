internal import CoveCore
internal import Glibc
internal import Synchronization

/// What a provider's process writes to its standard error, kept in a file that is begun anew when it is long.
///
/// The part before stays beside it, as `NAME.1`.
final class ProviderWords: Sendable {
    private static let longest: Int64 = 1 << 20
    private static let longestLine = 300

    private let file: String?
    private let state = Mutex((descriptor: Int32(-1), length: Int64(0)))
    private let last = Mutex([UInt8]())

    /// Keeps words in a file; nil keeps none.
    init(file: String?) { self.file = file }

    deinit { state.withLock { if $0.descriptor >= 0 { System.close($0.descriptor) } } }

    /// Keeps what Cove has to say of the process.
    func note(_ text: String) { Array(text.utf8).withUnsafeBytes { write($0) } }

    /// Another process begins.
    func begin() { last.withLock { $0 = [] } }

    /// Keeps what the process says.
    func add(_ bytes: UnsafeRawBufferPointer) {
        last.withLock { last in
            last.append(contentsOf: bytes.suffix(2 * Self.longestLine))
            last.removeFirst(max(0, last.count - 2 * Self.longestLine))
        }
        write(bytes)
    }

    /// The last line that the process said, to be put behind the reason of an end; nil where there is none.
    var lastLine: String? {
        let text = last.withLock { String(decoding: $0, as: UTF8.self) }
        let line = text.split(separator: "\n").last { !$0.allSatisfy(\.isWhitespace) }
        return line.map { String($0.suffix(Self.longestLine)).escapingControls }
    }

    /// What can't be written is lost: nobody waits for words.
    private func write(_ bytes: UnsafeRawBufferPointer) {
        guard let file, !bytes.isEmpty else { return }
        state.withLock { state in
            if state.descriptor >= 0, state.length >= Self.longest {
                System.close(state.descriptor)
                state.descriptor = -1
                try? System.rename(file, file + ".1")
            }
            if state.descriptor < 0 {
                guard let descriptor = try? System.open(file, O_WRONLY | O_CREAT | O_APPEND) else { return }
                state.descriptor = descriptor
                state.length = (try? System.fstat(descriptor)).map { Int64($0.st_size) } ?? 0
            }
            try? System.writeAll(state.descriptor, bytes)
            state.length += Int64(bytes.count)
        }
    }
}
