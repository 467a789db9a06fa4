internal import CLinux
internal import CoveCore
internal import Glibc

/// Signals that are read instead of being handled, by this thread and those that it starts later.
final class SignalReader {
    /// Becomes readable when one is there; see signalfd(2).
    let descriptor: Int32
    private var former = sigset_t()

    /// Keeps the signals from doing what they do, for as long as this is there.
    init(_ numbers: [Int32]) throws(Errno) {
        descriptor = try System.retry { cove_signalfd(numbers.reduce(0) { $0 | 1 << UInt64($1 - 1) }) }
        var mask = sigset_t()
        sigemptyset(&mask)
        for number in numbers { sigaddset(&mask, number) }
        pthread_sigmask(SIG_BLOCK, &mask, &former)
    }

    deinit {
        pthread_sigmask(SIG_SETMASK, &former, nil)
        System.close(descriptor)
    }

    /// The next signal's number, which is waited for.
    func next() -> Int32? {
        // struct signalfd_siginfo
        var bytes = [UInt8](repeating: 0, count: 128)
        guard let count = try? System.retry({ read(descriptor, &bytes, bytes.count) }), count == bytes.count else {
            return nil
        }
        return bytes.withUnsafeBytes { Int32(bitPattern: $0.load(as: UInt32.self)) }
    }
}
