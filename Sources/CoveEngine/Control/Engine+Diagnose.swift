public import CoveCore
internal import Synchronization

/// What `cove doctor` asks of a running account.
extension Engine {
    /// Looks at the state disk, the catalog and the provider.
    public func diagnose() async -> [DoctorFinding] {
        var findings: [DoctorFinding] = []
        let integrity = try? catalog.read { database throws(Errno) in
            try database.first("PRAGMA integrity_check(1)") { $0.text(0) }
        }
        findings.append(
            integrity == "ok"
                ? DoctorFinding(check: "catalog", level: "ok", message: "the catalog is sound", remedy: nil)
                : DoctorFinding(
                    check: "catalog",
                    level: "problem",
                    message: "the catalog is damaged: \(integrity ?? "it can't be read")",
                    remedy: "unmount, run `cove doctor --repair`, and mount again"
                )
        )
        if let notice = disk.notice {
            findings.append(
                DoctorFinding(check: "state disk", level: "problem", message: notice.problem, remedy: notice.remedy)
            )
        }
        if work.isCareful {
            findings.append(
                DoctorFinding(
                    check: "daemon",
                    level: work.isHeld ? "problem" : "warning",
                    message: context.deathNotice,
                    remedy: "report it, with \(configuration.stateDirectory)/log; `cove resume` goes on with "
                        + "transfers, `cove sync` also with what is set aside"
                )
            )
        }
        findings += passthroughFinding()
        let found = configuration.stateDirectory + "/" + ContentStore.foundFolder
        if let names = try? System.names(in: found), !names.isEmpty {
            findings.append(
                DoctorFinding(
                    check: "content",
                    level: "warning",
                    message: "\(found) has \(names.count) files that belong to nothing since an unclean end",
                    remedy: "look through them, then delete the folder"
                )
            )
        }
        let free = contents.store.freeSpace()?.available ?? 0
        findings.append(
            free > 256 << 20
                ? DoctorFinding(
                    check: "state disk",
                    level: "ok",
                    message: "\(free >> 20) MiB are free",
                    remedy: nil
                )
                : DoctorFinding(
                    check: "state disk",
                    level: "warning",
                    message: "only \(free >> 20) MiB are free",
                    remedy: "free some space, or mount with a smaller -o cache-size"
                )
        )
        let status = accountStatus()
        findings.append(
            status.state == "offline"
                ? DoctorFinding(
                    check: "source",
                    level: "problem",
                    message: status.reason ?? "it is not connected yet",
                    remedy: "make the source reachable; what was changed here waits for it"
                )
                : DoctorFinding(check: "source", level: "ok", message: "\(status.source) answers", remedy: nil)
        )
        if status.state == "waiting-for-approval", let reason = status.reason {
            findings.append(DoctorFinding(check: "deletions", level: "warning", message: reason, remedy: nil))
        }
        findings += queueFindings(status)
        if let excluded = status.excluded, excluded > 0 {
            let message = "\(excluded) names are excluded: what has them is on this device only"
            findings.append(DoctorFinding(check: "excluded", level: "ok", message: message, remedy: nil))
        }
        for weakness in status.weaknesses {
            findings.append(DoctorFinding(check: "source", level: "warning", message: weakness, remedy: nil))
        }
        findings += await hiddenItems()
        findings += await programFindings()
        return findings + databasesBesideDocuments()
    }

    /// What stands still, and what others go before.
    func queueFindings(_ status: AccountStatus) -> [DoctorFinding] {
        var findings: [DoctorFinding] = []
        if let standstill = status.standstill {
            let minutes = Int64(saturating: standstill.seconds / 60)
            findings.append(
                DoctorFinding(
                    check: "queue",
                    level: "problem",
                    message: "nothing was sent for \(minutes) min, though the source answers: "
                        + "\(standstill.path): \(standstill.reason)",
                    remedy: "see what keeps it, or move it out of the mount; `cove sync` tries again now"
                )
            )
        }
        for late in status.heldUp ?? [] {
            let minutes = Int64(saturating: late.seconds / 60)
            let message = "\(late.path) waits for \(minutes) min, while others are sent: \(late.reason)"
            let remedy = "see what keeps it; `cove sync` tries again now"
            findings.append(DoctorFinding(check: "queue", level: "warning", message: message, remedy: remedy))
        }
        return findings
    }

    private func hiddenItems() async -> [DoctorFinding] {
        guard let sync = syncEngine else { return [] }
        let found = await sync.findStrays()
        guard let first = found.first else { return [] }
        let remedy =
            configuration.isReadOnly
            ? "mount without --read-only: then they get a name that people see"
            : "mount the device that hid them; else they get a name that people see within ten minutes"
        let message = "\(found.count) items have a hidden name at the source that no device came back for: \(first)"
        return [DoctorFinding(check: "hidden items", level: "warning", message: message, remedy: remedy)]
    }

    private func passthroughFinding() -> [DoctorFinding] {
        let state = contents.passthroughState
        if let obstacle = state.obstacle {
            return [
                DoctorFinding(
                    check: "passthrough",
                    level: "warning",
                    message: "it is off: \(obstacle)",
                    remedy: "mount without -o passthrough: then small writes are gathered in the kernel's cache"
                )
            ]
        }
        guard state.files != nil else { return [] }
        let message = "the kernel reads and writes local files by itself; small writes are not gathered in its cache"
        return [DoctorFinding(check: "passthrough", level: "ok", message: message, remedy: nil)]
    }

    /// Warns of documents that SQLite has open: their companions are not synced as one with them.
    private func databasesBesideDocuments() -> [DoctorFinding] {
        let found = try? catalog.read { database throws(Errno) in
            try database.all(
                """
                SELECT d.id FROM entries d JOIN entries w ON w.parent = d.parent
                    AND w.name IN (CAST(d.name || '-wal' AS BLOB), CAST(d.name || '-journal' AS BLOB)) LIMIT 20
                """
            ) { $0.int(0) }
        }
        var room = MessageRoom()
        return (found ?? []).compactMap { id in
            let path = try? catalog.read { database throws(Errno) in
                try database.entry(id: id).map { entry throws(Errno) in try database.path(of: entry) }
            }
            guard let path, room.take([path.description]) else { return nil }
            return DoctorFinding(
                check: "databases",
                level: "warning",
                message: "\(path) is a database in use: it is sent when its -wal or -journal is quiet",
                remedy: "don't open one database on two devices at a time"
            )
        }
    }
}
