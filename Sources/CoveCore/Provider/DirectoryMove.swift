/// A move of a directory that takes the remote side many steps.
public struct DirectoryMove: Sendable, Equatable {
    /// Where it was.
    public var from: RemotePath
    /// Where it goes.
    public var to: RemotePath

    /// Names the two places.
    public init(from: RemotePath, to: RemotePath) {
        self.from = from
        self.to = to
    }
}

extension Provider {
    /// There are none: a directory moves at once.
    public func movesUnderway() async throws(ProviderError) -> [DirectoryMove]? { nil }
}
