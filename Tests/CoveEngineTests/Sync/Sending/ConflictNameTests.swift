import CoveCore
import CoveTestSupport
import Testing

@testable import CoveEngine

/// Which names are those of conflict copies.
struct ConflictNameTests {
    private func text(_ string: String) -> [UInt8] { Array(string.utf8) }

    private func read(_ name: String) -> [String]? {
        guard let read = ConflictName(text(name)) else { return nil }
        return [String(decoding: read.document, as: UTF8.self), read.host, read.settled.description]
    }

    @Test func `conflict copies of conflict copies have one suffix`() throws {
        func plain(_ name: String) -> String { String(decoding: Namespace.withoutConflict(text(name)), as: UTF8.self) }
        #expect(plain("a (conflict from vm 2026-11-22 102140) (conflict from pc 2026-11-22 102149 2).txt") == "a.txt")
        #expect(plain("a (incomplete from vm)") == "a")
        for name in ["a (2).txt", "(conflict from x)", " (conflict from x)", "a (conflict from x) b.txt", "a)", ".txt"]
        {
            #expect(plain(name) == name)
        }
    }

    @Test func `a copy's name tells its document, who found the conflict, and what it is called after it`() {
        #expect(
            read("a (conflict from vm 2026-11-22 102140).txt") == ["a.txt", "vm", "a (from vm 2026-11-22 102140).txt"]
        )
        #expect(
            read("a (conflict from my pc 2026-11-22 102140 12)") == [
                "a", "my pc", "a (from my pc 2026-11-22 102140 12)",
            ]
        )
        #expect(read("é (2) (conflict from 7 2026-11-22 102140).tar")?.prefix(2) == ["é (2).tar", "7"])
        for name in [
            "", "a", "a.txt", "a)", "()", " (conflict from vm 2026-11-22 102140)",
            "a (conflict from vm 2026-11-22 1021).txt",
            "a (conflict from 2026-11-22 102140).txt", "a (conflict from vm 2026-11-22 102140) b.txt",
            "a (conflict from ).txt",
            "a (conflict from vm 2026-11-22 102140 1000000).txt", "a (incomplete from vm 2026-11-22 102140)",
            "a (from vm 2026-11-22 102140).txt", "a (conflict from vm 2026-11-2x 102140)",
            "a(conflict from vm 2026-11-22 102140)",
        ] {
            #expect(read(name) == nil, "\(name)")
        }
        // Whatever the bytes and the date, it is read or refused.
        for date in ["9999-99-99 999999", "0000-00-00 000000"] { #expect(read("a (conflict from x \(date))") != nil) }
        #expect(
            ConflictName([0xFF] + text(" (conflict from ") + [0xFE] + text(" 2026-11-22 102140)"))?.document == [0xFF]
        )
    }

    @Test func `the names of a document's copies lie in one range, and those of others do not`() {
        let (first, end) = ConflictName.range(of: text("a.txt"))
        func isInside(_ name: String) -> Bool {
            !text(name).lexicographicallyPrecedes(first) && text(name).lexicographicallyPrecedes(end)
        }
        #expect(isInside("a (conflict from vm 2026-11-22 102140).txt") && isInside("a (conflict from \u{FFFF}"))
        for name in ["a.txt", "a (conflict from", "a (conflict from!", "b (conflict from vm 2026-11-22 102140).txt"] {
            #expect(!isInside(name))
        }
    }
}
