import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// What SQLite leaves out of names, compared with what the predicate says.
@Suite struct NameMatchTests {
    private func mayHold(_ name: [UInt8], _ text: String, _ match: NameMatch) -> Bool {
        name.withUnsafeBytes { name in Array(text.utf8).withUnsafeBytes { match.mayHold(name, $0) } }
    }

    @Test func `a name is compared byte for byte, at its beginning, its end, or anywhere`() {
        for (name, text, match, expected) in [
            ("report.pdf", "port", [], true), ("report.pdf", "PORT", [], false),
            ("report.pdf", "report.pdf.", [], false),
            ("report.pdf", "report", .atStart, true), ("report.pdf", "eport", .atStart, false),
            ("report.pdf", ".pdf", .atEnd, true), ("report.pdf", ".pd", .atEnd, false),
            ("report.pdf", "report.pdf", [.atStart, .atEnd], true),
            ("report.pdf", "report", [.atStart, .atEnd], false), ("aab", "ab", [], true), ("", "a", [], false),
            ("REport.PDF", "report", [.atStart, .inEitherCase], true), ("AZ", "az", .inEitherCase, true),
            ("a@b", "a`b", .inEitherCase, false), ("a[b", "a{b", .inEitherCase, false),
            // What is no ASCII may be equal to others in many ways.
            ("é", "x", [], true), ("\u{212A}", "k", [.atStart, .inEitherCase], true), ("123456789é", "x", [], true),
        ] as [(String, String, NameMatch, Bool)] {
            #expect(mayHold(Array(name.utf8), text, match) == expected, "\(name) \(text) \(match.rawValue)")
        }
        #expect(mayHold([0x61, 0x80], "x", []), "a name that is no text")
    }

    /// Names and texts at random: what is left out the predicate does not hold of, and of ASCII it holds of all the rest.
    @Test func `it leaves out what the predicate does, and nothing else`() throws {
        let given = ProcessInfo.processInfo.environment["COVE_MODEL_SEED"].flatMap(UInt64.init)
        let seed = given ?? .random(in: .min ... .max)
        var random = SeededGenerator(seed: seed)
        let letters: [Character] = ["a", "A", "b", "B", ".", "[", "{", "@", "`", "é", "e\u{301}", "\u{212A}", "k"]
        func text(_ count: ClosedRange<Int>, _ letters: some Collection<Character>) -> String {
            String((0..<Int.random(in: count, using: &random)).map { _ in letters.randomElement(using: &random)! })
        }
        for step in 0..<20_000 {
            let isPlain = Bool.random(using: &random)
            let name = text(1...12, isPlain ? letters.filter(\.isASCII) : letters)
            let part = text(1...3, letters.filter(\.isASCII))
            let isFolded = Bool.random(using: &random)
            let (relation, match): (QueryPredicate.Relation, NameMatch) = [
                (.contains(part), []), (.beginsWith(part), .atStart), (.endsWith(part), .atEnd),
                (.equal(.string(part)), [.atStart, .atEnd]),
            ].randomElement(using: &random)!
            let comparison = QueryPredicate.Comparison(.name, relation, options: isFolded ? .caseInsensitive : [])
            let may = mayHold(
                Array(name.utf8),
                isFolded ? part.lowercased() : part,
                isFolded ? match.union(.inEitherCase) : match
            )
            let holds = comparison.holds(.string(name))
            #expect(may || !holds, "seed \(seed), step \(step): \(name) \(comparison)")
            if isPlain { #expect(may == holds, "seed \(seed), step \(step): \(name) \(comparison)") }
        }
    }
}
