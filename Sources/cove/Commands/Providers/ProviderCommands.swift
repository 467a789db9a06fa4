internal import CoveCore
internal import CoveProviders
internal import Glibc

/// Providers that are programs of their own.
extension CommandTable {
    static let providerServe = Command(
        name: "provider serve",
        summary: "serve a source to another program by the provider protocol",
        operands: .init(names: ["SOURCE"], minimum: 1),
        options: [cacert],
        isForAccount: false,
        details: """
            Answers calls of the provider protocol on standard input and output until the other side ends: what a mount of
            exec:PROGRAM asks. SOURCE is anything that `cove mount` takes; passwords come from where it finds them. So one
            machine can reach a source through another one, over ssh for example, and a provider of your own can be compared
            with one that is known to work.
            """
    ) { arguments throws(Failure) in
        let source = arguments.operand(0) ?? ""
        // What is printed by accident is no message: standard output is kept for those.
        let output = dup(1)
        guard output >= 0, dup2(2, 1) >= 0 else {
            throw Failure("standard output", "\(Errno.current)", "see ulimit -n")
        }
        let provider = try provider(source, arguments)
        let server: ProviderServer
        do {
            server = try ProviderServer(provider, name: "cove", input: dup(0), output: output)
        } catch {
            throw Failure(line: "\(error)")
        }
        let reason = BlockingThread.wait { await server.run() }
        Terminal.standardError.write("the other side: \(reason)\n")
        return 0
    }

    static let providerLog = Command(
        name: "provider log",
        summary: "show what the program behind an account has said",
        operands: .account,
        details: """
            What a provider that is a program of its own wrote to its standard error, and when and how it ended: the last
            one to two MiB. Works without a mount with --account or --state.
            """
    ) { arguments throws(Failure) in
        let file: String
        if let state = arguments.value("state") {
            file = LocalPath.absolute(state) + "/provider.log"
        } else if arguments.operands.isEmpty, let account = arguments.value("account") {
            file = StatePaths.state(of: account) + "/provider.log"
        } else {
            let (connection, _) = try AccountConnection.openPath(arguments)
            let status: AccountStatus = try connection.call("\(AccountInterface.name).Status")
            file = status.stateDirectory + "/provider.log"
        }
        let parts = [file + ".1", file].compactMap { path -> [UInt8]? in
            guard let descriptor = try? System.open(path, O_RDONLY | O_NOFOLLOW) else { return nil }
            defer { System.close(descriptor) }
            return try? System.contents(descriptor, atMost: 4 << 20)
        }
        let text = String(decoding: parts.joined(), as: UTF8.self)
        if arguments.has("json") {
            try JSONOutput.write(text.split(separator: "\n").map(String.init))
        } else {
            let terminal = Terminal.standardOutput
            for line in text.split(separator: "\n") { terminal.write(terminal.safe(String(line)) + "\n") }
        }
        return 0
    }

    static let providerCheck = Command(
        name: "provider check",
        summary: "try whether a provider does what Cove relies on",
        operands: .init(names: ["SOURCE"], minimum: 1),
        options: [.json, cacert],
        isForAccount: false,
        details: """
            SOURCE is anything that `cove mount` takes: exec:PROGRAM, for a provider of your own. The checks make a folder
            cove-check-… at its root, and remove it again; a source that can't be written to is read only. Of a check that
            fails the last calls are shown, with their answers. Fails with status 1 when one does.
            """
    ) { arguments throws(Failure) in
        let source = arguments.operand(0) ?? ""
        let provider = try provider(source, arguments)
        let isJSON = arguments.has("json")
        let terminal = Terminal.standardOutput
        let result: Result<Bool, ProviderError> = BlockingThread.wait {
            do throws(ProviderError) {
                try await provider.start()
                let passes = try await Conformance(provider).run { outcome in
                    if isJSON {
                        try? JSONOutput.write(CheckReport(outcome))
                        return
                    }
                    let state = outcome.failure != nil ? "FAILED" : outcome.isSkipped ? "can't " : "ok    "
                    terminal.write("\(state) \(outcome.promise)\n")
                    if let failure = outcome.failure { terminal.write("       \(terminal.safe(failure))\n") }
                    for call in outcome.calls { terminal.write("         \(terminal.safe(call))\n") }
                }
                await provider.stop()
                return .success(passes)
            } catch {
                await provider.stop()
                return .failure(error)
            }
        }
        switch result {
        case .success(let passes): return passes ? 0 : 1
        case .failure(let error): throw Failure(line: "\(source): \(error)")
        }
    }

    /// The provider of a source, with the login that was kept for it.
    private static func provider(_ source: String, _ arguments: Arguments) throws(Failure) -> any Provider {
        let network = NetworkSource(source)
        let access = ProviderFactory.Access(
            certificates: arguments.value("cacert").map { LocalPath.absolute($0) },
            credentials: { await OffPool.run { network.flatMap { LoginStore.find($0) } } }
        )
        do throws(SourceError) {
            return try ProviderFactory.make(source: source, access: access)
        } catch {
            throw Failure(line: "\(error)")
        }
    }
}

/// One check, as `cove provider check --json` tells it.
private struct CheckReport: Encodable {
    let promise: String
    let state: String
    let failure: String?
    let calls: [String]

    init(_ outcome: Conformance.Outcome) {
        promise = outcome.promise
        state = outcome.failure != nil ? "failed" : outcome.isSkipped ? "skipped" : "passed"
        failure = outcome.failure
        calls = outcome.calls
    }
}
