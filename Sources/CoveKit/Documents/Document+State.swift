internal import CoveCore
internal import Dispatch
public import Foundation
internal import Synchronization

/// What is known of a document, on any thread.
extension Document {
    /// How many changes of the state wait for a reader of `stateChanges`; of more only the latest.
    private static let waitingStates = 64

    /// Where the file is; a symbolic link stays one, and what it points at is the document.
    public internal(set) var fileURL: URL {
        get { shared.withLock { $0.url } }
        set { shared.withLock { $0.place(at: newValue) } }
    }

    /// The last change of the file, or of a file in the package, that this document saw or made.
    public var fileModificationDate: Date? { shared.withLock { $0.stamp?.date } }

    /// How the document is.
    public var documentState: State { shared.withLock { $0.state } }

    /// The state now, and then after each of its changes; ends with the document.
    ///
    /// Whoever reads too slowly misses the earlier ones of many changes, and never the last.
    public var stateChanges: AsyncStream<State> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: State.self,
            bufferingPolicy: .bufferingNewest(Self.waitingStates)
        )
        let key = UUID()
        // Not where a task is cancelled: whoever holds the lock may be about to wake that task.
        continuation.onTermination = { [weak self] _ in
            DispatchQueue.global().async { [weak self] in
                self?.shared.withLock { _ = $0.watchers.removeValue(forKey: key) }
            }
        }
        shared.withLock { shared in
            shared.watchers[key] = continuation
            continuation.yield(shared.state)
        }
        return stream
    }

    /// How much of the file is on this disk, from 0 to 1; nil when the document is at rest, or on an ordinary file system.
    public func progress() async -> Double? {
        guard documentState.contains(.progressAvailable) else { return nil }
        return await attribute("percent-downloaded").flatMap(Double.init).map { $0 / 100 }
    }

    /// What a mount of Cove's knows of the file.
    func attribute(_ name: String) async -> String? {
        let path = fileURL.path
        return await FileThreads.run {
            guard let resolved = realpath(path, nil) else { return nil }
            defer { free(resolved) }
            let value = try? System.attribute(Array(String(cString: resolved).utf8), Array("user.cove.\(name)".utf8))
            return value.map { String(decoding: $0, as: UTF8.self) }
        }
    }

    var stamp: DocumentStamp? {
        get { shared.withLock { $0.stamp } }
        set { shared.withLock { $0.stamp = newValue } }
    }

    /// Keeps in mind where the document is edited.
    func noteIsolation(_ isolation: (any Actor)?) {
        if let isolation { shared.withLock { $0.isolation = isolation } }
    }

    static func type(of url: URL) -> String { url.pathExtension.lowercased() }

    func change(_ change: (inout State) -> Void) {
        shared.withLock { shared in
            let before = shared.state
            change(&shared.state)
            guard shared.state != before else { return }
            // Under the lock, so that nobody hears of two changes in another order.
            for watcher in shared.watchers.values { watcher.yield(shared.state) }
        }
    }

    /// Shows progress while the body runs, and tells of its failure.
    func reporting<Value: Sendable>(
        _ body: () async throws(CoveError) -> Value
    ) async throws(CoveError) -> Value {
        change { $0.insert(.progressAvailable) }
        defer { change { $0.remove(.progressAvailable) } }
        do throws(CoveError) { return try await body() } catch {
            await handleError(error)
            throw error
        }
    }

    /// Looks how many other sides of conflicts the file has, where a mount of Cove's tells.
    func lookForConflict() async {
        let count = await attribute("conflicts").flatMap { Int($0) } ?? 0
        change { state in
            if count > 0, !state.contains(.closed) { state.insert(.inConflict) } else { state.remove(.inConflict) }
        }
    }
}

extension Document.Shared {
    /// The document's file has another URL.
    mutating func place(at url: URL) {
        self.url = url
        package?.url = url
    }
}
