internal import CoveCore
internal import CoveProviders

/// The providers that are installed.
extension CommandTable {
    static let providerList = Command(
        name: "provider ls",
        summary: "list the providers that are installed",
        options: [.json],
        isForAccount: false,
        details: """
            A provider is installed by its manifest, NAME.json in cove/providers of ~/.local/share, /usr/local/share or
            /usr/share; `cove mount exec:NAME` mounts it. What it may have besides the system's programs is told behind it.
            """
    ) { arguments throws(Failure) in
        let found = InstalledProviders.all()
        if arguments.has("json") {
            try JSONOutput.write(found.map { ProviderReport($0) })
            return 0
        }
        let terminal = Terminal.standardOutput
        let width = found.map(\.name.count).max() ?? 0
        for provider in found {
            let name = ItemText.padded(terminal.safe(provider.name), width)
            switch provider.manifest {
            case .success(let manifest):
                let state = provider.isEnabled ? "on " : "off"
                let summary = manifest.summary.isEmpty ? manifest.program : manifest.summary
                terminal.write("\(name)  \(state)  \(terminal.safe(summary)) (\(terminal.safe(manifest.rights)))\n")
            case .failure(let error):
                terminal.write("\(name)  bad  \(terminal.safe("\(error)"))\n")
            }
        }
        if found.isEmpty, terminal.isInteractive { terminal.write("No provider is installed.\n") }
        return 0
    }

    static let providerEnable = Command(
        name: "provider enable",
        summary: "turn a provider on again",
        operands: .init(names: ["NAME"], minimum: 1),
        options: [.json],
        isForAccount: false,
        details: "Accounts that wait for it go on within a minute, or at `cove sync`."
    ) { arguments throws(Failure) in try turn(arguments, on: true) }

    static let providerDisable = Command(
        name: "provider disable",
        summary: "turn a provider off",
        operands: .init(names: ["NAME"], minimum: 1),
        options: [.json],
        isForAccount: false,
        details: """
            It is not started any more, and where it runs it is ended when something is asked of it. What is on this disk
            stays usable, and changes made here wait.
            """
    ) { arguments throws(Failure) in try turn(arguments, on: false) }

    private static func turn(_ arguments: Arguments, on isEnabled: Bool) throws(Failure) -> Int32 {
        let name = arguments.operand(0) ?? ""
        guard var provider = InstalledProviders.all().first(where: { $0.name == name }) else {
            throw Failure(name, "no provider of that name is installed", "see `cove provider ls`")
        }
        do throws(Errno) { try InstalledProviders.enable(name, isEnabled) } catch {
            throw Failure(name, "it can't be turned \(isEnabled ? "on" : "off"): \(error)", "see ~/.config/cove")
        }
        provider.isEnabled = isEnabled
        if arguments.has("json") {
            try JSONOutput.write(ProviderReport(provider))
        } else {
            Terminal.standardOutput.write("\(name) is \(isEnabled ? "on" : "off")\n")
        }
        return 0
    }
}

/// An installed provider, as `cove provider ls --json` tells it.
private struct ProviderReport: Encodable {
    let name: String
    let manifest: String
    let enabled: Bool
    var problem: String?
    var summary: String?
    var program: String?
    var confined: Bool?
    var network: Bool?
    var secrets: Bool?
    var environment: [String]?
    var read: [String]?
    var write: [String]?
    var memory: Int64?
    var processors: Int?

    init(_ found: InstalledProviders.Found) {
        name = found.name
        manifest = found.file
        enabled = found.isEnabled
        switch found.manifest {
        case .failure(let error): problem = "\(error)"
        case .success(let known):
            summary = known.summary
            program = known.program
            confined = known.isConfined
            network = known.usesNetwork
            secrets = known.usesSecrets
            environment = known.environment
            read = known.readPaths
            write = known.writePaths
            memory = known.memory
            processors = known.processors
        }
    }
}
