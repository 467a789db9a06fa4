internal import CoveCore
internal import CoveProviders
internal import Glibc

/// Keeping passwords.
extension CommandTable {
    static let login = Command(
        name: "login",
        summary: "check and keep the password of a source",
        operands: .init(names: ["SOURCE"], minimum: 1),
        options: [cacert, .json],
        details: """
            Asks for the password, or reads one line of standard input, tries it at the server, and keeps it in the
            Secret Service where the session has one (secret-tool), else in logins.json beside the configuration, which
            only you can read. A mounted account that waited for it goes on at once.
            """
    ) { arguments throws(Failure) in
        let source = arguments.operand(0) ?? ""
        guard let network = NetworkSource(source) else {
            throw .usage(source, "has no password", "give an address such as webdavs://USER@HOST/PATH")
        }
        var named = network.user
        if named == nil { named = try Prompt.line("User for \(network.origin): ") }
        let user = named ?? ""
        let password = try Prompt.secret("Password of \(user) for \(network.origin): ")
        let credentials = Credentials(user: user, password: password)
        if network.isExposed { Tool.report(Failure(network.origin, NetworkSource.exposure, network.remedy)) }
        let certificates = arguments.value("cacert").map { LocalPath.absolute($0) }
        try check(source, credentials, certificates: certificates)
        let place = try LoginStore.keep(credentials, for: network)
        wakeAccounts()
        if arguments.has("json") {
            try JSONOutput.write(KeptLogin(source: network.origin, user: user, place: place))
        } else {
            Terminal.standardOutput.write("\(user) is logged in to \(network.origin); the password is in \(place)\n")
        }
        return 0
    }

    private struct KeptLogin: Encodable {
        let source: String
        let user: String
        let place: String
    }

    private static func check(
        _ source: String,
        _ credentials: Credentials,
        certificates: String?
    ) throws(Failure) {
        let access = ProviderFactory.Access(certificates: certificates, credentials: { credentials })
        let provider: any Provider
        do throws(SourceError) {
            provider = try ProviderFactory.make(source: source, access: access)
        } catch {
            throw Failure(line: error.description)
        }
        let failure: ProviderError? = BlockingThread.wait {
            do throws(ProviderError) {
                try await provider.start()
                await provider.stop()
                return nil
            } catch {
                return error
            }
        }
        guard let failure else { return }
        if case .notAuthenticated = failure {
            throw Failure(source, "the server refuses this user and password", "try again; nothing was kept")
        }
        throw Failure(source, "\(failure)", "nothing was kept")
    }

    /// Has every account try again what it waits with.
    private static func wakeAccounts() {
        for account in StatePaths.accounts() {
            let address = DaemonAddress(socket: StatePaths.socket(of: account, .account))
            guard let connection = try? AccountConnection(address, name: account) else { continue }
            let reply: AccountInterface.SyncReply? = try? connection.call(
                "\(AccountInterface.name).Sync",
                AccountInterface.SyncRequest()
            )
            _ = reply
        }
    }
}

/// Asks a person, or reads standard input where nobody sits.
enum Prompt {
    static func line(_ text: String) throws(Failure) -> String {
        if isatty(0) == 1 { Terminal.standardError.write(text) }
        guard let line = readLine(strippingNewline: true), !line.isEmpty else {
            throw .usage(nil, "nothing was typed", "give an answer, or one line of standard input")
        }
        return line
    }

    /// Reads a line that the terminal does not show.
    static func secret(_ text: String) throws(Failure) -> String {
        var settings = termios()
        guard isatty(0) == 1, tcgetattr(0, &settings) == 0 else { return try line(text) }
        var hidden = settings
        hidden.c_lflag &= ~tcflag_t(ECHO)
        tcsetattr(0, TCSAFLUSH, &hidden)
        defer {
            tcsetattr(0, TCSAFLUSH, &settings)
            Terminal.standardError.write("\n")
        }
        return try line(text)
    }
}
