internal import CoveClaims
internal import CoveCore

/// Where a path is in the catalog.
struct CatalogPlace: Sendable {
    var steps: [PathStep]
    /// The row of its entry and its item; nil where nothing is there.
    var entry: Int64?
    var item: ItemID?
    var document: DocumentID?
    var kind: ItemKind?
    var isWhole = true
    /// True where the same bytes have another name.
    var hasOtherNames = false

    var path: RemotePath { RemotePath(steps.map(\.name)) }
}

/// What a commit did to an entry, for those who claim or present something.
struct CatalogEvent: Sendable {
    var kind: ChangeKind
    var entry: Int64
    var item: ItemID
    var steps: [PathStep]
    /// Where it was, when it moved.
    var from: RemotePath?
    /// True for a file that was renamed here: to a backup, if its name is taken again soon.
    var mayBeBackup = false
    /// True for a symbolic link.
    var isLink = false
    /// What that leads to; nil where it is outside of the account.
    var leadsTo: CatalogPlace?
    /// True for names that stay on this device: nobody is told of them.
    var isScratch: Bool
    /// What happened to its versions, and not to itself.
    var version: (change: VersionChange, status: VersionStatus?)?

    var path: RemotePath { RemotePath(steps.map(\.name)) }

    /// True where the item has changed places with the one of the next event.
    func isExchange(with next: CatalogEvent) -> Bool {
        kind == .moved && next.kind == .moved && from == next.path && next.from == path
    }
}
