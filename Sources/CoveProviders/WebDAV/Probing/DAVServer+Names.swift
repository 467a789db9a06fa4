internal import CoveCore

/// Trying out which names a server keeps: each is made, and moved to another one that a header tells.
extension DAVServer {
    /// What is tried in one name; only what fails is tried apart.
    private static let groups: [[DAVNames.Trait]] = [
        [.question, .semicolon, .fragment, .percent, .backslash, .punctuation], [.control], [.forbidden, .ending],
        [.wide, .composed], [.decomposed], [.bytes],
    ]

    static func names(_ provider: WebDAVProvider, in folder: RemotePath) async throws(ProviderError) -> DAVNames {
        var names = DAVNames()
        let twins = [["zA", "za"], ["t\u{E9}", "te\u{301}"]].map { $0.map { Array($0.utf8) } }
        let first = groups.enumerated().map { number, traits in
            Array("1\(number)".utf8) + traits.flatMap(\.sample)
        }
        try await make(first, provider, in: folder)
        // One after the other: of two that are one name, both would be made else.
        for name in twins.joined() {
            _ = try? await provider.put(folder.appending(FileName(unchecked: name)), [0x38], [])
        }
        let there = try await listed(provider, in: folder)
        let failed = zip(groups, first).filter { !there.contains(moved($1)) }.flatMap(\.0)
        names.foldsCase = !twins[0].allSatisfy(there.contains)
        var lost = Set(failed)
        if failed.count > 1 {
            let second = failed.enumerated().map { number, trait in Array("2\(number)".utf8) + trait.sample }
            try await make(second, provider, in: folder)
            let there = try await listed(provider, in: folder)
            lost = Set(zip(failed, second).filter { !there.contains(moved($1)) }.map(\.0))
        }
        names.lost = lost
        let isOne = !twins[1].allSatisfy(there.contains)
        names.foldsForms = isOne && !lost.contains(.composed) && !lost.contains(.decomposed)
        return names
    }

    /// Where a name is moved to.
    private static func moved(_ name: [UInt8]) -> [UInt8] { [0x6D] + name }

    /// Makes files and moves them; what the server refuses, or breaks off at, is not there then.
    private static func make(
        _ names: [[UInt8]],
        _ provider: WebDAVProvider,
        in folder: RemotePath
    ) async throws(ProviderError) {
        await withTaskGroup(of: Void.self) { group in
            for name in names {
                group.addTask {
                    let path = folder.appending(FileName(unchecked: name))
                    let target = folder.appending(FileName(unchecked: moved(name)))
                    guard let put = try? await provider.put(path, [0x38], []), put.head.isSuccess else { return }
                    _ = try? await provider.move(path, to: target, isDirectory: false, overwrite: false)
                }
            }
        }
        if Task.isCancelled { throw .cancelled }
    }

    private static func listed(
        _ provider: WebDAVProvider,
        in folder: RemotePath
    ) async throws(ProviderError) -> Set<[UInt8]> {
        Set(try await DAVListing(provider, folder).next().items.map(\.name))
    }
}
