internal import CoveCore

/// How a server is reached.
struct HTTPOptions: Sendable {
    /// A file of certificates to trust instead of the system's.
    var certificates: String?
    var connectTimeout: TimeSpan = .seconds(10)
    /// A transfer that moves nothing for so long has failed.
    var stallLimit: TimeSpan = .seconds(30)
    /// One that moves fewer bytes a second than these, for that long, moves nothing.
    var leastRate = 16
    /// A page of a listing that takes longer has failed, however much of it comes.
    var pageLimit: TimeSpan = .seconds(300)
    /// Transfers of many bytes going on at a time, and requests of any kind.
    var parallelTransfers = 32
    var parallelRequests = 96
    /// Asks again so often when the line broke.
    var repetitions = 2
    /// How long in all a program that wants bytes waits for a server that wants fewer requests.
    var patience: TimeSpan = .seconds(20)
    /// Is told of each request that may change something, and of its answer.
    var trace: (@Sendable (_ text: () -> String) -> Void)?
}

extension TimeSpan {
    /// As libcurl's options take it: at least 1, and no more than they can bear.
    var curlMilliseconds: Int { Int(min(max(milliseconds, 1), 2_000_000_000)) }
    /// As libcurl's options take it: at least 1, and no more than they can bear.
    var curlSeconds: Int { max(1, curlMilliseconds / 1000) }
}
