internal import CoveCore
internal import FoundationEssentials
internal import Glibc

/// Where bytes go that a command gives: a new file, or standard output.
final class FileOutput {
    /// The file's name; nil for standard output.
    let file: String?
    /// Bytes written.
    private(set) var size = 0
    private var descriptor: Int32 = -1
    private var failure: Errno?

    init(file: String?) { self.file = file }

    /// Writes the next bytes; what fails is told at the end.
    func write(_ data: Data) {
        guard failure == nil else { return }
        do throws(Errno) {
            try open()
            let descriptor = descriptor
            try data.withUnsafeBytes { bytes in
                Result { () throws(Errno) in try System.writeAll(descriptor, bytes) }
            }.get()
            size += data.count
        } catch {
            failure = error
        }
    }

    /// The file is made even where there was nothing to write.
    func end() throws(Failure) {
        do throws(Errno) {
            if let failure { throw failure }
            try open()
        } catch {
            // A reader that has gone away is no error.
            if file == nil, error == Errno(EPIPE) { return }
            throw Failure(file ?? "standard output", "\(error)", "name another file")
        }
        if file != nil { System.close(descriptor) }
    }

    /// Takes an incomplete file away.
    func discard() {
        if let file, descriptor >= 0 { try? System.unlink(file) }
    }

    private func open() throws(Errno) {
        guard descriptor < 0 else { return }
        // As long as it is not open nothing of it is this one's to take away.
        descriptor = if let file { try System.open(file, O_WRONLY | O_CREAT | O_EXCL, 0o666) } else { 1 }
    }
}
