internal import CoveCore

/// Putting something to a name of a server that can't do so in one step: under a hidden name first, and then by a MOVE.
///
/// Servers look whether a MOVE may replace what is there, and only then move it. Two devices that put the same name at the
/// same moment could both pass: therefore each lists the folder between its two steps, and keeps off a name that another
/// one is about to put. That one listing also tells the versions of what was sent, which nobody else writes to, and does
/// so for all that wait.
extension WebDAVProvider {
    /// Something under its hidden name, and what the folder of its target holds.
    struct Staged: Sendable {
        let path: RemotePath
        let resource: DAVResource
        /// What has the target's name; nil when it was not looked at.
        let target: Target?
        /// Another item of the folder, where one was asked for and seen.
        let seen: DAVResource?

        enum Target: Sendable {
            case free
            case taken(DAVResource)
        }
    }

    /// A hidden folder in a folder, for the hidden names of one that would take long to list.
    static let stageName = FileName(unchecked: Array(".cove-uploads".utf8))
    /// What has more items than these gets one.
    private static let largeCount = 1000

    /// Puts a content under a hidden name, and has the body move it to its own, while no other device does.
    ///
    /// What the body leaves under the hidden name goes, also when it throws.
    func placing<R>(
        _ path: RemotePath,
        _ content: any ContentSource,
        _ headers: [(name: String, value: String)] = [],
        seeing other: FileName? = nil,
        _ move: (Staged) async throws(ProviderError) -> (R, isMoved: Bool)
    ) async throws(ProviderError) -> R {
        guard let name = path.name else { throw .unsupported("the root") }
        for attempt in 0..<10 {
            let stage = try stage(path.parent)
            let staged = stages.name(for: name, isInside: stage != path.parent)
            let hidden = stage.appending(staged.name)
            stages.begin(staged.name)
            defer { stages.end(staged.name) }
            var isThere = false
            do throws(ProviderError) {
                let isNew = try await upload(hidden, for: path, content, headers)
                if let found = try await look(at: path, staged, in: stage, isNew: isNew, seeing: other) {
                    isThere = true
                    let (result, isMoved) = try await move(found)
                    if !isMoved { await discard(hidden, isThere: true) }
                    return result
                }
            } catch {
                // Whoever called it off does not wait for this to be called off too.
                await Task { await self.discard(hidden, isThere: isThere) }.value
                throw error
            }
            await discard(hidden, isThere: true)
            let rest = TimeSpan.milliseconds(30).doubled(min(attempt, 5))
            do { try await Task.sleep(for: .random(in: .milliseconds(10)...rest)) } catch { throw .cancelled }
        }
        throw .busy
    }

    /// Where hidden names for a folder stand.
    private func stage(_ folder: RemotePath) throws(ProviderError) -> RemotePath {
        let isOwn = try server().hidesDotNames || stages.isLarge(folder)
        return isOwn ? folder.appending(Self.stageName) : folder
    }

    /// Puts a content under a hidden name; true when the folder for it had to be made.
    private func upload(
        _ hidden: RemotePath,
        for path: RemotePath,
        _ content: any ContentSource,
        _ headers: [(name: String, value: String)]
    ) async throws(ProviderError) -> Bool {
        let stage = hidden.parent
        let isOwn = stage != path.parent
        var isNew = false
        if isOwn, !stages.isMade(stage) { isNew = try await makeStage(stage) }
        var response = try await put(hidden, content, headers)
        if isOwn, [403, 404, 409, 500].contains(response.status) {
            // Somebody has deleted it since.
            stages.setMade(stage, false)
            isNew = try await makeStage(stage)
            response = try await put(hidden, content, headers)
        }
        guard response.head.isSuccess else { throw try await putRefusal(response, isOwn ? path : hidden) }
        return isNew
    }

    /// Makes a folder for hidden names; true when it was not there yet.
    private func makeStage(_ stage: RemotePath) async throws(ProviderError) -> Bool {
        try await folderMaking.look(at: stage, for: []) { [weak self] _ throws(ProviderError) in
            guard let self else { throw .cancelled }
            if stages.isMade(stage) { return false }
            let made = try await send("MKCOL", stage, isDirectory: true)
            switch made.status {
            case 200..<300, 405: break
            case 404, 409, 500: throw .noSuchItem
            // Apache forbids it when somebody else makes it at the same moment.
            default: if try await lookIfPresent(stage) == nil { throw try await refusal(made, making: stage) }
            }
            stages.setMade(stage, true)
            return made.head.isSuccess
        }
    }

    /// Looks at what was put, and beside it; nil when it must be put again, for another device is about to put the same
    /// name, or others have their hidden names elsewhere.
    private func look(
        at path: RemotePath,
        _ staged: StagedName,
        in stage: RemotePath,
        isNew: Bool,
        seeing other: FileName?
    ) async throws(ProviderError) -> Staged? {
        guard let name = path.name else { return nil }
        let isOwn = stage != path.parent
        let view = try await view(stage, for: [staged.name] + (isOwn ? [] : [name] + (other.map { [$0] } ?? [])))
        guard let resource = try view.resource(staged.name) else {
            throw .failed("\(path): the server does not list what was put there", nil)
        }
        var others = view.staged
        var target: Staged.Target?
        let isListed = try server().hidesDotNames
        if !isOwn {
            target = try view.resource(name).map { .taken($0) } ?? .free
            if view.count > Self.largeCount || view.hasStage { stages.noteLarge(path.parent) }
            // Those who have it there don't look here.
            if view.hasStage { return nil }
        } else if isNew, !isListed {
            // Those who did not know of it yet have theirs in the folder itself.
            let around = try await self.view(path.parent, for: [name])
            others += around.staged
            target = try around.resource(name).map { .taken($0) } ?? .free
        }
        if stages.isContested(staged, by: others) {
            log("\(path): another device is about to put something there")
            return nil
        }
        let seen = other.flatMap { view.resources[$0] }
        return Staged(path: stage.appending(staged.name), resource: resource, target: target, seen: seen)
    }

    /// Deletes what stands under a hidden name, which the server may only be about to make.
    private func discard(_ hidden: RemotePath, isThere: Bool) async {
        var wasThere = isThere
        for _ in 0..<6 {
            guard let response = try? await send("DELETE", hidden) else { return }
            if isThere || response.status == 404, wasThere { return }
            wasThere = wasThere || response.head.isSuccess
            try? await Task.sleep(for: .milliseconds(150))
        }
    }
}
