internal import CoveCore

/// Whether a directory may be deleted, which takes all that is in it along.
extension WebDAVProvider {
    /// How often an answer is asked for whose end can't be read.
    private static let attempts = 3
    /// So many hidden directories, one in the other, are looked into.
    private static let greatestDepth = 2

    /// True when a directory holds nothing but uploads on their way, and pictures of a source that it was.
    ///
    /// All else that the server tells of is somebody's, also what it does not describe and what has a name that can't be read.
    /// Deletions that broke off inside are ended first.
    func isEmpty(_ path: RemotePath, depth: Int = 0) async throws(ProviderError) -> Bool {
        guard depth < Self.greatestDepth else { return false }
        let keepsVersionOnMove = try server().keepsVersionOnMove
        for isAgain in [false, true] {
            guard let found = try await hiddenWork(in: path, depth) else { return false }
            if found.hasStage, try await !isEmptyOrGone(path.appending(Self.stageName), depth + 1) { return false }
            if found.deletions.isEmpty { return true }
            if isAgain { break }
            for (name, resource) in found.deletions {
                guard case .deleting(let mark, _, let former) = Leftover.kind(name) else { return false }
                // Where a MOVE makes another version of a file, nobody can tell by the mark which one was meant.
                guard resource.isCollection || keepsVersionOnMove else { return false }
                do throws(ProviderError) {
                    try await endDeleting(path.appending(name), resource, mark, former, depth: depth + 1)
                } catch .noSuchItem {
                    // Whose it is has ended it.
                    continue
                }
            }
        }
        return false
    }

    private func isEmptyOrGone(_ path: RemotePath, _ depth: Int) async throws(ProviderError) -> Bool {
        do throws(ProviderError) { return try await isEmpty(path, depth: depth) } catch .noSuchItem { return true }
    }

    /// What is hidden in a directory that has nothing else; nil for one that has.
    private func hiddenWork(in path: RemotePath, _ depth: Int) async throws(ProviderError) -> HiddenWork? {
        for attempt in 1... {
            let receiver = HiddenWorkReceiver(self, path)
            do throws(ProviderError) {
                try await propfind(path, isDirectory: true, depth: 1, itemRequest, to: receiver)
                guard receiver.hasItself else { throw .noSuchItem }
                return receiver.found
            } catch .directoryNotEmpty {
                return nil
            } catch {
                guard receiver.isUnreadable, attempt < Self.attempts else { throw error }
            }
        }
        return nil
    }
}

/// What may be in a directory that counts as empty.
private struct HiddenWork: Sendable {
    /// The hidden folder of uploads.
    var hasStage = false
    /// What was being deleted.
    var deletions: [(name: FileName, resource: DAVResource)] = []
}

/// Looks at all that a directory holds, until there is something that must not go.
private final class HiddenWorkReceiver: MultistatusReceiver, @unchecked Sendable {
    private(set) var found = HiddenWork()
    private(set) var hasItself = false
    private let provider: WebDAVProvider
    private let path: RemotePath
    private let isStage: Bool
    /// More deletions are not ended here.
    private static let most = 32

    init(_ provider: WebDAVProvider, _ path: RemotePath) {
        self.provider = provider
        self.path = path
        isStage = path.name == WebDAVProvider.stageName
        super.init(provider.client.pageLimit)
    }

    override func begin(_ head: HTTPHead) throws(ProviderError) {
        found = HiddenWork()
        hasItself = false
        try super.begin(head)
    }

    override func take(_ resource: DAVResource) throws(ProviderError) {
        switch provider.address.place(of: resource.href, in: path) {
        case .itself:
            if let error = resource.refusal("\(path)") { throw error }
            guard resource.isCollection else { throw .noSuchItem }
            hasItself = true
        case .elsewhere: throw .directoryNotEmpty
        case .inside(let bytes): try take(FileName(unchecked: bytes), resource)
        }
    }

    private func take(_ name: FileName, _ resource: DAVResource) throws(ProviderError) {
        // A locked name that has nothing yet.
        if resource.isPlaceholder, resource.isDescribed, resource.refusal("") == nil { return }
        let isHidden = name.isReserved && !name.isPassing
        switch Leftover.kind(name) {
        case .upload where (isHidden || isStage) && !resource.isCollection, .probe where isHidden:
            provider.noteLeftover(name, in: path, resource)
        case .deleting where isHidden && resource.refusal("") == nil && found.deletions.count < Self.most:
            found.deletions.append((name, resource))
        default:
            guard resource.isCollection, !isStage else { throw .directoryNotEmpty }
            // Others can be made of the documents.
            if name == ThumbnailFolder.name { return }
            guard name == WebDAVProvider.stageName else { throw .directoryNotEmpty }
            found.hasStage = true
        }
    }
}
