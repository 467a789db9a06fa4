internal import CoveCore

/// Commands for single items: where they are, and to fetch, drop and keep their bytes.
extension CommandTable {
    private static let paths = Command.Operands(names: ["PATH"], minimum: 1, repeats: true)

    static let info = Command(
        name: "info",
        summary: "tell everything known of one item",
        operands: .init(names: ["PATH"], minimum: 1)
    ) { arguments throws(Failure) in
        let location = try Failure.locating(arguments.operands[0])
        let item = try AccountConnection(location.daemon, name: location.shown).info(location)
        if arguments.has("json") {
            try JSONOutput.write(item)
        } else {
            ItemText.write(details: item, shown: location.shown)
        }
        return 0
    }

    static let download = Command(
        name: "download",
        summary: "fetch items, directories with all below them",
        operands: paths,
        options: [Option(long: "wait", summary: "return when all is on this disk")],
        details: "Without --wait the command returns once the downloads are queued. A file that is opened is fetched "
            + "anyway;\nthis fetches it before."
    ) { arguments throws(Failure) in
        let wait = arguments.has("wait")
        return try ItemBatch(arguments).run { connection, location throws(Failure) in
            let progress = ProgressBar()
            defer { progress.clear() }
            let _: ItemInterface.DownloadReply = try connection.stream(
                "\(ItemInterface.name).Download",
                ItemInterface.Request(path: PathParameter(location.path), wait: wait),
                subject: location.shown
            ) { (reply: ItemInterface.DownloadReply) in
                guard let transfer = reply.progress else { return }
                progress.show(location.shown, done: transfer.doneBytes, total: transfer.totalBytes)
            }
            return try connection.info(location)
        }
    }

    static let evict = Command(
        name: "evict",
        summary: "drop local bytes that the cloud has too",
        operands: paths,
        details: "Names, sizes and dates stay; the bytes are fetched again when something opens the file. Refused for "
            + "what is\nnot sent yet, open or pinned."
    ) { arguments throws(Failure) in
        try ItemBatch(arguments).run { connection, location throws(Failure) in
            let reply: ItemInterface.EvictReply = try connection.call(
                "\(ItemInterface.name).Evict",
                ItemInterface.Request(path: PathParameter(location.path)),
                subject: location.shown,
                timeout: nil
            )
            if !arguments.has("json"), Terminal.standardOutput.isInteractive {
                Terminal.standardOutput.write(
                    "\(Terminal.standardOutput.safe(location.shown)): \(Units.size(reply.freedBytes)) freed\n"
                )
            }
            return EvictedItem(path: location.path.description, freedBytes: reply.freedBytes)
        }
    }

    static let pin = Command(
        name: "pin",
        summary: "keep items on this disk, directories with all below them",
        operands: paths,
        details: "Also what comes into a directory later, and what other devices make of it."
    ) { arguments throws(Failure) in try call("Pin", arguments) }

    static let unpin = Command(
        name: "unpin",
        summary: "let items be evicted again",
        operands: paths
    ) { arguments throws(Failure) in try call("Unpin", arguments) }

    static let exclude = Command(
        name: "exclude",
        summary: "keep items out of the cloud, on this device alone",
        operands: .init(names: ["PATH"], repeats: true),
        options: [Option(long: "list", summary: "list what is excluded, of the account that PATH is in")],
        details: """
            A folder stays here with all that comes into it. What is not on this disk is fetched first; what the cloud has goes to the
            trash there, and from all other devices. It is the name that is excluded: whatever gets it stays here too, however
            programs save, and after a rename both names do.
            """
    ) { arguments throws(Failure) in
        if arguments.has("list") { return try listExcluded(arguments) }
        guard !arguments.operands.isEmpty else {
            throw .usage(nil, "nothing is named", "name what is to stay here, or write --list")
        }
        return try call("Exclude", arguments)
    }

    static let include = Command(
        name: "include",
        summary: "send excluded items to the cloud again",
        operands: paths,
        details: "Also a name that nothing has any more, as `cove exclude --list` tells it: what gets it then is sent."
    ) { arguments throws(Failure) in
        try ItemBatch(arguments, mustExist: false).run { connection, location throws(Failure) in
            let path = PathParameter(location.path)
            let _: VarlinkNothing = try connection.call(
                "\(ItemInterface.name).Include",
                ItemInterface.Request(path: path),
                subject: location.shown,
                timeout: nil
            )
            let isThere = (try? connection.info(location)) != nil
            return ExcludedItem(
                path: location.path.description,
                pathBase64: path.pathBase64,
                isAsked: false,
                isThere: isThere
            )
        }
    }

    static let policy = Command(
        name: "policy",
        summary: "say when items are fetched and may leave this disk",
        operands: paths,
        options: [
            Option(
                long: "set",
                argument: "POLICY",
                summary: "inherited, lazily, lazily-and-evict or eagerly",
                completion: .words(ContentPolicy.allCases.map(\.rawValue))
            )
        ],
        details: """
            Shows the policy that holds for each item, its own or that of the nearest directory which has one:

            lazily-and-evict  fetched when it is opened; what another device makes of it is fetched when it is opened again
            lazily            fetched when it is opened; what another device makes of it then comes by itself
            eagerly           fetched at once, and never evicted: `cove pin`
            inherited         as the directory that has it

            That of the mount point holds where nothing else is said: at first lazily-and-evict.
            """
    ) { arguments throws(Failure) in
        let named = arguments.value("set")
        let policy = named.flatMap { ContentPolicy(rawValue: $0) }
        if let named, policy == nil {
            let known = ContentPolicy.allCases.map(\.rawValue).joined(separator: ", ")
            throw .usage("--set \(named)", "is no policy", "write one of \(known)")
        }
        return try ItemBatch(arguments).run { connection, location throws(Failure) in
            if let policy {
                let _: VarlinkNothing = try connection.call(
                    "\(ItemInterface.name).SetPolicy",
                    ItemInterface.Request(path: PathParameter(location.path), policy: policy.rawValue),
                    subject: location.shown,
                    timeout: nil
                )
            }
            let item = try connection.info(location)
            if !arguments.has("json"), policy == nil {
                let terminal = Terminal.standardOutput
                terminal.write("\(ItemText.padded(item.policy ?? "", 16))  \(terminal.safe(location.shown))\n")
            }
            return item
        }
    }

    private static func listExcluded(_ arguments: Arguments) throws(Failure) -> Int32 {
        let (connection, location) = try AccountConnection.openPath(arguments)
        var items: [ExcludedItem] = []
        let last: AccountInterface.ExcludedReply = try connection.stream("\(AccountInterface.name).ExcludedList") {
            (reply: AccountInterface.ExcludedReply) in items += reply.items
        }
        items = (items + last.items).filter { location?.holds($0.path) ?? true }
        if arguments.has("json") {
            try JSONOutput.write(items)
        } else {
            let terminal = Terminal.standardOutput
            for item in items {
                let notes = [item.isAsked ? nil : "by a rename", item.isThere ? nil : "nothing has the name"]
                let note = notes.compactMap { $0 }.joined(separator: ", ")
                terminal.write(terminal.safe(item.path) + (note.isEmpty ? "" : "  (\(note))") + "\n")
            }
        }
        return 0
    }

    /// Calls a method that takes a path alone, for each item.
    private static func call(_ method: String, _ arguments: Arguments) throws(Failure) -> Int32 {
        try ItemBatch(arguments).run { connection, location throws(Failure) in
            let _: VarlinkNothing = try connection.call(
                "\(ItemInterface.name).\(method)",
                ItemInterface.Request(path: PathParameter(location.path)),
                subject: location.shown,
                timeout: nil
            )
            return try connection.info(location)
        }
    }
}

/// What `cove evict --json` says of one path.
private struct EvictedItem: Encodable {
    var path: String
    var freedBytes: Int64
}

extension AccountConnection {
    /// Everything known of one item.
    func info(_ location: ItemLocation) throws(Failure) -> ItemStatus {
        let reply: ItemInterface.InfoReply = try call(
            "\(ItemInterface.name).Info",
            ItemInterface.Request(path: PathParameter(location.path)),
            subject: location.shown
        )
        return reply.item
    }
}

/// Does the same for each operand; one that fails is told, and the others are done all the same.
struct ItemBatch {
    private let operands: [[UInt8]]
    private let wantsJSON: Bool
    private let mustExist: Bool

    /// `mustExist`: false where names are taken too that nothing has.
    init(_ arguments: Arguments, mustExist: Bool = true) {
        self.mustExist = mustExist
        operands = arguments.operands
        wantsJSON = arguments.has("json")
    }

    /// Runs the body for each; the exit code.
    ///
    /// With `--json` the results are written as one array.
    func run<Output: Encodable>(
        _ body: (AccountConnection, ItemLocation) throws(Failure) -> Output
    ) throws(Failure) -> Int32 {
        var outputs: [Output] = []
        var exitCode: Int32 = 0
        var connections: [DaemonAddress: AccountConnection] = [:]
        for operand in operands {
            do throws(Failure) {
                let location = try Failure.locating(operand) { path throws(ItemLocation.Failure) in
                    mustExist ? try ItemLocation.existing(path) : try ItemLocation.find(path)
                }
                let connection: AccountConnection
                if let open = connections[location.daemon] {
                    connection = open
                } else {
                    connection = try AccountConnection(location.daemon, name: location.shown)
                    connections[location.daemon] = connection
                }
                outputs.append(try body(connection, location))
            } catch {
                Tool.report(error)
                exitCode = error.exitCode
            }
        }
        if wantsJSON { try JSONOutput.write(outputs) }
        return exitCode
    }
}
