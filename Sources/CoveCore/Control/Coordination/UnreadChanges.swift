internal import Synchronization

/// The changes that a session was told of and has not read yet: what it was told it need not be told again.
///
/// Whoever reads a change late reads the item as it is then. So what a session has waiting is bounded by what it presents, not by
/// how often that changes.
public final class UnreadChanges: Sendable {
    private struct Change: Hashable {
        let presenter: String?
        let kind: String
        let path: String?
        let pathBase64: String?
        let attributes: [String]

        /// Nil for what is told each time.
        init?(_ message: CoordinationInterface.Message) {
            let kinds: [CoordinationInterface.MessageKind] = [.didChange, .subitemDidChange]
            guard kinds.contains(where: { $0.rawValue == message.kind }), !message.wantsReply else { return nil }
            (presenter, kind, attributes) = (message.presenter, message.kind, message.attributes)
            (path, pathBase64) = (message.path.path, message.path.pathBase64)
        }
    }

    private let changes = Mutex<Set<Change>>([])

    /// Nothing is unread.
    public init() {}

    /// Notes what a session is about to be told; false when the same waits for it already.
    public func add(_ message: CoordinationInterface.Message) -> Bool {
        guard let change = Change(message) else { return true }
        return changes.withLock { $0.insert(change).inserted }
    }

    /// The session is given a message to read.
    public func remove(_ message: CoordinationInterface.Message) {
        guard let change = Change(message) else { return }
        changes.withLock { _ = $0.remove(change) }
    }
}
