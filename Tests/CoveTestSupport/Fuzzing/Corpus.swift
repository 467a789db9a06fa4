public import Foundation

/// The inputs that are kept for one target: the files of `Tests/Corpus/NAME`, whose README tells how they are written.
public struct Corpus: Sendable {
    /// One file of it.
    public struct Seed: Sendable {
        /// The file's name.
        public let name: String
        /// The input.
        public let bytes: [UInt8]

        /// What the file's name says that becomes of it; nil where either may.
        public var expected: FuzzVerdict? {
            name.hasPrefix("good-") ? .understood : name.hasPrefix("bad-") ? .refused : nil
        }
    }

    /// All files, by their names.
    public let seeds: [Seed]
    /// What stands between punctuation in the files.
    public let words: [[UInt8]]

    /// Where the targets' folders are.
    public static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appending(path: "../../Corpus").standardized

    /// Reads a target's files; throws where there are none.
    public init(_ name: String) throws {
        let folder = Self.folder.appending(path: name)
        let files = try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
        seeds = try files.map { file in
            let data = try Data(contentsOf: folder.appending(path: file))
            return Seed(name: file, bytes: Self.input(ofFile: Array(data)))
        }
        guard !seeds.isEmpty else { throw FuzzProblem("\(folder.path) has no files") }
        var words: Set<[UInt8]> = []
        for seed in seeds {
            for range in InputMutator.words(in: seed.bytes) where range.count < 100 {
                words.insert(Array(seed.bytes[range]))
            }
        }
        // A set has another order in each process.
        self.words = words.sorted { $0.lexicographicallyPrecedes($1) }
    }

    /// The input that a file holds: `\xHH` is a byte, and the line feed at the end belongs to the file.
    public static func input(ofFile file: [UInt8]) -> [UInt8] {
        var input: [UInt8] = []
        input.reserveCapacity(file.count)
        var rest = file.last == 0x0A ? file.dropLast() : file[...]
        while let byte = rest.first {
            if let escaped = escaped(rest) {
                input.append(escaped)
                rest = rest.dropFirst(4)
            } else {
                input.append(byte)
                rest = rest.dropFirst()
            }
        }
        return input
    }

    /// The file that holds an input.
    public static func file(ofInput input: [UInt8]) -> [UInt8] {
        let isText = String(validating: input, as: UTF8.self) != nil
        var file: [UInt8] = []
        for (index, byte) in input.enumerated() {
            let isPlain = byte >= 0x80 ? isText : byte >= 0x20 && byte != 0x7F || byte == 0x0A || byte == 0x09
            if isPlain, escaped(input[index...]) == nil {
                file.append(byte)
            } else {
                let digits = String(byte, radix: 16, uppercase: true)
                file += Array("\\x\(digits.count == 1 ? "0" : "")\(digits)".utf8)
            }
        }
        return file + [0x0A]
    }

    /// The byte that `\xHH` at the start stands for.
    private static func escaped(_ bytes: ArraySlice<UInt8>) -> UInt8? {
        let four = Array(bytes.prefix(4))
        guard four.count == 4, four[0] == 0x5C, four[1] == 0x78, four[2] != 0x2B, four[2] != 0x2D else { return nil }
        return UInt8(String(decoding: four[2...], as: UTF8.self), radix: 16)
    }
}

/// What became of an input.
public enum FuzzVerdict: Sendable {
    /// It was taken for what it is to be.
    case understood
    /// An error said what is wrong with it.
    case refused
}

/// What does not hold for an input.
public struct FuzzProblem: Error, CustomStringConvertible {
    /// What, for a person.
    public let description: String

    /// Tells of a problem.
    public init(_ description: String) { self.description = description }

    /// Throws a problem unless something is so.
    public static func unless(_ isSo: Bool, _ description: @autoclosure () -> String) throws {
        if !isSo { throw FuzzProblem(description()) }
    }
}
