import CoveCore
import Testing

@testable import CoveProviders

struct KeptNamesTests {
    /// A server that keeps what a rule says, but loses one of the names that it is asked to keep first, for the moment.
    private static func find(
        losing lost: Int?,
        _ keeps: (_ name: [UInt8], _ there: Set<[UInt8]>) -> Bool = { _, _ in true }
    ) async throws -> (names: KeptNames, tried: Int, rounds: Int) {
        var (tried, rounds) = (0, 0)
        var there: Set<[UInt8]> = []
        let names = try await KeptNames.find { names, pairs throws(ProviderError) in
            rounds += 1
            var kept: Set<[UInt8]> = []
            for name in names + pairs.joined() {
                tried += 1
                if tried - 1 != lost, keeps(name, there) { kept.insert(name) }
                there.insert(name)
            }
            return kept
        }
        return (names, tried, rounds)
    }

    @Test func `a name that is lost once, whichever it is, is one that the server keeps`() async throws {
        let (honest, tried, rounds) = try await Self.find(losing: nil)
        #expect(honest == KeptNames() && rounds == 1 && tried > 10)
        for number in 0..<tried {
            let (names, _, rounds) = try await Self.find(losing: number)
            #expect(names == honest && rounds == 2, "the name \(number)")
        }
    }

    @Test func `what a server loses each time is found`() async throws {
        let cut = try await Self.find(losing: nil) { name, _ in !name.contains(0x3B) }
        #expect(cut.names.lost == [.semicolon] && !cut.names.foldsCase && !cut.names.foldsForms)
        let folding = try await Self.find(losing: nil) { name, there in
            let text = String(decoding: name, as: UTF8.self)
            return !there.contains { String(decoding: $0, as: UTF8.self).lowercased() == text.lowercased() }
        }
        #expect(folding.names.foldsCase && folding.names.foldsForms)
        let tab = try await Self.find(losing: nil) { name, _ in !name.contains(0x09) }
        #expect(tab.names.lost == [.control, .unwritable])
    }
}
