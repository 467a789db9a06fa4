internal import CoveCore

/// What a source can do with items besides keeping them.
extension CommandTable {
    static let actionList = Command(
        name: "action ls",
        summary: "list what the source can do with an item",
        operands: .init(names: ["PATH"], minimum: 1),
        options: [.json],
        details: "Providers have actions of their own, such as making a link for others; most sources have none."
    ) { arguments throws(Failure) in
        let location = try Failure.locating(arguments.operands[0])
        let connection = try AccountConnection(location.daemon, name: location.shown)
        let reply: ItemInterface.ActionsReply = try connection.call(
            "\(ItemInterface.name).Actions",
            ItemInterface.Request(path: PathParameter(location.path)),
            subject: location.shown
        )
        if arguments.has("json") {
            try JSONOutput.write(reply.actions)
        } else {
            let terminal = Terminal.standardOutput
            let width = reply.actions.map(\.id.count).max() ?? 0
            for action in reply.actions {
                terminal.write("\(ItemText.padded(action.id, width))  \(terminal.safe(action.name))\n")
            }
        }
        return 0
    }

    static let actionRun = Command(
        name: "action run",
        summary: "have the source do something with items",
        operands: .init(names: ["ACTION", "PATH"], minimum: 2, repeats: true),
        options: [.json],
        details: """
            ACTION is one that `cove action ls PATH` lists. The items are those of one account, and the source has them as
            they are here: `cove sync --wait` sees to that. Prints what the source has to say.
            """
    ) { arguments throws(Failure) in
        let action = arguments.operand(0) ?? ""
        var locations: [ItemLocation] = []
        for operand in arguments.operands.dropFirst() { locations.append(try Failure.locating(operand)) }
        let first = locations[0]
        if let other = locations.first(where: { $0.daemon != first.daemon }) {
            throw Failure(other.shown, "it is another account's", "run the action for each account")
        }
        var paths: [String] = []
        for location in locations {
            guard let path = PathParameter(location.path).path else {
                throw Failure(location.shown, "its name is not UTF-8, which actions can't be told", "rename it")
            }
            paths.append(path)
        }
        let connection = try AccountConnection(first.daemon, name: first.shown)
        let reply: ItemInterface.PerformReply = try connection.call(
            "\(ItemInterface.name).Perform",
            ItemInterface.PerformRequest(action: action, paths: paths),
            subject: first.shown,
            timeout: nil
        )
        if arguments.has("json") {
            try JSONOutput.write(reply)
        } else if let message = reply.message, !message.isEmpty {
            Terminal.standardOutput.write("\(Terminal.standardOutput.safe(message))\n")
        }
        return 0
    }
}
