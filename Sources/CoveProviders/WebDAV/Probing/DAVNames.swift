internal import CoveCore
internal import Foundation

/// Which names a server keeps as they are, as was seen by making some.
struct DAVNames: Sendable, Equatable {
    /// What names may have that some servers refuse, change, or cut them at.
    enum Trait: CaseIterable, Sendable {
        case question
        case semicolon
        case fragment
        case percent
        case backslash
        case control
        case punctuation
        /// What other systems forbid.
        case forbidden
        /// A dot or a space at the end.
        case ending
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
            case .control: Array("\u{1}\n\t\u{7F}a".utf8)
            case .punctuation: Array("&'+,=!$()@~".utf8)
            case .forbidden: Array("<>:\"|*".utf8)
            case .ending: Array("a. ".utf8)
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
            case .control: "a control character"
            case .punctuation: "one of & ' + , = ! $ ( ) @ ~"
            case .forbidden: "one of < > : \" | *"
            case .ending: "a dot or a space at the end"
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
            case .control: return name.contains { $0 < 0x20 || $0 == 0x7F }
            case .punctuation: return name.contains { "&'+,=!$()@~".utf8.contains($0) }
            case .forbidden: return name.contains { "<>:\"|*".utf8.contains($0) }
            case .ending: return name.last == 0x2E || name.last == 0x20
            case .bytes: return text == nil
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
