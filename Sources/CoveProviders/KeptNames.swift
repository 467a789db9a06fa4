internal import CoveCore
internal import Foundation

/// Which names a server keeps as they are, as was seen by making some.
struct KeptNames: Sendable, Equatable {
    /// What names may have that some servers refuse, change, or cut them at.
    enum Trait: CaseIterable, Sendable {
        case question
        case semicolon
        case fragment
        case percent
        case backslash
        /// A tab, the end of a line, U+007F.
        case control
        /// The other control characters, which XML can't hold.
        case unwritable
        case punctuation
        /// What other systems forbid.
        case forbidden
        /// A dot or a space at the end.
        case ending
        /// What some servers put before a character that stands for another one.
        case quote
        /// Characters beyond the first 65,536.
        case wide
        /// Letters with their marks in one character, and in several.
        case composed
        case decomposed
        /// Bytes that are no text.
        case bytes

        /// What is tried.
        var sample: [UInt8] {
            switch self {
            case .question: Array("?a=b".utf8)
            case .semicolon: Array(";a=b".utf8)
            case .fragment: Array("#a".utf8)
            case .percent: Array("%41%".utf8)
            case .backslash: Array("\\a".utf8)
            case .control: Array("\n\t\u{7F}a".utf8)
            case .unwritable: Array("\u{1}a".utf8)
            case .punctuation: Array("&'+,=!$()@~".utf8)
            case .forbidden: Array("<>:\"|*".utf8)
            case .ending: Array("a. ".utf8)
            case .quote: Array("\u{201B}a".utf8)
            case .wide: Array("\u{1F600}".utf8)
            case .composed: Array("\u{E9}\u{AC01}".utf8)
            case .decomposed: Array("e\u{301}\u{1100}\u{1161}\u{11A8}".utf8)
            case .bytes: [0x61, 0xFF, 0x80]
            }
        }

        /// What a person calls it.
        var words: String {
            switch self {
            case .question: "a question mark"
            case .semicolon: "a semicolon"
            case .fragment: "a number sign"
            case .percent: "a percent sign"
            case .backslash: "a backslash"
            case .control, .unwritable: "a control character"
            case .punctuation: "one of & ' + , = ! $ ( ) @ ~"
            case .forbidden: "one of < > : \" | *"
            case .ending: "a dot or a space at the end"
            case .quote: "the quotation mark \u{201B} (U+201B)"
            case .wide: "a character beyond U+FFFF"
            case .composed: "letters with their marks in one character"
            case .decomposed: "letters with their marks in several characters"
            case .bytes: "bytes that are no UTF-8"
            }
        }

        func isOf(_ name: [UInt8], _ text: String?) -> Bool {
            switch self {
            case .question: return name.contains(0x3F)
            case .semicolon: return name.contains(0x3B)
            case .fragment: return name.contains(0x23)
            case .percent: return name.contains(0x25)
            case .backslash: return name.contains(0x5C)
            case .control: return name.contains { [0x09, 0x0A, 0x0D, 0x7F].contains($0) }
            case .unwritable: return name.contains { $0 < 0x20 && ![0x09, 0x0A, 0x0D].contains($0) }
            case .punctuation: return name.contains { "&'+,=!$()@~".utf8.contains($0) }
            case .forbidden: return name.contains { "<>:\"|*".utf8.contains($0) }
            case .ending: return name.last == 0x2E || name.last == 0x20
            case .bytes: return text == nil
            case .quote: return text?.unicodeScalars.contains("\u{201B}") ?? false
            case .wide: return text?.unicodeScalars.contains { $0.value > 0xFFFF } ?? false
            case .composed:
                return text.map { !$0.decomposedStringWithCanonicalMapping.utf8.elementsEqual(name) } ?? false
            case .decomposed:
                return text.map { !$0.precomposedStringWithCanonicalMapping.utf8.elementsEqual(name) } ?? false
            }
        }
    }

    /// Names with one of these are not kept.
    var lost: Set<Trait> = []
    /// Names that differ in case alone are one to it.
    var foldsCase = false
    /// Names that differ in how marks are written alone are one to it.
    var foldsForms = false

    /// Why a name can't be kept, in a few words; nil when it can.
    func problem(with name: FileName) -> String? {
        if lost.isEmpty { return nil }
        let text = String(validating: name.bytes, as: UTF8.self)
        guard let trait = Trait.allCases.first(where: { lost.contains($0) && $0.isOf(name.bytes, text) }) else {
            return nil
        }
        return "the server does not keep names with \(trait.words)"
    }

    /// What a name has in common with all that are one to the server; nil where each is its own.
    func folded(_ name: FileName) -> String? {
        guard foldsCase || foldsForms, var text = String(validating: name.bytes, as: UTF8.self) else { return nil }
        if foldsForms { text = text.precomposedStringWithCanonicalMapping }
        return foldsCase ? text.lowercased() : text
    }
}

extension KeptNames {
    /// What is tried in one name; only what fails is tried apart.
    private static let groups: [[Trait]] = [
        [.question, .semicolon, .fragment, .percent, .backslash, .punctuation], [.control], [.unwritable],
        [.forbidden, .ending],
        [.quote, .wide, .composed], [.decomposed], [.bytes],
    ]
    /// Names that some servers take for one; the other one of a trait is one that stands for it there.
    private static let letters = ["zA", "za"].map { Array($0.utf8) }
    private static let forms = ["t\u{E9}", "te\u{301}"].map { Array($0.utf8) }
    private static let standIns: [(trait: Trait, names: [[UInt8]])] = [
        (.control, ["x\u{2409}", "x\t"].map { Array($0.utf8) }),
        (.quote, ["y\u{201B}\u{201B}", "y\u{201B}"].map { Array($0.utf8) }),
    ]

    /// What a file of a name is made of, as long for each name: who confuses two then gives all bytes of the other.
    static func sample(for name: [UInt8]) -> [UInt8] { Array(Digest.hash(name, .sha256).hexadecimal.utf8) }

    /// Finds out which names a server keeps.
    ///
    /// `keep` makes files of some names at once, and those of each pair in turn, if nothing is there, all of their samples;
    /// it gives those that are there then, and of a pair have their samples. A server that shows all of them may find out later that two
    /// are one.
    static func find(
        except untried: Set<Trait> = [],
        _ keep: (_ names: [[UInt8]], _ pairs: [[[UInt8]]]) async throws(ProviderError) -> Set<[UInt8]>
    ) async throws(ProviderError) -> KeptNames {
        let groups = groups.map { $0.filter { !untried.contains($0) } }.filter { !$0.isEmpty }
        var names = KeptNames()
        let first = groups.enumerated().map { number, traits in
            Array("1\(number)".utf8) + traits.flatMap(\.sample)
        }
        let pairs = [letters, forms] + standIns.map(\.names)
        var kept = try await keep(first, pairs)
        // What fails is tried once more, each trait by itself: a busy server may have lost something for a moment.
        let failed = zip(groups, first).filter { !kept.contains($1) }.flatMap(\.0)
        let doubtful = pairs.filter { !$0.allSatisfy(kept.contains) }
        if !failed.isEmpty || !doubtful.isEmpty {
            let second = failed.enumerated().map { number, trait in Array("2\(number)".utf8) + trait.sample }
            let others = doubtful.map { $0.map { [0x32] + $0 } }
            let again = try await keep(second, others)
            names.lost = Set(zip(failed, second).filter { !again.contains($1) }.map(\.0))
            for (pair, other) in zip(doubtful, others) where other.allSatisfy(again.contains) { kept.formUnion(pair) }
        }
        for (trait, pair) in standIns where !pair.allSatisfy(kept.contains) { names.lost.insert(trait) }
        // Who has another one for a tab has so for all.
        if names.lost.contains(.control) { names.lost.insert(.unwritable) }
        names.foldsCase = !letters.allSatisfy(kept.contains)
        let isOne = !forms.allSatisfy(kept.contains)
        names.foldsForms = isOne && !names.lost.contains(.composed) && !names.lost.contains(.decomposed)
        return names
    }
}
