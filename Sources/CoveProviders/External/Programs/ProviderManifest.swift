internal import CoveCore
internal import Glibc

/// What an installed provider is, and all that its process gets: read from `NAME.json` in one of the folders of providers.
public struct ProviderManifest: Sendable, Equatable {
    /// The file's name without its ending, which stands behind `exec:`.
    public var name: String
    /// The manifest itself.
    public var file: String
    /// True for one that stands in a folder of providers, and not beside a program.
    public var isInstalled = true
    /// What it is, in a few words.
    public var summary = ""
    /// The executable's absolute path.
    public var program: String
    /// What it is called with.
    public var arguments: [String] = []
    /// False for a program that runs as its user does, with all that user has.
    public var isConfined = true
    /// True where it may use the network.
    public var usesNetwork = false
    /// True where it is given the login that `cove login` keeps for it.
    public var usesSecrets = false
    /// The variables that it gets of the environment.
    public var environment: [String] = []
    /// What it may read: paths, with `~` for the home and `{NAME}` for an option's value.
    public var readPaths: [String] = []
    /// What it may change as well.
    public var writePaths: [String] = []
    /// More memory than this is not given to it, in bytes.
    public var memory: Int64 = ProviderManifest.usualMemory
    /// On how many processors it runs at most; nil for all.
    public var processors: Int?
    /// What its documents can be picked for, of `import`, `open`, `export` and `move`; nil for all of these.
    public var modes: [String]?
    /// The types of its documents that can be picked, as `TypeFilter` takes them; empty for all.
    public var types: [String] = []

    /// What a process may use where nothing else is said, in bytes.
    static let usualMemory: Int64 = 1 << 30

    private static let members: Set<String> = [
        "summary", "program", "arguments", "confined", "network", "secrets", "environment", "read", "write", "memory",
        "processors", "modes", "types",
    ]
    private static let knownModes = ["import", "open", "export", "move"]

    /// Reads a manifest; throws what is wrong with it, and where.
    init(name: String, file: String, text: [UInt8]) throws(SourceError) {
        self.name = name
        self.file = file
        let fields = try Fields(file, text)
        for member in fields.names where !Self.members.contains(member) {
            throw fields.problem(
                member,
                "is no member of a manifest; known are \(Self.members.sorted().joined(separator: ", "))"
            )
        }
        guard let program = try fields.text("program"), !program.isEmpty else {
            throw fields.problem("program", "is missing; name the executable")
        }
        let folder = LocalPath.parent(of: file) ?? ""
        self.program = LocalPath.resolved(LocalPath.absolute(program.hasPrefix("/") ? program : "\(folder)/\(program)"))
        summary = try fields.text("summary") ?? ""
        arguments = try fields.texts("arguments")
        isConfined = try fields.truth("confined") ?? true
        usesNetwork = try fields.truth("network") ?? false
        usesSecrets = try fields.truth("secrets") ?? false
        environment = try fields.texts("environment")
        readPaths = try fields.texts("read")
        writePaths = try fields.texts("write")
        for name in environment where name.isEmpty || name.contains("=") {
            throw fields.problem("environment", "has what is no name of a variable: \(name)")
        }
        for path in readPaths + writePaths where !["/", "~", "{"].contains(path.prefix(1)) {
            throw fields.problem("read, write", "have a path that begins with none of /, ~ and {: \(path)")
        }
        if let text = try fields.text("memory") {
            guard let bytes = SimulatedLink.bytes(text), bytes >= 16 << 20 else {
                throw fields.problem("memory", "must be a size such as 512M, and at least 16M")
            }
            memory = bytes
        }
        if let number = try fields.number("processors") {
            guard number >= 1, number <= 1024 else { throw fields.problem("processors", "must be between 1 and 1024") }
            processors = Int(number)
        }
        if fields.names.contains("modes") {
            let modes = try fields.texts("modes")
            for mode in modes where !Self.knownModes.contains(mode) {
                throw fields.problem("modes", "has \(mode); known are \(Self.knownModes.joined(separator: ", "))")
            }
            self.modes = modes
        }
        types = try fields.texts("types")
        do throws(TypeFilter.UnknownType) { if !types.isEmpty { _ = try TypeFilter(types) } } catch {
            throw fields.problem("types", "has \(error.name), which is no type that `cove pick` knows")
        }
    }

    /// That of a source's program; nil where it has none, or none that can be read.
    public init?(source: String) {
        guard let program = (try? ProviderProgram(source: source)) ?? nil, let manifest = program.manifest else {
            return nil
        }
        self = manifest
    }

    /// What it may have besides the system's programs, in a few words.
    public var rights: String {
        guard isConfined else { return "not confined: it may do what you may" }
        var rights: [String] = []
        if usesNetwork { rights.append("network") }
        if usesSecrets { rights.append("its login") }
        if !readPaths.isEmpty { rights.append("reads " + readPaths.joined(separator: ", ")) }
        if !writePaths.isEmpty { rights.append("changes " + writePaths.joined(separator: ", ")) }
        return rights.isEmpty ? "no network, no files" : rights.joined(separator: "; ")
    }

    /// Where the system says who knows the names of hosts.
    static let resolver = "/etc/resolv.conf"

    /// Tells that file from another one in its place.
    static var resolverStamp: [UInt64] {
        (try? System.statFollowing(resolver)).map { [UInt64($0.st_dev), UInt64($0.st_ino)] } ?? []
    }

    /// True for a folder that has much besides what a provider is after.
    static func isBroad(_ folder: String) -> Bool {
        let system = ["", "/", "/proc", "/sys", "/dev", "/tmp", "/run", "/etc", "/var", "/home", "/root"]
        let homes = [BaseDirectories.home, LocalPath.resolved(BaseDirectories.home)]
        return (system + system.map(LocalPath.resolved)).contains(folder)
            || homes.contains { LocalPath.isInside($0, folder) }
    }

    /// The paths of a list, with what stands for others filled in.
    ///
    /// Where the folder of an option's file (`{NAME}/..`) has much else, it is the file alone.
    func paths(_ list: [String], options: [String: String]) throws(SourceError) -> [String] {
        var paths: [String] = []
        for pattern in list {
            guard pattern.hasPrefix("{"), let end = pattern.firstIndex(of: "}") else {
                let isOfHome = pattern == "~" || pattern.hasPrefix("~/")
                paths.append(try path(isOfHome ? BaseDirectories.home + pattern.dropFirst() : pattern))
                continue
            }
            let option = String(pattern[pattern.index(after: pattern.startIndex)..<end])
            // What was not given is not needed.
            guard let value = options[option] else { continue }
            guard value.hasPrefix("/") else {
                throw .failed("\(name): \(option)=\(value): write the whole path, from / on")
            }
            // A link, and what it leads to.
            for start in Set([value, LocalPath.resolved(value)]).sorted() {
                var found = try path(start + pattern[pattern.index(after: end)...])
                if Self.isBroad(found) { found = try path(start) }
                guard !Self.isBroad(found) else {
                    throw .failed("\(name): \(option)=\(value): it leads to all of \(found); name what is in it")
                }
                if !paths.contains(found) { paths.append(found) }
            }
        }
        return paths
    }

    private func path(_ text: String) throws(SourceError) -> String {
        guard text.hasPrefix("/"), !text.contains("\0") else { throw .failed("\(file): \(text): it leads to no path") }
        return LocalPath.absolute(text)
    }
}

/// The members of a manifest, each read as what it must be.
private struct Fields {
    let file: String
    private let members: [String: JSONValue]

    init(_ file: String, _ text: [UInt8]) throws(SourceError) {
        self.file = file
        let value: JSONValue
        do throws(JSONError) { value = try JSONValue(parsing: text) } catch { throw .failed("\(file): \(error)") }
        guard case .object(let members) = value else { throw .failed("\(file): a manifest is a JSON object") }
        self.members = members
    }

    var names: [String] { members.keys.sorted() }

    func problem(_ member: String, _ what: String) -> SourceError { .failed("\(file): \(member) \(what)") }

    func text(_ name: String) throws(SourceError) -> String? {
        guard let value = members[name] else { return nil }
        guard let text = value.text, !text.contains("\0") else { throw problem(name, "must be a text") }
        return text
    }

    func truth(_ name: String) throws(SourceError) -> Bool? {
        guard let value = members[name] else { return nil }
        guard let truth = value.truth else { throw problem(name, "must be true or false") }
        return truth
    }

    func number(_ name: String) throws(SourceError) -> Int64? {
        guard let value = members[name] else { return nil }
        guard case .integer(let number) = value else { throw problem(name, "must be a whole number") }
        return number
    }

    func texts(_ name: String) throws(SourceError) -> [String] {
        guard let value = members[name] else { return [] }
        guard case .array(let values) = value else { throw problem(name, "must be a list of texts") }
        let texts = values.compactMap(\.text)
        guard texts.count == values.count, texts.allSatisfy({ !$0.contains("\0") }) else {
            throw problem(name, "must be a list of texts")
        }
        return texts
    }
}
