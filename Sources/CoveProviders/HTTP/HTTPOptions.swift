internal import CoveCore

/// How a server is reached.
struct HTTPOptions: Sendable {
    /// Who asks; with neither, `~/.netrc` is looked at.
    struct Login: Sendable {
        var user: String
        var password: String
    }

    /// The way the login is told.
    enum Scheme: Sendable {
        case none
        case basic
        case digest
    }

    /// A file of certificates to trust instead of the system's.
    var certificates: String?
    var connectTimeout: Duration = .seconds(10)
    /// A transfer that moves nothing for so long has failed.
    var stallLimit: Duration = .seconds(30)
    /// Transfers of many bytes going on at a time, and requests of any kind.
    var parallelTransfers = 16
    var parallelRequests = 32
    /// Asks again so often when the line broke.
    var repetitions = 2
}
