internal import CoveCore

/// The first time that an account is connected: where that fails there is nothing here to use, and the address or the login
/// may be wrong, so nothing is mounted.
enum FirstConnection {
    /// How long it may take in all, however many requests it needs and however patient each of them is.
    static let longest = TimeSpan.seconds(120)

    /// After so long a source that could not be reached is tried once more.
    private static let pause = TimeSpan.milliseconds(500)

    /// How long it may take with a plan's stall limit, which is one request's.
    static func limit(_ plan: MountPlan) -> TimeSpan {
        min(max(plan.stallLimit * 4, .seconds(10)), longest)
    }

    /// Connects; throws what a person is to do about it.
    static func make(_ provider: any Provider, _ plan: MountPlan) throws(Failure) {
        let limit = limit(plan)
        let end = System.monotonic() + limit
        let offline = "or mount with -o offline to have it later"
        let error = Bounded.result(within: limit, or: ProviderError?.some(.timedOut)) { () -> ProviderError? in
            var attempts = 0
            while true {
                attempts += 1
                do throws(ProviderError) {
                    try await provider.start()
                    return nil
                } catch .serverUnreachable where attempts < 2 && System.monotonic() + pause < end {
                    // An answer that breaks off says nothing of the source.
                    try? await Task.sleep(for: pause)
                } catch {
                    return error
                }
            }
        }
        guard let error else { return }
        Bounded.result(within: .seconds(5), or: ()) { await provider.stop() }
        switch error {
        case .notAuthenticated:
            throw Failure(plan.shownSource, "\(error)", "check the user, and keep the password with `cove login`")
        case .serverUnreachable: throw Failure(plan.shownSource, "\(error)", "check the address, \(offline)")
        case .timedOut:
            throw Failure(plan.shownSource, silence(limit), "check the address, \(offline)")
        case .noSuchItem: throw Failure(plan.shownSource, "nothing is there", "create it, or mount another")
        default: throw Failure(plan.shownSource, "\(error)", "mend that, \(offline)")
        }
    }

    /// What is said of a source that did not answer.
    static func silence(_ limit: TimeSpan) -> String { "the source did not answer in \(Units.duration(limit.seconds))" }
}
