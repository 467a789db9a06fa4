import CoveCore
import Foundation
import Synchronization

/// A server in memory that follows the public protocol of Nextcloud's WebDAV.
///
/// It has what is kept beside a user's files, and conditions, checksums and dates as there. No test with it says anything
/// of a real one.
public final class ScriptedCloud: Sendable {
    /// A file or a folder.
    struct Node: Sendable {
        var isFolder: Bool
        var bytes: [UInt8] = []
        var modified: Int64
        var tag: Int
        var id: Int
        var checksum: String?
        /// What is told of sharing: properties as the server writes them.
        var sharing = ""
    }

    struct State: Sendable {
        /// By path below the user's files; the root is empty.
        var files: [String: Node] = ["": Node(isFolder: true, modified: 1_700_000_000, tag: 1, id: 1)]
        var uploads: [String: [String: [UInt8]]] = [:]
        /// By file id, the newest last.
        var versions: [Int: [(revision: Int64, bytes: [UInt8])]] = [:]
        var counter = 1
        var tagsRise = true
        var damage: @Sendable (String, [UInt8]) -> [UInt8] = { $1 }
        var checksums: @Sendable (String) -> String = { $0 }
        var rename: @Sendable (String) -> String = { $0 }
        var losesAnswer: @Sendable (ScriptedServer.Request) -> Bool = { _ in false }
        var answer: (@Sendable (ScriptedServer.Request) -> ScriptedServer.Answer?)?
        var rewrite: (@Sendable (ScriptedServer.Request, inout ScriptedServer.Reply) -> Void)?
    }

    /// The server in front.
    public let server: ScriptedServer
    private let state: Box

    final class Box: Sendable {
        let state = Mutex(State())
    }

    /// Starts to listen.
    ///
    /// Without rising tags, that of a folder changes only with what is directly in it.
    public init(tagsRise: Bool = true) throws {
        let box = Box()
        box.state.withLock { $0.tagsRise = tagsRise }
        state = box
        server = try ScriptedServer { request in
            let other = box.state.withLock { $0.answer }
            if let answer = other?(request) { return answer }
            let (reply, isLost, rewrite) = box.state.withLock { state in
                (state.reply(to: request), state.losesAnswer(request), state.rewrite)
            }
            if isLost { return .hangUp }
            guard let rewrite, case .bytes(let bytes) = reply, var told = ScriptedServer.Reply(bytes) else {
                return reply
            }
            rewrite(request, &told)
            return .bytes(told.bytes)
        }
    }

    /// The address of the user's files, as a source.
    public var source: String { "webdav://\(TestServer.user)@127.0.0.1:\(server.port)\(Self.home)" }

    /// Where the user's files are.
    public static let home = "/remote.php/dav/files/\(TestServer.user)"

    /// A path as it is kept: encoded, for two texts of one meaning are one to Swift and not here.
    static func key(_ path: String) -> String {
        let plain = CharacterSet(charactersIn: "/-._~").union(.alphanumerics)
            .intersection(CharacterSet(charactersIn: Unicode.Scalar(0)..."\u{7F}"))
        return path.addingPercentEncoding(withAllowedCharacters: plain) ?? path
    }

    /// The bytes of a file; nil when there is none.
    public func bytes(_ path: String) -> [UInt8]? {
        let path = Self.key(path)
        return state.state.withLock { $0.files[path].flatMap { $0.isFolder ? nil : $0.bytes } }
    }

    /// The names in a folder.
    public func names(_ folder: String = "") -> [String] {
        state.state.withLock { $0.children(of: Self.key(folder)) }.map { $0.removingPercentEncoding ?? $0 }.sorted()
    }

    /// Puts a file there as another device does.
    public func put(_ path: String, _ bytes: [UInt8], modified: Int64? = nil, checksum: String? = nil) {
        let path = Self.key(path)
        state.state.withLock { state in
            _ = state.store(path, bytes, modified: modified ?? Int64(time(nil)), checksum: checksum)
        }
    }

    /// Says with whom something is shared, which changes neither its tag nor its date.
    ///
    /// `permissions`: letters as Nextcloud has them; `owner`: who let the user have it; `isGiven`: the user has given it away;
    /// `created`: when it was made, in seconds, 0 where the server does not know.
    public func share(
        _ path: String,
        permissions: String,
        owner: String? = nil,
        isGiven: Bool = false,
        created: Int64 = 0
    ) {
        let path = Self.key(path)
        state.state.withLock { state in
            state.files[path]?.sharing =
                "<oc:permissions>\(permissions)</oc:permissions>"
                + "<oc:owner-display-name>\(owner ?? TestServer.user)</oc:owner-display-name><oc:share-types>"
                + (isGiven ? "<oc:share-type>0</oc:share-type>" : "") + "</oc:share-types>"
                + "<nc:creation_time xmlns:nc=\"http://nextcloud.org/ns\">\(created)</nc:creation_time>"
        }
    }

    /// Makes a folder as another device does.
    public func makeFolder(_ path: String) {
        let path = Self.key(path)
        state.state.withLock { state in
            let (tag, id) = (state.next(), state.next())
            state.files[path] = Node(isFolder: true, modified: Int64(time(nil)), tag: tag, id: id)
            state.touch(above: path)
        }
    }

    /// What becomes of a file's bytes on their way out.
    public func damage(_ body: @escaping @Sendable (_ path: String, _ bytes: [UInt8]) -> [UInt8]) {
        state.state.withLock { $0.damage = body }
    }

    /// What the server tells of the checksums that it is sent.
    public func tellChecksums(_ body: @escaping @Sendable (String) -> String) {
        state.state.withLock { $0.checksums = body }
    }

    /// What becomes of a path that somebody asks for.
    public func changeNames(_ body: @escaping @Sendable (String) -> String) {
        state.state.withLock { $0.rename = body }
    }

    /// What is answered instead, for as long as the body gives something.
    public func answer(_ body: (@Sendable (ScriptedServer.Request) -> ScriptedServer.Answer?)?) {
        state.state.withLock { $0.answer = body }
    }

    /// What becomes of each answer; what is asked for is carried out as ever.
    public func rewrite(_ body: (@Sendable (ScriptedServer.Request, inout ScriptedServer.Reply) -> Void)?) {
        state.state.withLock { $0.rewrite = body }
    }

    /// Which requests are carried out, and then the line breaks.
    public func loseAnswer(_ body: @escaping @Sendable (ScriptedServer.Request) -> Bool) {
        state.state.withLock { $0.losesAnswer = body }
    }

    /// How many uploads in chunks are under way.
    public var uploads: Int { state.state.withLock { $0.uploads.count } }
}

/// What is kept.
extension ScriptedCloud.State {
    mutating func next() -> Int {
        counter += 1
        return counter
    }

    func children(of folder: String) -> [String] {
        let start = folder.isEmpty ? "" : folder + "/"
        return files.keys.compactMap { path in
            guard !path.isEmpty, path.hasPrefix(start) else { return nil }
            let rest = path.dropFirst(start.count)
            return rest.isEmpty || rest.contains("/") ? nil : String(rest)
        }
    }

    static func parent(of path: String) -> String {
        path.lastIndex(of: "/").map { String(path[..<$0]) } ?? ""
    }

    /// The tags of all folders above change along, or only that of the next one.
    mutating func touch(above path: String) {
        let end = tagsRise ? "" : Self.parent(of: path)
        var path = path
        while path != end {
            path = Self.parent(of: path)
            let tag = next()
            files[path]?.tag = tag
        }
    }

    mutating func store(
        _ path: String,
        _ bytes: [UInt8],
        modified: Int64,
        checksum: String?
    ) -> ScriptedCloud.Node {
        let old = files[path]
        if let old { versions[old.id, default: []].append((old.modified, old.bytes)) }
        let node = ScriptedCloud.Node(
            isFolder: false,
            bytes: bytes,
            modified: modified,
            tag: next(),
            id: old?.id ?? next(),
            checksum: checksum.map(checksums),
            sharing: old?.sharing ?? ""
        )
        files[path] = node
        touch(above: path)
        return node
    }

    mutating func remove(_ path: String) {
        files = files.filter { $0.key != path && !$0.key.hasPrefix(path + "/") }
        touch(above: path)
    }

    mutating func copy(_ path: String, to target: String, isMove: Bool) {
        let whole = files.filter { $0.key == path || $0.key.hasPrefix(path + "/") }
        if isMove { remove(path) }
        for (old, node) in whole {
            var new = node
            if !isMove { (new.id, new.tag) = (next(), next()) }
            files[target + old.dropFirst(path.count)] = new
        }
        touch(above: target)
    }
}
