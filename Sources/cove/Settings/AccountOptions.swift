internal import CoveCore

/// What follows `-o`: Cove's own options, those for the mount itself, and those only mount(8) and fstab(5) read.
struct AccountOptions: Sendable, Equatable {
    var isReadOnly = false
    var allowsOtherUsers = false
    var passesThrough = false
    /// A first mount is made even where the source can't be had.
    var isOffline = false
    var generation: AccountGeneration?
    var cacheSize: CacheSize?
    var latency: TimeSpan?
    var bandwidth: Int64?
    var stalls: [String] = []
    var settleTime: TimeSpan?
    var stallLimit: TimeSpan?
    var pollInterval: TimeSpan?
    var openTimeout: TimeSpan?
    var presenterTimeout: TimeSpan?
    var certificates: String?
    var keptVersions: Int?
    var ignore: [String] = []
    var logLevel = Log.Level.info
    /// Passed on to libfuse and the kernel.
    var forMount: [String] = []

    /// The options as they came, for handing them on.
    var text: [String] = []

    /// True when the link to the source is to be slowed down.
    var isSimulated: Bool { latency != nil || bandwidth != nil || !stalls.isEmpty }

    private static let kernelWords = [
        "nosuid", "suid", "nodev", "dev", "noexec", "exec", "noatime", "atime", "nodiratime", "relatime", "sync",
        "async", "dirsync",
    ]
    private static let ignoredWords = [
        "defaults", "auto", "noauto", "user", "nouser", "users", "group", "owner", "nofail", "_netdev",
    ]
    private static let ownWords = [
        "ro", "rw", "allow_other", "passthrough", "offline", "cache-size=SIZE", "simulate-latency=TIME",
        "simulate-bandwidth=SIZE", "simulate-stall=GLOB", "settle=TIME", "stall-limit=TIME", "poll=TIME",
        "open-timeout=TIME", "presenter-timeout=TIME",
        "cacert=FILE", "generation=legacy", "versions=COUNT", "ignore=GLOB", "log=LEVEL",
    ]

    /// Reads comma-separated lists; `\,` stands for a comma in a value.
    init(_ lists: [String]) throws(Failure) {
        text = lists
        for list in lists {
            for option in Self.split(list) where !option.isEmpty { try add(option) }
        }
    }

    private mutating func add(_ option: String) throws(Failure) {
        let parts = option.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        let name = parts[0]
        let value = parts.count > 1 ? parts[1] : nil
        switch (name, value) {
        case ("ro", nil): isReadOnly = true
        case ("rw", nil): isReadOnly = false
        case ("allow_other", nil): allowsOtherUsers = true
        case ("passthrough", nil): passesThrough = true
        case ("offline", nil): isOffline = true
        case ("cache-size", let value?): cacheSize = try Self.parsed(option, "20G or 10%", CacheSize(value))
        case ("simulate-latency", let value?): latency = try Self.parsed(option, "20ms", Units.parseDuration(value))
        case ("simulate-bandwidth", let value?): bandwidth = try Self.parsed(option, "100M", Units.parseSize(value))
        case ("simulate-stall", let value?): stalls.append(value)
        case ("settle", let value?): settleTime = try Self.parsed(option, "2s", Units.parseDuration(value))
        case ("stall-limit", let value?): stallLimit = try Self.parsed(option, "30s", Units.parseDuration(value))
        case ("poll", let value?): pollInterval = try Self.parsed(option, "30s", Units.parseDuration(value))
        case ("open-timeout", let value?): openTimeout = try Self.parsed(option, "45s", Units.parseDuration(value))
        case ("presenter-timeout", let value?):
            presenterTimeout = try Self.parsed(option, "30s", Units.parseDuration(value))
        case ("generation", let value?):
            generation = try Self.parsed(option, "legacy or drive", AccountGeneration(rawValue: value))
        case ("cacert", let value?): certificates = LocalPath.absolute(value)
        case ("versions", let value?): keptVersions = try Self.parsed(option, "10", UInt16(value).map { Int($0) })
        case ("ignore", let value?): ignore.append(value)
        case ("log", let value?): logLevel = try Self.parsed(option, "debug, info, notice or error", Self.level(value))
        case (_, nil) where Self.kernelWords.contains(name): forMount.append(name)
        case (_, nil) where Self.ignoredWords.contains(name): break
        case _ where name.hasPrefix("x-") || ["comment", "user"].contains(name): break
        default:
            let known = (Self.ownWords + Self.kernelWords + Self.ignoredWords + ["x-*"]).joined(separator: ", ")
            throw .usage("-o \(option)", "unknown option", "known are \(known)")
        }
    }

    private static func parsed<Value>(_ option: String, _ example: String, _ value: Value?) throws(Failure) -> Value {
        guard let value else { throw .usage("-o \(option)", "its value can't be read", "write it like \(example)") }
        return value
    }

    private static func level(_ name: String) -> Log.Level? {
        switch name {
        case "debug": .debug
        case "info": .info
        case "notice": .notice
        case "error": .error
        default: nil
        }
    }

    private static func split(_ list: String) -> [String] {
        var options = [""]
        var isEscaped = false
        for character in list {
            if isEscaped {
                if character != "," { options[options.count - 1].append("\\") }
                options[options.count - 1].append(character)
                isEscaped = false
            } else if character == "\\" {
                isEscaped = true
            } else if character == "," {
                options.append("")
            } else {
                options[options.count - 1].append(character)
            }
        }
        if isEscaped { options[options.count - 1].append("\\") }
        return options
    }
}
