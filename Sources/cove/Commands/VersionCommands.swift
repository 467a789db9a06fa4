internal import CoveCore
internal import FoundationEssentials

/// Commands for earlier contents of documents.
extension CommandTable {
    private static let one = Command.Operands(names: ["PATH", "VERSION"], minimum: 2)

    static let versionsList = Command(
        name: "versions ls",
        summary: "list a file's earlier contents, and the other sides of its conflicts",
        operands: .init(names: ["PATH"], minimum: 1),
        details: """
            One line each, the newest first: its id, when it was written, its size, the device that saved it, and for the
            other side of a conflict the file that has it.

            This device keeps the last 10 contents that were replaced here, for 30 days and as long as there is room in the
            cache, the newest of a file longest; see `-o versions` of `cove mount`. Of a file that is changed in place, what
            was sent last is kept: by sharing blocks where the disk can, else up to 1 MiB. What was not on this disk when
            it was replaced is not kept, nor what a program could still write to. A power cut ends what may not have
            reached the disk.

            Where the source keeps earlier contents of its own, as a bucket with versioning does, these are listed as `not
            here` while it can be reached. They are fetched when they are shown or restored.
            """
    ) { arguments throws(Failure) in
        let (connection, location) = try open(arguments)
        var versions: [VersionStatus] = []
        let last: ItemInterface.VersionsReply = try connection.stream(
            "\(ItemInterface.name).Versions",
            ItemInterface.VersionRequest(path: PathParameter(location.path)),
            subject: location.shown
        ) { (reply: ItemInterface.VersionsReply) in versions += reply.versions }
        versions += last.versions
        if arguments.has("json") {
            try JSONOutput.write(versions)
        } else {
            write(versions)
        }
        return 0
    }

    private static func write(_ versions: [VersionStatus]) {
        let terminal = Terminal.standardOutput
        let width = versions.map(\.id.count).max() ?? 0
        for version in versions {
            var line = ItemText.padded(version.id, width, left: !version.isConflict)
            line += "  \(Units.date(version.modificationTime)) "
            line += ItemText.padded(Units.size(version.size), 6, left: true)
            line += "  \(terminal.safe(version.host ?? "-"))"
            if !version.isLocal { line += "  not here" }
            if let path = version.conflictPath { line += "  conflict: \(terminal.safe(path))" }
            terminal.write(line + "\n")
        }
    }

    static let versionsShow = Command(
        name: "versions show",
        summary: "write a version's bytes",
        operands: one,
        options: [
            Option(short: "o", argument: "FILE", summary: "write them to a new file", completion: .file)
        ],
        details: "Without -o they go to standard output."
    ) { arguments throws(Failure) in
        let (connection, location) = try open(arguments)
        let output = FileOutput(file: arguments.value("o"))
        do throws(Failure) {
            let _: ItemInterface.VersionBytes = try connection.stream(
                "\(ItemInterface.name).ReadVersion",
                request(location, arguments),
                subject: location.shown
            ) { (reply: ItemInterface.VersionBytes) in
                if let data = Data(base64Encoded: reply.data) { output.write(data) }
            }
            try output.end()
        } catch {
            output.discard()
            throw error
        }
        if arguments.has("json"), let file = output.file {
            try JSONOutput.write(ShownVersion(file: file, size: output.size))
        }
        return 0
    }

    static let versionsRestore = Command(
        name: "versions restore",
        summary: "give a file the content of one of its versions again",
        operands: one,
        details: """
            It is sent like any other change. The content that the file has now becomes a version; it is fetched for that
            where it is not on this disk.
            """
    ) { arguments throws(Failure) in
        let (connection, location) = try open(arguments)
        let _: VarlinkNothing = try connection.call(
            "\(ItemInterface.name).RestoreVersion",
            request(location, arguments),
            subject: location.shown,
            timeout: nil
        )
        if arguments.has("json") { try JSONOutput.write(try connection.info(location)) }
        return 0
    }

    static let versionsResolve = Command(
        name: "versions resolve",
        summary: "say that a file's conflicts, or one of them, are dealt with",
        operands: .init(names: ["PATH", "VERSION"], minimum: 1),
        details: """
            The files with the other sides stay, as `NAME (from HOST DATE TIME)`, by which other devices know that it is dealt
            with; delete them when they are of no more use. Fails where there is no conflict.
            """
    ) { arguments throws(Failure) in
        let (connection, location) = try open(arguments)
        let reply = try call("ResolveConflicts", connection, location, arguments)
        guard reply.count > 0 else {
            throw Failure(location.shown, "it has no conflict", "`cove conflicts` lists those that there are")
        }
        if arguments.has("json") { try JSONOutput.write(reply) }
        return 0
    }

    static let versionsRemove = Command(
        name: "versions rm",
        summary: "delete one of a file's versions, or all",
        operands: .init(names: ["PATH", "VERSION"], minimum: 1),
        options: [Option(long: "all", summary: "delete all that this device keeps")],
        details: "The other side of a conflict is a file of its own, which `rm` deletes."
    ) { arguments throws(Failure) in
        guard arguments.has("all") != (arguments.operands.count == 2) else {
            throw .usage("VERSION", "name one, or all with --all", "see `cove versions ls`")
        }
        let (connection, location) = try open(arguments)
        let reply = try call("RemoveVersions", connection, location, arguments)
        if arguments.has("json") { try JSONOutput.write(reply) }
        return 0
    }

    private static func call(
        _ method: String,
        _ connection: AccountConnection,
        _ location: ItemLocation,
        _ arguments: Arguments
    ) throws(Failure) -> ItemInterface.VersionCountReply {
        try connection.call(
            "\(ItemInterface.name).\(method)",
            request(location, arguments),
            subject: location.shown
        )
    }

    private static func open(_ arguments: Arguments) throws(Failure) -> (AccountConnection, ItemLocation) {
        let location = try Failure.locating(arguments.operands[0])
        return (try AccountConnection(location.daemon, name: location.shown), location)
    }

    private static func request(_ location: ItemLocation, _ arguments: Arguments) -> ItemInterface.VersionRequest {
        ItemInterface.VersionRequest(path: PathParameter(location.path), version: arguments.operand(1))
    }
}

/// What `cove versions show -o FILE --json` says.
private struct ShownVersion: Encodable {
    var file: String
    var size: Int
}
