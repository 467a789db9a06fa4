internal import CoveCore

/// What a daemon tells that follows two that died within a minute.
extension EngineContext {
    /// What has happened, and what it cost.
    var deathNotice: String {
        var text = "two daemons died within a minute"
        let refused = work.refusedRequests
        if refused > 0 { text += "; \(refused) requests of programs were answered with an error" }
        let aside = work.setAside
        if !aside.isEmpty { text += "; set aside: \(aside.prefix(10).joined(separator: ", "))" }
        if aside.count > 10 { text += " and \(aside.count - 10) more" }
        return text
    }

    private static let setAsideKey = "set-aside"

    /// What nobody asked for since is tried again after so long.
    private static let setAsideTime = TimeSpan.seconds(7 * 86_400)

    /// Sets aside what an earlier daemon or mount has, and has the following ones do so.
    func keepSetAside() throws(Errno) {
        let kept = try catalog.read { database throws(Errno) in try database.meta(Self.setAsideKey) } ?? []
        // The time, in seconds since 1970, and the paths.
        let parts = kept.split(separator: 0).map { Array($0) }
        if let text = parts.first, let seconds = Int64(String(decoding: text, as: UTF8.self)),
            configuration.clock.now().inMilliseconds - Timestamp(seconds: seconds, nanoseconds: 0) < Self.setAsideTime
        {
            let isNew = !work.setAsidePaths.isEmpty
            work.setAside(Array(parts.dropFirst()))
            guard isNew else { return }
        }
        let paths = work.setAsidePaths
        guard !paths.isEmpty || !kept.isEmpty else { return }
        let now = Array("\(configuration.clock.now().inMilliseconds.seconds)".utf8)
        try catalog.write { database throws(Errno) in
            let value = paths.isEmpty ? nil : Array(([now] + paths).joined(separator: [0]))
            try database.setMeta(Self.setAsideKey, value)
        }
    }

    /// A person wants it tried again.
    func forgetSetAside() {
        work.forgetSetAside()
        try? catalog.write { database throws(Errno) in try database.setMeta(Self.setAsideKey, nil) }
    }

    /// What is set aside, as errors of the account.
    func setAsideErrors() -> [ItemError] {
        work.setAside.map { ItemError(path: $0, message: NotedProvider.reason, retryInSeconds: nil) }
    }
}
