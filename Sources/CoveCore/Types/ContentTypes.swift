internal import Glibc

/// MIME types by file names, as shared-mime-info tells them; no file is read for one.
///
/// Where a person has a type of their own, in `~/.local/share/mime`, that comes first.
public struct ContentTypes: Sendable {
    private struct Glob {
        let type: String
        let rank: Int
        let weight: Int

        /// Of two that are as good, the first one counts: what a name alone can't tell, `a.ogg`, is the more general type.
        func gives(wayTo other: Glob) -> Bool { (other.rank, other.weight) > (rank, weight) }
    }

    /// Whole names, and what follows a star: as they are where case matters, else in small letters.
    private var names: [String: Glob] = [:]
    private var endings: [String: Glob] = [:]
    private var patterns: [(pattern: [CChar], glob: Glob)] = []
    /// The bytes that endings begin with: nearly all with a dot, so that few places of a name have to be looked at.
    private var starts: Set<UInt8> = []
    private var parents: [String: [String]] = [:]
    /// Other names of types, each with the one that the tables use.
    private var aliases: [String: String] = [:]

    /// Reads the tables of the folders, the first of which counts most; what is missing or can't be read is left out.
    public init(folders: [String]) {
        for (rank, folder) in folders.reversed().enumerated() {
            Self.eachLine(folder + "/globs2") { readGlob($0, rank) }
            Self.eachLine(folder + "/subclasses") { line in
                let parts = line.split(separator: " ")
                if parts.count == 2 { parents[String(parts[0]), default: []].append(String(parts[1])) }
            }
            Self.eachLine(folder + "/aliases") { line in
                let parts = line.split(separator: " ")
                if parts.count == 2 { aliases[String(parts[0])] = String(parts[1]) }
            }
        }
        patterns.sort { ($0.glob.rank, $0.glob.weight) > ($1.glob.rank, $1.glob.weight) }
    }

    /// The tables of this machine, as the basedir specification has their places.
    public static let ofMachine = ContentTypes(folders: BaseDirectories.data.map { $0 + "/mime" })

    private static func eachLine(_ path: String, _ body: (Substring) -> Void) {
        guard let descriptor = try? System.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) else { return }
        defer { System.close(descriptor) }
        guard let bytes = try? System.contents(descriptor, atMost: 16 << 20) else { return }
        for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") where !line.hasPrefix("#") {
            body(line)
        }
    }

    /// A line such as `50:text/plain:*.txt`; flags may follow, of which `cs` says that case matters.
    private mutating func readGlob(_ line: Substring, _ rank: Int) {
        let parts = line.split(separator: ":", maxSplits: 3)
        guard parts.count >= 3, let weight = Int(parts[0]), parts[2] != "__NOGLOBS__" else { return }
        let found = Glob(type: String(parts[1]), rank: rank, weight: weight)
        let isExact = parts.count > 3 && parts[3].split(separator: ",").contains("cs")
        let glob = isExact ? String(parts[2]) : parts[2].lowercased()
        let rest = String(glob.dropFirst())
        if !glob.contains(where: { "*?[".contains($0) }) {
            if names[glob]?.gives(wayTo: found) ?? true { names[glob] = found }
        } else if glob.hasPrefix("*"), !rest.contains(where: { "*?[".contains($0) }) {
            if endings[rest]?.gives(wayTo: found) ?? true { endings[rest] = found }
            if let first = rest.utf8.first { starts.insert(first) }
        } else {
            patterns.append((Array(glob.utf8CString), found))
        }
    }

    /// The type of a file by its name; `application/octet-stream` where the name tells nothing.
    public func type(ofFile name: String) -> String {
        let lower = name.lowercased()
        let forms = lower == name ? [name] : [name, lower]
        for form in forms { if let found = names[form] { return found.type } }
        // The longest ending counts: of `a.tar.gz` that is `.tar.gz`.
        for form in forms {
            for index in form.utf8.indices where starts.contains(form.utf8[index]) {
                if let found = endings[String(decoding: form.utf8[index...], as: UTF8.self)] { return found.type }
            }
        }
        for form in forms {
            let bytes = Array(form.utf8CString)
            for (pattern, glob) in patterns where Self.mayMatch(pattern, bytes) {
                if pattern.withUnsafeBufferPointer({ fnmatch($0.baseAddress, bytes, 0) }) == 0 { return glob.type }
            }
        }
        return Self.unknown
    }

    /// The type of a file whose name tells nothing.
    private static let unknown = "application/octet-stream"

    /// The types that names tell, and those that are special cases of others.
    var known: Set<String> {
        Set(names.values.map(\.type) + endings.values.map(\.type) + patterns.map(\.glob.type)).union(parents.keys)
    }

    /// By what names files are known to be of some types.
    public struct Names: Sendable, Equatable {
        /// Whole names, in small letters.
        public var whole: Set<String> = []
        /// What names end with, in small letters.
        public var endings: Set<String> = []
    }

    /// By what names files are of one of the types that are wanted; nil where other names may have such a type, too.
    public func names(ofTypes isWanted: (_ type: String) -> Bool) -> Names? {
        var known: [String: Bool] = [:]
        func isOne(_ glob: Glob) -> Bool {
            if let answer = known[glob.type] { return answer }
            let answer = isWanted(glob.type)
            known[glob.type] = answer
            return answer
        }
        if isWanted(Self.unknown) || patterns.contains(where: { isOne($0.glob) }) { return nil }
        return Names(
            whole: Set(names.filter { isOne($0.value) }.map { $0.key.lowercased() }),
            endings: Set(endings.filter { isOne($0.value) }.map { $0.key.lowercased() })
        )
    }

    /// False where the first byte that is no wildcard rules a match out.
    private static func mayMatch(_ pattern: [CChar], _ name: [CChar]) -> Bool {
        let signs = "*?[\\".utf8.map { CChar(bitPattern: $0) }
        guard let first = pattern.first else { return true }
        if !signs.contains(first) { return name.first == first }
        guard first == CChar(bitPattern: UInt8(ascii: "*")), pattern.count > 2, !signs.contains(pattern[1]) else {
            return true
        }
        return name.contains(pattern[1])
    }

    /// A type and all that it is one of, the nearest first.
    public func tree(_ type: String) -> [String] {
        var tree = [type]
        var index = 0
        while index < tree.count, tree.count < 100 {
            for parent in (parents[tree[index]] ?? []).prefix(100) where !tree.contains(parent) { tree.append(parent) }
            index += 1
        }
        if type.hasPrefix("text/"), !tree.contains("text/plain") { tree.append("text/plain") }
        if !type.hasPrefix("inode/"), !tree.contains(Self.unknown) {
            tree.append(Self.unknown)
        }
        return tree
    }

    /// The name that the tables use for a type, in small letters: `text/rtf` is `application/rtf`.
    public func canonical(_ type: String) -> String {
        let type = type.lowercased()
        return aliases[type] ?? type
    }
}
