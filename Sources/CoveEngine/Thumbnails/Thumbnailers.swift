internal import CoveCore
internal import Glibc

/// The desktop's programs that make pictures of files: what `*.thumbnailer` files in the data folders tell of them.
struct Thumbnailers: Sendable {
    /// One of them.
    struct Program: Sendable, Equatable {
        /// Its command line, with `%i` or `%u` for the file, `%o` for the picture, and `%s` for how many pixels it may have.
        var words: [String]

        /// The program itself.
        var name: String { words.first ?? "" }

        /// The command line for a file.
        func command(input: String, output: String, side: Int) -> [String] {
            words.map { word in
                var text = ""
                var isMark = false
                for character in word {
                    guard isMark || character == "%" else {
                        text.append(character)
                        continue
                    }
                    if !isMark {
                        isMark = true
                        continue
                    }
                    isMark = false
                    switch character {
                    case "i": text += input
                    case "u": text += ThumbnailCache.uri(of: Array(input.utf8))
                    case "o": text += output
                    case "s": text += "\(side)"
                    default: text.append(character)
                    }
                }
                return text
            }
        }
    }

    private static let greatestFile = 64 << 10
    private var programs: [String: Program] = [:]

    /// Reads what is in the folders, the first of which counts most; what can't be read or run is left out.
    init(folders: [String]) {
        for folder in folders {
            for name in ((try? System.names(in: folder)) ?? []).sorted() where name.hasSuffix(".thumbnailer") {
                read("\(folder)/\(name)")
            }
        }
    }

    /// Those of this machine.
    static func ofMachine() -> Thumbnailers {
        Thumbnailers(folders: BaseDirectories.data.map { $0 + "/thumbnailers" })
    }

    /// The program for the nearest of some types; nil where there is none.
    func program(for types: [String]) -> Program? { types.lazy.compactMap { programs[$0] }.first }

    private mutating func read(_ file: String) {
        guard let descriptor = try? System.open(file, O_RDONLY | O_NONBLOCK) else { return }
        defer { System.close(descriptor) }
        guard let bytes = try? System.contents(descriptor, atMost: Self.greatestFile) else { return }
        var values: [String: String] = [:]
        var isInside = false
        for line in String(decoding: bytes, as: UTF8.self).split(whereSeparator: \.isNewline) {
            if line.hasPrefix("[") {
                isInside = line == "[Thumbnailer Entry]"
            } else if isInside, let equals = line.firstIndex(of: "=") {
                let key = line[..<equals].trimmed
                if values[key] == nil { values[key] = line[line.index(after: equals)...].trimmed }
            }
        }
        let words = Self.words(values["Exec"] ?? "")
        guard let first = words.first, Self.path(of: values["TryExec"] ?? first) != nil,
            let path = Self.path(of: first)
        else { return }
        let program = Program(words: [path] + words.dropFirst())
        for type in (values["MimeType"] ?? "").split(separator: ";") {
            let type = type.trimmed.lowercased()
            if programs[type] == nil { programs[type] = program }
        }
    }

    private static func path(of program: String) -> String? {
        if program.hasPrefix("/") { return access(program, X_OK) == 0 ? program : nil }
        return program.contains("/") ? nil : Sandbox.find(program)
    }

    /// The words of a command line, quoted as a shell has it; none where a quotation has no end.
    private static func words(_ line: String) -> [String] {
        var words: [String] = []
        var word: String?
        var quote: Character?
        var isEscaped = false
        for character in line {
            if isEscaped {
                word = (word ?? "") + String(character)
                isEscaped = false
            } else if character == "\\", quote != "'" {
                isEscaped = true
            } else if let open = quote {
                if character == open { quote = nil } else { word = (word ?? "") + String(character) }
            } else if character == "'" || character == "\"" {
                quote = character
                word = word ?? ""
            } else if character == " " || character == "\t" {
                if let done = word { words.append(done) }
                word = nil
            } else {
                word = (word ?? "") + String(character)
            }
        }
        guard quote == nil, !isEscaped else { return [] }
        if let done = word { words.append(done) }
        return words
    }
}

extension Substring {
    /// Without spaces at its ends.
    fileprivate var trimmed: String {
        let rest = drop { $0 == " " || $0 == "\t" || $0 == "\r" }
        guard let last = rest.lastIndex(where: { $0 != " " && $0 != "\t" && $0 != "\r" }) else { return "" }
        return String(rest[...last])
    }
}
