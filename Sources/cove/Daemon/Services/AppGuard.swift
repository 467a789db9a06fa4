internal import CoveCore
internal import CoveEngine
internal import FoundationEssentials

/// Keeps programs that see no more than an app may from asking for more on a socket.
///
/// They may ask for items that they could open, each by its path, and for claims on these; nothing of the account.
struct AppGuard: Sendable {
    let engine: Engine

    /// Methods that take no path and tell of nothing but the caller's own.
    private static let pathless: Set<String> = [
        "Attend", "Release", "Cancel", "RemovePresenter", "MovePresenter", "Reply",
    ]
    /// What of single items an app may ask and do: nothing that reads other files, shows them to others, or is the source's.
    private static let itemMethods: Set<String> = [
        "Status", "Info", "List", "Download", "Evict", "Thumbnail", "SetThumbnail", "Versions", "ReadVersion",
        "RestoreVersion", "ResolveConflicts", "RemoveVersions",
    ]
    /// Those of them that change the item.
    private static let changingMethods: Set<String> = [
        "SetThumbnail", "RestoreVersion", "ResolveConflicts", "RemoveVersions",
    ]
    private static let queries: Set<String> = ["Run", "Follow"]
    /// Members whose texts are paths below the mount point.
    private static let pathNames: Set<String> = ["path", "newPath", "paths"]
    private static let encodedNames: Set<String> = ["path_base64", "newPath_base64"]

    /// On whose behalf a process calls that has just connected.
    var standing: @Sendable (PeerCredentials) -> PeerStanding {
        { [engine] peer in engine.standing(of: peer.process, user: peer.user) }
    }

    /// An interface that lets an app's programs do what they may.
    func guarding(_ interface: VarlinkInterface) -> VarlinkInterface {
        let name = interface.name
        return interface.guarded { [engine] method, invocation async throws(VarlinkError) in
            let app: AppIdentifier
            switch invocation.peer.standing {
            case .user: return
            case .unknown(let words): throw .failed(words, errno: .accessDenied, interface: name)
            case .app(let known): app = known
            }
            guard name != AccountInterface.name else { throw Self.refusal(name) }
            if name == ItemInterface.name, !Self.itemMethods.contains(method) { throw Self.refusal(name) }
            var paths: [RemotePath] = []
            guard Self.collect(invocation.parameters, &paths) else { throw Self.refusal(name) }
            if paths.isEmpty, name == CoordinationInterface.name, Self.pathless.contains(method) { return }
            // Only its own references are looked at then. What is no query has no scopes, whatever it says.
            if name == QueryInterface.name, Self.queries.contains(method),
                invocation.parameters["scopes"] == .array([.string("external")])
            {
                return
            }
            guard !paths.isEmpty, paths.allSatisfy({ !$0.isRoot }) else { throw Self.refusal(name) }
            let asked = paths
            let changed = Self.changed(by: invocation.parameters, method, of: name, paths)
            let isAdmitted = await OffPool.run { engine.admits(app, to: asked, changing: changed) }
            guard isAdmitted else { throw Self.refusal(name) }
        }
    }

    /// An interface that serves programs of apps alone: others may have the socket who are no user's.
    func forAppsAlone(_ interface: VarlinkInterface) -> VarlinkInterface {
        let name = interface.name
        return interface.guarded { _, invocation async throws(VarlinkError) in
            let words: String
            switch invocation.peer.standing {
            case .app: return
            case .user: words = "this socket serves programs of apps; use the account's own"
            case .unknown(let doubt): words = doubt
            }
            throw .failed(words, errno: .accessDenied, interface: name)
        }
    }

    private static func refusal(_ interface: String) -> VarlinkError {
        .failed("the app may not do that; it may use its own documents", errno: .accessDenied, interface: interface)
    }

    /// The paths of what a call changes, or claims so that it may.
    private static func changed(
        by parameters: JSONValue,
        _ method: String,
        of interface: String,
        _ paths: [RemotePath]
    ) -> [RemotePath] {
        if interface == ItemInterface.name { return changingMethods.contains(method) ? paths : [] }
        guard case .array(let intents)? = parameters["intents"] else { return [] }
        var changed: [RemotePath] = []
        // To remove or move a reference does nothing to its document.
        let own = [CoordinationInterface.WritingOption.forDeleting, .forMoving].map { JSONValue.string($0.rawValue) }
        for intent in intents where intent["kind"] != .string(CoordinationInterface.IntentKind.reading.rawValue) {
            if case .array(let options)? = intent["options"], options.contains(where: own.contains) { continue }
            // What can't be read was refused before.
            _ = collect(intent, &changed)
        }
        return changed
    }

    /// All paths in the parameters of a call; false where one can't be read.
    private static func collect(_ value: JSONValue, named name: String = "", _ paths: inout [RemotePath]) -> Bool {
        switch value {
        case .object(let members):
            return members.allSatisfy { collect($0.value, named: $0.key, &paths) }
        case .array(let elements):
            return elements.allSatisfy { collect($0, named: name, &paths) }
        case .string(let text):
            let bytes: [UInt8]
            if pathNames.contains(name) {
                bytes = Array(text.utf8)
            } else if encodedNames.contains(name) {
                guard let data = Data(base64Encoded: text) else { return false }
                bytes = Array(data)
            } else {
                return true
            }
            var names: [FileName] = []
            for part in bytes.split(separator: 0x2F) {
                guard let name = FileName(validating: part) else { return false }
                names.append(name)
            }
            paths.append(RemotePath(names))
            return true
        default: return true
        }
    }
}
