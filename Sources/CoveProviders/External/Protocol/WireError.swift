internal import CoveCore

/// Why a call failed, as it is told on the wire.
struct WireError: Codable, Equatable {
    /// The errors there are, as `ProviderError` has them.
    enum Kind: String, Codable, CaseIterable {
        case serverUnreachable, notAuthenticated, insufficientQuota, notPermitted, noSuchItem, filenameCollision,
            conflict
        case directoryNotEmpty, versionNoLongerAvailable, pageExpired, anchorExpired, unsupported, busy, throttled
        case timedOut, cancelled, failed
    }

    var kind: Kind
    /// What happened, for a person.
    var message: String?
    /// What is there instead, of a collision or a conflict.
    var item: WireItem?
    /// How long the source asks to be left alone, in seconds.
    var retryAfter: Double?

    init(_ error: ProviderError) {
        switch error {
        case .serverUnreachable(let why): self.init(kind: .serverUnreachable, why)
        case .notAuthenticated(let why): self.init(kind: .notAuthenticated, why)
        case .insufficientQuota(let why): self.init(kind: .insufficientQuota, why)
        case .notPermitted(let why): self.init(kind: .notPermitted, why)
        case .noSuchItem: self.init(kind: .noSuchItem)
        case .filenameCollision(let item): self.init(kind: .filenameCollision, item: item.flatMap { WireItem($0) })
        case .conflict(let item): self.init(kind: .conflict, item: item.flatMap { WireItem($0) })
        case .directoryNotEmpty: self.init(kind: .directoryNotEmpty)
        case .versionNoLongerAvailable: self.init(kind: .versionNoLongerAvailable)
        case .pageExpired: self.init(kind: .pageExpired)
        case .anchorExpired: self.init(kind: .anchorExpired)
        case .unsupported(let why): self.init(kind: .unsupported, why)
        case .busy: self.init(kind: .busy)
        case .throttled(let time):
            self.init(kind: .throttled)
            retryAfter = time?.seconds
        case .timedOut: self.init(kind: .timedOut)
        case .cancelled: self.init(kind: .cancelled)
        case .failed(let why, _): self.init(kind: .failed, why)
        }
    }

    private init(kind: Kind, _ message: String? = nil, item: WireItem? = nil) {
        self.kind = kind
        self.message = message
        self.item = item
    }

    /// The error that a caller gets, in which `provider` names who told it.
    ///
    /// An item that can't be one is left out: what is there is looked for then, and other calls go on.
    func error(of provider: String) -> ProviderError {
        // What a process says goes into one line.
        let words = String(decoding: (message ?? "").utf8.prefix(500), as: UTF8.self).escapingControls
        let why = words.isEmpty ? "\(provider) says no more" : "\(provider): \(words)"
        return switch kind {
        case .serverUnreachable: .serverUnreachable(why)
        case .notAuthenticated: .notAuthenticated(why)
        case .insufficientQuota: .insufficientQuota(why)
        case .notPermitted: .notPermitted(why)
        case .noSuchItem: .noSuchItem
        case .filenameCollision: .filenameCollision(item.flatMap { try? $0.item() })
        case .conflict: .conflict(item.flatMap { try? $0.item() })
        case .directoryNotEmpty: .directoryNotEmpty
        case .versionNoLongerAvailable: .versionNoLongerAvailable
        case .pageExpired: .pageExpired
        case .anchorExpired: .anchorExpired
        case .unsupported: .unsupported(why)
        case .busy: .busy
        case .throttled: .throttled(retryAfter: retryAfter.flatMap { Self.time($0) })
        case .timedOut: .timedOut
        // Nobody here has called it off: whoever has does not wait for the answer.
        case .cancelled: .failed("\(provider) called it off by itself", nil)
        case .failed: .failed(why, nil)
        }
    }

    /// Up to a day; nothing for what is no time.
    private static func time(_ seconds: Double) -> TimeSpan? {
        guard seconds.isFinite, seconds >= 0 else { return nil }
        return .milliseconds(Int64(min(seconds, 86_400) * 1000))
    }
}
