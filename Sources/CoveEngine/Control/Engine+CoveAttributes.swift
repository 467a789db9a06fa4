internal import CLinux
internal import CoveCore

/// The names of Cove's own extended attributes.
enum CoveAttribute {
    static let prefix = Array("user.cove.".utf8)
    /// Those that are set, and taken away, as a program's are.
    static let kept: [[UInt8]] = [PackageTypes.attribute, Array("user.cove.tags".utf8)]

    /// What the provider would have file managers show: a JSON list.
    static let decorations = Array("user.cove.decorations".utf8)
    /// With whom the provider says that an item is shared: an `ItemSharing` as JSON.
    static let sharing = Array("user.cove.sharing".utf8)
    /// Who changed an item last, as the provider says.
    static let editor = Array("user.cove.most-recent-editor".utf8)
    /// Those that only the provider tells: no program sets them, and none copies them along with a file.
    static let told: [[UInt8]] = [decorations, sharing, editor]

    /// The name of who changed an item as it is kept; nil for none.
    static func value(editor: String) -> [UInt8]? { editor.isEmpty ? nil : Array(editor.shownName.utf8) }

    static func isOne(_ name: [UInt8]) -> Bool { name.starts(with: prefix) }

    /// What follows the prefix.
    static func key(_ name: [UInt8]) -> String { String(decoding: name.dropFirst(prefix.count), as: UTF8.self) }
}

/// The attributes `user.cove.*`: questions about an item, and what may be set of it.
extension Engine {
    /// What the announcer sets, and nobody keeps, so that the kernel tells programs that watch a file of it.
    public static let noticeAttribute = Array("user.cove.notice".utf8)

    /// What the writable ones of `user.cove.*` do; the kernel has seen that the caller may write to the item.
    func command(_ id: ItemID, _ name: [UInt8], _ value: [UInt8], _ caller: Caller) throws(Errno) {
        if name == Self.noticeAttribute, isAnnouncer(caller) { return }
        try requireWritable()
        switch CoveAttribute.key(name) {
        case "pinned":
            try requireOwner(of: id, caller)
            let text = String(decoding: value, as: UTF8.self)
            guard text == "0" || text == "1" else { throw .invalidArgument }
            try namespace.setPinned(id, text == "1")
        case "excluded-from-sync":
            try requireOwner(of: id, caller)
            // What an app was only given, others have too.
            try access.admitLink(caller, id)
            let text = String(decoding: value, as: UTF8.self)
            guard text == "0" || text == "1" else { throw .invalidArgument }
            try setExcluded(id, text == "1")
        case "content-policy":
            try requireOwner(of: id, caller)
            guard let policy = ContentPolicy(rawValue: String(decoding: value, as: UTF8.self)) else {
                throw .invalidArgument
            }
            try namespace.setPolicy(id, policy, clearing: false)
        case "package":
            let text = String(decoding: value, as: UTF8.self)
            guard text == "0" || text == "1" else { throw .invalidArgument }
            try catalog.write { database throws(Errno) in
                guard try database.existingItem(id).kind == .directory else { throw .notDirectory }
                try database.setExtendedAttribute(name, value, of: id)
                try self.contents.enqueueEntries(of: id, .attributes, database)
            }
            wakeSync()
        case "tags":
            guard value.count <= Namespace.maximumValue else { throw .argumentListTooLong }
            try catalog.write { database throws(Errno) in
                _ = try database.existingItem(id)
                try database.setExtendedAttribute(name, value, of: id)
                try self.contents.enqueueEntries(of: id, .attributes, database)
            }
            wakeSync()
        default: throw .notPermitted
        }
    }

    /// Nobody waits here for what has to be fetched: that begins, and a later attempt finds it.
    private func setExcluded(_ id: ItemID, _ isExcluded: Bool) throws(Errno) {
        do throws(Errno) {
            if isExcluded { try exclude(id) } else { try namespace.include(id) }
        } catch .noData {
            throw .notPermitted
        } catch .wouldBlock {
            let path = try catalog.read { database throws(Errno) in
                try database.entries(of: id).first.map { entry throws(Errno) in try database.path(of: entry) }
            }
            if let path { Task { [self] in try? await namespace.download(path) } }
            throw .wouldBlock
        }
    }

    /// What tells this account from all others: a random text that it keeps for as long as it has this state.
    private func identityToken() throws(Errno) -> [UInt8] {
        let key = "identity-token"
        if let known = try catalog.read({ database throws(Errno) in try database.meta(key) }) { return known }
        return try catalog.write { database throws(Errno) in
            if let known = try database.meta(key) { return known }
            let made = Array("\(DocumentID.random())".utf8)
            try database.setMeta(key, made)
            return made
        }
    }

    /// What is kept takes room on the disk of the account's owner, and of a directory for all that is in it.
    private func requireOwner(of id: ItemID, _ caller: Caller) throws(Errno) {
        let row = try catalog.read { database throws(Errno) in try database.existingItem(id) }
        guard caller.user == 0 || caller.user == row.user || caller.user == configuration.user else {
            throw .notPermitted
        }
    }

    /// With whom an item is shared, as far as its provider tells; nil where it is not.
    func sharing(of id: ItemID) throws(Errno) -> ItemSharing? {
        let stored = try catalog.read { database throws(Errno) in
            try database.extendedAttribute(CoveAttribute.sharing, of: id)
        }
        return stored.flatMap { try? JSONValue(parsing: $0).decode() }
    }

    /// Who changed an item last, as far as its provider tells.
    func mostRecentEditor(of id: ItemID) throws(Errno) -> String? {
        try catalog.read { database throws(Errno) in try database.extendedAttribute(CoveAttribute.editor, of: id) }
            .map { String(decoding: $0, as: UTF8.self) }
    }

    /// What the account's user may do with an item at the provider.
    func permissions(of id: ItemID) throws(Errno) -> ItemSharing.Permissions {
        configuration.isReadOnly ? .readOnly : try sharing(of: id)?.permissions ?? .readWrite
    }

    private func path(of id: ItemID) throws(Errno) -> RemotePath? {
        try catalog.read { database throws(Errno) in
            guard let entry = try database.entries(of: id).first else { return nil }
            return try database.path(of: entry)
        }
    }

    /// Where a path is in the mounted tree, as a URL.
    func url(of path: RemotePath) -> String {
        var text = "file://"
        let base = configuration.mountpoint
        for byte in Array((base == "/" ? "" : base).utf8) + [0x2F] + path.bytes {
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2F, 0x2D, 0x2E, 0x5F, 0x7E:
                text.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                let digits = String(byte, radix: 16, uppercase: true)
                text += "%\(digits.count == 1 ? "0" : "")\(digits)"
            }
        }
        return text
    }

    /// Where a path is in the mounted tree.
    func fullPath(_ path: RemotePath) -> String {
        let base = configuration.mountpoint
        return "\(base == "/" ? "" : base)/\(String(decoding: path.bytes, as: UTF8.self))"
    }

    /// What `user.cove.*` says to an app, or to whoever is none; nothing is fetched for it.
    ///
    /// A document and its references are one item: that it is external is true for the apps that were given it, and for no one else.
    func answer(_ id: ItemID, _ key: String, to app: AppIdentifier? = nil) throws(Errno) -> [UInt8] {
        switch key {
        case "item-id": return Array(id.description.utf8)
        case "socket" where id == .root: return Array(configuration.socketPath.utf8)
        case "coordination-socket" where id == .root: return Array(configuration.coordinationSocketPath.utf8)
        case "identity-token": return try identityToken()
        case "account" where id == .root: return Array(configuration.account.utf8)
        case "tags", "package", "decorations", "most-recent-editor":
            let name = CoveAttribute.prefix + Array(key.utf8)
            let stored = try catalog.read { database throws(Errno) in try database.extendedAttribute(name, of: id) }
            guard let stored else { throw .noData }
            return stored
        case "conflicts": return Array("\(try history.conflictCount(of: id))".utf8)
        default: break
        }
        let status = try status(of: id)
        let text: String
        switch key {
        case "downloading-status":
            text = status.downloadingStatus
        case "is-downloading": text = status.isDownloading ? "1" : "0"
        case "percent-downloaded":
            text = String(Int(saturating: status.percentDownloaded))
        case "is-uploaded": text = status.isUploaded ? "1" : "0"
        case "is-uploading": text = status.isUploading ? "1" : "0"
        case "percent-uploaded": text = String(Int(saturating: status.percentUploaded))
        case "has-conflicts": text = status.hasConflict ? "1" : "0"
        case "is-ubiquitous": text = status.state == "local" ? "0" : "1"
        case "excluded-from-sync": text = try namespace.isExcluded(id) ? "1" : "0"
        case "is-external":
            text = try app.flatMap { app throws(Errno) in try access.reference(to: id, of: app) } == nil ? "0" : "1"
        case "url-in-local-container":
            guard let app, let reference = try access.reference(to: id, of: app) else { throw .noData }
            text = url(of: reference)
        case "is-shared": text = try sharing(of: id) == nil ? "0" : "1"
        case "role": text = (try sharing(of: id)?.role ?? .owner).rawValue
        case "permissions": text = try permissions(of: id).rawValue
        case "owner-name":
            guard let owner = try sharing(of: id)?.owner else { throw .noData }
            text = owner
        case "docid": text = status.documentID
        case "pinned": text = status.isPinned ? "1" : "0"
        case "download-requested": text = status.isPinned || status.isDownloading ? "1" : "0"
        case "container-display-name":
            let container = try path(of: id).flatMap { path throws(Errno) in try access.containerName(of: path) }
            text = container ?? configuration.account
        case "policy", "content-policy": text = status.policy ?? ""
        case "content-version":
            guard let version = status.contentVersion else { throw .noData }
            text = version
        case "uploading-error":
            guard status.isDirty, let error = status.error else { throw .noData }
            text = error
        case "downloading-error":
            guard !status.isDirty, let error = status.error else { throw .noData }
            text = error
        default: throw .noData
        }
        return Array(text.utf8)
    }
}
