internal import CoveCore
public import Foundation

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
    /// All accounts of this user are asked side by side, and the one that knows it answers. `isStale`: make a new bookmark, for the
    /// document has another place or identity. Throws ``CoveError/Code/noSuchFile`` where it is not there any more, and
    /// ``CoveError/Code/accessDenied`` for what was altered, is another app's or was revoked. Where no account knows it and one does
    /// not answer within a minute, ``CoveError/Code/timedOut`` or ``CoveError/Code/noDaemon``, with that account's place.
    public func resolve(
        relativeTo base: URL? = nil,
        app: String? = nil
    ) async throws(CoveError) -> (document: SecurityScopedURL, isStale: Bool) {
        let request = AccessInterface.BookmarkRequest(app: app ?? Self.ownApp, bookmark: data.base64EncodedString())
        // A folder is told to the account that shows it, and only there is it looked at.
        let shower = base.flatMap { base in (try? MountTable.coveMount(holding: base.path)) ?? nil }
        return try await MountedAccounts.first(of: MountedAccounts.all, called: \.path) { account in
            let isShower = shower?.majorDevice == account.majorDevice && shower?.minorDevice == account.minorDevice
            return Self.ask(account, request, relativeTo: isShower ? base : nil)
        }
    }

    private static func ask(
        _ account: Mount,
        _ request: AccessInterface.BookmarkRequest,
        relativeTo base: URL?
    ) -> AccountAnswer<(document: SecurityScopedURL, isStale: Bool)> {
        let root = account.rootURL
        let service: ItemService
        do throws(CoveError) {
            guard let found = try ItemService.find(root) else { throw CoveError(.noSuchFile, url: root) }
            service = found.0
        } catch {
            // Mounts come and go.
            let isGone = error.code == .noSuchFile
            return isGone ? .unknown(CoveError(.accessDenied, "its account is not mounted")) : .silent(error)
        }
        do throws(CoveError) {
            var request = request
            if let base { request.base = try ItemService.find(base)?.1.remote.description }
            let reply: AccessInterface.ResolveReply = try service.access("ResolveBookmark", request, for: root)
            let place = reply.reference ?? reply.path
            let document = SecurityScopedURL(
                url: root.appending(path: place),
                root: root,
                scope: reply.reference == nil ? reply.scope : nil,
                app: request.app,
                isReadOnly: reply.isReadOnly
            )
            return .found((document, reply.isStale))
        } catch {
            // A bookmark that an account can't read is another one's, or altered.
            let isRefusal = (error.cause as? VarlinkError)?.name == AccessInterface.refusal
            if error.code == .noSuchFile || isRefusal { return .refused(error) }
            return error.code == .noDaemon ? .silent(error) : .unknown(error)
        }
    }

    /// Longer files hold no bookmark, in bytes.
    private static let longestFile = 1 << 20

    /// Writes a bookmark file, whose text `cove bookmark resolve` takes; other users can't read it, and what was there is replaced.
    public func write(to url: URL) throws(CoveError) {
        do {
            try Data("\(data.base64EncodedString())\n".utf8).write(to: url, options: .atomic)
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: url.path)
        } catch {
            throw CoveError(error, url: url)
        }
    }

    /// Reads a bookmark file; ``CoveError/Code/invalidArgument`` where that is none.
    public init(contentsOf url: URL) throws(CoveError) {
        let bytes: Data
        do {
            let file = try FileHandle(forReadingFrom: url)
            defer { try? file.close() }
            bytes = try file.read(upToCount: Self.longestFile + 1) ?? Data()
        } catch {
            throw CoveError(error, url: url)
        }
        let text = String(decoding: bytes, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
        guard bytes.count <= Self.longestFile, let data = Data(base64Encoded: text), !data.isEmpty else {
            throw CoveError(.invalidArgument, "it is no bookmark file", url: url)
        }
        self.init(data: data)
    }

    /// The app that the environment names.
    static var ownApp: String? { ProcessInfo.processInfo.environment["COVE_APP"] }
}

extension FileManager {
    /// The folder of a container; nil identifier: of the first one that the app declares.
    ///
    /// Nil where there is none that the app may have, or no account, or where none answers within five seconds. `app` as in
    /// ``Bookmark/make(of:options:including:relativeTo:app:)``.
    /// `account` is where an account is mounted; nil for all that this user has, or the one that `COVE_ACCOUNT` names.
    public func url(
        forUbiquityContainerIdentifier identifier: String?,
        app: String? = nil,
        in account: URL? = nil
    ) async -> URL? {
        let accounts = account.map { [$0] } ?? MountedAccounts.all.map(\.rootURL)
        let request = AccessInterface.PathRequest(identifier: identifier, app: app ?? Bookmark.ownApp)
        return await MountedAccounts.foremost(of: accounts, patience: 5) { root in
            guard let (service, _) = (try? ItemService.find(root)) ?? nil else { return nil }
            let reply: AccessInterface.PathReply? = try? service.access("ContainerPath", request, for: root)
            return reply?.path.map { root.appending(path: $0) }
        }
    }
}
