internal import CoveCore

/// What a folder holds: of all its items no more than somebody asked for, and the hidden names on their way.
struct DAVFolderView: Sendable {
    /// Those that were asked for and are there.
    var resources: [FileName: DAVResource] = [:]
    /// Those that were asked for, are there, and are not described.
    var refusals: [FileName: ProviderError] = [:]
    var staged: [StagedName] = []
    /// Names that a server which confuses some takes for one that was asked for.
    var twins: [FileName: FileName] = [:]
    /// How many items there are.
    var count = 0
    /// Others keep their hidden names in a folder of their own inside it.
    var hasStage = false

    /// One that was asked for; nil where there is none.
    func resource(_ name: FileName) throws(ProviderError) -> DAVResource? {
        if let refusal = refusals[name] { throw refusal }
        return resources[name]
    }
}

extension WebDAVProvider {
    /// Lists a folder for some names; who comes while it is listed shares the next listing.
    func view(_ folder: RemotePath, for names: [FileName]) async throws(ProviderError) -> DAVFolderView {
        try await looks.look(at: folder, for: names) { [weak self] names throws(ProviderError) in
            guard let self else { throw .cancelled }
            return try await lookAround(folder, for: names)
        }
    }

    private func lookAround(
        _ folder: RemotePath,
        for names: Set<FileName>
    ) async throws(ProviderError) -> DAVFolderView {
        for attempt in 0... {
            let receiver = FolderReceiver(self, folder, names)
            do throws(ProviderError) {
                try await propfind(folder, isDirectory: true, depth: 1, itemRequest, to: receiver)
                guard receiver.isFolder else { throw .noSuchItem }
                return receiver.view
            } catch {
                // Some servers give up in the middle of a listing when something in it goes away meanwhile.
                guard case .failed = error, attempt < 4 else { throw error }
                do { try await Task.sleep(for: .milliseconds(20).doubled(attempt)) } catch { throw .cancelled }
            }
        }
        throw .busy
    }
}

/// Takes what is wanted from a listing.
private final class FolderReceiver: MultistatusReceiver, @unchecked Sendable {
    private(set) var view = DAVFolderView()
    private(set) var isFolder = false
    private let provider: WebDAVProvider
    private let folder: RemotePath
    private let names: Set<FileName>
    /// Those that a server which confuses names may take for another.
    private let folded: [String: FileName]
    private let rules: KeptNames

    init(_ provider: WebDAVProvider, _ folder: RemotePath, _ names: Set<FileName>) {
        self.provider = provider
        self.folder = folder
        self.names = names
        rules = (try? provider.server().names) ?? KeptNames()
        let rules = rules
        folded = Dictionary(names.compactMap { name in rules.folded(name).map { ($0, name) } }) { first, _ in first }
        super.init(provider.client.pageLimit)
    }

    override func begin(_ head: HTTPHead) throws(ProviderError) {
        view = DAVFolderView()
        isFolder = false
        try super.begin(head)
    }

    override func take(_ resource: DAVResource) throws(ProviderError) {
        let refusal = resource.refusal("\(folder)")
        if refusal == .noSuchItem || resource.isPlaceholder && refusal == nil { return }
        switch provider.address.place(of: resource.href, in: folder) {
        case .elsewhere: return
        case .itself:
            if let refusal { throw refusal }
            isFolder = resource.isCollection
        case .inside(let bytes):
            view.count += 1
            if view.count.isMultiple(of: 1000) { beginPage() }
            guard view.count <= 10_000_000 else { throw .failed("\(folder): the server's listing does not end", nil) }
            let name = FileName(unchecked: bytes)
            if names.contains(name) {
                if let refusal { view.refusals[name] = refusal } else { view.resources[name] = resource }
            }
            if let staged = StagedName(name), view.staged.count < 10_000 {
                view.staged.append(staged)
                provider.noteLeftover(name, in: folder, resource)
            }
            if name == WebDAVProvider.stageName { view.hasStage = true }
            if !folded.isEmpty, let known = rules.folded(name).flatMap({ folded[$0] }), known != name {
                view.twins[known] = name
            }
        }
    }
}
