internal import CoveCore

/// Links to files for those who have no account.
extension CommandTable {
    static let publish = Command(
        name: "publish",
        summary: "make a link by which anybody can read a file",
        operands: .init(names: ["PATH"], minimum: 1),
        options: [
            Option(
                long: "expires",
                argument: "DURATION",
                summary: "the link ends after it, for instance 2h or 30d (7d)"
            )
        ],
        details: """
            Prints an address that leads to what the file holds now: whatever becomes of the file, the link stays with it until
            it ends. Buckets (at most 7 days) and Nextcloud give links; other sources do not. The file must have been sent.
            """
    ) { arguments throws(Failure) in
        var life: TimeSpan?
        if let text = arguments.value("expires") {
            guard let span = Units.parseDuration(text), span >= .seconds(1) else {
                throw .usage("--expires \(text)", "is no duration", "write for instance 90m, 12h or 7d")
            }
            life = span
        }
        let location = try Failure.locating(arguments.operands[0])
        let reply: ItemInterface.PublishReply = try AccountConnection(location.daemon, name: location.shown).call(
            "\(ItemInterface.name).Publish",
            ItemInterface.Request(path: PathParameter(location.path), seconds: life?.wholeSeconds),
            subject: location.shown,
            timeout: nil
        )
        let expires = Timestamp(seconds: Int64(saturating: reply.expires), nanoseconds: 0)
        if arguments.has("json") {
            try JSONOutput.write(
                PublishedFile(
                    path: location.path.description,
                    url: reply.url,
                    expires: expires.internetText,
                    version: reply.version
                )
            )
            return 0
        }
        let terminal = Terminal.standardOutput
        terminal.write(terminal.safe(reply.url) + "\n")
        if terminal.isInteractive { terminal.write("ends at \(Units.date(expires.secondsSinceEpoch))\n") }
        return 0
    }
}

/// What `cove publish --json` says.
private struct PublishedFile: Encodable {
    var path: String
    var url: String
    var expires: String
    var version: String
}
