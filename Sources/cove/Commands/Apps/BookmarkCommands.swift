internal import CoveCore
internal import FoundationEssentials

/// Commands for bookmarks: data that lead an app back to a document.
extension CommandTable {
    private static let baseOption = Option(
        long: "relative-to",
        argument: "DIR",
        summary: "a folder from which the document's place is told too",
        completion: .directory
    )

    static let bookmarkCreate = Command(
        name: "bookmark create",
        summary: "make a bookmark of a document for an app",
        operands: .init(names: ["PATH"], minimum: 1),
        options: [
            appOption,
            Option(
                long: "key",
                argument: "NAME",
                summary: "a value that can be read without resolving it (repeatable)"
            ),
            baseOption,
            Option(long: "read-only", summary: "let the app read only"),
            Option(long: "minimal", summary: "know the document by its identity alone, not by its place"),
        ],
        details: """
            Prints a token, which leads the app back to the document over renames, moves, safe saves and restarts. It can't be
            altered, and no other app can use it. Made by the user it lets the app use the document; see `cove grants ls`.
            NAME is ContentModificationDate, ContentType, DocumentIdentifier, FileResourceIdentifier, FileResourceType,
            FileSecurity, FileSize or LocalizedName.
            """
    ) { arguments throws(Failure) in
        guard let app = arguments.value("app") else { throw .usage("--app", "is needed", "say who is to use it") }
        let location = try Failure.locating(arguments.operands[0])
        let connection = try AccountConnection(location.daemon, name: location.shown)
        var request = AccessInterface.CreateBookmarkRequest(app: try AppIdentifier.read(app).text, path: location.path)
        request.keys = arguments.values("key").map { String(decoding: $0, as: UTF8.self) }
        request.base = try base(arguments)
        if arguments.has("read-only") { request.readOnly = true }
        if arguments.has("minimal") { request.minimal = true }
        let reply: AccessInterface.CreateBookmarkReply = try connection.call(
            "\(AccessInterface.name).CreateBookmark",
            request,
            subject: location.shown
        )
        if arguments.has("json") {
            try JSONOutput.write(reply)
        } else {
            Terminal.standardOutput.write(reply.bookmark + "\n")
        }
        return 0
    }

    static let bookmarkResolve = Command(
        name: "bookmark resolve",
        summary: "tell where a bookmark leads",
        operands: .init(names: ["TOKEN", "PATH"], minimum: 1, completion: .nothing),
        options: [
            appOption, baseOption,
            Option(long: "values", summary: "tell the values in it instead, without resolving it"),
        ],
        details: """
            Prints the document's path; nothing is downloaded. With --json: path, isStale (make a new bookmark: the document has
            another place or identity), isReadOnly, reference (the app's own name for it) and scope. PATH is anything inside
            the mount.
            """
    ) { arguments throws(Failure) in
        let token = arguments.operand(0) ?? ""
        let connection = try connection(arguments, operand: 1)
        if arguments.has("values") {
            let reply: AccessInterface.ValuesReply = try connection.call(
                "\(AccessInterface.name).BookmarkValues",
                AccessInterface.BookmarkRequest(bookmark: token),
                subject: shown(token)
            )
            Terminal.standardOutput.write(reply.values + "\n")
            return 0
        }
        guard let app = arguments.value("app") else { throw .usage("--app", "is needed", "say who uses it") }
        let reply: AccessInterface.ResolveReply = try connection.call(
            "\(AccessInterface.name).ResolveBookmark",
            AccessInterface.BookmarkRequest(
                app: try AppIdentifier.read(app).text,
                bookmark: token,
                base: try base(arguments)
            ),
            subject: shown(token)
        )
        let root = try connection.mountpoint()
        if arguments.has("json") {
            var told = reply
            told.path = root + "/" + reply.path
            told.reference = reply.reference.map { root + "/" + $0 }
            try JSONOutput.write(told)
        } else {
            Terminal.standardOutput.write(Terminal.standardOutput.safe(root + "/" + reply.path) + "\n")
        }
        return 0
    }

    /// What messages call a bookmark.
    private static func shown(_ token: String) -> String {
        let start = token.prefix(12)
        return start.count < token.count ? start + "…" : token
    }

    private static func base(_ arguments: Arguments) throws(Failure) -> String? {
        guard let text = arguments.values("relative-to").last else { return nil }
        return try Failure.locating(text).path.description
    }
}
