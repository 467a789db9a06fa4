internal import CoveCore
public import Foundation
internal import Glibc

/// What a document was before, or the other side of a conflict.
///
/// Only files on a mount of Cove's have versions besides the current one. All methods that ask the daemon are asynchronous.
public struct FileVersion: Sendable, Identifiable {
    /// How a version takes the document's place.
    public struct ReplacingOptions: OptionSet, Sendable, Hashable {
        /// The bits.
        public let rawValue: UInt
        /// Takes bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }
        /// The version is gone afterwards.
        public static let byMoving = ReplacingOptions(rawValue: 1)
    }

    /// Names the version, also for other processes and after a restart.
    public let persistentIdentifier: String
    /// The same.
    public var id: String { persistentIdentifier }
    /// The document.
    public let documentURL: URL
    /// Where the contents are: the document for the current version, a file of its own for the other side of a conflict.
    ///
    /// Nil for an earlier version: `contents()` reads it.
    public let url: URL?
    /// Bytes.
    public let size: Int64
    /// When it was last written to.
    public let modificationDate: Date
    /// The device that saved it, where that is known.
    public let localizedNameOfSavingComputer: String?
    /// True for the other side of a conflict.
    public let isConflict: Bool
    /// True when its bytes are on this disk.
    public let hasLocalContents: Bool
    /// True for what the document is now.
    public let isCurrent: Bool

    /// A name for a person.
    public var localizedName: String { (url ?? documentURL).deletingPathExtension().lastPathComponent }

    private static let current = "current"
    private let location: Location

    init(_ status: VersionStatus, of location: Location) {
        self.location = location
        documentURL = location.url
        persistentIdentifier = status.id
        size = status.size
        modificationDate = Date(timeIntervalSince1970: status.modificationTime)
        localizedNameOfSavingComputer = status.host
        isConflict = status.isConflict
        hasLocalContents = status.isLocal
        isCurrent = false
        url = status.conflictPath.map { location.sibling(at: RemotePath(unchecked: Array($0.utf8))).url }
    }

    private init(current location: Location, _ status: stat) {
        self.location = location
        documentURL = location.url
        persistentIdentifier = Self.current
        size = Int64(status.st_size)
        let time = Timestamp(status.st_mtim)
        modificationDate = Date(timeIntervalSince1970: Double(time.rawValue) / 1e9)
        localizedNameOfSavingComputer = nil
        isConflict = false
        hasLocalContents = true
        isCurrent = true
        url = location.url
    }

    // MARK: Finding versions

    /// What the document is now; nil when there is no such file.
    public static func currentVersionOfItem(at url: URL) async throws(CoveError) -> FileVersion? {
        try await FileThreads.run { () throws(CoveError) in
            let (_, location) = try Authorities.find(url)
            return (try? System.statFollowing(url.path)).map { FileVersion(current: location, $0) }
        }
    }

    /// All other versions, newest first, then the other sides of conflicts; none outside of Cove's mounts.
    public static func otherVersionsOfItem(at url: URL) async throws(CoveError) -> [FileVersion] {
        try await FileThreads.run { () throws(CoveError) in
            guard let (daemon, location) = try daemon(of: url) else { return [] }
            let replies = try daemon.stream(
                "\(ItemInterface.name).Versions",
                ItemInterface.VersionRequest(path: PathParameter(location.remote)),
                as: ItemInterface.VersionsReply.self,
                for: url
            )
            return replies.flatMap(\.versions).map { FileVersion($0, of: location) }
        }
    }

    /// The other sides of conflicts that nobody has dealt with.
    public static func unresolvedConflictVersionsOfItem(at url: URL) async throws(CoveError) -> [FileVersion] {
        try await otherVersionsOfItem(at: url).filter(\.isConflict)
    }

    /// Versions whose bytes are not on this disk.
    public static func nonlocalVersionsOfItem(at url: URL) async throws(CoveError) -> [FileVersion] {
        try await otherVersionsOfItem(at: url).filter { !$0.hasLocalContents }
    }

    /// The version of a name that it had before; nil when it is gone.
    public static func version(
        ofItemAt url: URL,
        forPersistentIdentifier identifier: String
    ) async throws(CoveError) -> FileVersion? {
        if identifier == current { return try await currentVersionOfItem(at: url) }
        return try await otherVersionsOfItem(at: url).first { $0.persistentIdentifier == identifier }
    }

    // MARK: Using a version

    /// The version's bytes.
    public func contents() async throws(CoveError) -> Data {
        let (url, isCurrent, identifier) = (documentURL, isCurrent, persistentIdentifier)
        return try await FileThreads.run { () throws(CoveError) in
            guard !isCurrent, let (daemon, location) = try Self.daemon(of: url) else {
                return try explaining(url) { try Data(contentsOf: url) }
            }
            let replies = try daemon.stream(
                "\(ItemInterface.name).ReadVersion",
                ItemInterface.VersionRequest(path: PathParameter(location.remote), version: identifier),
                as: ItemInterface.VersionBytes.self,
                for: url
            )
            return replies.reduce(into: Data()) { $0 += Data(base64Encoded: $1.data) ?? Data() }
        }
    }

    /// Gives the document, or another file, the version's contents, as a save does, under the name that it has.
    ///
    /// What the document was becomes a version. To be called inside a coordinated write, as `remove` and `resolve`.
    public func replaceItem(at url: URL? = nil, options: ReplacingOptions = []) async throws(CoveError) {
        if let url, url.path != documentURL.path {
            let contents = FileContents.file(try await contents())
            try await FileThreads.run { () throws(CoveError) in
                try explaining(url) {
                    try SafeSave(url).run(isPackage: false, DocumentAttributes()) { try contents.write(to: $0) }
                }
            }
        } else {
            let _: VarlinkNothing = try await call("RestoreVersion")
        }
        if options.contains(.byMoving) { try await remove() }
    }

    /// Deletes the version; never the current one.
    public func remove() async throws(CoveError) {
        guard !isCurrent else { throw CoveError(.invalidArgument, "the current version stays", url: documentURL) }
        guard isConflict, let url else {
            let _: ItemInterface.VersionCountReply = try await call("RemoveVersions")
            return
        }
        try await FileThreads.run { () throws(CoveError) in
            try explaining(url) { try FileManager.default.removeItem(at: url) }
        }
    }

    /// Says that this side of a conflict is dealt with; one that is gone is.
    ///
    /// Do this last, after the choice.
    public func resolve() async throws(CoveError) {
        do throws(CoveError) {
            let _: ItemInterface.VersionCountReply = try await call("ResolveConflicts")
        } catch {
            guard error.code.rawValue == ENODATA else { throw error }
        }
    }

    /// Deletes all versions but the current one, and the other sides of conflicts.
    public static func removeOtherVersionsOfItem(at url: URL) async throws(CoveError) {
        for version in try await unresolvedConflictVersionsOfItem(at: url) { try await version.remove() }
        let _: ItemInterface.VersionCountReply = try await call("RemoveVersions", url, nil)
    }

    private func call<Reply: Decodable & Sendable>(_ method: String) async throws(CoveError) -> Reply {
        try await Self.call(method, documentURL, persistentIdentifier)
    }

    private static func call<Reply: Decodable & Sendable>(
        _ method: String,
        _ url: URL,
        _ version: String?
    ) async throws(CoveError) -> Reply {
        try await FileThreads.run { () throws(CoveError) in
            guard let (daemon, location) = try daemon(of: url) else {
                throw CoveError(.notSupported, "only files on a mount of Cove's have versions", url: url)
            }
            return try daemon.call(
                "\(ItemInterface.name).\(method)",
                ItemInterface.VersionRequest(path: PathParameter(location.remote), version: version),
                for: url
            )
        }
    }

    private static func daemon(of url: URL) throws(CoveError) -> (DaemonAuthority, Location)? {
        let (authority, location) = try Authorities.find(url)
        return (authority as? DaemonAuthority).map { ($0, location) }
    }
}
