internal import CoveCore
internal import Glibc

extension ClaimHolder {
    private typealias Interface = CoordinationInterface

    /// Waits for the claims, also when the daemon is replaced meanwhile, and holds them.
    func claim(
        _ intents: [CoordinationInterface.Intent],
        timeout: Double? = nil,
        openFiles: String? = nil,
        purpose: String? = nil,
        subject: String
    ) throws(Failure) -> CoordinationInterface.ClaimReply {
        while true {
            let (token, generation) = session
            do throws(Failure) {
                let reply: Interface.ClaimReply = try AccountConnection(daemon, name: name).call(
                    "\(Interface.name).Claim",
                    Interface.ClaimRequest(
                        session: token,
                        coordinator: "cove-\(getpid())",
                        purpose: purpose,
                        intents: intents,
                        timeout: timeout,
                        openFiles: openFiles
                    ),
                    subject: subject,
                    timeout: nil
                )
                // Between the grant and here the session may have ended with its daemon.
                if hold(token) { return reply }
            } catch {
                guard error.isDaemonGone else { throw error }
                // The session begins anew where the next daemon is, or goes on with a claim whose grant was not heard of.
                let deadline = System.monotonic() + .seconds(10)
                while session.generation == generation {
                    guard System.monotonic() < deadline else { throw error }
                    _ = poll(nil, 0, 10)
                }
            }
        }
    }

    /// Says that an item has gone to another file system; a daemon that was replaced meanwhile is asked anew.
    func movedOut(_ claim: String, _ path: RemotePath, to place: String) {
        guard let connection = try? AccountConnection(daemon, name: name) else { return }
        let request = Interface.MovedOutRequest(claim: claim, path: PathParameter(path), outside: place)
        let _: VarlinkNothing? = try? connection.call("\(Interface.name).MovedOut", request)
    }

    /// Ends a claim; a daemon that was replaced meanwhile is asked anew.
    func release(_ claim: String) {
        guard let connection = try? AccountConnection(daemon, name: name) else { return }
        let _: VarlinkNothing? = try? connection.call(
            "\(Interface.name).Release",
            Interface.ReleaseRequest(claim: claim)
        )
    }
}
