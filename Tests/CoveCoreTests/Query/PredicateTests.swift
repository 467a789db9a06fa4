import CoveTestSupport
import Foundation
import Testing

@testable import CoveCore

/// Predicates: what their text means, what is told of a wrong one, and of what they hold.
@Suite struct PredicateTests {
    private static let item: [QueryKey: QueryValue] = [
        .name: .string("Bericht März.PDF"), .path: .string("/m/Documents/Bericht März.PDF"), .size: .number(1200),
        .contentChangeDate: .date(1_700_000_000), .isUploaded: .truth(true), .contentType: .string("application/pdf"),
        .contentTypeTree: .strings(["application/pdf", "application/octet-stream"]),
        .downloadingStatus: .string("NotDownloaded"), .percentUploaded: .number(100),
    ]

    private func holds(_ text: String, _ arguments: [QueryValue] = []) throws -> Bool {
        let predicate = try QueryPredicate(parsing: text, arguments: arguments)
        #expect(try QueryPredicate(json: predicate.json) == predicate, "\(text) is another one after JSON")
        return predicate.holds { Self.item[$0] }
    }

    @Test(arguments: [
        "FSName == \"Bericht März.PDF\"", "FSName = 'Bericht März.PDF'", "'Bericht März.PDF' == FSName",
        "FSName == 'Bericht Ma\u{308}rz.PDF'", "FSName ==[c] \"bericht märz.pdf\"", "FSName ==[cd] 'BERICHT MARZ.pdf'",
        "FSName != 'x'", "NOT FSName == 'x'", "!(FSName == 'x')", "NOT NOT FSName != 'x'",
        "FSName LIKE 'Bericht*'", "FSName LIKE '*M?rz*'", "FSName like[c] '*.pdf'", "FSName LIKE '*'",
        "FSName LIKE '**März**PDF'",
        "FSName BEGINSWITH 'Ber'", "FSName ENDSWITH[c] '.pdf'", "FSName CONTAINS 'März'", "FSName CONTAINS[cd] 'marz'",
        "FSName CONTAINS ''", "FSName IN {'a', 'Bericht März.PDF'}", "FSName > 'A' && FSName < 'C'",
        "FSSize > 1000", "FSSize >= 1200 AND FSSize <= 1.2e3", "1000 < FSSize", "FSSize BETWEEN {1200, 1300}",
        "FSSize IN {1, 1200}",
        "FSContentChangeDate > '2023-11-14T22:13:19Z'", "FSContentChangeDate < '2023-11-14T23:13:21+01:00'",
        "FSContentChangeDate == 1700000000", "FSContentChangeDate BETWEEN {'2023-11-13', '2023-11-16 12:00'}",
        "IsUploaded == TRUE", "IsUploaded == yes", "IsUploaded = 1", "IsUploaded != NO", "UploadingError == NULL",
        "UploadingError != 'x'", "FSName != nil", "ContentTypeTree == 'application/octet-stream'",
        "ContentTypeTree != 'text/plain'", "ContentTypeTree BEGINSWITH 'application/'",
        "'application/pdf' IN ContentTypeTree",
        "kMDItemFSName.lastPathComponent == 'Bericht März.PDF'", "NSMetadataItemPathKey.lastPathComponent LIKE 'Ber*'",
        "kMDItemURL.path ENDSWITH 'PDF'", "TRUEPREDICATE", "NOT FALSEPREDICATE",
        "FALSEPREDICATE AND FALSEPREDICATE OR TRUEPREDICATE", "TRUEPREDICATE OR FALSEPREDICATE AND FALSEPREDICATE",
        "NSMetadataUbiquitousItemIsUploadedKey == TRUE AND NSMetadataUbiquitousItemDownloadingStatusKey == 'NotDownloaded'",
    ])
    func `holds`(text: String) throws { #expect(try holds(text)) }

    @Test(arguments: [
        "FSName == 'bericht märz.pdf'", "FSName ==[c] 'BERICHT MARZ.pdf'", "FSName LIKE 'Bericht'", "FSName LIKE '?'",
        "FSName LIKE '*.pdf'", "FSName LIKE ''", "FSName LIKE 'Bericht\\\\*'", "FSName CONTAINS 'pdf'",
        "FSName ENDSWITH 'x'", "FSName IN {}",
        "FSSize > 1200", "FSSize BETWEEN {1201, 2000}", "UploadingError == 'x'", "UploadingError LIKE '*'",
        "DownloadingError < 'x'", "NOT UploadingError == NULL", "ContentTypeTree == 'text/plain'",
        "ContentTypeTree != 'application/pdf'", "TRUEPREDICATE AND FALSEPREDICATE",
        "FSContentChangeDate > '2100-01-01'",
    ])
    func `does not hold`(text: String) throws { #expect(try !holds(text)) }

    @Test func `arguments stand for keys and values`() throws {
        #expect(try holds("%K == %@", [.string("kMDItemFSName"), .string("Bericht März.PDF")]))
        #expect(
            try holds(
                "FSSize > %@ AND %K IN %@",
                [.number(5), .string("FSName"), .strings(["a", "Bericht März.PDF"])]
            )
        )
        #expect(try holds("FSContentChangeDate < %@", [.date(1_800_000_000)]))
        // A value is a value, whatever it looks like.
        #expect(try !holds("FSName == %@", [.string("x' OR TRUEPREDICATE OR FSName == 'x")]))
        for (text, arguments) in [
            ("FSName == %@", []), ("FSName == 'a'", [QueryValue.number(1)]), ("%K == 1", [.number(1)]),
        ] {
            #expect(throws: QueryPredicateError.self) { try QueryPredicate(parsing: text, arguments: arguments) }
        }
    }

    @Test(arguments: [
        ("", 0, "a key"), ("FSName", 6, "comparison"), ("FSName ==", 9, "a string in quotes"),
        ("FSName == 5", 10, "a string in quotes"),
        ("FSSize == 'a'", 10, "a number"), ("IsUploaded == 2", 14, "TRUE or FALSE"),
        ("FSContentChangeDate > '2026-02-30'", 22, "a date"),
        ("(FSSize > 1", 11, ")"), ("FSSize > 1)", 10, "the end"), ("FSSize > 1 FSSize", 11, "AND"),
        ("Size > 1", 0, "no key"),
        ("FSName LIKE", 11, "a string"), ("FSSize LIKE 'a'", 7, "no string"), ("FSName MATCHES '(a+)+$'", 7, "LIKE"),
        ("FSName == 'a", 10, "no end"),
        ("FSName ==[x] 'a'", 10, "c, d or cd"), ("FSName IN 'a'", 10, "{"), ("FSName IN {'a'", 14, "}"),
        ("FSSize BETWEEN {1}", 18, "two values"),
        ("FSName == §", 10, "means nothing"), ("FSSize > 1e999", 9, "no number"),
        ("FSSize.lastPathComponent > 1", 0, "no last component"),
        ("ä == %x", 5, "%@"), ("FSName BETWEEN {'a', 'b'} AND", 29, "a key"),
    ])
    func `what is wrong is told with its place`(text: String, position: Int, words: String) throws {
        do {
            _ = try QueryPredicate(parsing: text)
            Issue.record("\(text) was read")
        } catch {
            #expect(error.position == position, "\(error)")
            #expect(error.message.contains(words), "\(error)")
        }
    }

    @Test func `what is too deep or too long is refused, and nothing is slow`() throws {
        for text in [
            String(repeating: "(", count: 60_000), String(repeating: "NOT ", count: 10_000) + "TRUEPREDICATE",
            String(repeating: "!", count: 60_000), "FSName == '" + String(repeating: "a", count: 70_000) + "'",
        ] {
            #expect(throws: QueryPredicateError.self) { try QueryPredicate(parsing: text) }
        }
        // What has made other matchers take for ever.
        let pattern = String(repeating: "*a", count: 5000)
        let comparison = QueryPredicate.Comparison(.name, .like(pattern + "b"))
        #expect(!comparison.holds(.string(String(repeating: "a", count: 255))))
        // A letter that is two in upper case is one to `?`.
        for (text, pattern) in [("straße", "stra?e"), ("ﬁne", "?ne"), ("STRASSE", "straße"), ("straße", "STRASSE")] {
            let like = QueryPredicate.Comparison(.name, .like(pattern), options: .caseInsensitive)
            #expect(like.holds(.string(text)), "\(text) \(pattern)")
        }
        // One page of items is less work, the more one is.
        #expect(PreparedPredicate(try QueryPredicate(parsing: "FSName == 'a'")).weight == 1)
        let alternatives = (0..<2000).map { "FSName ==[cd] 'name \($0)'" }.joined(separator: " OR ")
        let heavy = PreparedPredicate(try QueryPredicate(parsing: alternatives))
        #expect(heavy.weight >= 2000 && heavy.holds { _ in .string("NAME 1999") } && !heavy.holds { _ in .string("x") })
        let many = (0..<6000).map { "'\($0)'" }.joined(separator: ",")
        #expect(try QueryPredicate(parsing: "FSName IN {\(many)}").holds { _ in .string("5999") })
    }

    /// Texts at random: each is read or refused, and what is read is the same after JSON.
    @Test func `no text ends the process`() throws {
        let seed = UInt64.random(in: .min ... .max)
        var random = SeededGenerator(seed: seed)
        let parts = [
            "FSName", "FSSize", "IsUploaded", "FSContentChangeDate", "ContentTypeTree", "==", "!=", "<", ">=", "LIKE",
            "IN", "BETWEEN", "[c]",
            "[cd", "{", "}", ",", "(", ")", "AND", "OR", "NOT", "!", "'a'", "\"*?\"", "'\\", "1", "-", ".", "1e9", "%@",
            "%K", "TRUE", "NULL",
            "TRUEPREDICATE", " ", "\u{0}", "é", "🙂", "\\", "CONTAINS", "kMDItem", ".path", ".lastPathComponent",
        ]
        for _ in 0..<20_000 {
            let text = (0..<Int.random(in: 0...12, using: &random)).map { _ in
                parts.randomElement(using: &random)! + (Bool.random(using: &random) ? " " : "")
            }.joined()
            guard let predicate = try? QueryPredicate(parsing: text) else { continue }
            #expect(try QueryPredicate(json: predicate.json) == predicate, "seed \(seed): \(text)")
            _ = predicate.holds { Self.item[$0] }
        }
    }
}
