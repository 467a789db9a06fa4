internal import CoveCore

/// What identifiers of items are good for: to tell an item from one that has its name by now, and to find it for a bookmark.
extension ConformanceCheck {
    static let identifiers: [ConformanceCheck] = [
        ConformanceCheck(
            promise: "a stable id stays with its item, and what has its former name is not taken for it",
            isDue: \.stableIDs
        ) { bench in
            let made = try await bench.create("f", [1, 2])
            let moved = try await bench.move("f", made.contentVersion, to: "h")
            try demand(moved.id == made.id, "a file that was renamed has another id")
            let other = try await bench.create("f", [4])
            try demand(other.id != made.id, "a file has the id of another one whose name it got")
            // Where the item is by now may be found out by its id; what has its name is another one in any case.
            for call in ["move", "delete"] {
                do throws(ProviderError) {
                    if call == "move" {
                        try await bench.move("f", id: made.id, nil, to: "k")
                    } else {
                        try await bench.delete("f", id: made.id, nil)
                    }
                } catch {
                    let isTold = error.isSame(as: .noSuchItem) || error.isSame(as: .conflict(nil))
                    try demand(isTold, "\(call) of an item that is elsewhere by now failed with “\(error)”")
                }
                let there = try? await bench.lookup("f")
                let words = "\(call) by the id of an item took what has the item's former name"
                try demand(there?.id == other.id && there?.contentVersion == other.contentVersion, words)
            }
        },
        ConformanceCheck(
            promise: "a persistent identifier leads to its item wherever that is moved",
            isDue: \.persistentIdentifiers
        ) { bench in
            let version = try await bench.create("f", [1, 2]).contentVersion
            try await bench.create("g", [3])
            try await bench.makeDirectory("d")
            let identifier = try await bench.persistentIdentifier("f")
            let others = [try await bench.persistentIdentifier("g"), try await bench.persistentIdentifier("d")]
            try demand(!others.contains(identifier), "two items have one persistent identifier")
            func follow(_ path: String, _ what: String) async throws {
                let place = try await bench.place(of: identifier)
                try demand(place == path, "\(what) is at \(path), and its identifier leads to \(place)")
                let now = try await bench.persistentIdentifier(path)
                try demand(now == identifier, "\(what) has another persistent identifier than before")
            }
            try await follow("f", "a file")
            let renamed = try await bench.move("f", version, to: "h").contentVersion
            try await follow("h", "a file that was renamed")
            try await bench.create("f", [4])
            try await follow("h", "a file whose former name another one has")
            let moved = try await bench.move("h", renamed, to: "d/h").contentVersion
            try await follow("d/h", "a file that was moved")
            _ = try await bench.modify("d/h", moved, [5, 6, 7])
            try await follow("d/h", "a file that was changed")
            try await bench.move("d", .directory, to: "e")
            try await follow("e/h", "a file whose folder was renamed")
            let folder = try await bench.place(of: others[1])
            try demand(folder == "e", "a folder that was renamed is at e, and its identifier leads to \(folder)")
        },
        ConformanceCheck(
            promise: "a persistent identifier of nothing leads nowhere",
            isDue: \.persistentIdentifiers
        ) { bench in
            let version = try await bench.create("f", [1]).contentVersion
            let identifier = try await bench.persistentIdentifier("f")
            try await bench.delete("f", version)
            try await bench.create("f", [2])
            try await demand(.noSuchItem, of: "itemForPersistentIdentifier of a file that is gone") {
                () throws(ProviderError) in try await bench.place(of: identifier)
            }
            for text in ["cove-check-\(DocumentID.random())", "..", "/", "f"] {
                guard let unknown = PersistentIdentifier(Array(text.utf8)) else { continue }
                try await demand(.noSuchItem, of: "itemForPersistentIdentifier of one that was never given") {
                    () throws(ProviderError) in try await bench.place(of: unknown)
                }
            }
        },
    ]
}
