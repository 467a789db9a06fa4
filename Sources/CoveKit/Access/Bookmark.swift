internal import CoveCore
public import Foundation
internal import Glibc

/// Data that lead a program back to a document, over renames, moves, safe saves and the ends of daemons.
///
/// It can be kept anywhere, is of use to the app that it was made for alone, and can't be altered. Documents of Cove's mounts have
/// bookmarks; it belongs to the device that made it.
public struct Bookmark: Sendable, Hashable, Codable {
    /// What a bookmark is to be.
    public struct CreationOptions: OptionSet, Sendable {
        /// The bits, as Cocoa has them.
        public let rawValue: UInt
        /// Takes bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// It knows the document by its identity alone, not by its place, and has no values.
        public static let minimalBookmark = Self(rawValue: 1 << 9)
        /// It may be kept in a file; every bookmark may.
        public static let suitableForBookmarkFile = Self(rawValue: 1 << 10)
        /// It lets the app use the document; every bookmark does.
        public static let withSecurityScope = Self(rawValue: 1 << 11)
        /// The app may read the document only.
        public static let securityScopeAllowOnlyReadAccess = Self(rawValue: 1 << 12)
    }

    /// The bookmark's bytes.
    public let data: Data

    /// Takes bytes that were kept.
    public init(data: Data) { self.data = data }

    /// Makes a bookmark of what is at a URL, or of the document that a reference there stands for.
    ///
    /// `keys` are values that ``values`` has: `FileSecurity`, `ContentModificationDate`, `FileResourceIdentifier`,
    /// `FileResourceType`, `LocalizedName`, `ContentType`, `DocumentIdentifier` and `FileSize`. `relativeTo` is a folder above the
    /// document, from which its place is told too. `app` is who is to use it. Where it is nil, that is the app that the environment
    /// variable `COVE_APP` names, or that the account knows this program by: by its view, its Flatpak, its unit or its executable.
    ///
    /// Throws ``CoveError/Code/noSuchFile``, ``CoveError/Code/accessDenied`` for what the app may not use, and
    /// ``CoveError/Code/invalidArgument`` outside of Cove's mounts.
    public static func make(
        of url: URL,
        options: CreationOptions = [],
        including keys: [String] = [],
        relativeTo base: URL? = nil,
        app: String? = nil
    ) async throws(CoveError) -> Bookmark {
        try await FileThreads.run { () throws(CoveError) in
            guard let (service, location) = try ItemService.find(url) else {
                throw CoveError(.invalidArgument, "it is in no mount of Cove's", url: url)
            }
            var request = AccessInterface.CreateBookmarkRequest(app: app ?? Self.ownApp, path: location.remote)
            request.keys = keys
            if let base { request.base = try ItemService.find(base)?.1.remote.description }
            request.minimal = options.contains(.minimalBookmark)
            request.readOnly = options.contains(.securityScopeAllowOnlyReadAccess)
            let reply: AccessInterface.CreateBookmarkReply = try service.access("CreateBookmark", request, for: url)
            guard let data = Data(base64Encoded: reply.bookmark) else {
                throw CoveError(.invalidArgument, "the daemon gave no bookmark", url: url)
            }
            return Bookmark(data: data)
        }
    }

    /// The values that it was made with, by their keys, each as JSON; they prove nothing before it is resolved.
    public var values: [String: String] {
        let start = 9
        guard data.count > start, data.prefix(4) == Data("CVBK".utf8) else { return [:] }
        let bytes = [UInt8](data)
        let length = bytes[5..<start].reversed().reduce(0) { $0 << 8 | Int($1) }
        guard length <= bytes.count - start, let open = try? JSONValue(parsing: Array(bytes[start..<start + length])),
            case .object(let values)? = open["values"]
        else { return [:] }
        return values.mapValues { $0.text ?? $0.description }
    }

    /// Finds the document; nothing is downloaded for it.
    ///
    /// `isStale`: make a new bookmark, for the document has another place or identity. Throws ``CoveError/Code/noSuchFile`` where it
    /// is not there any more, and ``CoveError/Code/accessDenied`` for what was altered, is another app's or was revoked.
    public func resolve(
        relativeTo base: URL? = nil,
        app: String? = nil
    ) async throws(CoveError) -> (document: SecurityScopedURL, isStale: Bool) {
        let text = data.base64EncodedString()
        return try await FileThreads.run { () throws(CoveError) in
            var failure = CoveError(.noSuchFile, "no account of Cove's is mounted")
            for root in Self.accounts {
                do throws(CoveError) {
                    // Mounts come and go.
                    guard let (service, _) = (try? ItemService.find(root)) ?? nil else { continue }
                    var request = AccessInterface.BookmarkRequest(app: app ?? Self.ownApp, bookmark: text)
                    if let base { request.base = try ItemService.find(base)?.1.remote.description }
                    let reply: AccessInterface.ResolveReply = try service.access("ResolveBookmark", request, for: root)
                    let place = reply.reference ?? reply.path
                    let document = SecurityScopedURL(
                        url: root.appending(path: place),
                        root: root,
                        scope: reply.reference == nil ? reply.scope : nil,
                        app: app ?? Self.ownApp,
                        isReadOnly: reply.isReadOnly
                    )
                    return (document, reply.isStale)
                } catch {
                    // Another account's bookmark is none to this one, which may not answer either.
                    if error.code == .noSuchFile { throw error }
                    if failure.code != .accessDenied { failure = error }
                }
            }
            throw failure
        }
    }

    /// Where this user's accounts are mounted; only the one that `COVE_ACCOUNT` names, where it names one.
    static var accounts: [URL] {
        let name = ProcessEnvironment.value("COVE_ACCOUNT").map { "cove:\($0)" }
        let mounts = ((try? MountTable.read()) ?? []).filter { mount in
            mount.isCove && mount.root == "/" && mount.owners.contains(geteuid())
                && (name == nil || mount.source == name)
        }
        return mounts.map { URL(fileURLWithPath: $0.path, isDirectory: true) }
    }

    /// The app that the environment names.
    static var ownApp: String? { ProcessInfo.processInfo.environment["COVE_APP"] }
}

extension FileManager {
    /// The folder of a container; nil identifier: of the first one that the app declares.
    ///
    /// Nil where there is none that the app may have, or no account. `app` as in ``Bookmark/make(of:options:including:relativeTo:app:)``.
    /// `account` is where an account is mounted; nil for all that this user has, or the one that `COVE_ACCOUNT` names.
    public func url(
        forUbiquityContainerIdentifier identifier: String?,
        app: String? = nil,
        in account: URL? = nil
    ) async -> URL? {
        let url = account
        let found = try? await FileThreads.run { () throws(CoveError) -> URL? in
            for root in url.map({ [$0] }) ?? Bookmark.accounts {
                guard let (service, _) = try? ItemService.find(root) else { continue }
                let request = AccessInterface.PathRequest(identifier: identifier, app: app ?? Bookmark.ownApp)
                let reply: AccessInterface.PathReply? = try? service.access("ContainerPath", request, for: root)
                if let path = reply?.path { return root.appending(path: path) }
            }
            return nil
        }
        return found ?? nil
    }
}
