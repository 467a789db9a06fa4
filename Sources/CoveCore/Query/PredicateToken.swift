/// A word, sign or value of a predicate's text.
struct PredicateToken {
    enum Kind: Equatable {
        case word(String)
        case sign(String)
        case string(String)
        case number(Double)
        /// `%@` or `%K`.
        case argument(Character)
        case end
    }

    let kind: Kind
    /// How many characters stand before it.
    let position: Int

    /// As it is told to a person.
    var shown: String {
        switch kind {
        case .word(let word): String(word.prefix(100)).debugDescription
        case .sign(let sign): sign
        case .string: "a string"
        case .number(let number): Int64(exactly: number).map { "\($0)" } ?? "\(number)"
        case .argument(let letter): "%\(letter)"
        case .end: "the end"
        }
    }

    private static let signs = [
        "==", "!=", "<>", "<=", "=<", ">=", "=>", "&&", "||", "=", "<", ">", "!", "(", ")", "{", "}", "[", "]", ",",
    ]

    /// Takes a text apart; the last token is the end.
    static func tokens(of text: String) throws(QueryPredicateError) -> [PredicateToken] {
        let characters = Array(text)
        var tokens: [PredicateToken] = []
        var index = 0
        while index < characters.count {
            let (start, first) = (index, characters[index])
            if first.isWhitespace {
                index += 1
            } else if first == "\"" || first == "'" {
                tokens.append(PredicateToken(kind: .string(try string(characters, &index)), position: start))
            } else if first == "%" {
                guard index + 1 < characters.count, "@K".contains(characters[index + 1]) else {
                    throw QueryPredicateError("%@ or %K is expected", at: start)
                }
                tokens.append(PredicateToken(kind: .argument(characters[index + 1]), position: start))
                index += 2
            } else if isDigit(first) || first == "-" || first == "." {
                tokens.append(PredicateToken(kind: .number(try number(characters, &index)), position: start))
            } else if isOfWord(first) {
                while index < characters.count,
                    isOfWord(characters[index]) || isDigit(characters[index]) || characters[index] == "."
                {
                    index += 1
                }
                tokens.append(PredicateToken(kind: .word(String(characters[start..<index])), position: start))
            } else if let sign = signs.first(where: { characters[index...].starts(with: $0) }) {
                tokens.append(PredicateToken(kind: .sign(sign), position: start))
                index += sign.count
            } else {
                throw QueryPredicateError("\(String(first).debugDescription) means nothing here", at: start)
            }
        }
        tokens.append(PredicateToken(kind: .end, position: characters.count))
        return tokens
    }

    private static func isDigit(_ character: Character) -> Bool { ("0"..."9").contains(character) }

    private static func isOfWord(_ character: Character) -> Bool { character.isLetter || character == "_" }

    /// A string in quotes of either kind; a backslash takes its meaning from what follows, `\n` and `\t` are as usual.
    private static func string(_ characters: [Character], _ index: inout Int) throws(QueryPredicateError) -> String {
        let (start, quote) = (index, characters[index])
        var text = ""
        index += 1
        while index < characters.count, characters[index] != quote {
            var character = characters[index]
            if character == "\\" {
                index += 1
                guard index < characters.count else { break }
                character = characters[index]
                switch character {
                case "n": text.append("\n")
                case "t": text.append("\t")
                default: text.append(character)
                }
            } else {
                text.append(character)
            }
            index += 1
        }
        guard index < characters.count else {
            throw QueryPredicateError("the string that begins here has no end", at: start)
        }
        index += 1
        return text
    }

    private static func number(_ characters: [Character], _ index: inout Int) throws(QueryPredicateError) -> Double {
        let start = index
        index += 1
        while index < characters.count {
            let character = characters[index]
            let isSign = (character == "-" || character == "+") && "eE".contains(characters[index - 1])
            guard isDigit(character) || ".eE".contains(character) || isSign else { break }
            index += 1
        }
        let text = String(characters[start..<index])
        guard let number = Double(text), number.isFinite else {
            throw QueryPredicateError("\(String(text.prefix(100)).debugDescription) is no number", at: start)
        }
        return number
    }
}
