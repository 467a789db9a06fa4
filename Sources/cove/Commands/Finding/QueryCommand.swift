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
            Option(
                long: "attributes",
                argument: "KEYS",
                summary: "with --json, tell these values of each item; with --follow, their changes"
            ),
            Option(long: "count", summary: "tell only how many there are"),
            Option(long: "follow", summary: "go on, and tell what comes, changes and goes"),
            Option(
                long: "interval",
                argument: "SECONDS",
                summary: "with --follow, look at changes no more often than this; 0.05 if not given"
            ),
            Option(long: "listed-only", summary: "do not look into folders that nobody has opened yet"),
            Option(long: "keys", summary: "tell all keys, with the kind of their values"),
        ],
        details: """
            Prints the path of each item for which PREDICATE holds, of the account or of PATH and all below it, whether its bytes are
            here or not. Folders that nobody has opened are listed on the way. With --json each item is an object in a line of its
            own. A package, such as a .pages folder, is found as one item; what is in it is found where PATH is in it or is it.

            With --follow it goes on until you end it: "+ PATH" is a result that was found or is new, "~ PATH" one whose place, size
            or date is another now, or one of the --attributes, "- PATH" is none any more. With --json each is an object with its event: added, changed
            (with the place it had before as from) or removed; one with gathered comes when all was found. What a program does
            in the mounted tree is told at once, what other devices do when this one hears of it.

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
        if arguments.has("follow") { return try follow(connection, request, arguments) }
        let (wantsJSON, wantsCount) = (arguments.has("json"), arguments.has("count"))
        let terminal = Terminal.standardOutput
        var count = 0
        func show(_ results: [QueryResultMessage]) {
            count += results.count
            guard !wantsCount else { return }
            for result in results {
                let text = wantsJSON ? try? JSONValue(encoding: result).description : terminal.safe(result.shown)
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
        if request.sort != nil, arguments.has("follow") {
            throw .usage("--sort", "can't be given with --follow", "changes are told as they come")
        }
        request.attributes =
            list("attributes") ?? (arguments.has("json") ? QueryKey.allCases.map(\.rawValue) : [QueryKey.path.rawValue])
        for key in (request.sort ?? []).map({ $0.hasPrefix("-") ? String($0.dropFirst()) : $0 })
            + (request.attributes ?? [])
        where QueryKey(named: key) == nil {
            throw .usage(nil, "\(key) is no key", "`cove query --keys` tells those there are")
        }
        if !arguments.has("json") {
            request.attributes?.append(QueryKey.path.rawValue)
            if arguments.has("follow") {
                request.attributes? += [QueryKey.size, .contentChangeDate].map(\.rawValue)
            }
        }
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

/// Following a query.
extension CommandTable {
    private static func follow(
        _ first: AccountConnection,
        _ query: QueryInterface.RunRequest,
        _ arguments: Arguments
    ) throws(Failure) -> Int32 {
        var request = QueryInterface.FollowRequest(query)
        if let text = arguments.value("interval") {
            guard let seconds = Double(text), seconds >= 0, seconds <= 3600 else {
                throw .usage("--interval", "\(text) is no number of seconds", "give one from 0 to 3600")
            }
            request.interval = seconds
        }
        let (wantsJSON, wantsCount) = (arguments.has("json"), arguments.has("count"))
        let terminal = Terminal.standardOutput
        terminal.endWhenUnread()
        var results = QueryResults()
        var (told, hasGathered, isComplete) = (-1, false, false)
        func write(_ text: String) {
            if !terminal.write(text + "\n") { exit(0) }
        }
        func tell(_ event: FollowedResult.Event, _ result: QueryResultMessage, from former: QueryResultMessage? = nil) {
            if wantsJSON {
                let shown = FollowedResult(event, result, from: former)
                if let value = try? JSONValue(encoding: shown) { write(value.description) }
            } else {
                write("\(event.sign) \(terminal.safe(result.shown))")
            }
        }
        func take(_ reply: QueryInterface.FollowReply) {
            let changes = results.take(reply)
            if !wantsCount {
                for result in changes.removed { tell(.removed, result) }
                for result in changes.added { tell(.added, result) }
                for (former, result) in changes.changed { tell(.changed, result, from: former) }
            }
            let isFirst = reply.gathered == true && !hasGathered
            if reply.gathered == true { (hasGathered, isComplete) = (true, true) }
            if wantsCount, isComplete, reply.isPart != true, results.all.count != told {
                told = results.all.count
                write(wantsJSON ? JSONValue.object(["count": .integer(Int64(told))]).description : "\(told)")
            }
            guard isFirst else { return }
            let unlisted = reply.unlisted ?? 0
            if wantsJSON, !wantsCount {
                write(
                    JSONValue.object(["event": .string("gathered"), "unlisted": .integer(Int64(unlisted))]).description
                )
            }
            let why = query.listedOnly == true ? "were never opened" : "are tried again"
            let rest = unlisted > 0 ? "; \(unlisted) folders could not be looked into and \(why)" : ""
            Terminal.standardError.write("cove query: \(results.all.count) found\(rest); end it with Ctrl-C\n")
        }
        var connection = first
        // The daemon has said that it is over, and none has told anything since.
        var hasEnded = false
        while true {
            var failure: Failure?
            do throws(Failure) {
                take(
                    try connection.stream("\(QueryInterface.name).Follow", request) { reply in
                        hasEnded = false
                        take(reply)
                    }
                )
                hasEnded = true
            } catch {
                guard error.isDaemonGone else { throw error }
                failure = error
            }
            // The next daemon of the mount goes on, if there is one; the mount's end is the query's.
            do throws(Failure) { connection = try connection.again(within: 5) } catch {
                if failure != nil, !hasEnded { throw error }
                return 0
            }
            results.beginAgain()
            isComplete = false
        }
    }
}

/// A result as `cove query --follow --json` tells it.
private struct FollowedResult: Encodable {
    enum Event: String {
        case added, changed, removed

        var sign: String {
            switch self {
            case .added: "+"
            case .changed: "~"
            case .removed: "-"
            }
        }
    }

    let event: Event
    let result: QueryResultMessage
    let former: PathParameter?

    private enum CodingKeys: String, CodingKey {
        case event, from
        case fromBase64 = "from_base64"
    }

    init(_ event: Event, _ result: QueryResultMessage, from former: QueryResultMessage?) {
        self.event = event
        self.result = result
        self.former = former.flatMap { $0.path == result.path ? nil : $0.path }
    }

    func encode(to encoder: any Encoder) throws {
        try result.encode(to: encoder)
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(event.rawValue, forKey: .event)
        try container.encodeIfPresent(former?.path, forKey: .from)
        try container.encodeIfPresent(former?.pathBase64, forKey: .fromBase64)
    }
}

extension QueryResultMessage {
    /// Where it is in the mounted tree, so that other programs find it.
    fileprivate var shown: String {
        if path.path != nil, case .string(let path)? = values[.path] { return path }
        return path.shown
    }
}
