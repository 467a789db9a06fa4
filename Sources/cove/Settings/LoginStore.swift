internal import CLinux
internal import CoveCore
internal import CoveProviders
internal import Glibc

/// Logins that `cove login` keeps: in the Secret Service where a session has one, else in a file only its owner reads.
///
/// `COVE_PASSWORD` goes before all of them, `~/.netrc` comes last.
enum LoginStore {
    private struct Login: Codable {
        var user: String
        var password: String
    }

    /// The login for a source; nil where none is known.
    ///
    /// Blocks while a locked Secret Service asks its owner.
    static func find(_ source: NetworkSource) -> Credentials? {
        if let password = ProcessEnvironment.value("COVE_PASSWORD"), let user = source.user {
            return Credentials(user: user, password: password)
        }
        guard let login = fromSecretService(source) ?? fromFile(source) else { return nil }
        // Kept before there could be several users of one server.
        if let user = source.user, user != login.user { return nil }
        return Credentials(user: login.user, password: login.password)
    }

    /// Keeps a login; where it is now, in words for a person.
    static func keep(_ credentials: Credentials, for source: NetworkSource) throws(Failure) -> String {
        let login = Login(user: credentials.user, password: credentials.password)
        guard let text = try? JSONValue(encoding: login).bytes else { throw Failure(source.origin, "it can't be kept") }
        let attributes = [
            "store", "--label=Cove: \(source.origin)", "service", "cove", "source", source.origin, "user", login.user,
        ]
        var all = readFile()
        if hasSecretService, run(attributes, input: text) != nil {
            // A password that was kept in the file before stays in none.
            let names = [source.origin, "\(login.user) \(source.origin)"].filter { all[$0]?.user == login.user }
            if !names.isEmpty {
                for name in names { all[name] = nil }
                try writeFile(all)
            }
            return "the Secret Service"
        }
        all[source.origin] = login
        all["\(login.user) \(source.origin)"] = login
        try writeFile(all)
        return path
    }

    // MARK: the Secret Service

    private static var hasSecretService: Bool { getenv("DBUS_SESSION_BUS_ADDRESS") != nil }

    private static func fromSecretService(_ source: NetworkSource) -> Login? {
        guard hasSecretService else { return nil }
        let attributes = ["lookup", "service", "cove", "source", source.origin]
        let own = source.user.flatMap { run(attributes + ["user", $0], input: []) }
        guard let text = own ?? run(attributes, input: []) else { return nil }
        return try? JSONValue(parsing: text).decode()
    }

    /// What secret-tool(1) prints, which is nothing where it keeps something; nil when it is missing or fails.
    private static func run(_ arguments: [String], input: [UInt8]) -> [UInt8]? {
        let (from, to) = (cove_memfd_create("cove-login"), cove_memfd_create("cove-login"))
        guard from >= 0, to >= 0 else { return nil }
        defer {
            System.close(from)
            System.close(to)
        }
        guard (try? write(input, from)) != nil, lseek(from, 0, SEEK_SET) == 0,
            (try? ChildProcess.run("secret-tool", arguments, input: from, output: to, limit: .seconds(60))) == 0,
            let size = try? System.fstat(to).st_size, size < 1 << 16
        else { return nil }
        return try? System.contents(to, atMost: Int(size))
    }

    private static func write(_ bytes: [UInt8], _ descriptor: Int32) throws(Errno) {
        let result = bytes.withUnsafeBytes { bytes in
            Result { () throws(Errno) in try System.writeAll(descriptor, bytes) }
        }
        try result.get()
    }

    // MARK: the file

    private static let name = "logins.json"
    private static var folder: String { BaseDirectories.configuration + "/cove" }
    private static var path: String { "\(folder)/\(name)" }

    private static func fromFile(_ source: NetworkSource) -> Login? {
        let all = readFile()
        return source.user.flatMap { all["\($0) \(source.origin)"] } ?? all[source.origin]
    }

    private static func readFile() -> [String: Login] {
        guard let file = try? System.openPlain(AT_FDCWD, Array(path.utf8), O_RDONLY) else { return [:] }
        defer { System.close(file) }
        guard let text = try? System.contents(file, atMost: 1 << 20) else { return [:] }
        return (try? JSONValue(parsing: text).decode()) ?? [:]
    }

    private static func writeFile(_ all: [String: Login]) throws(Failure) {
        guard let text = try? JSONValue(encoding: all).bytes else { throw Failure(path, "it can't be written") }
        let new = ".\(name).\(getpid())"
        try Failure.explaining(path, "the login can't be kept", remedy: "check the directory and its owner") {
            () throws(Errno) in
            try System.makeDirectories(folder, 0o700)
            // A link may lead there, but to a directory of this user's alone: else a file of another name is replaced.
            let directory = try System.open(folder, O_RDONLY | O_DIRECTORY)
            defer { System.close(directory) }
            let status = try System.status(directory)
            guard status.user == geteuid(), status.permissions & 0o022 == 0 else { throw .accessDenied }
            try? System.unlinkat(directory, Array(new.utf8))
            let descriptor = try System.openPlain(directory, Array(new.utf8), O_WRONLY | O_CREAT | O_EXCL)
            defer { System.close(descriptor) }
            try write(text, descriptor)
            try System.fsync(descriptor)
            try System.renameat(directory, Array(new.utf8), directory, Array(name.utf8), .replace)
        }
    }
}
