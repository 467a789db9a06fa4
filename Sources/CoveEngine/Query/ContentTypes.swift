internal import CoveCore
internal import Glibc

/// MIME types by file names, as shared-mime-info tells them; no file is read for one.
///
/// Where a person has a type of their own, in `~/.local/share/mime`, that comes first.
struct ContentTypes: Sendable {
    private var literals: [String: String] = [:]
    /// By what follows the star, which begins with a dot or not.
    private var endings: [String: (type: String, weight: Int)] = [:]
    private var patterns: [(pattern: [CChar], type: String, weight: Int)] = []
    private var parents: [String: [String]] = [:]

    /// Reads the tables of the folders in the order of their rank; what is missing or can't be read is left out.
    init(folders: [String]) {
        for folder in folders.reversed() {
            Self.eachLine(folder + "/globs2") { readGlob($0) }
            Self.eachLine(folder + "/subclasses") { line in
                let parts = line.split(separator: " ")
                if parts.count == 2 { parents[String(parts[0]), default: []].append(String(parts[1])) }
            }
        }
        patterns.sort { $0.weight > $1.weight }
    }

    /// The tables of this machine, as the basedir specification has their places.
    static let ofMachine: ContentTypes = {
        func variable(_ name: String) -> String? {
            getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
        }
        let home = variable("XDG_DATA_HOME") ?? variable("HOME").map { $0 + "/.local/share" }
        let system = (variable("XDG_DATA_DIRS") ?? "/usr/local/share:/usr/share").split(separator: ":").map {
            String($0)
        }
        return ContentTypes(folders: ((home.map { [$0] } ?? []) + system).map { $0 + "/mime" })
    }()

    private static func eachLine(_ path: String, _ body: (Substring) -> Void) {
        guard let descriptor = try? System.open(path, O_RDONLY | O_CLOEXEC) else { return }
        defer { System.close(descriptor) }
        guard let bytes = try? System.contents(descriptor, atMost: 16 << 20) else { return }
        for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") where !line.hasPrefix("#") {
            body(line)
        }
    }

    /// A line such as `50:text/plain:*.txt`; flags may follow, of which `cs` says that case matters.
    private mutating func readGlob(_ line: Substring) {
        let parts = line.split(separator: ":", maxSplits: 3)
        guard parts.count >= 3, let weight = Int(parts[0]), parts[2] != "__NOGLOBS__" else { return }
        let type = String(parts[1])
        let glob = parts[2].lowercased()
        let rest = glob.dropFirst()
        if !glob.contains(where: { "*?[".contains($0) }) {
            literals[glob] = type
        } else if glob.hasPrefix("*"), !rest.contains(where: { "*?[".contains($0) }) {
            if weight >= endings[String(rest)]?.weight ?? 0 { endings[String(rest)] = (type, weight) }
        } else {
            patterns.append((Array(glob.utf8CString), type, weight))
        }
    }

    /// The type of a file by its name; `application/octet-stream` where the name tells nothing.
    func type(ofFile name: String) -> String {
        let name = name.lowercased()
        if let type = literals[name] { return type }
        // The longest ending counts: of `a.tar.gz` that is `.tar.gz`.
        var index = name.startIndex
        while index < name.endIndex {
            if let found = endings[String(name[index...])] { return found.type }
            index = name.index(after: index)
        }
        let bytes = Array(name.utf8CString)
        for (pattern, type, _) in patterns {
            let isMatch = pattern.withUnsafeBufferPointer { glob in fnmatch(glob.baseAddress, bytes, 0) == 0 }
            if isMatch { return type }
        }
        return "application/octet-stream"
    }

    /// A type and all that it is one of, the nearest first.
    func tree(_ type: String) -> [String] {
        var tree = [type]
        var index = 0
        while index < tree.count, tree.count < 100 {
            for parent in parents[tree[index]] ?? [] where !tree.contains(parent) { tree.append(parent) }
            index += 1
        }
        if type.hasPrefix("text/"), !tree.contains("text/plain") { tree.append("text/plain") }
        if !type.hasPrefix("inode/"), !tree.contains("application/octet-stream") {
            tree.append("application/octet-stream")
        }
        return tree
    }
}
