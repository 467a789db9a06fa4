import CoveTestSupport
import Foundation
import Testing

/// How inputs are kept and made.
@Suite struct CorpusTests {
    @Test func `a file holds any input`() {
        var random = SeededGenerator(seed: 1)
        let texts = ["", "\n", "a\n", "ä\\x41", "\\x", "\\x4", "\\\\x41", "\0\r\t\u{7F}"].map { Array($0.utf8) }
        for input in texts + (0..<200).map({ random.bytes($0) }) {
            #expect(Corpus.input(ofFile: Corpus.file(ofInput: input)) == input)
        }
        #expect(Corpus.input(ofFile: Array("a\\x00\\xfF\\x+1".utf8)) == [0x61, 0, 0xFF] + Array("\\x+1".utf8))
    }

    @Test func `files are small, and each folder is one target's`() throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: Corpus.folder.path)
        let folders = names.filter { !$0.contains(".") }
        #expect(folders.count == 10)
        let suites = try ["Core", "Engine", "Picker", "Providers"].map { name in
            let suite = Corpus.folder.appending(path: "../Cove\(name)Tests/Fuzzing/FuzzTests.swift")
            return try String(contentsOf: suite, encoding: .utf8)
        }
        for folder in folders {
            #expect(suites.filter { $0.contains("func `\(folder): ") && $0.contains("\"\(folder)\", ") }.count == 1)
            for seed in try Corpus(folder).seeds {
                #expect(Corpus.file(ofInput: seed.bytes).count <= 4 << 10, "\(folder)/\(seed.name)")
            }
        }
    }

    @Test func `a seed makes the same input again, and hardly another seed does`() throws {
        let corpus = try Corpus("json")
        func inputs() -> [[UInt8]] {
            (0..<UInt64(200)).map { seed in
                var mutator = InputMutator(corpus, seed: seed, limit: 1000)
                return mutator.input()
            }
        }
        #expect(inputs() == inputs())
        #expect(Set(inputs()).count > 150)
        #expect(inputs().allSatisfy { $0.count <= 1000 })
    }
}
