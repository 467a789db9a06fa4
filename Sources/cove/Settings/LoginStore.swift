internal import CLinux
internal import CoveCore
internal import CoveProviders
internal import FoundationEssentials
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
        if let password = getenv("COVE_PASSWORD").map({ String(cString: $0) }), let user = source.user {
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
        guard let text = try? JSONEncoder().encode(login) else { throw Failure(source.origin, "it can't be kept") }
        let attributes = [
            "store", "--label=Cove: \(source.origin)", "service", "cove", "source", source.origin, "user", login.user,
        ]
        if hasSecretService, run(attributes, input: Array(text)) != nil { return "the Secret Service" }
        var all = readFile()
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
        return try? JSONDecoder().decode(Login.self, from: Data(text))
    }

    /// What secret-tool(1) prints; nil when it is missing or fails.
    private static func run(_ arguments: [String], input: [UInt8]) -> [UInt8]? {
        let (from, to) = (cove_memfd_create("cove-login"), cove_memfd_create("cove-login"))
        guard from >= 0, to >= 0 else { return nil }
        defer {
            System.close(from)
            System.close(to)
        }
        guard (try? write(input, from)) != nil, lseek(from, 0, SEEK_SET) == 0,
            (try? ChildProcess.run("secret-tool", arguments, input: from, output: to, limit: .seconds(60))) == 0,
            let size = try? System.fstat(to).st_size, size > 0, size < 1 << 16
        else { return nil }
        var text = [UInt8](repeating: 0, count: Int(size))
        let count = text.withUnsafeMutableBytes { (try? System.pread(to, $0, 0)) ?? 0 }
        return Array(text.prefix(count))
    }

    private static func write(_ bytes: [UInt8], _ descriptor: Int32) throws(Errno) {
        let result = bytes.withUnsafeBytes { bytes in
            Result { () throws(Errno) in try System.writeAll(descriptor, bytes) }
        }
        try result.get()
    }

    // MARK: the file

    private static var path: String { StatePaths.configHome + "/cove/logins.json" }

    private static func fromFile(_ source: NetworkSource) -> Login? {
        let all = readFile()
        return source.user.flatMap { all["\($0) \(source.origin)"] } ?? all[source.origin]
    }

    private static func readFile() -> [String: Login] {
        guard let text = try? Data(contentsOf: URL(filePath: path)) else { return [:] }
        return (try? JSONDecoder().decode([String: Login].self, from: text)) ?? [:]
    }

    private static func writeFile(_ all: [String: Login]) throws(Failure) {
        guard let text = try? JSONEncoder().encode(all) else { throw Failure(path, "it can't be written") }
        let new = path + ".new"
        try Failure.explaining(path, "the login can't be kept", remedy: "check the directory") { () throws(Errno) in
            try System.makeDirectories(StatePaths.configHome + "/cove", 0o700)
            let descriptor = try System.open(new, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
            defer { System.close(descriptor) }
            try System.retry { fchmod(descriptor, 0o600) }
            try write(Array(text), descriptor)
            try System.retry { fsync(descriptor) }
            try System.retry { rename(new, path) }
        }
    }
}
