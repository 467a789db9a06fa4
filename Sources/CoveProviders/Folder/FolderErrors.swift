internal import CoveCore
internal import Glibc

extension ProviderError {
    /// The one place where an errno of the source becomes a provider's error.
    init(_ error: Errno, _ what: @autoclosure () -> String) {
        let message = "\(what()): \(error)"
        switch error {
        case .noSpace, .quotaExceeded: self = .insufficientQuota(message)
        case .accessDenied, .notPermitted, .readOnly: self = .notPermitted(message)
        // A symbolic link or a file where a directory was means that the path leads to no item any more.
        case .noSuchEntry, .notDirectory, Errno(ELOOP): self = .noSuchItem
        case .exists: self = .filenameCollision(nil)
        case .notEmpty: self = .directoryNotEmpty
        case .busy, Errno(ETXTBSY), .wouldBlock: self = .busy
        // EINVAL is what FAT says to a name it can't hold.
        case .nameTooLong, .invalidArgument, .notSupported, .crossDevice, .fileTooLarge, .tooManyLinks, Errno(EILSEQ):
            self = .unsupported(message)
        case .notConnected, .hostUnreachable, .timedOut, Errno(ENETUNREACH), Errno(ECONNRESET), Errno(EHOSTDOWN):
            self = .serverUnreachable(message)
        default: self = .failed(message, error)
        }
    }
}

/// Runs system calls; a failure becomes a `ProviderError` that says what was tried.
func attempt<R: ~Copyable>(
    _ what: @autoclosure () -> String,
    _ body: () throws(Errno) -> R
) throws(ProviderError) -> R {
    do throws(Errno) { return try body() } catch { throw ProviderError(error, what()) }
}
