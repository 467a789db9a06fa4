internal import CoveCore

extension CommandTable {
    static let list = Command(
        name: "ls",
        summary: "list a directory, with each item's state",
        operands: .init(names: ["PATH"], repeats: true),
        options: [Option(short: "l", summary: "show mode, size and date too")],
        details: "States: dataless (no bytes here), partial, materialized (all bytes here), local (never sent); with\n"
            + "dirty, uploading, downloading, excluded, pinned, conflict or error where it applies."
    ) { arguments throws(Failure) in
        let operands = arguments.operands.isEmpty ? [[0x2E]] : arguments.operands
        var all: [ItemStatus] = []
        var exitCode: Int32 = 0
        for operand in operands {
            do throws(Failure) {
                let location = try Failure.locating(operand)
                let items = try list(location)
                if arguments.has("json") {
                    all += items
                } else {
                    if operands.count > 1 {
                        Terminal.standardOutput.write("\(Terminal.standardOutput.safe(location.shown)):\n")
                    }
                    ItemText.write(list: items, isLong: arguments.has("l"))
                }
            } catch {
                Tool.report(error)
                exitCode = error.exitCode
            }
        }
        if arguments.has("json") { try JSONOutput.write(all) }
        return exitCode
    }

    private static func list(_ location: ItemLocation) throws(Failure) -> [ItemStatus] {
        let connection = try AccountConnection(location.daemon, name: location.shown)
        let item = try connection.info(location)
        guard item.kind == "directory" else { return [item] }
        var items: [ItemStatus] = []
        let last: ItemInterface.ListReply = try connection.stream(
            "\(ItemInterface.name).List",
            ItemInterface.Request(path: PathParameter(location.path)),
            subject: location.shown
        ) { (reply: ItemInterface.ListReply) in items += reply.items }
        return (items + last.items).sorted { $0.rawName.lexicographicallyPrecedes($1.rawName) }
    }
}
