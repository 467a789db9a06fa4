internal import CoveCore

/// What Cove relies on when it reads.
extension ConformanceCheck {
    static let reading: [ConformanceCheck] = [
        ConformanceCheck(promise: "a new file has the name, the size and the bytes that it was created with") { bench in
            for size in [0, 1, 4095, 1 << 18, 3 << 20 | 7] {
                let (name, bytes) = ("size-\(size)", sample(size, UInt64(size) + 7))
                let made = try await bench.create(name, bytes)
                try demand(made.name == Array(name.utf8), "created \(name), and was told of another name")
                try demand(
                    made.kind == .file && made.size == Int64(size),
                    "created \(size) bytes, and was told of \(made.size)"
                )
                let found = try await bench.lookup(name)
                try demand(
                    found.kind == .file && found.size == Int64(size),
                    "created \(size) bytes of \(name), and lookup tells of \(found.size)"
                )
                try demand(
                    found.contentVersion == made.contentVersion && found.id == made.id,
                    "lookup tells another version or id of \(name) than create did"
                )
                try demand(try await bench.bytes(name) == bytes, "\(name) has other bytes than it was created with")
            }
        },
        ConformanceCheck(promise: "a directory lists all that is in it, each once") { bench in
            let names = Set((0..<25).map { "f\($0)" } + ["sub"])
            for name in names where name != "sub" { try await bench.create(name, Array(name.utf8)) }
            try await bench.makeDirectory("sub")
            try await bench.create("sub/inner", [1])
            let items = try await bench.list()
            let found = items.map { String(decoding: $0.name, as: UTF8.self) }
            try demand(found.count == Set(found).count, "an item was listed twice")
            try demand(Set(found) == names, "listed \(found.sorted()), not \(names.sorted())")
            for item in items {
                let known = try await bench.lookup(String(decoding: item.name, as: UTF8.self))
                try demand(
                    known.contentVersion == item.contentVersion && known.id == item.id && known.kind == item.kind
                        && known.size == item.size,
                    "list and lookup tell different things of \(String(decoding: item.name, as: UTF8.self))"
                )
            }
            try demand(Set(items.map(\.id)).count == items.count, "two items have one id")
        },
        ConformanceCheck(promise: "what is not there is not found") { bench in
            try await demand(.noSuchItem, of: "lookup of a name that is not there") { () throws(ProviderError) in
                try await bench.lookup("none")
            }
            try await demand(.noSuchItem, of: "list of a directory that is not there") { () throws(ProviderError) in
                try await bench.list("none")
            }
            try await demand(.noSuchItem, of: "create in a directory that is not there") { () throws(ProviderError) in
                try await bench.create("none/f", [1])
            }
            let version = try await bench.create("f", [1]).contentVersion
            try await bench.delete("f", version)
            try await demand(.noSuchItem, of: "fetch of a file that was deleted") { () throws(ProviderError) in
                try await bench.fetch("f", version, 0..<1)
            }
        },
        ConformanceCheck(promise: "a range gives its bytes and no others", isDue: \.ranges) { bench in
            let bytes = sample(2 << 20)
            let version = try await bench.create("f", bytes).contentVersion
            for range in [0..<1, 1..<2, 4095..<4097, 999_999..<1_300_001, bytes.count - 1..<bytes.count] {
                let found = try await bench.fetch("f", version, Int64(range.lowerBound)..<Int64(range.upperBound))
                try demand(found == Array(bytes[range]), "bytes \(range) of a file are others than it was created with")
            }
        },
        ConformanceCheck(promise: "bytes of another version are never given") { bench in
            let first = try await bench.create("f", sample(70_000, 1)).contentVersion
            let second = try await bench.modify("f", first, sample(70_000, 2)).contentVersion
            try await demand(.versionNoLongerAvailable, of: "fetch of a version that was replaced") {
                () throws(ProviderError) in try await bench.fetch("f", first, 0..<70_000)
            }
            let found = try await bench.fetch("f", second, 0..<70_000)
            try demand(found == sample(70_000, 2), "a file has other bytes than it was changed to")
        },
        ConformanceCheck(promise: "that nobody uses a file may be told twice, and the file stays", isDue: \.releases) {
            bench in
            let bytes = sample(5000)
            let version = try await bench.create("f", bytes).contentVersion
            _ = try await bench.fetch("f", version, 0..<100)
            for _ in 0..<2 { try await bench.released("f") }
            let found = try await bench.fetch("f", version, 0..<5000)
            try demand(found == bytes, "a file that nobody used has other bytes afterwards")
            do throws(ProviderError) { try await bench.released("missing") } catch {
                try demand(error == .noSuchItem, "that nobody uses a missing file failed with “\(error)”")
            }
        },
        ConformanceCheck(promise: "the date that a file is given stays", isDue: \.modificationTimes) { bench in
            for seconds in [1_000_000_000, 1, 4_000_000_000] {
                let time = Timestamp(seconds: Int64(seconds), nanoseconds: 0)
                try await bench.create("t\(seconds)", [1], ItemMetadata(modificationTime: time))
                let found = try await bench.lookup("t\(seconds)").metadata.modificationTime
                try demand(
                    found?.seconds == time.seconds,
                    "a file of \(time) is dated \(found.map { "\($0)" } ?? "never")"
                )
            }
        },
        ConformanceCheck(promise: "names are kept as they are, or refused") { bench in
            let names = [
                "with space", " leading", "per%20cent", "a+b&c=d", "hash#?query", "quote\"'", "back\\slash", "ümlaut",
                "u\u{308}mlaut", "日本語", "😀", ".hidden", "trailing.", "UPPER", "semi;colon:",
                String(repeating: "n", count: 200),
            ]
            // By their bytes: of a string two forms of one letter are the same.
            var kept: Set<[UInt8]> = []
            for name in names {
                do {
                    let made = try await bench.create(name, Array(name.utf8))
                    try demand(
                        made.name == Array(name.utf8),
                        "\(name) became \(String(decoding: made.name, as: UTF8.self))"
                    )
                    kept.insert(Array(name.utf8))
                } catch let error as ProviderError {
                    switch error {
                    case .unsupported, .notPermitted, .filenameCollision: continue
                    default: throw error
                    }
                }
            }
            let listed = Set(try await bench.list().map { Array($0.name) })
            try demand(listed == kept, "a name is listed as another one than it was created as")
            for name in names where kept.contains(Array(name.utf8)) {
                try demand(try await bench.bytes(name) == Array(name.utf8), "\(name) has the bytes of another file")
            }
        },
    ]
}
