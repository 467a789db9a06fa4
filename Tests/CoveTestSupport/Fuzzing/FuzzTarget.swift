public import CoveCore
import Foundation

/// Something that reads what others wrote: it is fed with the files of its corpus and with what is made of them.
///
/// In the suite it takes the same inputs each time. COVE_FUZZ_SEED begins with others, COVE_FUZZ_SECONDS goes on for so
/// long, and COVE_FUZZ_KEEP names a folder for the input that it is at and for what it found.
public struct FuzzTarget: Sendable {
    private static let environment = ProcessInfo.processInfo.environment
    private static let seconds = environment["COVE_FUZZ_SECONDS"].flatMap(Double.init)

    /// After so many minutes a target counts as hung.
    public static let minutes = 10 + Int(min(max(0, seconds ?? 0), 1e6) / 60)

    private let name: String
    private let inputs: Int
    private let limit: Int
    private let patience: TimeSpan
    private let check: @Sendable (_ input: [UInt8]) async throws -> FuzzVerdict

    /// Makes a target of what throws where something does not hold for an input.
    ///
    /// In the suite it takes so many inputs beside the files of `Tests/Corpus/NAME`, of at most `limit` bytes, each of which
    /// may take as long as the patience lasts.
    public init(
        _ name: String,
        inputs: Int,
        limit: Int = 8 << 10,
        patience: TimeSpan = .seconds(20),
        _ check: @escaping @Sendable (_ input: [UInt8]) async throws -> FuzzVerdict
    ) {
        self.name = name
        self.inputs = inputs
        self.limit = limit
        self.patience = patience
        self.check = check
    }

    /// Takes all inputs; throws the first that something does not hold for, with how to repeat it.
    public func run() async throws { try await blocking { try await takeAll() } }

    private func takeAll() async throws {
        let corpus = try Corpus(name)
        let first = Self.environment["COVE_FUZZ_SEED"].flatMap(UInt64.init) ?? 1
        print("fuzz \(name): seed \(first)")
        let started = System.monotonic()
        for seed in corpus.seeds {
            let verdict = try await take(seed.bytes, "Tests/Corpus/\(name)/\(seed.name)")
            if let expected = seed.expected, expected != verdict {
                throw FuzzProblem("Tests/Corpus/\(name)/\(seed.name) was \(verdict)")
            }
        }
        var (count, understood, slowest) = (0, 0, TimeSpan.zero)
        while Self.seconds.map({ System.monotonic() - started < .seconds($0) }) ?? (count < inputs) {
            let seed = first &+ UInt64(count)
            var mutator = InputMutator(corpus, seed: seed, limit: limit)
            let began = System.monotonic()
            if try await take(mutator.input(), "COVE_FUZZ_SEED=\(seed)") == .understood { understood += 1 }
            slowest = max(slowest, System.monotonic() - began)
            count += 1
        }
        forget()
        let time = System.monotonic() - started
        print(
            "fuzz \(name): \(corpus.seeds.count) files and \(count) inputs from seed \(first) in \(time.seconds) s,",
            "\(understood) understood, the slowest in \(slowest.seconds) s"
        )
        // Else most of what is to be tested was never reached.
        if count >= 100, understood == 0 || understood == count {
            throw FuzzProblem("\(name): \(understood) of \(count) inputs were understood")
        }
    }

    private func take(_ input: [UInt8], _ origin: String) async throws -> FuzzVerdict {
        keep(input, as: "now")
        do { return try await verdict(input) } catch {
            let smaller = await smaller(input)
            keep(smaller, as: "found")
            let file = String(decoding: Corpus.file(ofInput: smaller), as: UTF8.self)
            throw FuzzProblem(
                "\(name), \(origin): \(error)\nAs a file of Tests/Corpus/\(name):\n\(file.prefix(8 << 10))"
            )
        }
    }

    private func verdict(_ input: [UInt8]) async throws -> FuzzVerdict {
        let began = System.monotonic()
        let verdict = try await check(input)
        let time = System.monotonic() - began
        if time > patience { throw FuzzProblem("it took \(time.seconds) s") }
        return verdict
    }

    /// What is left of an input without the parts for which something does not hold either.
    private func smaller(_ input: [UInt8]) async -> [UInt8] {
        var input = input
        var tries = 300
        var size = max(1, input.count / 2)
        let end = System.monotonic() + patience
        while true {
            var start = 0
            while start < input.count, tries > 0, System.monotonic() < end {
                var shorter = input
                shorter.removeSubrange(start..<min(start + size, input.count))
                tries -= 1
                if (try? await verdict(shorter)) == nil { input = shorter } else { start += size }
            }
            if size == 1 { return input }
            size /= 2
        }
    }

    /// A process that dies leaves its input there.
    private func keep(_ input: [UInt8], as kind: String) {
        guard let folder = Self.environment["COVE_FUZZ_KEEP"] else { return }
        try? Data(Corpus.file(ofInput: input)).write(to: URL(fileURLWithPath: "\(folder)/\(name)-\(kind).txt"))
    }

    private func forget() {
        guard let folder = Self.environment["COVE_FUZZ_KEEP"] else { return }
        try? FileManager.default.removeItem(atPath: "\(folder)/\(name)-now.txt")
    }
}
