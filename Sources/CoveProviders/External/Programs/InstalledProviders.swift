public import CoveCore
internal import Glibc

/// The providers that are installed: their manifests, and which of them a person has turned off.
public enum InstalledProviders {
    /// A manifest that was found, or what is wrong with it.
    public struct Found: Sendable {
        /// What stands behind `exec:`.
        public var name: String
        /// The manifest's path.
        public var file: String
        /// What it says.
        public var manifest: Result<ProviderManifest, SourceError>
        /// False where a person has turned it off.
        public var isEnabled: Bool
    }

    /// Where manifests are looked for, the first one of a name counts: the user's data, the system's, and beside Cove.
    static var folders: [String] { BaseDirectories.data.map { $0 + "/cove/providers" } + ProviderFactory.companions }

    /// All of them, in the order of their names.
    public static func all() -> [Found] {
        var found: [String: Found] = [:]
        for folder in folders {
            for entry in (try? System.names(in: folder)) ?? [] where entry.hasSuffix(".json") {
                let name = String(entry.dropLast(".json".count))
                guard isName(name), found[name] == nil else { continue }
                found[name] = read(name, "\(folder)/\(entry)")
            }
        }
        return found.values.sorted { $0.name < $1.name }
    }

    /// That of a name; nil where none is installed.
    static func named(_ name: String) throws(SourceError) -> ProviderManifest? {
        guard isName(name) else { return nil }
        for folder in folders {
            let file = "\(folder)/\(name).json"
            if access(file, F_OK) == 0 { return try read(name, file).manifest.get() }
        }
        return nil
    }

    /// That of a program: `PROGRAM.json` beside it; nil where there is none.
    static func beside(_ program: String) throws(SourceError) -> ProviderManifest? {
        let name = program.split(separator: "/").last.map(String.init) ?? program
        let file = program + ".json"
        guard isName(name), access(file, F_OK) == 0 else { return nil }
        var manifest = try read(name, file).manifest.get()
        manifest.isInstalled = false
        guard manifest.program == program else {
            throw .failed("\(file): it is the manifest of another program, \(manifest.program)")
        }
        return manifest
    }

    private static func isName(_ name: String) -> Bool {
        !name.isEmpty && name.utf8.count <= 100 && !name.contains("/") && !name.hasPrefix(".")
    }

    private static func read(_ name: String, _ file: String) -> Found {
        let manifest: Result<ProviderManifest, SourceError>
        do throws(Errno) {
            let descriptor = try System.open(file, O_RDONLY)
            defer { System.close(descriptor) }
            let text = try System.contents(descriptor, atMost: 1 << 16)
            manifest = Result { () throws(SourceError) in try ProviderManifest(name: name, file: file, text: text) }
        } catch {
            manifest = .failure(.failed("\(file): it can't be read: \(error)"))
        }
        return Found(name: name, file: file, manifest: manifest, isEnabled: isEnabled(name))
    }

    /// What confines them; nil where it is not there.
    public static var bubblewrap: String? { Sandbox.find("bwrap") }

    // MARK: Turned off

    private static var marks: String { BaseDirectories.configuration + "/cove/disabled-providers" }

    /// False for a provider that a person has turned off: its process is not started, and one that runs is ended.
    public static func isEnabled(_ name: String) -> Bool { access("\(marks)/\(name)", F_OK) != 0 }

    /// Turns a provider on or off.
    public static func enable(_ name: String, _ isEnabled: Bool) throws(Errno) {
        if isEnabled {
            if unlink("\(marks)/\(name)") != 0, Errno.current != .noSuchEntry { throw Errno.current }
        } else {
            try System.makeDirectories(marks)
            System.close(try System.open("\(marks)/\(name)", O_WRONLY | O_CREAT))
        }
    }
}
