internal import CoveCore
internal import Glibc

/// Finding items.
extension CommandTable {
    static let query = Command(
        name: "query",
        summary: "find items by what is known of them, without fetching any",
        operands: .init(names: ["PREDICATE", "PATH"], minimum: 0),
        options: [
            Option(
                long: "scope",
                argument: "LIST",
                summary: "look in documents, data or external, with commas between them"
            ),
            Option(
                long: "sort",
                argument: "KEYS",
                summary: "order by keys with commas between them; -KEY has the largest first"
            ),
            Option(long: "attributes", argument: "KEYS", summary: "with --json, tell these values of each item"),
            Option(long: "count", summary: "tell only how many there are"),
            Option(long: "listed-only", summary: "do not look into folders that nobody has opened yet"),
            Option(long: "keys", summary: "tell all keys, with the kind of their values"),
        ],
        details: """
            Prints the path of each item for which PREDICATE holds, of the account or of PATH and all below it, whether its bytes are
            here or not. Folders that nobody has opened are listed on the way. With --json each item is an object in a line of its
            own.

            A predicate compares keys with values: ==, !=, <, <=, >, >=, LIKE (with * and ?), BEGINSWITH, ENDSWITH, CONTAINS,
            IN {"a", "b"} and BETWEEN {1, 2}. [c] behind a word or sign says that case does not matter, [d] the same of accents.
            AND, OR, NOT and parentheses combine them; NULL stands for a value that is missing. Strings stand in quotes, dates as
            "2026-01-31" or "2026-01-31T12:00:00Z".
              cove query 'FSName LIKE[c] "*.pdf" AND FSSize > 1000000' --sort -FSSize
              cove query 'DownloadingStatus == "Current" AND Kind == "file"'     all whose bytes are here
              cove query 'IsUbiquitous == TRUE AND IsUploaded == FALSE'          all that waits to be sent
              cove query 'ContentTypeTree == "image/*"' is no pattern: use ContentType BEGINSWITH "image/"
            """
    ) { arguments throws(Failure) in
        if arguments.has("keys") { return try writeKeys(arguments.has("json")) }
        guard let text = arguments.operands.first.map({ String(decoding: $0, as: UTF8.self) }) else {
            throw .usage(nil, "PREDICATE is missing", "`cove help query` has examples")
        }
        do throws(QueryPredicateError) { _ = try QueryPredicate(parsing: text) } catch {
            throw .usage("PREDICATE", "\(error)", "`cove help query` has examples")
        }
        let (connection, request) = try openQuery(text, arguments)
        _ = chdir("/")
        let (wantsJSON, wantsCount) = (arguments.has("json"), arguments.has("count"))
        let terminal = Terminal.standardOutput
        var count = 0
        /// Where it is in the mounted tree, so that other programs find it.
        func shown(_ result: QueryResultMessage) -> String {
            if result.path.path != nil, case .string(let path)? = result.values[.path] { return path }
            return result.path.shown
        }
        func show(_ results: [QueryResultMessage]) {
            count += results.count
            guard !wantsCount else { return }
            for result in results {
                let text = wantsJSON ? try? JSONValue(encoding: result).description : terminal.safe(shown(result))
                // Nobody reads any more, as behind head(1).
                if let text, !terminal.write(text + "\n") { exit(0) }
            }
        }
        let last: QueryInterface.RunReply = try connection.stream("\(QueryInterface.name).Run", request) {
            (reply: QueryInterface.RunReply) in show(reply.results)
        }
        show(last.results)
        let unlisted = last.unlisted ?? 0
        if wantsCount, wantsJSON {
            terminal.write(
                JSONValue.object(["count": .integer(Int64(count)), "unlisted": .integer(Int64(unlisted))]).description
                    + "\n"
            )
        } else if wantsCount {
            terminal.write("\(count)\n")
        }
        if unlisted > 0 {
            let words = unlisted == 1 ? "1 folder was" : "\(unlisted) folders were"
            let why = arguments.has("listed-only") ? "never opened" : "not reached; try again when the source answers"
            Terminal.standardError.write("cove query: \(words) \(why): what is in there is not among these\n")
        }
        return 0
    }

    private static func openQuery(
        _ text: String,
        _ arguments: Arguments
    ) throws(Failure) -> (AccountConnection, QueryInterface.RunRequest) {
        var request = QueryInterface.RunRequest(predicate: text)
        func list(_ option: String) -> [String]? {
            arguments.value(option).map { $0.split(separator: ",").map { String($0) } }
        }
        request.scopes = list("scope")
        for scope in request.scopes ?? [] where QueryScope(rawValue: scope) == nil {
            throw .usage("--scope", "\(scope) is no scope", "give documents, data or external")
        }
        request.sort = list("sort")
        request.attributes =
            list("attributes") ?? (arguments.has("json") ? QueryKey.allCases.map(\.rawValue) : [QueryKey.path.rawValue])
        for key in (request.sort ?? []).map({ $0.hasPrefix("-") ? String($0.dropFirst()) : $0 })
            + (request.attributes ?? [])
        where QueryKey(named: key) == nil {
            throw .usage(nil, "\(key) is no key", "`cove query --keys` tells those there are")
        }
        if !arguments.has("json") { request.attributes?.append(QueryKey.path.rawValue) }
        request.listedOnly = arguments.has("listed-only")
        guard arguments.operands.count > 1 else { return (try AccountConnection.open(arguments), request) }
        let location = try Failure.locating(arguments.operands[1])
        request.path = PathParameter(location.path)
        return (try AccountConnection(location.daemon, name: location.shown), request)
    }

    private static func writeKeys(_ wantsJSON: Bool) throws(Failure) -> Int32 {
        let keys = QueryKey.allCases.map { (name: $0.rawValue, kind: "\($0.valueKind)") }
        if wantsJSON {
            try JSONOutput.write(Dictionary(uniqueKeysWithValues: keys))
        } else {
            for key in keys { Terminal.standardOutput.write("\(ItemText.padded(key.name, 24))\(key.kind)\n") }
        }
        return 0
    }
}
