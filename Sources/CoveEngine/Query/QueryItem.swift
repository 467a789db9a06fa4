internal import CoveCore

/// An item as a query sees it: its values are found out when they are asked for.
final class QueryItem {
    private let entry: EntryRow
    private let path: RemotePath
    private let attributes: ItemAttributes
    private let engine: Engine
    private var known: ItemStatus?
    /// The reference by which it was found; nil for what was found at its own place.
    private let reference: (id: Int64, path: RemotePath)?

    /// `former`: the item as it was open before its row was read.
    init(
        _ entry: EntryRow,
        _ row: ItemRow,
        _ former: LiveItem?,
        at path: RemotePath,
        _ engine: Engine,
        by reference: (id: Int64, path: RemotePath)? = nil
    ) {
        self.reference = reference
        self.entry = entry
        self.path = path
        self.engine = engine
        attributes = engine.namespace.overlay(row, engine.contents.live.find(row.id) ?? former)
    }

    private var name: String { String(decoding: entry.name, as: UTF8.self) }

    /// What has to be asked of others than the catalog's row.
    private var status: ItemStatus? {
        if known == nil { known = try? engine.status(entry, item: entry.item, path: path) }
        return known
    }

    private var sharing: ItemSharing? { (try? engine.sharing(of: entry.item)) ?? nil }

    private var contentType: String { attributes.kind.type ?? ContentTypes.ofMachine.type(ofFile: name) }

    /// True while its bytes come in or go out, as far as any of its values has told that.
    var isMoving: Bool { known.map { $0.isDownloading || $0.isUploading } ?? false }

    /// It with these of its values.
    func result(_ attributes: [QueryKey]) -> QueryResult {
        var values: [QueryKey: QueryValue] = [:]
        for key in attributes { values[key] = value(key) }
        let id = reference.map { -$0.id } ?? entry.id
        return QueryResult(id: id, path: path, item: entry.item, document: entry.document, values: values)
    }

    /// One of its values; nil for one that it has not.
    func value(_ key: QueryKey) -> QueryValue? {
        switch key {
        case .name, .displayName: return .string(name)
        case .path: return .string(engine.fullPath(path))
        case .url: return .string(engine.url(of: path))
        case .size: return .number(Double(attributes.kind == .file ? attributes.size : 0))
        case .creationDate: return .date(attributes.birthTime.secondsSinceEpoch)
        case .contentChangeDate: return .date(attributes.modificationTime.secondsSinceEpoch)
        case .contentType: return .string(contentType)
        case .contentTypeTree: return .strings(ContentTypes.ofMachine.tree(contentType))
        case .kind: return .string(Engine.kindName(attributes.kind))
        case .isUbiquitous: return .truth(!entry.flags.contains(.localOnly) && status?.state != "local")
        case .containerDisplayName:
            return .string((try? engine.access.containerName(of: path)) ?? engine.configuration.account)
        case .isExternalDocument: return .truth(reference != nil)
        case .urlInLocalContainer: return reference.map { .string(engine.url(of: $0.path)) }
        case .documentID: return .string("\(entry.document)")
        case .itemID: return .number(Double(entry.item.rawValue))
        case .isExcludedFromSync:
            let isExcluded = try? engine.catalog.read { database throws(Errno) in
                try engine.namespace.isExcluded(entry.place, database)
            }
            return .truth(isExcluded ?? false)
        case .isShared: return .truth(sharing != nil)
        case .currentUserRole: return .string((sharing?.role ?? .owner).rawValue)
        case .currentUserPermissions:
            return .string(((try? engine.permissions(of: entry.item)) ?? .readWrite).rawValue)
        case .ownerName: return sharing?.owner.map { .string($0) }
        case .mostRecentEditor: return ((try? engine.mostRecentEditor(of: entry.item)) ?? nil).map { .string($0) }
        case .hasUnresolvedConflicts, .downloadingStatus, .isDownloading, .percentDownloaded, .downloadingError,
            .downloadRequested, .isUploaded, .isUploading, .percentUploaded, .uploadingError:
            return status.flatMap { Self.value(key, of: $0) }
        }
    }

    private static func value(_ key: QueryKey, of status: ItemStatus) -> QueryValue? {
        switch key {
        case .hasUnresolvedConflicts: return .truth(status.hasConflict)
        case .downloadingStatus: return .string(status.downloadingStatus)
        case .isDownloading: return .truth(status.isDownloading)
        case .percentDownloaded: return .number(status.percentDownloaded)
        case .downloadingError: return status.isDirty ? nil : status.error.map { .string($0) }
        case .downloadRequested: return .truth(status.isPinned || status.isDownloading)
        case .isUploaded: return .truth(status.isUploaded)
        case .isUploading: return .truth(status.isUploading)
        case .percentUploaded: return .number(status.percentUploaded)
        case .uploadingError: return status.isDirty ? status.error.map { .string($0) } : nil
        default: return nil
        }
    }
}

extension ItemStatus {
    /// `NotDownloaded` until all its bytes are here; a newer version is shown when it is known, so that `Downloaded` is no
    /// state that lasts.
    var downloadingStatus: String { state == "dataless" || state == "partial" ? "NotDownloaded" : "Current" }

    /// True where the source has what is here.
    var isUploaded: Bool { remoteID != nil && !isDirty }

    /// How much of it was sent, 0 to 100.
    var percentUploaded: Double { isUploaded ? 100 : isUploading ? percent : 0 }

    /// How many of its bytes are here, 0 to 100.
    var percentDownloaded: Double {
        size == 0 || kind != "file" ? 100 : min(max(100 * Double(localBytes) / Double(size), 0), 100)
    }
}
