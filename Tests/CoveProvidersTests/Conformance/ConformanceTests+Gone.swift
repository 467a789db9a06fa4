import CoveCore
import CoveProviders
import CoveTestSupport
import Testing

extension ConformanceTests {
    /// Who the item's or a folder's name is gone to by the time that it is used.
    enum Taker: String, CaseIterable, Sendable { case fileAbove, fileTwoAbove, nobody, itself }

    @Test(arguments: SourceKind.all, Taker.allCases)
    func `whatever is asked of an item that is gone, with its folder or for another kind, is told so`(
        kind: SourceKind,
        taker: Taker
    ) async throws {
        let devices = try await TwoDevices(kind)
        let (here, there) = (devices.here, devices.there)
        for path in ["a", "a/b", "a/b/empty", "free"] { try await there.makeDirectory(path) }
        let file = try await there.make("a/b/file", "bytes")
        let other = try await there.make("free/other", "other")
        let directory = try await there.find("a/b/empty")
        // The device here knows its way.
        #expect(try await here.text("a/b/file") == "bytes")
        try await there.delete(there.reference("a/b/file", file), base: file.contentVersion)
        try await there.delete(there.reference("a/b/empty", directory), base: .directory)
        switch taker {
        case .fileAbove:
            try await there.delete(there.reference("a/b"), base: .directory)
            _ = try await there.make("a/b", "in the way")
        case .fileTwoAbove, .nobody:
            try await there.delete(there.reference("a/b"), base: .directory)
            try await there.delete(there.reference("a"), base: .directory)
            if taker == .fileTwoAbove { _ = try await there.make("a", "in the way") }
        case .itself:
            try await there.makeDirectory("a/b/file")
            _ = try await there.make("a/b/empty", "in the way")
        }
        let (gone, above) = (here.reference("a/b/file", file), here.reference("a/b"))
        let (folder, free) = (here.reference("a/b/empty", directory), here.reference("free"))
        let base = file.contentVersion
        var calls: [(String, () async throws(ProviderError) -> Void)] = [
            (
                "fetch",
                { () throws(ProviderError) in
                    try await here.fetch(gone, version: base, range: 0..<file.size, into: MemorySink())
                }
            ),
            (
                "modify",
                { () throws(ProviderError) in
                    _ = try await here.modify(gone, base: base, metadata: ItemMetadata(), content: MemorySource("more"))
                }
            ),
            (
                "date",
                { () throws(ProviderError) in
                    let metadata = ItemMetadata(modificationTime: Timestamp(seconds: 1_000_000, nanoseconds: 0))
                    _ = try await here.modify(gone, base: base, metadata: metadata, content: nil)
                }
            ),
            (
                "move",
                { () throws(ProviderError) in
                    _ = try await here.move(gone, base: base, to: free, name: .moved)
                }
            ),
            (
                "move of a directory",
                { () throws(ProviderError) in
                    _ = try await here.move(folder, base: .directory, to: free, name: .moved)
                }
            ),
            (
                "copy",
                { () throws(ProviderError) in
                    _ = try await here.copy(gone, version: base, to: free, name: .copy)
                }
            ),
            ("trash", { () throws(ProviderError) in _ = try await here.trash(gone, base: base, as: "token") }),
            ("delete", { () throws(ProviderError) in try await here.delete(gone, base: base) }),
            (
                "delete of a directory",
                { () throws(ProviderError) in
                    try await here.delete(folder, base: .directory)
                }
            ),
        ]
        if here.capabilities.versions {
            calls.append(("versions", { () throws(ProviderError) in _ = try await here.versions(of: gone) }))
        }
        if taker != .itself {
            calls += [
                (
                    "move of any version",
                    { () throws(ProviderError) in
                        _ = try await here.move(gone, base: nil, to: free, name: .moved)
                    }
                ),
                ("delete of any version", { () throws(ProviderError) in try await here.delete(gone, base: nil) }),
                (
                    "create",
                    { () throws(ProviderError) in
                        let template = ItemTemplate(kind: .file, metadata: ItemMetadata())
                        _ = try await here.create(template, name: .new, in: above, content: MemorySource("new"))
                    }
                ),
                (
                    "create of a directory",
                    { () throws(ProviderError) in
                        let template = ItemTemplate(kind: .directory, metadata: ItemMetadata())
                        _ = try await here.create(template, name: .new, in: above, content: nil)
                    }
                ),
                (
                    "move into",
                    { () throws(ProviderError) in
                        let reference = here.reference("free/other", other)
                        _ = try await here.move(reference, base: other.contentVersion, to: above, name: .new)
                    }
                ),
                (
                    "copy into",
                    { () throws(ProviderError) in
                        let reference = here.reference("free/other", other)
                        _ = try await here.copy(reference, version: other.contentVersion, to: above, name: .new)
                    }
                ),
                ("list", { () throws(ProviderError) in _ = try await here.list(above, page: nil) }),
            ]
        }
        for (name, call) in calls {
            do throws(ProviderError) {
                try await call()
            } catch {
                switch error {
                case .noSuchItem, .versionNoLongerAvailable, .conflict, .filenameCollision: continue
                default: Issue.record("\(name): \(error)")
                }
                continue
            }
            // Versions of what is gone are none.
            let mayPass = name == "versions" || name == "trash" && !here.capabilities.trash
            if !mayPass { Issue.record("\(name) passed") }
        }
        #expect(try await there.names("free") == ["other"])
        // Nor has any of them taken away what has the name now.
        switch taker {
        case .fileAbove: #expect(try await there.text("a/b") == "in the way")
        case .fileTwoAbove: #expect(try await there.text("a") == "in the way")
        case .nobody: #expect(try await there.names() == ["free"])
        case .itself:
            #expect(try await there.names("a/b") == ["empty", "file"])
            #expect(try await there.names("a/b/file").isEmpty)
            #expect(try await there.text("a/b/empty") == "in the way")
        }
    }
}

extension FileName {
    fileprivate static let moved = FileName(unchecked: Array("moved".utf8))
    fileprivate static let copy = FileName(unchecked: Array("copy".utf8))
    fileprivate static let new = FileName(unchecked: Array("new".utf8))
}
