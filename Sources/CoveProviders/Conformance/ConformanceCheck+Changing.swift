internal import CoveCore

/// What Cove relies on when it changes something.
extension ConformanceCheck {
    static let changing: [ConformanceCheck] = [
        ConformanceCheck(promise: "create never replaces anything") { bench in
            try await bench.create("f", [1, 2])
            try await bench.makeDirectory("d")
            for name in ["f", "d"] {
                try await demand(.filenameCollision(nil), of: "create under a name that is taken") {
                    () throws(ProviderError) in try await bench.create(name, [3])
                }
                try await demand(.filenameCollision(nil), of: "a new directory under a name that is taken") {
                    () throws(ProviderError) in try await bench.makeDirectory(name)
                }
            }
            try demand(try await bench.bytes("f") == [1, 2], "a file was replaced by a refused create")
        },
        ConformanceCheck(promise: "a change of the current version is made, and gives another version") { bench in
            var version = try await bench.create("f", [1, 2, 3]).contentVersion
            var seen: Set<ContentVersion> = [version]
            // Of one size, and one after the other: dates alone may not tell them apart.
            for round in UInt8(10)..<14 {
                let changed = try await bench.modify("f", version, [round, 2, 3])
                let isNew = seen.insert(changed.contentVersion).inserted
                let isCoarse = bench.provider.capabilities.coarseVersions
                try demand(isNew || isCoarse, "two contents of one size have one version")
                try demand(
                    try await bench.bytes("f") == [round, 2, 3],
                    "a file has other bytes than it was changed to"
                )
                version = try await bench.lookup("f").contentVersion
                try demand(version == changed.contentVersion, "lookup tells another version than modify did")
            }
        },
        ConformanceCheck(promise: "a change of an old version changes nothing") { bench in
            let first = try await bench.create("f", [1]).contentVersion
            let second = try await bench.modify("f", first, [1, 2]).contentVersion
            try await demand(.conflict(nil), of: "modify of an old version") { () throws(ProviderError) in
                try await bench.modify("f", first, [9])
            }
            try await demand(.conflict(nil), of: "delete of an old version") { () throws(ProviderError) in
                try await bench.delete("f", first)
            }
            try await demand(.conflict(nil), of: "move of an old version") { () throws(ProviderError) in
                try await bench.move("f", first, to: "g")
            }
            try demand(try await bench.bytes("f") == [1, 2], "a refused change has changed the file")
            try demand(try await bench.lookup("f").contentVersion == second, "a refused change has changed the version")
        },
        ConformanceCheck(promise: "a file moves with its bytes, and leaves its name") { bench in
            let version = try await bench.create("f", sample(5000)).contentVersion
            try await bench.makeDirectory("d")
            let moved = try await bench.move("f", version, to: "d/g")
            try demand(moved.name == Array("g".utf8) && moved.size == 5000, "move tells another item than it moved")
            try demand(try await bench.bytes("d/g") == sample(5000), "a file that was moved has other bytes")
            try await demand(.noSuchItem, of: "lookup of the name that was left") { () throws(ProviderError) in
                try await bench.lookup("f")
            }
        },
        ConformanceCheck(promise: "what makes room under a hidden name is listed, found and moved as anything else") {
            bench in
            let version = try await bench.create("f", [1, 2]).contentVersion
            try await bench.makeDirectory("d")
            let hidden = PassingName(.random(), since: System.now(), original: FileName(unchecked: Array("f".utf8)))
            let name = String(decoding: hidden.name.bytes, as: UTF8.self)
            let moved = try await bench.move("f", version, to: name)
            let names = try await bench.list().map { String(decoding: $0.name, as: UTF8.self) }
            let hiddenBytes = try await bench.bytes(name)
            try await bench.move(name, moved.contentVersion, to: "d/f")
            // Only now: what is listed no more could not be removed either.
            try demand(Set(names) == ["d", name], "\(name) is there, and \(names) are listed")
            try demand(hiddenBytes == [1, 2], "a file under a hidden name has other bytes")
            try demand(try await bench.bytes("d/f") == [1, 2], "a file that was hidden has other bytes")
        },
        ConformanceCheck(promise: "move never replaces anything") { bench in
            let version = try await bench.create("f", [1]).contentVersion
            try await bench.create("g", [2])
            try await bench.makeDirectory("d")
            try await bench.create("d/f", [3])
            // Of the same name, too: where upper and lower case are one, that is no reason.
            for target in ["g", "d/f"] {
                try await demand(.filenameCollision(nil), of: "move to a name that is taken") {
                    () throws(ProviderError) in try await bench.move("f", version, to: target)
                }
            }
            let all = [try await bench.bytes("f"), try await bench.bytes("g"), try await bench.bytes("d/f")]
            try demand(all == [[1], [2], [3]], "a refused move has changed a file")
        },
        ConformanceCheck(promise: "a directory moves with all that is in it") { bench in
            try await bench.makeDirectory("d")
            try await bench.makeDirectory("d/e")
            try await bench.create("d/e/f", [1, 2, 3])
            try await bench.create("d/g", [4])
            try await bench.move("d", .directory, to: "h")
            let all = [try await bench.bytes("h/e/f"), try await bench.bytes("h/g")]
            try demand(all == [[1, 2, 3], [4]], "what was in a directory that was moved has other bytes")
            try await demand(.noSuchItem, of: "lookup of the name that was left") { () throws(ProviderError) in
                try await bench.lookup("d")
            }
        },
        ConformanceCheck(promise: "delete deletes what is meant and nothing else") { bench in
            let version = try await bench.create("f", [1]).contentVersion
            try await bench.create("keep", [2])
            try await bench.delete("f", version)
            try await demand(.noSuchItem, of: "delete of a file that is gone") { () throws(ProviderError) in
                try await bench.delete("f", version)
            }
            try await bench.makeDirectory("d")
            try await bench.create("d/g", [3])
            try await demand(.directoryNotEmpty, of: "delete of a directory that holds a file") {
                () throws(ProviderError) in try await bench.delete("d", .directory)
            }
            try demand(try await bench.bytes("d/g") == [3], "a refused delete has deleted a file")
            try await bench.delete("d/g", try await bench.lookup("d/g").contentVersion)
            try await bench.delete("d", .directory)
            let names = try await bench.list().map { String(decoding: $0.name, as: UTF8.self) }
            try demand(names == ["keep"], "after the deletions \(names) are there, not keep alone")
        },
        ConformanceCheck(promise: "an upload that is called off leaves nothing behind") { bench in
            do {
                try await bench.create("f", content: CheckContent(sample(3 << 20), calledOffAfter: 1 << 20))
                throw Failure(why: "create was done though its content was called off")
            } catch is ProviderError {}
            // The provider hears of it a moment later, and may clean up after that.
            var names: [String] = []
            for _ in 0..<3 {
                try await Task.sleep(for: TimeSpan.seconds(1))
                names = try await bench.list().map { String(decoding: $0.name, as: UTF8.self) }
                if names.isEmpty { break }
            }
            try demand(names.isEmpty, "\(names) are left of an upload that was called off")
        },
        ConformanceCheck(promise: "calls side by side don't disturb each other") { bench in
            let names = (0..<16).map { "p\($0)" }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for (index, name) in names.enumerated() {
                    group.addTask { try await bench.create(name, sample(100_000, UInt64(index) + 1)) }
                }
                try await group.waitForAll()
            }
            for (index, name) in names.enumerated() {
                let found = try await bench.bytes(name)
                try demand(found == sample(100_000, UInt64(index) + 1), "\(name) has the bytes of another upload")
            }
        },
        ConformanceCheck(promise: "a copy has the bytes of the version, and replaces nothing", isDue: \.serverSideCopy)
        { bench in
            let version = try await bench.create("f", sample(3000)).contentVersion
            let copied = try await bench.copy("f", version, to: "g")
            try demand(copied.size == 3000, "copy tells another item than it made")
            try demand(try await bench.bytes("g") == sample(3000), "a copy has other bytes")
            try await demand(.filenameCollision(nil), of: "copy to a name that is taken") { () throws(ProviderError) in
                try await bench.copy("f", version, to: "g")
            }
        },
    ]
}
