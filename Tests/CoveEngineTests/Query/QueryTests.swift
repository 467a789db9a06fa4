import CoveCore
import CoveProviders
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// What a query finds in a cloud of which little or nothing is here.
@Suite struct QueryTests {
    private func request(_ text: String) throws -> QueryRequest { QueryRequest(try QueryPredicate(parsing: text)) }

    private func paths(
        _ account: EngineAccount,
        _ request: QueryRequest
    ) async throws -> (paths: [String], unlisted: Int) {
        let found = Mutex<[String]>([])
        let unlisted = try await account.engine.query(request) { results in
            found.withLock { $0 += results.map { $0.path.description } }
            return true
        }
        return (found.withLock { $0 }, unlisted)
    }

    private func paths(_ account: EngineAccount, _ text: String) async throws -> [String] {
        try await paths(account, try request(text)).paths
    }

    /// Makes a directory a package by its attribute, or makes it none.
    private func setPackage(_ path: String, _ isOne: Bool, _ account: EngineAccount) throws {
        let (id, value) = (try account.tree.resolve(path), isOne ? [UInt8(0x31)] : [0x30])
        try account.engine.setExtendedAttribute(id, PackageTypes.attribute, value, flags: 0, account.tree.caller)
    }

    /// An account on a source with some folders, of which nothing is listed.
    private func account() throws -> EngineAccount {
        let account = try EngineAccount()
        let source = SourceFolder(account.source)
        for folder in ["Documents", "Documents/work", "Documents/work/old", "Pictures"] {
            try source.makeDirectory(folder)
        }
        try source.save("a.txt", [1])
        try source.save("Documents/report.pdf", Array(repeating: 1, count: 3000))
        try source.save("Documents/work/a.txt", [1, 2])
        try source.save("Documents/work/old/Report (2).PDF", Array(repeating: 2, count: 20))
        try source.save("Pictures/a.png", Array(repeating: 3, count: 500))
        return account
    }

    @Test func `a query covers folders that nobody has opened, and fetches nothing`() async throws {
        try await blocking {
            let account = try account()
            var listed = try request("FSName == 'a.txt'")
            listed.listedOnly = true
            let before = try await paths(account, listed)
            #expect(before.paths == [] && before.unlisted >= 1)
            for (text, expected) in [
                ("FSName == 'a.txt'", ["Documents/work/a.txt", "a.txt"]),
                ("FSName LIKE[c] '*report*.pdf'", ["Documents/report.pdf", "Documents/work/old/Report (2).PDF"]),
                ("FSName BEGINSWITH 'a.'", ["Documents/work/a.txt", "Pictures/a.png", "a.txt"]),
                ("FSName CONTAINS 'epor' AND FSSize < 100", ["Documents/work/old/Report (2).PDF"]),
                ("ContentType == 'image/png'", ["Pictures/a.png"]),
                ("ContentTypeTree == 'text/plain'", ["Documents/work/a.txt", "a.txt"]),
                ("ContentType BEGINSWITH[c] 'IMAGE/'", ["Pictures/a.png"]),
                ("ContentType LIKE 'inode/*' AND FSName != 'work'", ["Documents", "Documents/work/old", "Pictures"]),
                ("Kind == 'directory'", ["Documents", "Documents/work", "Documents/work/old", "Pictures"]),
                ("DownloadingStatus == 'Current' AND Kind == 'file'", []),
            ] {
                let found = try await paths(account, text)
                #expect(found.sorted() == expected, "\(text)")
            }
            #expect(account.engine.statistics().downloadsStarted == 0)
            #expect(try account.tree.read("a.txt") == [1])
            let here = try await paths(account, "DownloadingStatus == 'Current' AND Kind == 'file'")
            #expect(here == ["a.txt"])
            await account.stop()
        }
    }

    @Test func `scopes, folders and orders`() async throws {
        try await blocking {
            let account = try account()
            let files = try request("Kind == 'file'")
            for (scope, expected) in [
                (
                    QueryScope.documents,
                    ["Documents/report.pdf", "Documents/work/a.txt", "Documents/work/old/Report (2).PDF"]
                ),
                (.data, ["Pictures/a.png", "a.txt"]), (.external, []),
            ] {
                var request = files
                request.scopes = [scope]
                let found = try await paths(account, request).paths
                #expect(found.sorted() == expected, "\(scope)")
            }
            var folders = try request("Kind == 'directory'")
            folders.scopes = [.documents]
            let inDocuments = try await paths(account, folders).paths
            #expect(inDocuments.sorted() == ["Documents/work", "Documents/work/old"])
            var below = files
            below.folder = RemotePath(unchecked: Array("Documents/work".utf8))
            let inside = try await paths(account, below).paths
            #expect(inside.sorted() == ["Documents/work/a.txt", "Documents/work/old/Report (2).PDF"])
            below.folder = RemotePath(unchecked: Array("Documents/none".utf8))
            let missing = below
            await #expect(throws: Errno.noSuchEntry) { try await paths(account, missing) }
            var bySize = files
            bySize.order = [QuerySort(.size, isDescending: true)]
            let sorted = try await paths(account, bySize).paths
            #expect(
                sorted == [
                    "Documents/report.pdf", "Pictures/a.png", "Documents/work/old/Report (2).PDF",
                    "Documents/work/a.txt", "a.txt",
                ]
            )
            var byName = try request("FSName LIKE 'a.*'")
            byName.order = [QuerySort(.name), QuerySort(.size)]
            let named = try await paths(account, byName).paths
            #expect(named == ["Pictures/a.png", "a.txt", "Documents/work/a.txt"])
            await account.stop()
        }
    }

    @Test func `a folder that can't be listed is counted, and what waits to be sent is found offline`() async throws {
        try await blocking {
            let account = try account()
            #expect(try account.tree.list("").count == 3)
            try await account.setOffline(true)
            try account.tree.write("new.txt", [9])
            var waiting = try request("IsUbiquitous == TRUE AND IsUploaded == FALSE")
            waiting.listedOnly = true
            let found = try await paths(account, waiting)
            #expect(found.paths == ["new.txt"] && found.unlisted == 2)
            await account.stop()
        }
    }

    @Test func `what was listed before the source went away is found`() async throws {
        try await blocking {
            let link = Mutex<SimulatedLink?>(nil)
            let account = try EngineAccount(
                wrap: { base in
                    MeddledProvider(
                        base,
                        show: { path in
                            // Within one batch of folders.
                            if path.description == "d5" { link.withLock { $0?.setOffline(true) } }
                            return nil
                        }
                    )
                },
                configure: { _ in }
            )
            link.withLock { $0 = account.link }
            for number in 0..<10 {
                try SourceFolder(account.source).makeDirectory("d\(number)")
                try SourceFolder(account.source).save("d\(number)/f.txt", [1])
            }
            #expect(try account.tree.list("").count == 10)
            let found = try await paths(account, try request("FSName == 'f.txt'"))
            var listed = try request("FSName == 'f.txt'")
            listed.listedOnly = true
            let known = try await paths(account, listed)
            #expect(found.unlisted > 0 && !known.paths.isEmpty && found.paths.sorted() == known.paths.sorted())
            await account.stop()
        }
    }

    /// Trees, predicates and changes at random: what a query finds is what a walk through all finds.
    @Test func `finds what a walk finds`() async throws {
        try await blocking {
            let given = ProcessInfo.processInfo.environment["COVE_MODEL_SEED"].flatMap(UInt64.init)
            let seed = given ?? .random(in: .min ... .max)
            var random = SeededGenerator(seed: seed)
            let account = try EngineAccount()
            #expect(try account.tree.list("").isEmpty)
            // What is sent meanwhile would be found otherwise a moment later.
            try await account.setOffline(true)
            let names = [
                "a", "ab", "abc", "b.txt", "B.TXT", "ä", "a\u{308}", "x y", "a.pdf", "Documents", "K", "\u{212A}", "ß",
                "SS",
                "a_b", "a%b", "a!b", "\u{17F}s", "p.rtfd", "P.Pages",
            ]
            var folders = [""]
            var packages: [String] = []
            for _ in 0..<40 {
                let folder = try #require(folders.randomElement(using: &random))
                let path = (folder.isEmpty ? "" : folder + "/") + names.randomElement(using: &random)!
                guard (try? account.tree.resolve(path)) == nil else { continue }
                if Int.random(in: 0..<3, using: &random) == 0 {
                    try account.tree.makeDirectory(path)
                    folders.append(path)
                    if path.lowercased().hasSuffix(".rtfd") || path.lowercased().hasSuffix(".pages") {
                        packages.append(path)
                    } else if Int.random(in: 0..<8, using: &random) == 0 {
                        try setPackage(path, true, account)
                        packages.append(path)
                    }
                } else {
                    try account.tree.write(path, Array(repeating: 7, count: Int.random(in: 0...9, using: &random)))
                }
            }
            if Bool.random(using: &random) {
                try await account.setOffline(false)
                try await account.settle()
                try await account.setOffline(true)
            }
            for folder in folders.prefix(3) { try account.tree.write(folder.isEmpty ? "late" : folder + "/late", [1]) }
            if let file = try account.tree.list("").first(where: { $0.value == .file && $0.key != "late" })?.key {
                _ = await account.evict(file)
            }
            // What is written and not closed is known, too.
            let open = try account.tree.open("late")
            try account.tree.append(open, [1, 2, 3, 4, 5])
            func walk() throws -> [(path: String, values: [QueryKey: QueryValue])] {
                var all: [(path: String, values: [QueryKey: QueryValue])] = []
                try account.engine.walk(.root) { status in
                    if !status.path.isEmpty {
                        all.append(
                            (
                                status.path,
                                [
                                    .name: .string(status.name),
                                    .size: .number(status.kind == "file" ? Double(status.size) : 0),
                                    .kind: .string(status.kind), .isUbiquitous: .truth(true),
                                    .isUploaded: .truth(!status.isDirty && status.remoteID != nil),
                                    .contentChangeDate: .date(status.modificationTime),
                                    .downloadingStatus: .string(status.downloadingStatus),
                                    .hasUnresolvedConflicts: .truth(status.hasConflict),
                                    .contentType: .string(
                                        status.kind == "file"
                                            ? ContentTypes.ofMachine.type(ofFile: status.name) : "inode/\(status.kind)"
                                    ),
                                ]
                            )
                        )
                    }
                    return true
                }
                return all
            }
            var all = try walk()
            func comparison() -> QueryPredicate {
                let name = names.randomElement(using: &random)!
                let part = String(name.prefix(Int.random(in: 0...2, using: &random)))
                let relation: QueryPredicate.Relation =
                    switch Int.random(in: 0..<8, using: &random) {
                    case 0: .equal(.string(name))
                    case 1: .notEqual(.string(name))
                    case 2: .isIn([.string(name), .string("ab")])
                    case 3: .beginsWith(part)
                    case 4: .endsWith(part)
                    case 5: .contains(part)
                    case 6: .like(part + "*")
                    default: .like("*\(part)?")
                    }
                let options: TextOptions = [[], [], [.caseInsensitive], [.diacriticInsensitive]].randomElement(
                    using: &random
                )!
                func number(_ value: QueryValue, _ other: QueryValue) -> QueryPredicate.Relation {
                    switch Int.random(in: 0..<7, using: &random) {
                    case 0: .equal(value)
                    case 1: .notEqual(value)
                    case 2: .less(value)
                    case 3: .lessOrEqual(value)
                    case 4: .greater(value)
                    case 5: .greaterOrEqual(value)
                    default: .between(value, other)
                    }
                }
                switch Int.random(in: 0..<12, using: &random) {
                case 0, 6:
                    let least = Double(Int.random(in: 0...18, using: &random)) / 2
                    return .comparison(.init(.size, number(.number(least), .number(least + 2))))
                case 7:
                    let value = all.randomElement(using: &random)?.values[.contentChangeDate] ?? .date(0)
                    return .comparison(.init(.contentChangeDate, number(value, .date(.infinity))))
                case 8:
                    let words = ["Current", "NotDownloaded", "current"]
                    let word = QueryValue.string(words.randomElement(using: &random)!)
                    return .comparison(
                        .init(.downloadingStatus, Bool.random(using: &random) ? .equal(word) : .notEqual(word))
                    )
                case 9:
                    let key: QueryKey = Bool.random(using: &random) ? .hasUnresolvedConflicts : .isUploaded
                    let truth = QueryValue.truth(Bool.random(using: &random))
                    return .comparison(.init(key, Bool.random(using: &random) ? .equal(truth) : .notEqual(truth)))
                case 10:
                    let types = [
                        "application/pdf", "inode/directory", "text/", "application/octet-stream", "INODE/directory",
                    ]
                    let type = types.randomElement(using: &random)!
                    let relation: QueryPredicate.Relation =
                        Bool.random(using: &random) ? .equal(.string(type)) : .beginsWith(type)
                    return .comparison(.init(.contentType, relation, options: options))
                case 11:
                    let kinds = ["file", "directory", "device", "none"].shuffled(using: &random).prefix(2)
                    return .comparison(.init(.kind, .isIn(kinds.map { .string($0) })))
                case 1: return .comparison(.init(.kind, .equal(.string("directory"))))
                case 2:
                    return .all([
                        .comparison(.init(.isUbiquitous, .equal(.truth(true)))),
                        .comparison(.init(.isUploaded, .equal(.truth(false)))),
                    ])
                default: return .comparison(.init(.name, relation, options: options))
                }
            }
            func predicate(_ depth: Int) -> QueryPredicate {
                guard depth > 0 else { return comparison() }
                return switch Int.random(in: 0..<5, using: &random) {
                case 0: .not(predicate(depth - 1))
                case 1: .all([predicate(depth - 1), predicate(depth - 1)])
                case 2: .any([predicate(depth - 1), predicate(depth - 1)])
                default: comparison()
                }
            }
            for _ in 0..<300 {
                let wanted = predicate(3)
                let folder = Int.random(in: 0..<3, using: &random) > 0 ? "" : folders.randomElement(using: &random)!
                var asked = QueryRequest(wanted)
                asked.folder = RemotePath(unchecked: Array(folder.utf8))
                // What was sent last may be told of a moment later: then both are asked again.
                var wrong: [String] = []
                for _ in 0..<5 {
                    // Byte by byte: to a string, equal letters are the same.
                    func isInside(_ path: String, _ top: String) -> Bool {
                        "\(path)/".utf8.starts(with: "\(top)/".utf8)
                    }
                    let shown = all.filter { item in
                        let around = packages.filter { isInside(item.path, $0) && !isInside($0, item.path) }
                        return (folder.isEmpty || isInside(item.path, folder))
                            && around.allSatisfy { isInside(folder, $0) }
                    }
                    let expected = shown.filter { item in wanted.holds { item.values[$0] } }.map { Array($0.path.utf8) }
                    let found = try await paths(account, asked).paths.map { Array($0.utf8) }
                    wrong = Set(found).symmetricDifference(expected).map { String(decoding: $0, as: UTF8.self) }
                    #expect(found.count == Set(found).count)
                    if wrong.isEmpty { break }
                    all = try walk()
                }
                #expect(wrong.isEmpty, "seed \(seed), in '\(folder)': \(wanted.json.description)")
            }
            try account.tree.close(open)
            await account.stop()
        }
    }

    @Test func `a predicate of any form is answered, and says nothing of the disk`() async throws {
        try await blocking {
            let account = try account()
            let name = QueryPredicate.comparison(.init(.name, .equal(.string("a.txt"))))
            let other = QueryPredicate.comparison(.init(.kind, .equal(.string("device"))))
            func nested(_ depth: Int, _ form: (QueryPredicate) -> QueryPredicate) -> QueryPredicate {
                (0..<depth).reduce(name) { inner, _ in form(inner) }
            }
            let wide = QueryPredicate.any(Array(repeating: other, count: 49) + [name])
            for depth in [7, 8, 9, 28, 60, 98] {
                for predicate in [
                    nested(depth) { .any([other, $0]) }, nested(depth) { .any([$0, other]) },
                    nested(depth) { .all([name, $0]) },
                    nested(2 * depth) { .not($0) }, nested(depth) { .any([$0] + Array(repeating: other, count: 49)) },
                    .all(Array(repeating: wide, count: depth)),
                ] {
                    #expect(
                        try await paths(account, QueryRequest(predicate)).paths.sorted() == [
                            "Documents/work/a.txt", "a.txt",
                        ]
                    )
                }
            }
            #expect(account.engine.accountStatus().errors.isEmpty)
            try account.tree.write("b.txt", [1])
            await account.stop()
        }
    }

    @Test func `the shortest way is taken`() throws {
        func access(_ text: String) throws -> QueryAccess { QueryAccess(try QueryPredicate(parsing: text)) }
        let name: (String) -> [UInt8] = { Array($0.utf8) }
        #expect(try access("FSName == 'a' AND FSSize > 3") == .names([name("a")]))
        #expect(
            try access("FSSize > 3 AND (FSName == 'a' OR FSName IN {'b', 'c'})")
                == .names([name("a"), name("b"), name("c")])
        )
        #expect(try access("FSName LIKE 'a'") == .names([name("a")]))
        #expect(try access("FSName LIKE 'ab*c'") == .prefix(name("ab")))
        #expect(try access("FSName BEGINSWITH 'x' AND Kind == 'file'") == .prefix(name("x")))
        #expect(try access("IsUploaded == FALSE AND IsUbiquitous == TRUE") == .waiting)
        // Nothing of these can be left out.
        for text in [
            "FSName == 'ä'", "FSName ==[c] 'a'", "NOT FSName == 'a'", "FSName == 'a' OR FSSize > 3",
            "IsUploaded == FALSE", "FSName != 'a'", "FSName CONTAINS 'long' AND FSName ENDSWITH 'x'",
        ] {
            #expect(try access(text) == .all, "\(text)")
        }
    }
}
