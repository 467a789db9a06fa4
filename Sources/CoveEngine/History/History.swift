internal import CoveCore

/// What documents had before, and the other sides of their conflicts: listed, read, restored, forgotten.
final class History: EnginePart {
    let context: EngineContext
    let contents: Contents
    let namespace: Namespace
    let remoteChanges: RemoteChanges
    /// Files whose conflicts are looked for.
    let conflictSearch = ConflictSearch()

    init(_ context: EngineContext, _ contents: Contents, _ namespace: Namespace, _ remoteChanges: RemoteChanges) {
        self.context = context
        self.contents = contents
        self.namespace = namespace
        self.remoteChanges = remoteChanges
    }
}
