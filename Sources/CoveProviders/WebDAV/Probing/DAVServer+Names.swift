internal import CoveCore

/// Trying out which names a server keeps: each is made, and moved to another one that a header tells.
extension DAVServer {
    static func names(_ provider: WebDAVProvider, in folder: RemotePath) async throws(ProviderError) -> KeptNames {
        try await KeptNames.find { names, pairs throws(ProviderError) in
            await withTaskGroup(of: Void.self) { group in
                for name in names { group.addTask { await make(name, provider, in: folder) } }
                for pair in pairs {
                    group.addTask {
                        for name in pair {
                            let path = folder.appending(FileName(unchecked: name))
                            // Another one must not answer for it.
                            if (try? await provider.send("HEAD", path))?.head.isSuccess == true { return }
                            await put(name, provider, in: folder)
                        }
                    }
                }
            }
            if Task.isCancelled { throw .cancelled }
            let there = Set(try await DAVListing(provider, folder).next().items.map(\.name))
            var kept = Set(names.filter { there.contains(moved($0)) })
            for name in pairs.joined() where there.contains(name) {
                let path = folder.appending(FileName(unchecked: name))
                if try await provider.send("GET", path).body == KeptNames.sample(for: name) { kept.insert(name) }
            }
            for pair in pairs where !pair.allSatisfy(kept.contains) {
                // When one is deleted the server remembers the other, though its file is gone: that is made again.
                let paths = pair.map { folder.appending(FileName(unchecked: $0)) }
                _ = try? await provider.send("DELETE", paths[0])
                await put(pair[1], provider, in: folder)
                _ = try? await provider.send("DELETE", paths[1])
            }
            return kept
        }
    }

    /// Where a name is moved to.
    private static func moved(_ name: [UInt8]) -> [UInt8] { [0x6D] + name }

    /// Makes a file and moves it; what the server refuses, or breaks off at, is not there then.
    private static func make(_ name: [UInt8], _ provider: WebDAVProvider, in folder: RemotePath) async {
        guard await put(name, provider, in: folder) else { return }
        let target = folder.appending(FileName(unchecked: moved(name)))
        let path = folder.appending(FileName(unchecked: name))
        _ = try? await provider.move(path, to: target, isDirectory: false, overwrite: false)
    }

    /// Makes a file of its name's sample.
    @discardableResult
    private static func put(_ name: [UInt8], _ provider: WebDAVProvider, in folder: RemotePath) async -> Bool {
        let path = folder.appending(FileName(unchecked: name))
        return (try? await provider.put(path, KeptNames.sample(for: name), []))?.head.isSuccess == true
    }
}
