internal import CoveCore

/// A provider whose containers' folders are called here what people call them.
///
/// It translates the first name of each path, and asks the provider nothing of its own but whether a name is free.
final class NamingProvider: Provider {
    private let base: any Provider
    private let names: ContainerNames

    init(_ base: any Provider, _ names: ContainerNames) {
        self.base = base
        self.names = names
    }

    var capabilities: ProviderCapabilities { base.capabilities }
    func sourceIdentity() async -> [UInt8]? { await base.sourceIdentity() }
    func start() async throws(ProviderError) { try await base.start() }
    func stop() async { await base.stop() }
    var changeSignal: AsyncStream<Void>? { base.changeSignal }
    var requests: RequestCounts? { base.requests }
    var mustBePolled: Bool { base.mustBePolled }
    func networkChanged() { base.networkChanged() }
    func quota() async throws(ProviderError) -> ProviderQuota? { try await base.quota() }
    var purpose: String? { base.purpose }
    var actions: [ProviderAction] { base.actions }

    /// An item of a directory as it is called here; nil for one of the root whose name a container has here.
    private func here(_ item: RemoteItem, in directory: RemotePath) -> RemoteItem? {
        if names.isEmpty || !directory.isRoot { return item }
        let name = FileName(unchecked: item.name)
        if !names.isContainer(there: name), names.isTaken(name) { return nil }
        var translated = item
        translated.name = names.here(name).bytes
        return translated
    }

    /// The same of an item that was just made or moved, which is never left out.
    private func called(_ item: RemoteItem, _ name: FileName) -> RemoteItem {
        if names.isEmpty { return item }
        var translated = item
        translated.name = name.bytes
        return translated
    }

    /// Carries something out whose errors may name another item of a directory.
    private func translating<R>(
        in directory: RemotePath,
        _ body: () async throws(ProviderError) -> R
    ) async throws(ProviderError) -> R {
        do throws(ProviderError) {
            return try await body()
        } catch {
            switch error {
            case .filenameCollision(let other?): throw .filenameCollision(here(other, in: directory) ?? other)
            case .conflict(let other?): throw .conflict(here(other, in: directory) ?? other)
            default: throw error
            }
        }
    }

    func list(_ directory: RemoteReference, page: Page?) async throws(ProviderError) -> Listing {
        var listing = try await base.list(names.there(directory), page: page)
        if directory.path.isRoot, !names.isEmpty {
            listing.items = listing.items.compactMap { here($0, in: .root) }
        }
        return listing
    }

    func lookup(_ name: FileName, in directory: RemoteReference) async throws(ProviderError) -> RemoteItem {
        let isTop = directory.path.isRoot && !names.isEmpty
        // The identifier is no name of its folder here.
        if isTop, names.isContainer(there: name), names.here(name) != name, !names.isTaken(name) { throw .noSuchItem }
        let found = try await base.lookup(isTop ? names.there(name) : name, in: names.there(directory))
        return isTop ? called(found, name) : found
    }

    func movesUnderway() async throws(ProviderError) -> [DirectoryMove]? {
        try await base.movesUnderway()?.map { DirectoryMove(from: names.here($0.from), to: names.here($0.to)) }
    }

    func changes(since anchor: Anchor?) async throws(ProviderError) -> Changes {
        var changes = try await base.changes(since: anchor)
        if names.isEmpty { return changes }
        changes.events = changes.events.compactMap { event in
            switch event {
            case .updated(let item, let directory):
                here(item, in: directory).map { .updated($0, directory: names.here(directory)) }
            case .removed(let path): .removed(names.here(path))
            case .directoryChanged(let path): .directoryChanged(names.here(path))
            }
        }
        return changes
    }

    func fetch(
        _ item: RemoteReference,
        version: ContentVersion,
        range: Range<Int64>,
        into sink: any ContentSink
    ) async throws(ProviderError) {
        try await base.fetch(names.there(item), version: version, range: range, into: sink)
    }

    func create(
        _ template: ItemTemplate,
        name: FileName,
        in directory: RemoteReference,
        content: (any ContentSource)?
    ) async throws(ProviderError) -> RemoteItem {
        let isTop = directory.path.isRoot
        return try await translating(in: directory.path) { () throws(ProviderError) in
            let made = try await base.create(
                template,
                name: isTop ? names.there(name) : name,
                in: names.there(directory),
                content: content
            )
            return isTop ? called(made, name) : made
        }
    }

    func modify(
        _ item: RemoteReference,
        base version: ContentVersion,
        metadata: ItemMetadata,
        content: (any ContentSource)?
    ) async throws(ProviderError) -> RemoteItem {
        let directory = item.path.parent
        return try await translating(in: directory) { () throws(ProviderError) in
            let changed = try await base.modify(names.there(item), base: version, metadata: metadata, content: content)
            guard directory.isRoot, let name = item.path.name else { return changed }
            return called(changed, name)
        }
    }

    /// Moves an item; a container's folder that gets another name in the root keeps the one that it has there.
    func move(
        _ item: RemoteReference,
        base version: ContentVersion?,
        to directory: RemoteReference,
        name: FileName
    ) async throws(ProviderError) -> RemoteItem {
        if !names.isEmpty, directory.path.isRoot, item.path.parent.isRoot, let former = item.path.name {
            let folder = names.there(former)
            if names.isContainer(there: folder) { return try await rename(folder, to: name) }
            // One that was carried out, and whose answer nobody has heeded.
            let renamed = names.there(name)
            if names.isContainer(there: renamed), try await free(former) == nil {
                return try await rename(renamed, to: name)
            }
        }
        let isTop = directory.path.isRoot
        return try await translating(in: directory.path) { () throws(ProviderError) in
            let moved = try await base.move(
                names.there(item),
                base: version,
                to: names.there(directory),
                name: isTop ? names.there(name) : name
            )
            return isTop ? called(moved, name) : moved
        }
    }

    private func rename(_ folder: FileName, to name: FileName) async throws(ProviderError) -> RemoteItem {
        let found = try await base.lookup(folder, in: .root)
        if names.here(folder) != name {
            if names.isTaken(name) { throw .filenameCollision(nil) }
            if name != folder, let other = try await free(name) { throw .filenameCollision(other) }
            let result: Result<Void, Errno> = await OffPool.run { [names] in
                Result { () throws(Errno) in try names.rename(there: folder, to: name) }
            }
            if case .failure(let error) = result { throw .failed("the catalog can't be used: \(error)", error) }
        }
        return called(found, name)
    }

    /// What has a name in the provider's root; nil where nothing has.
    private func free(_ name: FileName) async throws(ProviderError) -> RemoteItem? {
        do throws(ProviderError) { return try await base.lookup(name, in: .root) } catch .noSuchItem { return nil }
    }

    func copy(
        _ item: RemoteReference,
        version: ContentVersion,
        to directory: RemoteReference,
        name: FileName
    ) async throws(ProviderError) -> RemoteItem {
        try await translating(in: directory.path) { () throws(ProviderError) in
            try await base.copy(names.there(item), version: version, to: names.there(directory), name: name)
        }
    }

    func delete(_ item: RemoteReference, base version: ContentVersion?) async throws(ProviderError) {
        try await translating(in: item.path.parent) { () throws(ProviderError) in
            try await base.delete(names.there(item), base: version)
        }
    }

    func trash(
        _ item: RemoteReference,
        base version: ContentVersion?,
        as token: String
    ) async throws(ProviderError) -> RemoteItem? {
        try await translating(in: item.path.parent) { () throws(ProviderError) in
            try await base.trash(names.there(item), base: version, as: token)
        }
    }

    func versions(of item: RemoteReference) async throws(ProviderError) -> [RemoteVersion] {
        try await base.versions(of: names.there(item))
    }

    func fetch(
        _ version: RemoteVersion,
        of item: RemoteReference,
        into sink: any ContentSink
    ) async throws(ProviderError) {
        try await base.fetch(version, of: names.there(item), into: sink)
    }

    func thumbnails(of files: [FileName], in directory: RemoteReference) async throws(ProviderError) -> Set<FileName> {
        try await base.thumbnails(of: files, in: names.there(directory))
    }

    func thumbnail(of item: RemoteReference, version: ContentVersion) async throws(ProviderError) -> [UInt8]? {
        try await base.thumbnail(of: names.there(item), version: version)
    }

    func setThumbnail(
        _ picture: [UInt8]?,
        of item: RemoteReference,
        version: ContentVersion
    ) async throws(ProviderError) {
        try await base.setThumbnail(picture, of: names.there(item), version: version)
    }

    func publish(
        _ item: RemoteReference,
        version: ContentVersion,
        until: Timestamp
    ) async throws(ProviderError) -> Publication {
        try await base.publish(names.there(item), version: version, until: until)
    }

    func matches(
        _ item: RemoteReference,
        version: ContentVersion,
        _ content: any ContentSource
    ) async throws(ProviderError) -> Bool? {
        try await base.matches(names.there(item), version: version, content)
    }

    func erasure() async throws(ProviderError) -> [UInt8]? { try await base.erasure() }
    func noteErasure(_ note: [UInt8]) async throws(ProviderError) { try await base.noteErasure(note) }
    func eraseRest() async throws(ProviderError) { try await base.eraseRest() }

    func news(unless version: ContentVersion?) async throws(ProviderError) -> News? {
        guard var news = try await base.news(unless: version) else { return nil }
        if !names.isEmpty { news.board.translate { names.here($0) } }
        return news
    }

    func leaveNews(_ board: NewsBoard, as device: String) async throws(ProviderError) {
        var board = board
        if !names.isEmpty { board.translate { names.there($0) } }
        return try await base.leaveNews(board, as: device)
    }

    func persistentIdentifier(of item: RemoteReference) async throws(ProviderError) -> PersistentIdentifier {
        try await base.persistentIdentifier(of: names.there(item))
    }

    func path(ofPersistent identifier: PersistentIdentifier) async throws(ProviderError) -> RemotePath {
        names.here(try await base.path(ofPersistent: identifier))
    }

    func released(_ item: RemoteReference) async throws(ProviderError) { try await base.released(names.there(item)) }

    func perform(_ action: String, on items: [RemoteReference]) async throws(ProviderError) -> String? {
        try await base.perform(action, on: items.map { names.there($0) })
    }
}
