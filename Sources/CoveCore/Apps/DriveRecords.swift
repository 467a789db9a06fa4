/// An app that an account knows, as its document in the account describes it.
public struct AppRecord: Codable, Sendable, Equatable {
    /// Who it is.
    public var identifier: AppIdentifier
    /// What people see; nil where the identifier has to do.
    public var name: String?
    /// The version of an app without a manifest.
    public static let unknownVersion = "0"

    /// The version of the manifest that was heeded last.
    public var version: String
    /// The containers it declares, its own one first.
    public var containers: [AppIdentifier]
    /// Those of them of which it says that other apps may be offered their documents.
    public var publicContainers: [AppIdentifier]?
    /// True where it says so of all that it is given.
    public var isPublicThroughout: Bool?

    /// Describes an app.
    public init(_ manifest: AppManifest) {
        identifier = manifest.identifier
        name = manifest.name
        version = manifest.version
        containers = manifest.containers
        publicContainers = manifest.containers.filter { manifest.description(of: $0).isPublic }
        isPublicThroughout = manifest.isPublicThroughout ? true : nil
    }
}

/// A container of an account, as its document in the account describes it.
public struct ContainerRecord: Codable, Sendable, Equatable {
    /// Which one it is; its folder at the source has this name.
    public var identifier: AppIdentifier
    /// What people see, and the name of its folder in the tree.
    public var name: String
    /// Whose it is.
    public var app: AppIdentifier
    /// True where people see it, and other apps may be offered its documents.
    public private(set) var isPublic: Bool
    /// When it was hidden last, in seconds since 1970; nil where it never was.
    ///
    /// What was given before stays given.
    public private(set) var publicUntil: Double?
    /// How many levels of folders its documents have.
    public var folderLevels: AppManifest.FolderLevels?

    /// Shows it to people and other apps, or hides it from them.
    public mutating func setPublic(_ isPublic: Bool, at time: Double) {
        if self.isPublic, !isPublic { publicUntil = time }
        self.isPublic = isPublic
    }

    /// True where its documents could be given to other apps at a time, in seconds since 1970.
    public func wasPublic(at time: Double) -> Bool { isPublic || publicUntil.map { time <= $0 } ?? false }

    /// Describes a container.
    public init(
        identifier: AppIdentifier,
        name: String,
        app: AppIdentifier,
        isPublic: Bool,
        folderLevels: AppManifest.FolderLevels? = nil
    ) {
        self.identifier = identifier
        self.name = name
        self.app = app
        self.isPublic = isPublic
        self.folderLevels = folderLevels
    }
}

/// The folder of an account in which these are: ordinary documents, which its devices share as any others.
public enum DriveFolder {
    /// Its name in the root; no listing of the mount shows it.
    ///
    /// Some servers list no names that begin with a dot.
    public static let name = FileName(unchecked: Array("_cove-drive".utf8))
    /// Its place.
    public static let path = RemotePath([name])
    /// What says that the account has apps, in the folder itself.
    public static let account = FileName(unchecked: Array("account.json".utf8))
    /// The apps, a document each.
    public static let apps = RemotePath([name, FileName(unchecked: Array("apps".utf8))])
    /// The containers, a document each.
    public static let containers = RemotePath([name, FileName(unchecked: Array("containers".utf8))])
    /// The references, a document each.
    public static let references = RemotePath([name, FileName(unchecked: Array("references".utf8))])
    /// The most bytes that one of these documents may have.
    public static let greatestRecord = 64 << 10
    /// How many of each kind are heeded.
    public static let mostRecords = 10_000
    /// What people find in a container, and other apps may be offered.
    public static let documents = FileName(unchecked: Array("Documents".utf8))
}
