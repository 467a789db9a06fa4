internal import CoveCore
internal import Synchronization

/// Has what was published taken back when its time is over.
final class PublicationClock: Sendable {
    /// After a start others go first.
    static let firstRest = TimeSpan.seconds(60)
    /// The wall clock may be set: it is looked at again after so long.
    private static let longestRest = TimeSpan.seconds(3600)
    private let task = Mutex<Task<Void, Never>?>(nil)

    deinit { task.withLock { $0 }?.cancel() }

    /// Looks for what is over after a rest, and again whenever something is; the body tells when the next one is.
    func begin(after rest: TimeSpan, _ sweep: @escaping @Sendable () async -> Timestamp?) {
        let new = Task {
            var rest = rest
            while true {
                do { try await Task.sleep(for: min(max(.zero, rest), Self.longestRest)) } catch { return }
                guard let next = await sweep() else { return }
                // A moment more: a name tells whole seconds.
                rest = next - System.now() + .seconds(1)
            }
        }
        task.withLock { task in
            task?.cancel()
            task = new
        }
    }

    /// Looks no more.
    func stop() { task.withLock { $0.take() }?.cancel() }
}
