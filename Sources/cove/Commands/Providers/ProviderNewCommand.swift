internal import CoveCore
internal import CoveProviders
internal import Glibc

/// Where a provider begins.
extension CommandTable {
    static let providerNew = Command(
        name: "provider new",
        summary: "write a provider to begin with, in Python, Swift or Go",
        operands: .init(names: ["FILE"], minimum: 1),
        options: [
            .json,
            Option(
                long: "language",
                argument: "NAME",
                summary: "python (the default), swift or go",
                completion: .words(["python", "swift", "go"])
            ),
        ],
        isForAccount: false,
        details: """
            FILE becomes a program that keeps its files in memory and passes `cove provider check exec:FILE`, once it has been
            built where the language needs that; put your cloud's requests where it looks into its tree. FILE.json is its
            manifest: in ~/.local/share/cove/providers `cove mount exec:NAME` finds it, and confines it to what it asks for.
            The protocol is described in ProviderProtocol.md of Cove's documentation.
            """
    ) { arguments throws(Failure) in
        let name = arguments.value("language") ?? "python"
        guard let language = ProviderSkeleton(rawValue: name) else {
            throw .usage("--language \(name)", "is not known", "write python, swift or go")
        }
        let file = LocalPath.absolute(arguments.operand(0) ?? "")
        let written = try language.write(file)
        if arguments.has("json") {
            try JSONOutput.write(written)
        } else {
            let terminal = Terminal.standardOutput
            for path in written { terminal.write("\(terminal.safe(path))\n") }
            if terminal.isInteractive { terminal.write("\nGo on with\n\n\(terminal.safe(language.steps(file)))") }
        }
        return 0
    }
}

/// The languages in which a provider can begin.
private enum ProviderSkeleton: String {
    case python, swift, go

    private struct Part {
        /// Its name among what comes with Cove.
        let source: String
        let target: String
        var mode: mode_t = 0o644
        /// The one who speaks the protocol may serve several.
        var isShared = false
    }

    private func parts(_ file: String) -> [Part] {
        switch self {
        case .python:
            let folder = LocalPath.parent(of: file) ?? ""
            return [
                Part(source: "cove-memory", target: file, mode: 0o755),
                Part(source: "cove_provider.py", target: folder + "/cove_provider.py", isShared: true),
            ]
        case .swift: return [Part(source: "Skeletons/memory.swift", target: file + ".swift")]
        case .go: return [Part(source: "Skeletons/memory.go", target: file + ".go")]
        }
    }

    /// What a person does next.
    func steps(_ file: String) -> String {
        let build =
            switch self {
            case .python: ""
            case .swift: "  swiftc -O -static-stdlib \(file).swift -o \(file)\n"
            case .go: "  go build -o \(file) \(file).go\n"
            }
        return build + "  cove provider check exec:\(file)\n"
    }

    /// Writes all of it; the paths of what was written.
    func write(_ file: String) throws(Failure) -> [String] {
        let parts = parts(file)
        let manifest = file + ".json"
        for path in parts.filter({ !$0.isShared }).map(\.target) + [manifest, file] where access(path, F_OK) == 0 {
            throw Failure(path, "it is there already", "choose another name")
        }
        var written: [String] = []
        for part in parts {
            guard let source = ProviderFactory.companion(part.source) else {
                throw Failure(part.source, "it comes with Cove, and is not there", "use mount-scripts/install")
            }
            if try Self.copy(source, to: part.target, part.mode, mayBeThere: part.isShared) {
                written.append(part.target)
            }
        }
        let name = file.split(separator: "/").last.map(String.init) ?? file
        let members: [String: JSONValue] = [
            "summary": .string("a provider in memory"), "program": .string(name), "network": .bool(true),
        ]
        try Self.put(JSONValue.object(members).bytes + [0x0A], manifest, 0o644)
        return written + [manifest]
    }

    /// Copies a file; false where it is there already and may be.
    private static func copy(_ source: String, to target: String, _ mode: mode_t, mayBeThere: Bool) throws(Failure)
        -> Bool
    {
        if mayBeThere, access(target, F_OK) == 0 { return false }
        let bytes: [UInt8]
        do throws(Errno) {
            let descriptor = try System.open(source, O_RDONLY)
            defer { System.close(descriptor) }
            bytes = try System.contents(descriptor, atMost: 1 << 20)
        } catch {
            throw Failure(source, "it can't be read: \(error)")
        }
        try put(bytes, target, mode)
        return true
    }

    private static func put(_ bytes: [UInt8], _ path: String, _ mode: mode_t) throws(Failure) {
        do throws(Errno) {
            let descriptor = try System.open(path, O_WRONLY | O_CREAT | O_EXCL, mode)
            defer { System.close(descriptor) }
            try System.pwriteAll(descriptor, bytes, 0)
        } catch {
            throw Failure(path, "it can't be written: \(error)", "choose another folder")
        }
    }
}
