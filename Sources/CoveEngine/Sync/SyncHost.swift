internal import CoveCore

/// The parts of the engine as sync has them, which is above them all.
struct SyncHost: EnginePart {
    let context: EngineContext
    let contents: Contents
    let namespace: Namespace
    let remoteChanges: RemoteChanges
    let history: History
    let thumbnails: Thumbnails
    let coordinator: Coordinator
    let access: Access
}
