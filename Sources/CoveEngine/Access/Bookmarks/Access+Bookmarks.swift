public import CoveCore
internal import FoundationEssentials

/// What a bookmark is to hold besides the way back to its document.
public struct BookmarkRequest: Sendable {
    /// Names of values that can be read without resolving it.
    public var keys: [String] = []
    /// The folder from which the document's place is told, too.
    public var base: RemotePath?
    /// True for one that lets its app read only.
    public var isReadOnly = false
    /// True for one that knows its document by its identity alone, not by its place.
    public var isMinimal = false

    /// Asks for no more than the way back.
    public init() {}

    /// The values that a bookmark can hold.
    public static let knownKeys = [
        "ContentModificationDate", "ContentType", "DocumentIdentifier", "FileResourceIdentifier", "FileResourceType",
        "FileSecurity", "FileSize", "LocalizedName",
    ]
}

/// Where a bookmark leads.
public struct BookmarkTarget: Sendable {
    /// The document's place now.
    public var path: RemotePath
    /// The name that the app has for it, where there is one.
    public var reference: RemotePath?
    /// What the app names to use it where it has no name for it; nil where it needs none.
    public var scope: String?
    /// True where a new bookmark is to be made: the document has another place or identity.
    public var isStale: Bool
    /// True where it is to be read only.
    public var isReadOnly: Bool
}

/// Bookmarks: opaque data that lead an app back to a document, over renames, restarts and safe saves.
extension Access {
    /// What leads back; only this account can read it.
    private struct Way {
        var document: DocumentID
        var item: ItemID
        /// The place at the provider; nil for a minimal one.
        var place: RemotePath?
        /// The place from the base folder.
        var relative: RemotePath?
        /// What the provider calls it; nil where it does not.
        var identifier: PersistentIdentifier?

        init(document: DocumentID, item: ItemID, place: RemotePath?, relative: RemotePath?) {
            self.document = document
            self.item = item
            self.place = place
            self.relative = relative
        }

        init?(_ value: JSONValue) {
            guard let text = value["document"]?.text, let document = DocumentID(text), let number = value["item"]?.text,
                let item = UInt64(number)
            else { return nil }
            self.document = document
            self.item = ItemID(item)
            place = Self.path(value["place"])
            relative = Self.path(value["relative"])
            identifier = Self.bytes(value["identifier"]).flatMap { PersistentIdentifier($0) }
        }

        var value: JSONValue {
            var members: [String: JSONValue] = [
                "document": .string(document.description), "item": .string(item.description),
            ]
            if let place { members["place"] = Self.text(place.bytes) }
            if let relative { members["relative"] = Self.text(relative.bytes) }
            if let identifier { members["identifier"] = Self.text(identifier.bytes) }
            return .object(members)
        }

        private static func text(_ bytes: [UInt8]) -> JSONValue { .string(Data(bytes).base64EncodedString()) }

        private static func bytes(_ value: JSONValue?) -> [UInt8]? {
            value?.text.flatMap { Data(base64Encoded: $0) }.map { Array($0) }
        }

        private static func path(_ value: JSONValue?) -> RemotePath? {
            guard let bytes = bytes(value) else { return nil }
            var names: [FileName] = []
            for part in bytes.split(separator: 0x2F) {
                guard let name = FileName(validating: part) else { return nil }
                names.append(name)
            }
            return RemotePath(names)
        }
    }

    private static let unreadable = AccessError(
        .accessDenied,
        "it is no bookmark of this account that the app may use; make a new one"
    )

    private func seal() throws(AccessError) -> BookmarkSeal {
        do throws(Errno) {
            return try BookmarkSeal(keyFile: configuration.stateDirectory + "/key")
        } catch {
            // That would say that the document is gone.
            throw .failed(error == .noSuchEntry ? .inputOutput : error, "the account's key can't be had")
        }
    }

    /// Makes a bookmark of what is at a path for an app; asked by the app itself, or by the user, who so lets it use that.
    func makeBookmark(
        of path: RemotePath,
        for app: AppIdentifier,
        isAskedByApp: Bool,
        _ request: BookmarkRequest
    ) async throws(AccessError) -> [UInt8] {
        await refresh()
        if let unknown = request.keys.first(where: { !BookmarkRequest.knownKeys.contains($0) }) {
            let known = BookmarkRequest.knownKeys.joined(separator: ", ")
            throw AccessError(.invalidArgument, "\(unknown): no such value; known are \(known)")
        }
        if isAskedByApp {
            // Of what it may not use an app does not hear whether it is there.
            let mayLook = try await failing("it can't be looked for") { () throws(Errno) in
                try await onQueue { [self] () throws(Errno) in try self.isAdmitted(app, at: path, .reading) }
            }
            if !mayLook { throw AccessError(.accessDenied, "the app may not use it; let the user pick it") }
        }
        guard let entry = try await entry(at: path) else {
            throw AccessError(.noSuchEntry, "nothing is there; check the path")
        }
        var relative: RemotePath?
        let place = try await inCatalog { database throws(Errno) in try database.path(of: entry) }
        if let base = request.base {
            guard place.isInside(base), place != base else {
                throw AccessError(.invalidArgument, "it is not below \(base); name a folder above it")
            }
            relative = RemotePath(Array(place.names.dropFirst(base.names.count)))
        }
        // The user may let an app write what it could read so far.
        let use: Use = isAskedByApp || request.isReadOnly ? .reading : .writing
        let mayUse = try await inCatalog { [self] database throws(Errno) in
            try isAdmitted(app, entry, use, database)
        }
        if !mayUse {
            if isAskedByApp { throw AccessError(.accessDenied, "the app may not use it; let the user pick it") }
            let refused = try await inCatalog { [self] database throws(Errno) -> AccessError? in
                try refusal(of: entry, place, for: app, database)
            }
            if let refused { throw refused }
            try await failing("it can't be granted") { () throws(Errno) in
                try await onQueue { [self] () throws(Errno) in
                    try catalog.write(durable: true) { database throws(Errno) in
                        try database.setGrant(
                            app,
                            entry.document,
                            mayWrite: !request.isReadOnly,
                            source: "bookmark",
                            record: nil,
                            at: self.journalTime()
                        )
                    }
                    try countReferences()
                }
            }
        }
        var way = Way(
            document: entry.document,
            item: entry.item,
            place: request.isMinimal ? nil : names.there(place),
            relative: relative
        )
        way.identifier = await persistentIdentifier(of: entry)
        let open = try await openPart(of: entry, app, request)
        let seal = try seal()
        let hidden = way.value.bytes
        return try await failing("it can't be made") { () throws(Errno) in
            try seal.seal(open: open.bytes, hidden: hidden)
        }
    }

    private func openPart(
        of entry: EntryRow,
        _ app: AppIdentifier,
        _ request: BookmarkRequest
    ) async throws(AccessError) -> JSONValue {
        var members: [String: JSONValue] = ["app": .string(app.text)]
        if request.isReadOnly { members["isReadOnly"] = .bool(true) }
        if !request.isMinimal, !request.keys.isEmpty {
            let attributes = try await failing("it can't be looked at") { () throws(Errno) in
                try await onQueue { [namespace] () throws(Errno) in try namespace.attributes(of: entry.item) }
            }
            let name = String(decoding: entry.name, as: UTF8.self)
            let all: [String: JSONValue] = [
                "ContentModificationDate": .double(attributes.modificationTime.secondsSinceEpoch),
                "ContentType": .string(ContentTypes.ofMachine.type(ofFile: name)),
                "DocumentIdentifier": .string(entry.document.description),
                "FileResourceIdentifier": .string(entry.item.description),
                "FileResourceType": .string(attributes.kind == .directory ? "directory" : "file"),
                "FileSecurity": .object([
                    "mode": .integer(Int64(attributes.permissions)), "user": .integer(Int64(attributes.user)),
                    "group": .integer(Int64(attributes.group)),
                ]),
                "FileSize": .integer(attributes.size), "LocalizedName": .string(name),
            ]
            var values: [String: JSONValue] = [:]
            for key in request.keys { values[key] = all[key] }
            members["values"] = .object(values)
        }
        return .object(members)
    }

    /// Where a bookmark leads, for the app that it was made for; nothing is downloaded for it.
    ///
    /// The document is known by its identity, then by its item, then by what the provider calls it, then by its place.
    func resolve(
        _ bookmark: [UInt8],
        for app: AppIdentifier,
        base: RemotePath?
    ) async throws(AccessError) -> BookmarkTarget {
        await refresh()
        guard let parts = try seal().parts(of: bookmark), let open = try? JSONValue(parsing: parts.open),
            let hidden = try? JSONValue(parsing: parts.hidden), let way = Way(hidden)
        else { throw Self.unreadable }
        guard open["app"]?.text == app.text else { throw .refused(Self.unreadable.description) }
        let (known, isDeleted) = try await inCatalog { [self] database throws(Errno) -> (EntryRow?, Bool) in
            if let entry = try database.entry(document: way.document), try isInTree(entry, database) {
                return (entry, false)
            }
            for entry in try database.entries(of: way.item) where try isInTree(entry, database) {
                return (entry, false)
            }
            return (nil, try database.pendingTrash(document: way.document) != nil)
        }
        var found = known
        var isIdentified = false
        // What was deleted here a moment ago the provider may not know of yet.
        if found == nil, !isDeleted, let identifier = way.identifier {
            found = try await entry(ofPersistent: identifier)
            isIdentified = found != nil
            if let found { try await passOn(way.document, to: found, of: app) }
        }
        if found == nil, let base, let relative = way.relative,
            let entry = try await entry(at: RemotePath(base.names + relative.names))
        {
            // An app may name any folder: it does not hear what is in those that it may not use.
            let mayUse = try await inCatalog { [self] database throws(Errno) in
                try isAdmitted(app, entry, .reading, database)
            }
            if mayUse { found = entry }
        }
        if found == nil, let place = way.place {
            found = try await entry(at: names.here(place))
            // What has its place is what it has become.
            if let found { try await passOn(way.document, to: found, of: app) }
        }
        guard let entry = found else {
            throw AccessError(.noSuchEntry, "what it was made of is not there any more")
        }
        let isReadOnly = open["isReadOnly"]?.truth ?? false
        return try await target(entry, way, app, base, isIdentified: isIdentified, isReadOnly: isReadOnly)
    }

    /// What an app was given of a document that is not here any more it has of what that is now.
    private func passOn(
        _ document: DocumentID,
        to heir: EntryRow,
        of app: AppIdentifier
    ) async throws(AccessError) {
        try await failing("it can't be resolved") { () throws(Errno) in
            try await onQueue { [self] () throws(Errno) in
                try catalog.write { database throws(Errno) in
                    // Only to what the app could be given now.
                    guard try database.entry(document: document) == nil,
                        let entry = try database.entry(document: heir.document),
                        try self.refusal(of: entry, try database.path(of: entry), for: app, database) == nil
                    else { return }
                    try database.passOnGrants(from: document, to: entry.document, of: app)
                }
            }
        }
    }

    private func target(
        _ entry: EntryRow,
        _ way: Way,
        _ app: AppIdentifier,
        _ base: RemotePath?,
        isIdentified: Bool,
        isReadOnly: Bool
    ) async throws(AccessError) -> BookmarkTarget {
        let told = try await inCatalog { [self] database throws(Errno) -> BookmarkTarget? in
            guard try isAdmitted(app, entry, .reading, database) else { return nil }
            let path = try database.path(of: entry)
            var isStale = entry.document != way.document && !isIdentified
            if let base, let relative = way.relative {
                isStale = isStale || path != RemotePath(base.names + relative.names)
            } else if let place = way.place {
                isStale = isStale || names.there(path) != place
            }
            var reference: RemotePath?
            for row in try database.references(to: entry.document) {
                guard registry.containers[row.container]?.app == app else { continue }
                reference = try self.path(of: row, database)
            }
            return BookmarkTarget(
                path: path,
                reference: reference,
                scope: nil,
                isStale: isStale,
                isReadOnly: isReadOnly
            )
        }
        guard var target = told else {
            throw .refused("the app may not use it any more; let the user pick it again")
        }
        target.scope = try await scope(of: entry, for: app)
        return target
    }

    func isInTree(_ entry: EntryRow, _ database: Database) throws(Errno) -> Bool {
        try database.path(ofDirectory: entry.parent) != nil
    }

    /// The entry at a path, or of the document that a reference there stands for; the provider is asked for what nobody listed.
    func entry(at path: RemotePath) async throws(AccessError) -> EntryRow? {
        try await failing("it can't be looked for") { () throws(Errno) in
            guard let name = path.name, let parent = try await walk(path.parent) else { return nil }
            if let row = try await onQueue({ [self] () throws(Errno) in try reference(parent, name.bytes) }) {
                return try await onQueue { [self] () throws(Errno) in
                    try catalog.read { database throws(Errno) in try self.target(of: row, database) }
                }
            }
            guard try await find(name, in: parent) != nil else { return nil }
            return try await onQueue { [catalog] () throws(Errno) in
                try catalog.read { database throws(Errno) in try database.entry(parent, name.bytes) }
            }
        }
    }

    func inCatalog<Value: Sendable>(
        _ body: @escaping @Sendable (Database) throws(Errno) -> Value
    ) async throws(AccessError) -> Value {
        try await failing("it can't be looked for") { () throws(Errno) in
            try await onQueue { [catalog] () throws(Errno) in
                try catalog.read { database throws(Errno) in try body(database) }
            }
        }
    }
}
