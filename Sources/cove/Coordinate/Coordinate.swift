internal import CLinux
internal import CoveCore
internal import FoundationEssentials
internal import Glibc

/// `cove coordinate`: holds claims while a command runs.
struct Coordinate {
    private typealias Interface = CoordinationInterface

    private let command: [[UInt8]]
    private let locations: [ItemLocation]
    private let intents: [CoordinationInterface.Intent]
    private let timeout: Double?
    /// The exit code when the time is over.
    private let conflictExitCode: Int32

    init(_ arguments: Arguments) throws(Failure) {
        command = arguments.operands
        var locations: [ItemLocation] = []
        var intents: [Interface.Intent] = []
        let reading: [Interface.ReadingOption] = arguments.has("for-uploading") ? [.forUploading] : []
        func add(_ name: String, _ make: (PathParameter) -> Interface.Intent) throws(Failure) {
            for path in arguments.values(name) {
                let location = try Failure.locating(path, ItemLocation.find)
                locations.append(location)
                intents.append(make(PathParameter(location.path)))
            }
        }
        try add("reading") { Interface.Intent(reading: $0, reading) }
        try add("writing") { Interface.Intent(writing: $0) }
        try add("merging") { Interface.Intent(writing: $0, .forMerging) }
        try add("moving") { Interface.Intent(writing: $0, .forMoving) }
        try add("deleting") { Interface.Intent(writing: $0, .forDeleting) }
        try add("replacing") { Interface.Intent(writing: $0, .forReplacing) }
        guard let first = locations.first else {
            throw .usage("--writing", "no item is named", "say which with --reading, --writing and the like")
        }
        if let other = locations.first(where: { $0.socket != first.socket }) {
            throw .usage(other.shown, "is in another mount than \(first.shown)", "coordinate one account at a time")
        }
        timeout = try arguments.value("timeout").map { text throws(Failure) in
            guard let seconds = Double(text), seconds >= 0 else {
                throw .usage("--timeout", "\(text) is no number of seconds", "write it as 5 or 0.5")
            }
            return seconds
        }
        let code = arguments.value("conflict-exit-code") ?? "1"
        guard let number = Int32(code), (0...255).contains(number) else {
            throw .usage("--conflict-exit-code", "\(code) is no exit code", "choose one from 0 to 255")
        }
        conflictExitCode = number
        self.locations = locations
        self.intents = intents
    }

    /// Claims, runs the command and releases; its exit code.
    func run() throws(Failure) -> Int32 {
        let socket = locations[0].socket
        // What the command leaves behind stays below this process, and so is exempt from its claims.
        _ = cove_set_child_subreaper()
        let session = try ClaimHolder.begin(socket: socket, name: locations[0].shown)
        let reply = try claim(socket, session)
        let snapshots = reply.items.compactMap(\.snapshot)
        if !snapshots.isEmpty { setenv("COVE_SNAPSHOT", snapshots.joined(separator: "\n"), 1) }
        session.isHolding = true
        let status = CommandProcess.run(command)
        session.isHolding = false
        guard !session.isLost else {
            // The first word of it may have gone by on the command's screen. What has the claim's name now may be another's.
            Tool.report(Failure(locations[0].shown, "the claim was lost before the end", "look what others wrote"))
            return status
        }
        // A daemon that was replaced meanwhile is asked anew.
        if let last = try? AccountConnection(socket: socket, name: locations[0].shown) {
            let _: VarlinkNothing? = try? last.call(
                "\(Interface.name).Release",
                Interface.ReleaseRequest(claim: reply.claim)
            )
        }
        return status
    }

    /// Waits for the claims, also when the daemon is replaced meanwhile.
    private func claim(_ socket: String, _ session: ClaimHolder) throws(Failure) -> CoordinationInterface.ClaimReply {
        while true {
            let token = session.token
            do throws(Failure) {
                return try AccountConnection(socket: socket, name: locations[0].shown).call(
                    "\(Interface.name).Claim",
                    Interface.ClaimRequest(
                        session: token,
                        coordinator: "cove-\(getpid())",
                        intents: intents,
                        timeout: timeout
                    ),
                    subject: locations.map(\.shown).joined(separator: ", "),
                    timeout: nil
                )
            } catch {
                if error.errno == .timedOut {
                    var error = error
                    error.exitCode = conflictExitCode
                    throw error
                }
                guard error.isDaemonGone else { throw error }
                // The session begins anew where the next daemon is.
                let deadline = System.monotonic() + 10_000_000_000
                while session.token == token {
                    guard System.monotonic() < deadline else { throw error }
                    _ = poll(nil, 0, 10)
                }
            }
        }
    }
}
