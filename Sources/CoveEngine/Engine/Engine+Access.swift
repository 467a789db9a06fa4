public import CoveCore

/// What is asked of apps and containers.
extension Engine {
    /// The apps that the account knows.
    public func apps() async -> [AppRecord] {
        await access.refresh()
        return access.apps
    }

    /// The containers of the account, each with the name of its folder, nil while that is not there.
    public func containers() async -> [(record: ContainerRecord, folder: RemotePath?)] {
        await access.refresh()
        var all: [(record: ContainerRecord, folder: RemotePath?)] = []
        for record in access.containers {
            all.append((record, await access.place(ofContainer: record.identifier, for: nil)))
        }
        return all
    }

    /// True for a device that uses the account's documents only, until it is migrated.
    public var isLegacy: Bool { context.generation.isLegacy }

    /// Makes the account one of apps, for this device and the others; its containers then, nil where it is that already.
    ///
    /// `except`: folders with the identifier of a container that become none. `isTrial`: only tells what would be.
    public func migrate(
        except: Set<AppIdentifier> = [],
        isTrial: Bool = false
    ) async throws(AccessError) -> [AppIdentifier]? {
        let sync = syncEngine
        let containers = try await access.migrate(except: except, isTrial: isTrial) { () throws(ProviderError) in
            guard let sync else { throw .cancelled }
            try await sync.takeInDrive()
        }
        if !isTrial, containers != nil { await sync?.noteMigrated(showing: access.unseenFolders()) }
        return containers
    }

    /// Makes an app known; false where its manifest has the version that was heeded already.
    ///
    /// What its programs are known by is this device's own, and heeded whatever the version.
    public func register(_ manifest: AppManifest) async throws(AccessError) -> Bool {
        let programs = try await access.vet(manifest)
        let isHeeded = try await access.register(manifest)
        return try await access.keep(programs, of: manifest.identifier) || isHeeded
    }

    /// What programs of apps are known by on this device.
    public func programs() async -> [AppIdentifier: KnownPrograms] { await access.knownPrograms() }

    /// Forgets an app; its containers stay.
    public func removeApp(_ identifier: AppIdentifier) async throws(AccessError) {
        try await access.removeApp(identifier)
        try await access.forgetPrograms(of: identifier)
    }

    /// Makes a container with its `Documents`, or finds the app's own one of that identifier.
    public func createContainer(
        _ identifier: AppIdentifier,
        for app: AppIdentifier,
        name: String?,
        isPublic: Bool?
    ) async throws(AccessError) -> ContainerRecord {
        try await access.createContainer(identifier, for: app, name: name, isPublic: isPublic)
    }

    /// Shows a container to people and other apps, or hides it.
    public func setPublic(_ isPublic: Bool, _ identifier: AppIdentifier) async throws(AccessError) -> ContainerRecord {
        try await access.setPublic(isPublic, identifier)
    }

    /// The folder of a container that an app may have; without an identifier of the first one that it declares.
    public func place(ofContainer identifier: AppIdentifier?, for app: AppIdentifier?) async -> RemotePath? {
        await access.place(ofContainer: identifier, for: app)
    }

    /// Gives an app a document that a person has chosen: where it has it from now on.
    public func give(
        _ path: RemotePath,
        to app: AppIdentifier,
        isReadOnly: Bool
    ) async throws(AccessError) -> (reference: RemotePath, scope: String?) {
        let reference = try await access.open(path, for: app, isReadOnly ? .read : .write)
        guard let entry = try await access.entry(at: reference) else { return (reference, nil) }
        return (reference, try await access.scope(of: entry, for: app))
    }

    /// All references, or those of an app.
    public func references(of app: AppIdentifier?) async throws(Errno) -> [AccessInterface.Reference] {
        await access.refresh()
        return try await onQueue { [access] () throws(Errno) in try access.toldReferences(of: app) }
    }

    /// All grants, or those of an app.
    public func grants(of app: AppIdentifier?) async throws(Errno) -> [AccessInterface.Grant] {
        await access.refresh()
        return try await onQueue { [access] () throws(Errno) in try access.toldGrants(of: app) }
    }

    /// Takes a grant back, and the reference that came with it.
    public func revoke(_ id: Int64) async throws(AccessError) { try await access.revoke(id) }

    /// Makes a bookmark of what is at a path for an app; asked by the app itself, or by the user, who so lets it use that.
    public func makeBookmark(
        of path: RemotePath,
        for app: AppIdentifier,
        isAskedByApp: Bool,
        _ request: BookmarkRequest
    ) async throws(AccessError) -> [UInt8] {
        try await access.makeBookmark(of: path, for: app, isAskedByApp: isAskedByApp, request)
    }

    /// Where a bookmark leads, for the app that it was made for.
    public func resolve(
        bookmark: [UInt8],
        for app: AppIdentifier,
        base: RemotePath?
    ) async throws(AccessError) -> BookmarkTarget {
        try await access.resolve(bookmark, for: app, base: base)
    }

    /// What anybody can read in a bookmark; nil for what is none.
    public static func openPart(ofBookmark bytes: [UInt8]) -> [UInt8]? { BookmarkSeal.openPart(of: bytes) }

    /// Lets a process of an app use a document once more; the path for that, nil where the app uses too many.
    public func startScope(
        _ token: String,
        for app: AppIdentifier,
        process: Int32
    ) async throws(AccessError) -> RemotePath? {
        try await access.startScope(token, for: app, process: process)
    }

    /// Ends one use; true while anybody still uses it.
    public func stopScope(_ token: String, process: Int32) async throws(AccessError) -> Bool {
        try await access.stopScope(token, process: process)
    }

    /// What is at a path, also by a name that an app has for it; nil where nothing is.
    func named(_ path: RemotePath, _ database: Database) throws(Errno) -> EntryRow? {
        try access.place(named: path, database)?.entry
    }

    /// The folders of the root that a program which sees only an app's part is to find covered.
    public func foldersToCover(for app: AppIdentifier) async throws(Errno) -> [RemotePath] {
        // What is covered stays so as long as the program runs.
        await access.refresh()
        return try await onQueue { [self] () throws(Errno) in
            try catalog.read { database throws(Errno) in
                var entries: [EntryRow] = []
                try database.eachEntry(of: .root, after: 0) { entry in
                    entries.append(entry)
                    return true
                }
                var paths: [RemotePath] = []
                for entry in entries where try !access.isOpen(top: entry, to: app, database) {
                    paths.append(RemotePath([FileName(unchecked: entry.name)]))
                }
                return paths
            }
        }
    }

    /// From now on the programs of a process's PID namespace see no more than an app may.
    public func enterView(of app: AppIdentifier, process: Int32) async throws(Errno) {
        try await onQueue { [access] () throws(Errno) in try access.enterView(of: app, process: process) }
    }

    /// On whose behalf a process of a user calls on a socket.
    public func standing(of process: Int32, user: UInt32) -> PeerStanding { access.standing(of: process, user: user) }

    /// True for a node that is nothing for the caller: of the versions a program sees none that sees only an app's part.
    public func hides(_ node: HiddenNode, from caller: Caller) -> Bool {
        if case .reference = node { return false }
        return seesPart(caller)
    }

    /// Where what has a name is claimed: a reference's document at its own place.
    public func place(of parent: ItemID, _ name: [UInt8]) -> (parent: ItemID, name: [UInt8]) {
        guard let original = try? access.original(parent, name, .reading) else { return (parent, name) }
        return (original.parent, original.name)
    }

    /// Whether an app's programs may use the items at some paths, or make some there, and change those of `changed`.
    public func admits(_ app: AppIdentifier, to paths: [RemotePath], changing changed: [RemotePath]) -> Bool {
        paths.allSatisfy { (try? access.isAdmitted(app, at: $0, .reading)) ?? false }
            && changed.allSatisfy { (try? access.isAdmitted(app, at: $0, .writing)) ?? false }
    }

    /// True for a program that sees no more than an app may: no earlier versions, and a listing of the root of its own.
    public func seesPart(_ caller: Caller) -> Bool {
        do throws(Errno) { return try access.app(of: caller) != nil } catch { return true }
    }
}
