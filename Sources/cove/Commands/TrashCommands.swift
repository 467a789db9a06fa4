internal import CoveCore

/// Commands for deleted documents.
extension CommandTable {
    static let trashList = Command(
        name: "trash ls",
        summary: "list deleted documents that can be restored"
    ) { arguments throws(Failure) in
        let entries = try trash(try AccountConnection.open(arguments))
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
        details: "ID is a document id of `cove trash ls`, or the path the document had."
    ) { arguments throws(Failure) in
        let connection = try AccountConnection.open(arguments)
        let entries = try trash(connection)
        var restored: [String] = []
        var exitCode: Int32 = 0
        for operand in arguments.operands {
            let wanted = String(decoding: operand, as: UTF8.self)
            do throws(Failure) {
                guard let entry = entries.last(where: { $0.documentID == wanted || $0.path == wanted }) else {
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
        options: [Option(long: "older-than", argument: "TIME", summary: "only what was deleted longer ago, such as 7d")]
    ) { arguments throws(Failure) in
        var age: Double?
        if let text = arguments.value("older-than") {
            guard let time = Units.parseDuration(text) else {
                throw .usage("--older-than \(text)", "is no time", "write it like 7d or 12h")
            }
            age = time / .seconds(1)
        }
        let reply: AccountInterface.EmptyReply = try AccountConnection.open(arguments).call(
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
