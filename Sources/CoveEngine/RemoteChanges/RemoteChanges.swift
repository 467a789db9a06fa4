internal import CoveCore

/// What comes from the provider: shown through the mount or directly, and committed.
final class RemoteChanges: EnginePart {
    let context: EngineContext
    let contents: Contents
    let namespace: Namespace
    /// What is being announced now.
    let incoming = IncomingTable()

    init(_ context: EngineContext, _ contents: Contents, _ namespace: Namespace) {
        self.context = context
        self.contents = contents
        self.namespace = namespace
    }
}
