/// What a query can ask of an item.
///
/// The names are those of `NSMetadataItem` without their prefixes; `init(named:)` takes them with these as well.
public enum QueryKey: String, Sendable, CaseIterable, Codable {
    /// The name in its directory; a string.
    case name = "FSName"
    /// The name as people see it; a string.
    case displayName = "DisplayName"
    /// Where it is in the mounted tree; a string that begins with `file://`.
    case url = "URL"
    /// The same as a path.
    case path = "Path"
    /// Bytes; a number.
    case size = "FSSize"
    /// When it was made, as far as anybody keeps that; a date.
    case creationDate = "FSCreationDate"
    /// Last change of its bytes; a date.
    case contentChangeDate = "FSContentChangeDate"
    /// The MIME type that its name tells, `inode/directory` for a directory; a string.
    case contentType = "ContentType"
    /// That and all types that it is one of; a list of strings.
    case contentTypeTree = "ContentTypeTree"
    /// `file`, `directory`, `symlink`, `fifo`, `socket` or `device`.
    case kind = "Kind"
    /// True for what is in the cloud, or is to be.
    case isUbiquitous = "IsUbiquitous"
    /// True for either side of a conflict.
    case hasUnresolvedConflicts = "HasUnresolvedConflicts"
    /// `NotDownloaded`, `Downloaded` or `Current`.
    case downloadingStatus = "DownloadingStatus"
    /// True while its bytes come in.
    case isDownloading = "IsDownloading"
    /// 0 to 100; a number.
    case percentDownloaded = "PercentDownloaded"
    /// Why its bytes could not be fetched; a string, missing where nothing failed.
    case downloadingError = "DownloadingError"
    /// True for what is kept on this disk.
    case downloadRequested = "DownloadRequested"
    /// True where the cloud has what is here.
    case isUploaded = "IsUploaded"
    /// True while its bytes are sent.
    case isUploading = "IsUploading"
    /// 0 to 100; a number.
    case percentUploaded = "PercentUploaded"
    /// Why it could not be sent; a string, missing where nothing failed.
    case uploadingError = "UploadingError"
    /// The account's name; a string.
    case containerDisplayName = "ContainerDisplayName"
    /// Names the document for life; a string.
    case documentID = "DocumentID"
    /// True for a document of another app, found by a reference to it.
    case isExternalDocument = "IsExternalDocument"
    /// The reference by which it was found.
    case urlInLocalContainer = "URLInLocalContainer"
    /// Names the item on this device; a number.
    case itemID = "ItemID"
    /// True for what a person keeps out of the cloud by its own name.
    case isExcludedFromSync = "IsExcludedFromSync"
    /// True for what others have too, as far as the source tells.
    case isShared = "IsShared"
    /// `owner` or `participant`, of what is shared; a string.
    case currentUserRole = "CurrentUserRole"
    /// `readOnly` or `readWrite`; a string.
    case currentUserPermissions = "CurrentUserPermissions"
    /// Whose it is, missing for what is one's own; a string.
    case ownerName = "OwnerNameComponents"
    /// Who changed it last, as far as the source tells; a string.
    case mostRecentEditor = "MostRecentEditorNameComponents"

    /// What the values of a key are.
    public enum Kind: Sendable {
        case string, strings, number, truth, date
    }

    /// What its values are.
    public var valueKind: Kind {
        switch self {
        case .name, .displayName, .url, .urlInLocalContainer, .path, .contentType, .kind, .downloadingStatus,
            .downloadingError,
            .uploadingError, .containerDisplayName, .documentID, .currentUserRole, .currentUserPermissions, .ownerName,
            .mostRecentEditor:
            .string
        case .contentTypeTree: .strings
        case .size, .percentDownloaded, .percentUploaded, .itemID: .number
        case .isUbiquitous, .isExternalDocument, .hasUnresolvedConflicts, .isDownloading, .downloadRequested,
            .isUploaded, .isUploading, .isShared, .isExcludedFromSync:
            .truth
        case .creationDate, .contentChangeDate: .date
        }
    }

    /// Finds a key by its short name, or by that of Cocoa or Spotlight: `FSName`, `NSMetadataItemFSNameKey`, `kMDItemFSName`.
    public init?(named name: String) {
        var short = Substring(name)
        for prefix in ["NSMetadataUbiquitousSharedItem", "NSMetadataUbiquitousItem", "NSMetadataItem", "kMDItem"]
        where short.hasPrefix(prefix) {
            short = short.dropFirst(prefix.count)
            if prefix != "kMDItem", short.hasSuffix("Key") { short = short.dropLast(3) }
            break
        }
        self.init(rawValue: String(short))
    }
}
