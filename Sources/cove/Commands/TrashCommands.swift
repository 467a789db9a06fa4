internal import CoveCore

/// Commands for deleted documents.
extension CommandTable {
    static let trashList = Command(
        name: "trash ls",
        summary: "list deleted documents that can be restored",
        operands: .account,
        details: "With PATH those that were below it."
    ) { arguments throws(Failure) in
        let (connection, location) = try AccountConnection.openPath(arguments)
        let entries = try trash(connection).filter { location?.holds($0.path) ?? true }
        if arguments.has("json") {
            try JSONOutput.write(entries)
        } else {
            let terminal = Terminal.standardOutput
            for entry in entries {
                let size = ItemText.padded(Units.size(entry.size), 6, left: true)
                terminal.write("\(entry.documentID)  \(Units.date(entry.time)) \(size)  \(terminal.safe(entry.path))\n")
            }
        }
        return 0
    }

    static let trashRestore = Command(
        name: "trash restore",
        summary: "put deleted documents back",
        operands: .init(names: ["ID"], minimum: 1, repeats: true, completion: .nothing),
        details:
            "ID is a document id of `cove trash ls`, or the path the document had, as listed there or below the mount."
    ) { arguments throws(Failure) in
        // All of one account, which the path of the first may name.
        let wanted = arguments.operands.map { String(decoding: $0, as: UTF8.self) }
        let locations = arguments.operands.map { operand in
            operand.first == 0x2F ? try? ItemLocation.find(operand) : nil
        }
        let connection: AccountConnection
        if let location = locations[0] {
            connection = try AccountConnection(location.daemon, name: location.shown)
        } else {
            connection = try AccountConnection.open(arguments)
        }
        let entries = try trash(connection)
        var restored: [String] = []
        var exitCode: Int32 = 0
        for (wanted, location) in zip(wanted, locations) {
            let path = location?.path.description ?? wanted
            do throws(Failure) {
                guard let entry = entries.first(where: { $0.documentID == wanted || $0.path == path }) else {
                    throw Failure(wanted, "is not in the trash", "see `cove trash ls`")
                }
                let reply: PathParameter = try connection.call(
                    "\(AccountInterface.name).TrashRestore",
                    AccountInterface.RestoreRequest(documentID: entry.documentID),
                    subject: wanted,
                    timeout: nil
                )
                let path = ((try? reply.remotePath()) ?? nil)?.description ?? entry.path
                restored.append(path)
                if !arguments.has("json") {
                    Terminal.standardOutput.write("\(Terminal.standardOutput.safe(path))\n")
                }
            } catch {
                Tool.report(error)
                exitCode = error.exitCode
            }
        }
        if arguments.has("json") { try JSONOutput.write(restored) }
        return exitCode
    }

    static let trashEmpty = Command(
        name: "trash empty",
        summary: "delete for good what is in the trash",
        operands: .init(names: ["MOUNTPOINT"], completion: .mountpoint),
        options: [Option(long: "older-than", argument: "TIME", summary: "only what was deleted longer ago, such as 7d")]
    ) { arguments throws(Failure) in
        var age: Double?
        if let text = arguments.value("older-than") {
            guard let time = Units.parseDuration(text) else {
                throw .usage("--older-than \(text)", "is no time", "write it like 7d or 12h")
            }
            age = time.seconds
        }
        let (connection, location) = try AccountConnection.openPath(arguments)
        // Not all is to go where a part was named.
        if let location, !location.path.names.isEmpty {
            throw .usage(location.shown, "is inside a mount", "name the mount point: all of its trash is emptied")
        }
        let reply: AccountInterface.EmptyReply = try connection.call(
            "\(AccountInterface.name).TrashEmpty",
            AccountInterface.EmptyRequest(olderThanSeconds: age),
            timeout: nil
        )
        if arguments.has("json") {
            try JSONOutput.write(reply)
        } else {
            Terminal.standardOutput.write("\(reply.count) deleted\n")
        }
        return 0
    }

    private static func trash(_ connection: AccountConnection) throws(Failure) -> [TrashEntry] {
        var entries: [TrashEntry] = []
        let last: AccountInterface.TrashReply = try connection.stream("\(AccountInterface.name).TrashList") {
            (reply: AccountInterface.TrashReply) in entries += reply.entries
        }
        return entries + last.entries
    }
}
