/// Makes inputs of a target's corpus: a seed gives the same one each time.
public struct InputMutator {
    private var random: SeededGenerator
    private let corpus: Corpus
    private let limit: Int

    /// Starts from a seed; an input has at most so many bytes.
    public init(_ corpus: Corpus, seed: UInt64, limit: Int) {
        random = SeededGenerator(seed: seed)
        self.corpus = corpus
        self.limit = limit
    }

    /// One of the corpus' inputs, changed in some ways.
    public mutating func input() -> [UInt8] {
        var bytes = another
        repeat { change(&bytes) } while bytes.count < limit && random.oneIn(2)
        return Array(bytes.prefix(limit))
    }

    /// Where words and numbers are.
    static func words(in bytes: [UInt8]) -> [Range<Int>] {
        var words: [Range<Int>] = []
        var start: Int?
        for (index, byte) in bytes.enumerated() {
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x80...: start = start ?? index
            default:
                if let first = start { words.append(first..<index) }
                start = nil
            }
        }
        if let first = start { words.append(first..<bytes.count) }
        return words
    }

    private var another: [UInt8] {
        mutating get { corpus.seeds[Int.random(in: 0..<corpus.seeds.count, using: &random)].bytes }
    }

    private mutating func change(_ bytes: inout [UInt8]) {
        switch Int.random(in: 0..<12, using: &random) {
        case 0, 1: random.damage(&bytes)
        case 2, 3: replaceNumber(&bytes)
        case 4, 5: bytes.replaceSubrange(random.pick(Self.words(in: bytes)) ?? random.place(in: bytes), with: word)
        case 6: bytes.insert(contentsOf: word, at: random.place(in: bytes).lowerBound)
        case 7: splice(&bytes)
        case 8, 9, 10: exchangeLines(&bytes)
        default: nest(&bytes)
        }
    }

    /// What is in the corpus, or what nobody expects.
    private var word: [UInt8] {
        mutating get {
            switch Int.random(in: 0..<4, using: &random) {
            case 0: Array((random.pick(HostileWords.numbers) ?? "").utf8)
            case 1: Array((random.pick(HostileWords.names) ?? "").utf8)
            default: random.pick(corpus.words) ?? []
            }
        }
    }

    private mutating func replaceNumber(_ bytes: inout [UInt8]) {
        let numbers = Self.words(in: bytes).filter { (0x30...0x39).contains(bytes[$0.upperBound - 1]) }
        guard let range = random.pick(numbers) else { return random.damage(&bytes) }
        bytes.replaceSubrange(range, with: (random.pick(HostileWords.numbers) ?? "").utf8)
    }

    /// The beginning of this and the end of another one.
    private mutating func splice(_ bytes: inout [UInt8]) {
        let other = another
        bytes.removeSubrange(random.place(in: bytes).lowerBound...)
        bytes += other[random.place(in: other).lowerBound...]
    }

    /// Another one's line in the place of one of these, or beside it.
    private mutating func exchangeLines(_ bytes: inout [UInt8]) {
        var lines = bytes.split(separator: 0x0A, omittingEmptySubsequences: false)
        let others = another.split(separator: 0x0A, omittingEmptySubsequences: false)
        guard !lines.isEmpty, let other = random.pick(others) else { return }
        let place = Int.random(in: 0..<lines.count, using: &random)
        if random.oneIn(2) { lines[place] = other } else { lines.insert(other, at: place) }
        bytes = Array(lines.joined(separator: [0x0A]))
    }

    /// Puts a part into many brackets, or repeats it many times.
    private mutating func nest(_ bytes: inout [UInt8]) {
        let place = random.place(in: bytes)
        let count = [2, 20, 70, 1000][Int.random(in: 0..<4, using: &random)]
        let pair = random.pick(HostileWords.brackets) ?? ("", "")
        let part = Array(bytes[place])
        if random.oneIn(2), !part.isEmpty {
            let parts = repeatElement(part, count: min(count, limit / part.count)).joined()
            bytes.insert(contentsOf: parts, at: place.lowerBound)
        } else {
            let opened = String(repeating: pair.0, count: count).utf8 + part
            bytes.replaceSubrange(place, with: opened + String(repeating: pair.1, count: count).utf8)
        }
    }
}

extension SeededGenerator {
    /// One of a list; nil of an empty one.
    mutating func pick<Element>(_ list: [Element]) -> Element? { list.randomElement(using: &self) }

    /// A part of bytes, perhaps an empty one.
    fileprivate mutating func place(in bytes: [UInt8]) -> Range<Int> {
        let start = Int.random(in: 0...bytes.count, using: &self)
        return start..<Int.random(in: start...min(bytes.count, start + 40), using: &self)
    }

    /// Changes bytes as a broken line would: some are others, missing, there twice, or the end is missing.
    mutating func damage(_ bytes: inout [UInt8]) {
        let part = place(in: bytes)
        switch Int.random(in: 0..<12, using: &self) {
        case 0...2:
            for index in part.prefix(4) { bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &self) }
        case 3...5:
            for index in part.prefix(4) { bytes[index] = UInt8.random(in: 0...255, using: &self) }
        case 6, 7: bytes.removeSubrange(part)
        case 8, 9: bytes.insert(contentsOf: Array(bytes[part]), at: place(in: bytes).lowerBound)
        case 10: bytes.insert(contentsOf: self.bytes(part.count), at: part.lowerBound)
        default: bytes.removeLast(bytes.count - part.lowerBound)
        }
    }
}

/// What programs that are not hostile never send.
enum HostileWords {
    static let numbers = [
        "-1", "0", "1", "9223372036854775807", "-9223372036854775808", "99999999999999999999999", "1e308", "nan",
        "0x10", "9007199254740993", "4294967296", " 7 ", "٣", "true", "-0.0", "1e-400", "1e400", "18446744073709551615",
        "9223372036854775808", "2147483648", "65536", "255", "256", "0.1", "1152921504606846976",
    ]
    static let names = [
        "..", "%2e%2e/x", "a%2Fb", "%00", "%ff%fe", ".", "", ".cove", ".cove-moving-x", "%0a", "&#10;", "x/y/z",
        String(repeating: "n", count: 5000), "http://elsewhere.example/x", "%", "%zz", "name%20", "CON", "\u{301}",
        "\0", "/", "\\", "\u{FEFF}", "e\u{301}", "\u{E9}", "null", String(repeating: "n", count: 256),
    ]
    static let dates = [
        "Mon, 01 Jan 0001 00:00:00 GMT", "Fri, 01 Jan 1700 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT",
        "Thu, 01 Jan 1970 00:00:00 GMT", "99999999999", "-1", "yesterday", "0001-01-01T00:00:00.000Z",
        "9999-12-31T23:59:59.999Z", "292277026596-12-04T15:30:08Z", "2024-13-45T99:99:99Z", "",
    ]
    static let brackets = [
        ("[", "]"), ("{\"a\":", "}"), ("[{\"\":", "}]"), ("<a>", "</a>"), ("<d:a>", "</d:a>"), ("(", ")"), ("\"", "\""),
    ]
}
