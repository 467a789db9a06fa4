internal import CoveCore

/// What Cove relies on at a source that can't be written to, tried with what it has.
extension ConformanceCheck {
    static func existing(_ known: ExistingItems) -> [ConformanceCheck] {
        looking(known) + fetching(known) + [
            anchors,
            ConformanceCheck(promise: "what can't be written to takes nothing") { bench in
                let name = "cove-check-\(DocumentID.random())"
                var refusal: ProviderError?
                do throws(ProviderError) { try await bench.makeDirectory(name) } catch { refusal = error }
                // Whatever it has answered, nothing is left of this.
                if (try? await bench.lookup(name)) != nil {
                    try? await bench.delete(name, .directory)
                    throw Failure(why: "it says that it can't be written to, and made a directory")
                }
                switch refusal {
                case .notPermitted, .unsupported: break
                case nil: throw Failure(why: "it says that it can't be written to, and that it made a directory")
                case let error?: throw Failure(why: "create failed with “\(error)”, not as what is not permitted")
                }
            },
            ConformanceCheck(
                promise: "a persistent identifier leads to its item, and one of nothing nowhere",
                isDue: \.persistentIdentifiers
            ) { bench in
                for path in known.files.map(\.path) + known.directories where !path.isEmpty {
                    let identifier = try await bench.persistentIdentifier(path)
                    let place = try await bench.place(of: identifier)
                    try demand(place == path, "the identifier of \(path) leads to \(place)")
                }
                guard let unknown = PersistentIdentifier(Array("cove-check-\(DocumentID.random())".utf8)) else {
                    return
                }
                try await demand(.noSuchItem, of: "itemForPersistentIdentifier of one that was never given") {
                    () throws(ProviderError) in try await bench.place(of: unknown)
                }
            },
        ]
    }

    private static func looking(_ known: ExistingItems) -> [ConformanceCheck] {
        [
            ConformanceCheck(promise: "a directory lists all that is in it, each once, and the same each time") {
                bench in
                for directory in known.directories {
                    let items = try await bench.list(directory)
                    let place = directory.isEmpty ? "the root" : directory
                    try demand(Set(items.map(\.name)).count == items.count, "\(place) lists a name twice")
                    try demand(Set(items.map(\.id)).count == items.count, "two items in \(place) have one id")
                    for item in items {
                        let name = String(decoding: item.name, as: UTF8.self)
                        try demand(FileName(validating: item.name) != nil, "\(place) lists \(name), which is no name")
                        try demand(item.size >= 0, "\(name) in \(place) has \(item.size) bytes")
                    }
                    let again = try await bench.list(directory)
                    try demand(
                        again.count == items.count && Set(again.map(Told.init)) == Set(items.map(Told.init)),
                        "\(place) lists something else the second time"
                    )
                }
            },
            ConformanceCheck(promise: "a look at a name tells what the listing does") { bench in
                for file in known.files {
                    let found = try await bench.lookup(file.path)
                    try demand(Told(found) == Told(file.item), "list and lookup tell different things of \(file.path)")
                }
                for directory in known.directories where !directory.isEmpty {
                    let found = try await bench.lookup(directory)
                    try demand(found.kind == .directory, "lookup tells that \(directory) is no directory")
                }
            },
            ConformanceCheck(promise: "what is not there is not found") { bench in
                let none = "cove-check-\(DocumentID.random())"
                for directory in known.directories {
                    let path = directory.isEmpty ? none : "\(directory)/\(none)"
                    try await demand(.noSuchItem, of: "lookup of a name that is not there") {
                        () throws(ProviderError) in
                        try await bench.lookup(path)
                    }
                }
                try await demand(.noSuchItem, of: "list of a directory that is not there") { () throws(ProviderError) in
                    try await bench.list(none)
                }
                guard let version = known.files.first?.item.contentVersion else { return }
                try await demand(.noSuchItem, of: "fetch of a file that is not there") { () throws(ProviderError) in
                    try await bench.fetch(none, version, 0..<1)
                }
            },
        ]
    }

    private static func fetching(_ known: ExistingItems) -> [ConformanceCheck] {
        [
            ConformanceCheck(promise: "a file has the bytes that it says, the same ones each time") { bench in
                for file in known.files {
                    let (version, size) = (file.item.contentVersion, file.item.size)
                    try demand(!version.bytes.isEmpty, "\(file.path) has no version")
                    let first = try await bench.fetch(file.path, version, 0..<file.part)
                    let second = try await bench.fetch(file.path, version, 0..<file.part)
                    try demand(first == second, "\(file.path) has other bytes the second time")
                    if bench.provider.capabilities.ranges {
                        _ = try await bench.fetch(file.path, version, size - 1..<size)
                    }
                }
            },
            ConformanceCheck(promise: "a range gives its bytes and no others", isDue: \.ranges) { bench in
                for file in known.files {
                    let (version, part) = (file.item.contentVersion, file.part)
                    let whole = try await bench.fetch(file.path, version, 0..<part)
                    for range in [0..<1, part / 3..<part / 2 + 1, part / 2..<part, part - 1..<part] {
                        let found = try await bench.fetch(file.path, version, range)
                        try demand(
                            found == Array(whole[Int(range.lowerBound)..<Int(range.upperBound)]),
                            "bytes \(range) of \(file.path) are others than those of the whole"
                        )
                    }
                }
            },
            ConformanceCheck(promise: "bytes of another version are never given") { bench in
                for file in known.files {
                    let other = ContentVersion("cove-check-\(DocumentID.random())")
                    try await demand(.versionNoLongerAvailable, of: "fetch of a version that never was") {
                        () throws(ProviderError) in try await bench.fetch(file.path, other, 0..<1)
                    }
                }
            },
            ConformanceCheck(promise: "calls at the same time get their own answers") { bench in
                var alone: [[UInt8]] = []
                for file in known.files {
                    alone.append(
                        try await bench.fetch(file.path, file.item.contentVersion, 0..<min(file.part, 64 << 10))
                    )
                }
                let together = try await withThrowingTaskGroup(of: (Int, [UInt8]).self) { group in
                    for (index, file) in known.files.enumerated() {
                        group.addTask {
                            let range = 0..<min(file.part, 64 << 10)
                            return (index, try await bench.fetch(file.path, file.item.contentVersion, range))
                        }
                    }
                    return try await group.reduce(into: [Int: [UInt8]]()) { $0[$1.0] = $1.1 }
                }
                for (index, file) in known.files.enumerated() {
                    try demand(
                        together[index] == alone[index],
                        "\(file.path) has other bytes when others are fetched at the same time"
                    )
                }
            },
        ]
    }

    /// What a listing and a look at a name must tell alike.
    private struct Told: Hashable {
        let id: RemoteID
        let name: [UInt8]
        let kind: ItemKind
        let size: Int64
        let version: ContentVersion

        init(_ item: RemoteItem) {
            (id, name, kind, size, version) = (item.id, item.name, item.kind, item.size, item.contentVersion)
        }
    }
}
