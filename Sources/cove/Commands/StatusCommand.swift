internal import CoveCore

extension CommandTable {
    static let status = Command(
        name: "status",
        summary: "tell how items, or the account as a whole, stand",
        operands: .init(names: ["PATH"], repeats: true),
        details: "With paths, one line for each: state, size, bytes on this disk, error. Without, the account: what "
            + "waits, what\nis being transferred, conflicts and errors."
    ) { arguments throws(Failure) in
        if arguments.operands.isEmpty { return try accountStatus(arguments) }
        return try ItemBatch(arguments).run { connection, location throws(Failure) in
            let item = try connection.info(location)
            if !arguments.has("json") { ItemText.write(status: item, shown: location.shown) }
            return item
        }
    }

    private static func accountStatus(_ arguments: Arguments) throws(Failure) -> Int32 {
        let status = try AccountConnection.open(arguments).status()
        if arguments.has("json") {
            try JSONOutput.write(status)
        } else {
            write(status)
        }
        return 0
    }

    private static func write(_ status: AccountStatus) {
        let terminal = Terminal.standardOutput
        func row(_ name: String, _ value: String, colour: String? = nil) {
            terminal.write(ItemText.padded(name + ":", 12) + terminal.coloured(terminal.safe(value), colour) + "\n")
        }
        row("account", "\(status.account), \(status.source) at \(status.mountpoint)")
        let isWell = status.state == "idle" || status.state == "syncing"
        row("state", status.state + (status.reason.map { ": \($0)" } ?? ""), colour: isWell ? "32" : "33")
        row("waiting", "\(status.queuedOperations)")
        if let standstill = status.standstill {
            let time = Units.duration(standstill.seconds)
            row("standstill", "nothing was sent for \(time): \(standstill.path): \(standstill.reason)", colour: "31")
        }
        for late in status.heldUp ?? [] {
            let time = Units.duration(late.seconds)
            row("held up", "for \(time), while others are sent: \(late.path): \(late.reason)", colour: "33")
        }
        row("on disk", "\(Units.size(status.residentBytes)) of at most \(Units.size(status.cacheLimit))")
        if let requests = status.requestsLastHour {
            let cost = status.requestCostLastHour.map { ", $\(Units.dollars($0)) at Amazon's list price" } ?? ""
            row("requests", "\(requests) in the last hour\(cost)")
        }
        if let excluded = status.excluded, excluded > 0 {
            row("excluded", "\(excluded), which stay on this device; see `cove exclude --list`")
        }
        for transfer in status.transfers {
            let share = transfer.totalBytes > 0 ? Double(transfer.doneBytes) / Double(transfer.totalBytes) : 0
            let percent = Int(saturating: share * 100)
            let rate = Units.size(Int64(max(0, min(transfer.bytesPerSecond, 1e18))))
            row(transfer.direction, "\(percent)% of \(Units.size(transfer.totalBytes)), \(rate)/s  \(transfer.path)")
        }
        if status.conflicts > 0 { row("conflicts", "\(status.conflicts); see `cove conflicts`", colour: "31") }
        for error in status.errors {
            let retry = error.retryInSeconds.map { ", again in \(Units.duration($0))" } ?? ""
            row("error", "\(error.path): \(error.message)\(retry)", colour: "31")
        }
        let left = status.errorCount.saturatingSubtract(status.errors.count)
        if left > 0 { row("error", "and \(left) more", colour: "31") }
        for weakness in status.weaknesses { row("note", weakness) }
    }
}

extension AccountConnection {
    /// How the account stands.
    func status() throws(Failure) -> AccountStatus {
        try call("\(AccountInterface.name).Status", as: AccountInterface.StatusReply.self).status
    }
}
