internal import CoveCore
public import Foundation
internal import Synchronization

/// A document that an app may use between a start and a stop.
///
/// One that the app has a reference to, or that is its own, may be used at any time: then both do nothing. The string of its URL is no
/// right to it: without a start it opens nothing. A ``Document`` that is made between a start and a stop may be used for as long as the
/// object is there.
public final class SecurityScopedURL: Sendable {
    /// The document: its reference in the app's container, or its own place.
    public let url: URL
    /// True where it is to be read only.
    public let isReadOnly: Bool
    private let root: URL
    private let scope: String?
    private let app: String?

    init(url: URL, root: URL, scope: String?, app: String?, isReadOnly: Bool) {
        self.url = url
        self.root = root
        self.scope = scope
        self.app = app
        self.isReadOnly = isReadOnly
    }

    /// Begins to use it; the URL to use it by until the stop, nil where the app uses too many or may use it no more.
    ///
    /// Each start that succeeds needs a stop. Ends with the process.
    public func startAccessing() async -> URL? {
        guard let scope else { return url }
        let (root, app) = (root, app)
        let path = try? await FileThreads.run { () throws(CoveError) -> String? in
            guard let (service, _) = try ItemService.find(root) else { return nil }
            let reply: AccessInterface.PathReply = try service.access(
                "StartScope",
                AccessInterface.ScopeRequest(app: app, scope: scope),
                for: root
            )
            return reply.path
        }
        guard let place = (path ?? nil).map({ root.appending(path: $0) }) else { return nil }
        ScopeUses.start(ScopeUses.Scope(root: root, name: scope), at: place)
        return place
    }

    /// Ends one use; one too many does nothing.
    public func stopAccessing() async {
        guard let scope else { return }
        await ScopeUses.stop(ScopeUses.Scope(root: root, name: scope))
    }
}

/// The scopes that this process uses, and the documents that were made while it did.
enum ScopeUses {
    struct Scope: Hashable, Sendable {
        /// Where the account is mounted.
        var root: URL
        /// What the daemon calls the scope.
        var name: String
    }

    private struct Use {
        /// Where the document is while the scope is used.
        var place: String
        /// Starts without a stop.
        var starts = 0
        /// Documents that use it.
        var holds = 0
        /// Stops that the daemon hears of when the last document has gone.
        var owed = 0
    }

    private static let uses = Mutex<[Scope: Use]>([:])

    static func start(_ scope: Scope, at place: URL) {
        uses.withLock { uses in
            uses[scope, default: Use(place: place.path)].starts += 1
            uses[scope]?.place = place.path
        }
    }

    static func stop(_ scope: Scope) async {
        let isOver = uses.withLock { uses in
            guard var use = uses[scope], use.starts > 0 else { return false }
            use.starts -= 1
            let isHeld = use.starts == 0 && use.holds > 0
            if isHeld { use.owed += 1 }
            uses[scope] = use.starts == 0 && !isHeld ? nil : use
            return !isHeld
        }
        if isOver { await tell(scope, times: 1) }
    }

    /// Keeps a file usable that the process may use just now; nil for any other.
    static func hold(_ url: URL) -> ScopeHold? {
        uses.withLock { uses in
            guard !uses.isEmpty else { return nil }
            let place = url.standardizedFileURL.path
            guard let scope = uses.first(where: { $0.value.starts > 0 && LocalPath.isSame($0.value.place, place) })?.key
            else {
                return nil
            }
            uses[scope]?.holds += 1
            return ScopeHold(scope)
        }
    }

    fileprivate static func release(_ scope: Scope) {
        let owed = uses.withLock { uses in
            guard var use = uses[scope] else { return 0 }
            use.holds -= 1
            guard use.holds == 0 else {
                uses[scope] = use
                return 0
            }
            let owed = use.owed
            use.owed = 0
            uses[scope] = use.starts == 0 ? nil : use
            return owed
        }
        if owed > 0 { Task { await tell(scope, times: owed) } }
    }

    private static func tell(_ scope: Scope, times: Int) async {
        _ = try? await FileThreads.run { () throws(CoveError) in
            guard let (service, _) = try ItemService.find(scope.root) else { return }
            for _ in 0..<times {
                let _: AccessInterface.StopReply = try service.access(
                    "StopScope",
                    AccessInterface.ScopeRequest(scope: scope.name),
                    for: scope.root
                )
            }
        }
    }
}

/// One document's use of a scope, for as long as it exists.
final class ScopeHold: Sendable {
    private let scope: ScopeUses.Scope

    fileprivate init(_ scope: ScopeUses.Scope) { self.scope = scope }

    deinit { ScopeUses.release(scope) }
}
