/// Which items a program can use, by the types that it names.
///
/// An item is accepted if it conforms to any of them; without a type every document is.
public struct TypeFilter: Sendable {
    /// A name that is neither an identifier that is known nor a MIME type.
    public struct UnknownType: Error, Sendable, Equatable {
        /// What was given.
        public var name: String
        /// Names it.
        public init(name: String) { self.name = name }
    }

    /// What an item is, as far as its type goes.
    public enum Subject: Sendable, Hashable {
        /// A file of a MIME type.
        case file(type: String)
        /// A directory that people see as one file.
        case package
        /// Any other directory.
        case folder
        /// A symbolic link or a special file, which never conforms to anything.
        case other
    }

    /// The types, as they were named.
    public let names: [String]
    private let meanings: [UniformType.Meaning]
    private let types: ContentTypes

    /// Accepts what conforms to one of the types: uniform type identifiers, MIME types, or patterns such as `image/*`.
    public init(_ names: [String] = [], types: ContentTypes = .ofMachine) throws(UnknownType) {
        var meanings: [UniformType.Meaning] = []
        for name in names {
            if let type = UniformType.named(name) {
                meanings.append(type.meaning)
            } else if Self.isMIME(name) {
                meanings.append(Self.meaning(ofMIME: name.lowercased()))
            } else {
                throw UnknownType(name: name)
            }
        }
        self.names = names
        self.meanings = names.isEmpty ? [.anyDocument] : meanings
        self.types = types
    }

    /// True where an item conforms to one of the types.
    public func accepts(_ subject: Subject) -> Bool {
        meanings.contains { meaning in
            switch (subject, meaning) {
            case (.other, _): false
            case (_, .anything): true
            case (.file, .anyFile), (.file, .anyDocument): true
            case (.file(let type), .files(let patterns)): conforms(type, patterns)
            case (.file(let type), .exactly(let names)): names.contains(types.canonical(type))
            case (.package, .package), (.package, .anyDocument): true
            case (.package, .folder), (.folder, .folder): true
            case (.file, .package), (.file, .folder): false
            case (.package, .anyFile), (.package, .files), (.package, .exactly): false
            case (.folder, .anyFile), (.folder, .anyDocument), (.folder, .files), (.folder, .exactly): false
            case (.folder, .package): false
            }
        }
    }

    /// True where there is a kind of item that both accept: of the types that either names, or that this machine knows.
    public func overlaps(_ other: TypeFilter) -> Bool {
        if [Subject.package, .folder].contains(where: { accepts($0) && other.accepts($0) }) { return true }
        return (namedTypes + other.namedTypes + types.known).contains { type in
            accepts(.file(type: type)) && other.accepts(.file(type: type))
        }
    }

    /// The types of files that are named, and one that nothing is known of.
    private var namedTypes: [String] {
        ["application/octet-stream"]
            + meanings.flatMap { meaning in
                switch meaning {
                case .files(let names), .exactly(let names): names
                case .anything, .anyFile, .anyDocument, .package, .folder: [String]()
                }
            }
    }

    /// What an item is by its name; `kind` is that of an `ItemStatus`.
    public func subject(name: String, kind: String) -> Subject {
        switch kind {
        case "file": return .file(type: types.type(ofFile: name))
        case "directory":
            let ending = name.lastIndex(of: ".").map { name[name.index(after: $0)...] } ?? ""
            return PackageTypes.contains(ending) ? .package : .folder
        default: return .other
        }
    }

    private func conforms(_ type: String, _ patterns: [String]) -> Bool {
        // The name that was given counts too, for `text/*` of `text/rtf`.
        let tree = [type] + types.tree(types.canonical(type))
        return patterns.contains { pattern in
            if pattern == "*/*" { return true }
            if pattern.hasSuffix("/*") { return tree.contains { $0.hasPrefix(pattern.dropLast()) } }
            return tree.contains(types.canonical(pattern)) || tree.contains(pattern)
        }
    }

    private static func meaning(ofMIME name: String) -> UniformType.Meaning {
        switch name {
        case "*/*", "application/octet-stream": .anyFile
        case "inode/directory": .folder
        default: .files([name])
        }
    }

    /// RFC 6838: two names with a slash between them; a star may stand for the second, or for both.
    private static func isMIME(_ name: String) -> Bool {
        let parts = name.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, name.utf8.count <= 255 else { return false }
        if parts[1] == "*", parts[0] == "*" { return true }
        func isName(_ part: Substring) -> Bool {
            let signs = "!#$&-^_.+".utf8
            guard let first = part.utf8.first, isPlain(first) else { return false }
            return part.utf8.allSatisfy { isPlain($0) || signs.contains($0) }
        }
        func isPlain(_ byte: UInt8) -> Bool {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                UInt8(ascii: "A")...UInt8(ascii: "Z"):
                true
            default: false
            }
        }
        return isName(parts[0]) && (parts[1] == "*" || isName(parts[1]))
    }
}
