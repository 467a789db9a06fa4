import CoveCore
import CoveProviders
import CoveTestSupport

@testable import CoveEngine

extension EngineConfiguration {
    /// What accounts of tests have in common: nothing rests before it is sent, and nothing is dropped for room.
    static func ofTest(
        _ source: String,
        state: String,
        host: String = "here",
        _ change: (inout EngineConfiguration) -> Void = { _ in }
    ) -> EngineConfiguration {
        var configuration = EngineConfiguration(
            account: "test",
            source: source,
            mountpoint: "/nowhere",
            stateDirectory: state,
            hostName: host
        )
        configuration.settleTime = .zero
        configuration.cacheLimit = 1 << 40
        configuration.reserve = 1 << 20
        change(&configuration)
        return configuration
    }
}

extension Engine {
    /// An engine on what an address names, with the login that the servers of tests know.
    static func onSource(
        _ configuration: EngineConfiguration,
        log: Log = Log(path: nil, echoToStandardError: false)
    ) throws -> Engine {
        let login = Credentials(user: TestServer.user, password: TestServer.password)
        let access = ProviderFactory.Access(stallLimit: configuration.stallLimit, credentials: { login })
        return try Engine(
            configuration: configuration,
            provider: ProviderFactory.make(source: configuration.source, access: access),
            log: log
        )
    }
}
