public import CoveCore
internal import Glibc

/// Why a source can't be mounted, in one line for a person.
public enum SourceError: Error, Sendable, Equatable, CustomStringConvertible {
    /// No source was given.
    case empty
    /// The URL begins with a scheme that no provider serves.
    case unknownScheme(String)
    /// Nothing is there.
    case missing(String)
    /// Something else than a directory is there.
    case notDirectory(String)
    /// The directory can't be read.
    case unreadable(String, Errno)
    /// It is no address.
    case badAddress(String)
    /// The address holds a password.
    case password
    /// It can't be used, for a reason of the machine.
    case failed(String)
    /// An option has a value that makes no sense.
    case invalidOption(String, value: String, expected: String)

    /// What happened, and where it helps, what to do.
    public var description: String {
        switch self {
        case .empty: "no source was given; use dir:///path or a path"
        case .unknownScheme(let scheme):
            "\(scheme): unknown kind of source; known are \(ProviderFactory.schemes.joined(separator: ", "))"
        case .missing(let path): "\(path): no such directory; create it first"
        case .notDirectory(let path): "\(path): not a directory"
        case .badAddress(let text): "\(text): not an address such as webdavs://host/path"
        case .password:
            "a password in an address is seen by others; use cove login, COVE_PASSWORD or ~/.netrc"
        case .failed(let why): why
        case .unreadable(let path, let errno): "\(path): can't be read: \(errno)"
        case .invalidOption(let name, let value, let expected): "\(name)=\(value): expected \(expected)"
        }
    }
}

/// Makes providers from what a person types.
public enum ProviderFactory {
    /// The kinds of sources there are, as they begin.
    public static let schemes = ["dir://"] + networkSchemes.map { $0 + "://" } + ["exec:", "rclone:"]

    static let networkSchemes = ["webdav", "webdavs", "s3"]

    /// How a source over the network is reached.
    public struct Access: Sendable {
        /// A file of certificates to trust instead of the system's.
        public var certificates: String?
        /// A transfer that moves nothing for so long has failed.
        public var stallLimit: TimeSpan
        /// What this device is called, for sources that keep who has changed a file.
        public var device: String?
        /// The account's state folder, for what an upload needs to go on after a crash; nil keeps nothing.
        public var state: String?
        /// True where a source that is not there, or can't be used, makes a provider that can't be reached.
        public var mayBeMissing = false
        /// True where nothing is to be changed in the source, nor any hidden file left in it.
        public var isReadOnly = false
        /// Is told of each request that may change something, and of its answer; nil where nobody reads it.
        public var trace: (@Sendable (_ text: () -> String) -> Void)?
        /// Who uses the source, asked for at each start; nil leaves it to `~/.netrc`, or what AWS's programs read.
        public var credentials: @Sendable () async -> Credentials?

        /// Makes an access.
        public init(
            certificates: String? = nil,
            stallLimit: TimeSpan = .seconds(30),
            state: String? = nil,
            credentials: @escaping @Sendable () async -> Credentials? = { nil }
        ) {
            self.certificates = certificates
            self.stallLimit = stallLimit
            self.state = state
            self.credentials = credentials
        }
    }

    /// True for a source that a program serves, one of the user's own or rclone.
    public static func isProgram(_ source: String) -> Bool {
        ["exec:", "rclone:"].contains { source.hasPrefix($0) }
    }

    /// Makes the provider of a source: `dir:///path`, taken literally, or a plain path; nothing is started yet.
    ///
    /// The options `latency`, `bandwidth` and `stall` put it behind a `SimulatedLink`, `rescan` sets the interval in
    /// which a directory is looked at as a whole; all others are ignored.
    public static func make(
        source: String,
        options: [String: String] = [:],
        access: Access = Access(),
        log: @escaping @Sendable (String) -> Void = { _ in }
    ) throws(SourceError) -> any Provider {
        do throws(SourceError) {
            return try found(source, options, access, log)
        } catch {
            guard access.mayBeMissing else { throw error }
            log("\(error); the source counts as out of reach until it is mounted again")
            return ExternalProvider(ProviderProgram(missing: source, why: error), state: access.state, log: log)
        }
    }

    private static func found(
        _ source: String,
        _ options: [String: String],
        _ access: Access,
        _ log: @escaping @Sendable (String) -> Void
    ) throws(SourceError) -> any Provider {
        if let tree = try GeneratedTree.make(source: source) { return tree }
        if let server = try server(source, access, log) { return server }
        var program = try ProviderProgram(source: source)
        if program == nil { program = try ProviderProgram.rclone(source: source) }
        if let program {
            return ExternalProvider(
                program,
                state: access.state,
                isReadOnly: access.isReadOnly,
                credentials: access.credentials,
                log: log
            )
        }
        let path = try directory(source, mayBeMissing: access.mayBeMissing)
        let rescan = try value("rescan", options, "a time such as 300s", SimulatedLink.duration)
        let folder = FolderProvider(root: path, rescanInterval: rescan ?? .seconds(300), log: log)
        let latency = try value("latency", options, "a time such as 20ms", SimulatedLink.duration)
        let bandwidth = try value("bandwidth", options, "bytes a second such as 100M", SimulatedLink.bytes)
        let stall = options["stall"]
        if latency == nil, bandwidth == nil, stall == nil { return folder }
        return SimulatedLink(base: folder, latency: latency ?? .zero, bandwidth: bandwidth, stall: stall)
    }

    private static func server(
        _ source: String,
        _ access: Access,
        _ log: @escaping @Sendable (String) -> Void
    ) throws(SourceError) -> (any Provider)? {
        guard let scheme = scheme(source), networkSchemes.contains(where: { $0 + "://" == scheme }) else { return nil }
        guard let address = SourceAddress(source) else { throw .badAddress(source) }
        // Others can read command lines.
        guard address.password == nil else { throw .password }
        var options = HTTPOptions()
        options.certificates = access.certificates
        options.stallLimit = access.stallLimit
        options.trace = access.trace
        do throws(ProviderError) {
            let uploads = access.state.map { $0 + "/uploads" }
            if address.scheme == "s3" {
                return try S3Provider(
                    address,
                    options,
                    editor: access.device,
                    uploads: uploads,
                    credentials: access.credentials,
                    log: log
                )
            }
            return try WebDAVProvider(address, options, uploads: uploads, credentials: access.credentials, log: log)
        } catch {
            throw .failed("\(error)")
        }
    }

    /// The path of a directory, which is looked at unless it may be missing: to ask a dead network mount could take for ever.
    private static func directory(_ source: String, mayBeMissing: Bool) throws(SourceError) -> String {
        if source.isEmpty { throw .empty }
        var path = source
        if source.hasPrefix("dir://") {
            path = String(source.dropFirst("dir://".count))
        } else if let scheme = scheme(source) {
            throw .unknownScheme(scheme)
        }
        if path.isEmpty { throw .empty }
        if !path.hasPrefix("/") { path = LocalPath.workingDirectory + "/" + path }
        while path.count > 1, path.hasSuffix("/") { path.removeLast() }
        if mayBeMissing { return path }
        do throws(Errno) {
            let status = try System.statFollowing(path)
            if status.st_mode & S_IFMT != S_IFDIR { throw Errno.notDirectory }
            System.close(try System.open(path, O_RDONLY | O_DIRECTORY))
        } catch .noSuchEntry {
            throw .missing(path)
        } catch .notDirectory {
            throw .notDirectory(path)
        } catch {
            throw .unreadable(path, error)
        }
        return path
    }

    /// What stands before `://`, or before the colon of `exec:` and the like; nil for a path.
    private static func scheme(_ source: String) -> String? {
        let name = source.prefix { $0.isASCII && ($0.isLetter || $0.isNumber) }
        let rest = source.dropFirst(name.count)
        guard !name.isEmpty, rest.hasPrefix(":") else { return nil }
        return rest.hasPrefix("://") ? name + "://" : name + ":"
    }

    private static func value<T>(
        _ name: String,
        _ options: [String: String],
        _ expected: String,
        _ parse: (String) -> T?
    ) throws(SourceError) -> T? {
        guard let text = options[name] else { return nil }
        guard let value = parse(text) else { throw .invalidOption(name, value: text, expected: expected) }
        return value
    }
}
