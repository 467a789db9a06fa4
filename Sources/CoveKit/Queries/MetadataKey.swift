internal import CoveCore
public import Foundation

/// Names a value of a ``MetadataItem``, and says of which type it is.
///
/// The names are those of `NSMetadataItem` without their prefixes.
public struct MetadataKey<Value: MetadataValueConvertible>: Sendable, Hashable {
    /// Such as `FSName`.
    public let name: String

    init(_ key: QueryKey) { name = key.rawValue }
}

extension MetadataKey where Value == String {
    /// `owner` or `participant`, of what is shared.
    public static var currentUserRole: Self { .init(.currentUserRole) }
    /// `readOnly` or `readWrite`.
    public static var currentUserPermissions: Self { .init(.currentUserPermissions) }
    /// The name of whose it is; missing for what is one's own.
    public static var ownerName: Self { .init(.ownerName) }
    /// The name of who changed it last, or of the device; missing where the source does not tell.
    public static var mostRecentEditor: Self { .init(.mostRecentEditor) }
    /// The name in its folder.
    public static var fsName: Self { .init(.name) }
    /// The name as people see it.
    public static var displayName: Self { .init(.displayName) }
    /// Where it is in the mounted tree, as a URL's text.
    public static var url: Self { .init(.url) }
    /// The same as a path.
    public static var path: Self { .init(.path) }
    /// The MIME type that its name tells; `inode/directory` for a folder.
    public static var contentType: Self { .init(.contentType) }
    /// `file`, `directory`, `symlink`, `fifo`, `socket` or `device`.
    public static var kind: Self { .init(.kind) }
    /// `NotDownloaded`, `Downloaded` or `Current`.
    public static var downloadingStatus: Self { .init(.downloadingStatus) }
    /// Why its bytes could not be fetched.
    public static var downloadingError: Self { .init(.downloadingError) }
    /// Why it could not be sent.
    public static var uploadingError: Self { .init(.uploadingError) }
    /// What people call the container that it is in; the account's name for what is in none.
    public static var containerDisplayName: Self { .init(.containerDisplayName) }
    /// The reference by which it was found, as a URL.
    public static var urlInLocalContainer: Self { .init(.urlInLocalContainer) }
    /// Names the document for life.
    public static var documentID: Self { .init(.documentID) }
}

extension MetadataKey where Value == [String] {
    /// Its type and all that this is one of.
    public static var contentTypeTree: Self { .init(.contentTypeTree) }
}

extension MetadataKey where Value == Double {
    /// Bytes.
    public static var fsSize: Self { .init(.size) }
    /// How much of it is here, 0 to 100.
    public static var percentDownloaded: Self { .init(.percentDownloaded) }
    /// How much of it was sent, 0 to 100.
    public static var percentUploaded: Self { .init(.percentUploaded) }
    /// Names the item on this device.
    public static var itemID: Self { .init(.itemID) }
}

extension MetadataKey where Value == Date {
    /// When it was made, where anybody keeps that.
    public static var fsCreationDate: Self { .init(.creationDate) }
    /// Last change of its bytes.
    public static var fsContentChangeDate: Self { .init(.contentChangeDate) }
}

extension MetadataKey where Value == Bool {
    /// True for what is in the cloud, or is to be.
    public static var isUbiquitous: Self { .init(.isUbiquitous) }
    /// True for either side of a conflict.
    public static var hasUnresolvedConflicts: Self { .init(.hasUnresolvedConflicts) }
    /// True while its bytes come in.
    public static var isDownloading: Self { .init(.isDownloading) }
    /// True for what is kept on this disk.
    public static var downloadRequested: Self { .init(.downloadRequested) }
    /// True where the cloud has what is here.
    public static var isUploaded: Self { .init(.isUploaded) }
    /// True for a document of another app, found by a reference to it.
    public static var isExternalDocument: Self { .init(.isExternalDocument) }
    /// True while its bytes are sent.
    public static var isUploading: Self { .init(.isUploading) }
    /// True for what a person keeps out of the cloud.
    public static var isExcludedFromSync: Self { .init(.isExcludedFromSync) }
    /// True for what others have too, as far as the source tells.
    public static var isShared: Self { .init(.isShared) }
}

/// The value of `DownloadingStatus`.
public enum MetadataDownloadingStatus {
    /// Its bytes are not here, or not all.
    public static let notDownloaded = "NotDownloaded"
    /// A version of its bytes is here, and a newer one is known: never told, for such a document is `notDownloaded` at once.
    public static let downloaded = "Downloaded"
    /// The newest version that is known is here.
    public static let current = "Current"
}
