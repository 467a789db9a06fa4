import CoveCore
import CoveProviders
import Testing

@Suite struct GeneratedTreeTests {
    @Test func `listings, look-ups and the number of items agree`() async throws {
        let tree = try ProviderFactory.make(source: "simulated://?items=5000&fanout=1200")
        var folders = [RemoteReference.root]
        var seen: Set<RemoteID> = []
        var pages = 0
        while let folder = folders.popLast() {
            var page: Page?
            repeat {
                let listing = try await tree.list(folder, page: page)
                for item in listing.items {
                    #expect(seen.insert(item.id).inserted)
                    let name = FileName(unchecked: item.name)
                    #expect(try await tree.lookup(name, in: folder) == item)
                    let reference = RemoteReference(id: item.id, path: folder.path.appending(name))
                    if item.kind == .directory { folders.append(reference) }
                }
                page = listing.next
                pages += 1
            } while page != nil
        }
        // Five folders: the root, and numbers 1 to 4 with 1200, 1200, 1200 and 200 items.
        #expect(seen.count == 5000 && pages == 9)
    }

    @Test(arguments: ["file-0", "file-1", "folder-5", "folder-01", "file-5001", "folder--1", "folder-", "x"])
    func `a name that the tree does not have is not found`(_ name: String) async throws {
        let tree = try ProviderFactory.make(source: "simulated://?items=5000&fanout=1200")
        await #expect(throws: ProviderError.noSuchItem) {
            try await tree.lookup(FileName(unchecked: Array(name.utf8)), in: .root)
        }
    }

    @Test(arguments: ["simulated://?items=0", "simulated://?items=x", "simulated://?size=3", "simulated://?fanout"])
    func `a source that makes no sense is refused`(_ source: String) {
        #expect(throws: SourceError.self) { try ProviderFactory.make(source: source) }
    }
}
