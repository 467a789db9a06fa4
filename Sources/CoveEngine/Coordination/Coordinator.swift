internal import CoveCore
internal import Synchronization

/// Claims and presenters of an account: what programs ask for, and what it takes to grant it.
final class Coordinator: EnginePart {
    let context: EngineContext
    let contents: Contents
    let namespace: Namespace
    let history: History
    /// The table, with those who ask it.
    let coordination: Coordination
    let observedAttributes = ObservedAttributes()
    let remoteClaims: RemoteClaims
    /// Programs that wait to cut a file.
    let truncations: Truncations
    /// Makes the copies that claims ask for, which may have gigabytes: what follows a fetch does not wait for them.
    let snapshotQueue = ThreadPool(threads: 2)
    /// Reads the attributes that presenters observe.
    let attributeReader = EngineMutex(.attributeReader, AttributeReader())

    init(_ context: EngineContext, _ contents: Contents, _ namespace: Namespace, _ history: History) {
        self.context = context
        self.contents = contents
        self.namespace = namespace
        self.history = history
        let clock = context.configuration.clock
        remoteClaims = RemoteClaims(clock: clock)
        truncations = Truncations(clock: clock)
        coordination = Coordination(
            presenterTimeout: context.configuration.answerTimeout,
            clock: clock,
            log: context.log
        )
    }

    /// Reads an attribute of Cove's own.
    ///
    /// In a struct: a function that is itself what a mutex holds is wrapped once more each time it is looked at.
    struct AttributeReader: Sendable {
        var read: @Sendable (ItemID, String) -> [UInt8]? = { _, _ in nil }
    }
}
