internal import CoveCore
internal import Glibc
internal import Synchronization

/// What a provider's process writes to its standard error, kept in a file that is begun anew when it is long.
///
/// The part before stays beside it, as `NAME.1`.
final class ProviderWords: Sendable {
    private static let longest: Int64 = 1 << 20

    private let file: String?
    private let state = Mutex((descriptor: Int32(-1), length: Int64(0)))

    /// Keeps words in a file; nil keeps none.
    init(file: String?) { self.file = file }

    deinit { state.withLock { if $0.descriptor >= 0 { System.close($0.descriptor) } } }

    func add(_ text: String) { Array(text.utf8).withUnsafeBytes { add($0) } }

    /// What can't be written is lost: nobody waits for words.
    func add(_ bytes: UnsafeRawBufferPointer) {
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
