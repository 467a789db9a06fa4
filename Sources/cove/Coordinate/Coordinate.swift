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
    private let openFiles: String?
    private let purpose: String?
    /// The exit code when the time is over.
    private let conflictExitCode: Int32

    init(_ arguments: Arguments) throws(Failure) {
        command = arguments.operands
        var locations: [ItemLocation] = []
        var intents: [Interface.Intent] = []
        var reading: [Interface.ReadingOption] = []
        if arguments.has("for-uploading") { reading.append(.forUploading) }
        if arguments.has("without-changes") { reading.append(.withoutChanges) }
        func add(_ name: String, _ make: (PathParameter) -> Interface.Intent) throws(Failure) {
            for path in arguments.values(name) {
                let location = try Failure.locating(path) { path throws(ItemLocation.Failure) in
                    try ItemLocation.find(path, socket: .coordination)
                }
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
        if let other = locations.first(where: { $0.daemon != first.daemon }) {
            throw .usage(other.shown, "is in another mount than \(first.shown)", "coordinate one account at a time")
        }
        timeout = try arguments.value("timeout").map { text throws(Failure) in
            guard let seconds = Double(text), seconds >= 0 else {
                throw .usage("--timeout", "\(text) is no number of seconds", "write it as 5 or 0.5")
            }
            return seconds
        }
        openFiles = arguments.value("open-files")
        if let openFiles, !["wait", "ignore", "fail"].contains(openFiles) {
            throw .usage("--open-files", "\(openFiles) is not known", "choose wait, ignore or fail")
        }
        purpose = arguments.value("purpose")
        if purpose?.isEmpty == true { throw .usage("--purpose", "it is empty", "name one") }
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
        let daemon = locations[0].daemon
        // What the command leaves behind stays below this process, and so is exempt from its claims.
        _ = cove_set_child_subreaper()
        let holder = try ClaimHolder.begin(daemon, name: locations[0].shown)
        let reply = try claim(holder)
        for file in reply.openFiles ?? [] {
            let words = "\(file.program) (\(file.process)) has it open, and what it writes is not held back"
            Tool.report(Failure(file.path, words, "end it, or use `--open-files fail`"))
        }
        let snapshots = reply.items.compactMap(\.snapshot)
        if !snapshots.isEmpty { setenv("COVE_SNAPSHOT", snapshots.joined(separator: "\n"), 1) }
        let paths = zip(reply.items, locations).map { Self.path(of: $0, in: $1.mount) }
        _ = try? System.withCString(Array(paths.joined(separator: [0x0A]))) { setenv("COVE_PATH", $0, 1) }
        let status = CommandProcess.run(command)
        guard holder.endHold() else {
            // The first word of it may have gone by on the command's screen. What has the claim's name now may be another's.
            Tool.report(Failure(locations[0].shown, "the claim was lost before the end", "look what others wrote"))
            return status
        }
        holder.release(reply.claim)
        return status
    }

    private func claim(_ holder: ClaimHolder) throws(Failure) -> CoordinationInterface.ClaimReply {
        do throws(Failure) {
            let subject = locations.map(\.shown).joined(separator: ", ")
            return try holder.claim(intents, timeout: timeout, openFiles: openFiles, purpose: purpose, subject: subject)
        } catch {
            guard error.errno == .timedOut || error.errno == .busy else { throw error }
            var error = error
            error.exitCode = conflictExitCode
            throw error
        }
    }

    /// Where an item is now, as the mount shows it.
    private static func path(of item: Interface.Granted, in mount: Mount) -> [UInt8] {
        var names = ((try? item.path.remotePath()) ?? .root)?.names ?? []
        let root = mount.root.split(separator: "/").map { FileName(unchecked: Array($0.utf8)) }
        if names.starts(with: root) { names.removeFirst(root.count) }
        let top = mount.path == "/" ? [] : Array(mount.path.utf8)
        return names.reduce(top) { $0 + [0x2F] + $1.bytes }
    }
}
