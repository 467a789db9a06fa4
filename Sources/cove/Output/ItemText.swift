internal import CoveCore

/// Items as lines for people.
enum ItemText {
    /// Writes one line per item: state, with `isLong` mode, size and date, and the name.
    static func write(list items: [ItemStatus], isLong: Bool) {
        let terminal = Terminal.standardOutput
        let states = items.map(state)
        let width = states.map(\.count).max() ?? 0
        let sizes = items.map { String($0.size) }
        let sizeWidth = sizes.map(\.count).max() ?? 0
        var output: [UInt8] = []
        for (index, item) in items.enumerated() {
            var line = ""
            if isLong {
                line += Units.mode(kind: item.kind, permissions: item.permissions)
                line += " " + padded(sizes[index], sizeWidth, left: true) + " "
                line += Units.date(item.modificationTime) + " "
            }
            line += terminal.coloured(padded(states[index], width), colour(item)) + "  "
            output += Array(line.utf8) + terminal.safe(item.rawName) + [0x0A]
        }
        terminal.write(output)
    }

    /// Writes one line for an item: state, size, local bytes, transfer, error, path.
    static func write(status item: ItemStatus, shown: String) {
        let terminal = Terminal.standardOutput
        var line = terminal.coloured(padded(state(item), 14), colour(item))
        line += padded(Units.size(item.size), 8, left: true) + padded(Units.size(item.localBytes), 8, left: true)
        line += " here  \(terminal.safe(shown))"
        if let error = item.error { line += "  (\(terminal.safe(error)))" }
        terminal.write(line + "\n")
    }

    /// Writes everything known of an item.
    static func write(details item: ItemStatus, shown: String) {
        let terminal = Terminal.standardOutput
        var rows = [
            ("path", shown), ("kind", item.kind), ("state", state(item)),
            ("size", "\(item.size) (\(Units.size(item.size)))"),
            ("local bytes", "\(item.localBytes) (\(Units.size(item.localBytes)))"),
            ("modified", Units.date(item.modificationTime)),
            ("mode", Units.mode(kind: item.kind, permissions: item.permissions)),
            ("owner", "\(item.user):\(item.group)"),
            ("item id", "\(item.itemID)"), ("document id", item.documentID),
            ("version", item.contentVersion ?? "not at the source yet"),
            ("remote id", item.remoteID ?? "not at the source yet"),
        ]
        if let error = item.error { rows.append(("error", error)) }
        for (name, value) in rows { terminal.write(padded(name + ":", 14) + terminal.safe(value) + "\n") }
    }

    /// Where the bytes are, and what else holds for the item.
    static func state(_ item: ItemStatus) -> String {
        var words = [item.state]
        if item.isUploading {
            words.append("uploading \(Int(saturating: item.percent))%")
        } else if item.isDirty {
            words.append("dirty")
        }
        if item.isDownloading { words.append("downloading \(Int(saturating: item.percent))%") }
        if item.isExcluded == true { words.append("excluded") }
        if item.isPinned { words.append("pinned") }
        if item.hasConflict { words.append("conflict") }
        if item.error != nil { words.append("error") }
        return words.joined(separator: ",")
    }

    private static func colour(_ item: ItemStatus) -> String? {
        if item.error != nil || item.hasConflict { return "31" }
        if item.isDirty || item.isUploading || item.isDownloading { return "33" }
        return item.state == "materialized" ? "32" : nil
    }

    /// Fills up with spaces.
    static func padded(_ text: String, _ width: Int, left: Bool = false) -> String {
        let spaces = String(repeating: " ", count: max(0, width - text.count))
        return left ? spaces + text : text + spaces
    }
}

extension ItemStatus {
    /// The name's bytes, also where they are not UTF-8.
    var rawName: [UInt8] {
        guard pathBase64 != nil, let path = try? PathParameter(self).remotePath() else { return Array(name.utf8) }
        return path.name?.bytes ?? Array(name.utf8)
    }
}
