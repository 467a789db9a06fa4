/// What a remote side can do.
public struct ProviderCapabilities: Sendable, Equatable {
    /// Fetches may ask for a part of the bytes.
    public var ranges = true
    /// Changes are refused atomically when the base version is old.
    public var conditionalWrites = true
    /// Two versions of one size within a second look the same.
    public var coarseVersions = false
    /// `copy` works.
    public var serverSideCopy = false
    /// `trash` works.
    public var trash = false
    /// Earlier contents of files are kept, and `versions` tells of them.
    public var versions = false
    /// A file moves by a copy and a deletion: asked for again, a move that was cut off between them is finished.
    public var movesInSteps = false
    /// A file that is replaced is there at each moment; where it is not, what seems gone is looked for once more.
    public var replacesAtOnce = false
    /// Remote ids survive renames.
    public var stableIDs = false
    /// Symbolic links are kept.
    public var symbolicLinks = false
    /// Dates of last modification are kept.
    public var modificationTimes = true
    /// The metadata version of a directory changes with everything below it.
    public var risingDirectoryVersions = false
    /// Permissions are kept.
    public var permissions = false
    /// Owner and group are kept.
    public var ownership = false
    /// `user.*` attributes are kept.
    public var extendedAttributes = false
    /// It keeps something for a file in use, and wants to hear when nobody uses it any more: `released`.
    public var releases = false
    /// It names items so that they are found wherever they were moved: `persistentIdentifier` and `path(ofPersistent:)` work.
    public var persistentIdentifiers = false
    /// Nothing may be changed.
    public var readOnly = false
    /// It makes pictures of documents by itself: `thumbnail` works.
    public var makesThumbnails = false
    /// It keeps the pictures that devices give it: `thumbnail` and `setThumbnail` work.
    public var keepsThumbnails = false
    /// Anybody can be given a link to one version of a file: `publish` works.
    public var publishes = false
    /// Everything can be made to go, for all devices: `erasure`, `noteErasure` and `eraseRest` work.
    public var erases = false
    /// Devices can leave word for each other of where something has changed: `news` and `leaveNews` work.
    public var carriesNews = false
    /// With more changes than these at a time none goes faster; a small number, at least 1.
    public var parallelChanges = 32

    /// The smallest set: ranges and conditional writes only.
    public init() {}
}
