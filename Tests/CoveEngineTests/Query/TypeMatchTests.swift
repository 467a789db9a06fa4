import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// What SQLite leaves out for its type, compared with the type that a name has.
@Suite struct TypeMatchTests {
    private let types = ContentTypes.ofMachine

    private func mayHave(_ name: String, _ isWanted: (String) -> Bool) throws -> Bool {
        guard let names = types.names(ofTypes: isWanted) else { throw Errno.notSupported }
        let match = TypeMatch(names)
        return Array(name.utf8).withUnsafeBytes { match.mayHave($0) }
    }

    @Test func `names tell the types that files may have`() throws {
        for (name, type, expected) in [
            ("a.png", "image/png", true), ("A.PNG", "image/png", true), ("a.png.zip", "image/png", false),
            ("png", "image/png", false), (".png", "image/png", true),
            ("a.tar.gz", "application/x-compressed-tar", true),
            ("a.gz", "application/x-compressed-tar", false), ("core", "application/x-core", true),
            ("score", "application/x-core", false), ("é.txt", "image/png", true),
        ] { #expect(try mayHave(name, { $0 == type }) == expected, "\(name) \(type)") }
        #expect(types.names { $0 == "application/octet-stream" } == nil, "any other name may be of that")
        #expect(types.names { $0 == "text/x-makefile" } == nil, "by patterns names are not told")
    }

    /// Names and comparisons at random: nothing is left out of which the predicate holds.
    @Test func `it leaves out nothing that is wanted`() throws {
        let given = ProcessInfo.processInfo.environment["COVE_MODEL_SEED"].flatMap(UInt64.init)
        let seed = given ?? .random(in: .min ... .max)
        var random = SeededGenerator(seed: seed)
        let endings = [
            ".png", ".PNG", ".txt", ".c", ".C", ".tar.gz", ".gz", "~", ".h", ".md", ".epub", ".7z", "", ".1", "core",
        ]
        let known = [
            "image/png", "text/plain", "image/", "text/x-c++src", "application/gzip", "application/zip", "IMAGE/PNG",
        ]
        let database = try Database(
            path: ":memory:",
            disk: StateDisk(directory: "/dev/null", log: Log(path: nil, echoToStandardError: false)),
            log: Log(path: nil, echoToStandardError: false)
        )
        var left = 0
        for step in 0..<400 {
            let name =
                ["a", "Makefile", "core", "é", "x.y", ""].randomElement(using: &random)!
                + endings.randomElement(using: &random)! + endings.randomElement(using: &random)!
            let text = known.randomElement(using: &random)!
            let relation: QueryPredicate.Relation = [
                .equal(.string(text)), .beginsWith(text), .notEqual(.string(text)), .endsWith("png"), .contains("mag"),
                .like("image/*"), .isIn([.string(text), .string("image/gif")]), .less(.string(text)),
            ].randomElement(using: &random)!
            let key = Bool.random(using: &random) ? QueryKey.contentType : .contentTypeTree
            let isFolded = Bool.random(using: &random)
            let comparison = QueryPredicate.Comparison(key, relation, options: isFolded ? .caseInsensitive : [])
            for kind in [ItemKind.file, .directory] {
                let filter = QueryFilter.type(comparison)
                let type = kind.type ?? types.type(ofFile: name)
                let holds = comparison.holds(key == .contentType ? .string(type) : .strings(types.tree(type)))
                let sql = "SELECT \(filter.sql) FROM (SELECT ? AS name) e, (SELECT \(kind.rawValue) AS kind) i"
                // Its value comes before that of the name.
                var may = true
                try database.visit(sql, filter.values + [.blob(Array(name.utf8))]) { may = $0.int(0) != 0 }
                #expect(may || !holds, "seed \(seed), step \(step): \(name) \(kind) \(comparison)")
                if !may { left += 1 }
            }
        }
        #expect(left > 50, "seed \(seed): something is left out")
    }
}
