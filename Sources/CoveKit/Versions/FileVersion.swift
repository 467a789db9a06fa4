internal import CoveCore
public import Foundation
internal import Glibc
internal import Synchronization

/// What a document was before, or the other side of a conflict.
///
/// Only files on a mount of Cove's have versions besides the current one. All methods that ask the daemon are asynchronous, and
/// can be used in the accessor of a coordinated write. A version is what was found; only `isResolved` follows what is done.
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
    /// For an earlier version it is a file that can only be read, in a hidden folder of the mount; nil where its bytes are not
    /// here, or only a folder of the account is mounted: `contents()` reads it all the same. Not for display.
    public let url: URL?
    /// Bytes.
    public let size: Int64
    /// When it was last written to.
    public let modificationDate: Date
    /// The device that saved it, where that is known.
    public let localizedNameOfSavingComputer: String?
    /// True for the other side of a conflict.
    public let isConflict: Bool
    /// True when all its bytes are on this disk; for a package or another directory, those of all files in it.
    public let hasLocalContents: Bool
    /// True for what the document is now.
    public let isCurrent: Bool
    /// Who saved it, as far as this device's accounts tell; nil for what another device saved.
    public let originatorNameComponents: PersonNameComponents?

    /// A name for a person.
    public var localizedName: String {
        (isConflict ? url ?? documentURL : documentURL).deletingPathExtension().lastPathComponent
    }

    /// False for the other side of a conflict that nobody has dealt with; `resolve` makes it true.
    public var isResolved: Bool { !isConflict || resolution.isResolved.load(ordering: .acquiring) }

    private static let current = "current"
    private let location: Location
    private let resolution = Resolution()

    /// What all copies of a version know together.
    private final class Resolution: Sendable {
        let isResolved = Atomic(false)
    }

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
        if let path = status.conflictPath {
            url = location.sibling(at: RemotePath(unchecked: Array(path.utf8))).url
        } else if status.isLocal, location.mount?.root == "/" {
            let path = RemotePath(unchecked: Array(".cove/versions/\(status.documentID)/\(status.id)".utf8))
            url = location.sibling(at: path).url
        } else {
            url = nil
        }
        originatorNameComponents = Self.originator(of: location.path, savedBy: status.host)
    }

    private init(current location: Location, _ status: stat) {
        self.location = location
        documentURL = location.url
        persistentIdentifier = Self.current
        size = Int64(status.st_size)
        let time = Timestamp(status.st_mtim)
        modificationDate = Date(timeIntervalSince1970: time.secondsSinceEpoch)
        localizedNameOfSavingComputer = nil
        isConflict = false
        hasLocalContents = Self.isHere(Array(location.path.utf8))
        isCurrent = true
        originatorNameComponents = nil
        url = location.url
    }

    /// Whether all bytes of a file, or of all files in a directory, are on this disk; fetches nothing to find out.
    private static func isHere(_ path: [UInt8]) -> Bool {
        let attribute = Array("user.cove.downloading-status".utf8)
        // A list of what is still to be looked at, not recursion: the depth is not ours to choose.
        var left = [path]
        while let path = left.popLast() {
            // Only items of Cove's mounts have it; a symbolic link there has none, and is not followed.
            guard let residency = try? System.attribute(path, attribute) else { continue }
            // So is a directory that was never listed, which to read would be to list it.
            if residency.elementsEqual("NotDownloaded".utf8) { return false }
            guard (try? System.status(AT_FDCWD, path))?.kind == .directory else { continue }
            do throws(Errno) {
                for name in try System.rawNames(in: path) { left.append(path + [0x2F] + name) }
            } catch {
                // What is in a directory that can't be read nobody can tell; one that is gone has nothing.
                guard error == .noSuchEntry else { return false }
            }
        }
        return true
    }

    /// The owner of a file that this device saved.
    private static func originator(of path: String, savedBy host: String?) -> PersonNameComponents? {
        guard let host, host == ProcessInfo.processInfo.hostName || host == localHostName,
            let owner = try? System.statFollowing(path).st_uid
        else { return nil }
        var entry = passwd()
        var found: UnsafeMutablePointer<passwd>?
        var buffer = [CChar](repeating: 0, count: 16384)
        guard getpwuid_r(owner, &entry, &buffer, buffer.count, &found) == 0, found != nil else { return nil }
        // The first part of the comment is the full name.
        let comment = entry.pw_gecos.map { String(cString: $0) } ?? ""
        let name = comment.prefix { $0 != "," }.split(separator: " ").map(String.init)
        var components = PersonNameComponents()
        guard let last = name.last else {
            components.nickname = entry.pw_name.map { String(cString: $0) }
            return components.nickname == nil ? nil : components
        }
        if name.count == 1 { components.givenName = last } else { components.familyName = last }
        if name.count > 1 { components.givenName = name.dropLast().joined(separator: " ") }
        return components
    }

    private static var localHostName: String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard gethostname(&buffer, buffer.count - 1) == 0 else { return "" }
        return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    // MARK: Finding versions

    /// What the document is now; nil when there is no such file.
    public static func currentVersionOfItem(at url: URL) async throws(CoveError) -> FileVersion? {
        try await FileThreads.run { () throws(CoveError) in
            let (_, location) = try Authorities.find(url, followsLink: true)
            return (try? System.statFollowing(url.path)).map { FileVersion(current: location, $0) }
        }
    }

    /// All other versions, newest first, then the other sides of conflicts; none outside of Cove's mounts.
    public static func otherVersionsOfItem(at url: URL) async throws(CoveError) -> [FileVersion] {
        try await FileThreads.run { () throws(CoveError) in
            guard let (service, location) = try ItemService.find(url) else { return [] }
            let replies = try service.stream(
                "Versions",
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
            guard !isCurrent, let (service, location) = try ItemService.find(url) else {
                return try explaining(url) { try Data(contentsOf: url) }
            }
            let replies = try service.stream(
                "ReadVersion",
                ItemInterface.VersionRequest(path: PathParameter(location.remote), version: identifier),
                as: ItemInterface.VersionBytes.self,
                for: url
            )
            return replies.reduce(into: Data()) { $0 += Data(base64Encoded: $1.data) ?? Data() }
        }
    }

    /// A picture of the version, a PNG file, where a program of the desktop has made one; nil otherwise.
    public func thumbnail() async -> Data? {
        guard let url else { return nil }
        let modified = Timestamp(
            seconds: Int64(saturating: modificationDate.timeIntervalSince1970.rounded(.down)),
            nanoseconds: 0
        )
        return await FileThreads.run {
            let cache = ThumbnailCache(cacheFolder: BaseDirectories.cache)
            return cache.picture(of: Array(url.path.utf8), modified: modified).map { Data($0.bytes(texts: [:])) }
        }
    }

    /// True when `thumbnail` has one.
    public var hasThumbnail: Bool { get async { await thumbnail() != nil } }

    /// Gives the document, or another file, the version's contents, as a save does, under the name that it has.
    ///
    /// What the document was becomes a version. To be called inside a coordinated write, as `remove` and `resolve`.
    public func replaceItem(at url: URL? = nil, options: ReplacingOptions = []) async throws(CoveError) {
        if let url, !url.hasPath(of: documentURL) {
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

    /// Says that this side of a conflict is dealt with: sets `isResolved`.
    ///
    /// False when there was nothing left to be dealt with, as after `remove` or where another device did it. Do this last, after
    /// the choice: its file stays, but gets another name, which tells other devices.
    @discardableResult
    public func resolve() async throws(CoveError) -> Bool {
        guard isConflict else { return false }
        var count = 0
        do throws(CoveError) {
            let reply: ItemInterface.VersionCountReply = try await call("ResolveConflicts")
            count = reply.count
        } catch {
            guard error.code.rawValue == ENODATA else { throw error }
        }
        resolution.isResolved.store(true, ordering: .releasing)
        return count > 0
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
            guard let (service, location) = try ItemService.find(url) else {
                throw CoveError(.notSupported, "only files on a mount of Cove's have versions", url: url)
            }
            return try service.call(
                method,
                ItemInterface.VersionRequest(path: PathParameter(location.remote), version: version),
                for: url
            )
        }
    }
}
