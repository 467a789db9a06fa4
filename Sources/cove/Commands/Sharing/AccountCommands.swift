internal import CoveCore
internal import Glibc

/// Commands for all that an account holds.
extension CommandTable {
    static let accountExport = Command(
        name: "account export",
        summary: "write every document of an account to a folder",
        operands: .init(names: ["FOLDER"], minimum: 1),
        details: """
            The account is that of the working directory, or the one that --account or --state names. Modes, dates and user.*
            attributes go along. What is not on this disk is fetched for it, and leaves again. The command can be ended at any
            time, and be given again: what it has written already stays. Fails, with a list, where something could not be had, or
            has a name that the disk takes for another one's, as one that does not tell capital letters from small ones does.
            """
    ) { arguments throws(Failure) in
        let connection = try AccountConnection.open(arguments)
        let report = try Export(connection, connection.status(), to: arguments.operands[0]).run()
        if arguments.has("json") {
            try JSONOutput.write(report)
        } else {
            for (name, why) in report.failures.sorted(by: { $0.key < $1.key }) { Tool.report(Failure(name, why)) }
            Terminal.standardOutput.write(
                "\(report.exported) written (\(Units.size(report.bytes))), \(report.present) there already, "
                    + (report.vanished > 0 ? "\(report.vanished) removed or moved meanwhile, " : "")
                    + "\(report.failures.count) could not be had\n"
            )
        }
        return report.failures.isEmpty ? 0 : 1
    }

    static let accountMigrate = Command(
        name: "account migrate",
        summary: "make an account one of apps, for this device and the others",
        options: [
            Option(
                long: "except",
                argument: "ID",
                summary: "leave the folder of this name a folder; can be repeated"
            ),
            Option(long: "dry-run", summary: "say what would become a container, and do nothing"),
        ],
        details: """
            The account is that of the working directory, or the one that --account or --state names. A device that was first
            mounted with -o generation=legacy knows documents only: picker, references, values of promised items and the scope
            external fail there. This ends that. Folders of the root that have a container's identifier, such as
            iCloud.com.acme.Notes, and Documents in them become containers; nothing is moved or renamed. A folder such as
            www.example.com with Documents in it looks alike: see --dry-run, and name those that are none with --except. The
            command can be cut off anywhere and given again. There is no way back. The source must answer. Devices that are not
            migrated notice within a polling period (`-o poll=`), and exchange no more changes, until the command is given there
            too: their status is paused-not-migrated.
            """
    ) { arguments throws(Failure) in
        let connection = try AccountConnection.open(arguments)
        let isTrial = arguments.has("dry-run")
        let reply: AccountInterface.MigrateReply = try connection.call(
            "\(AccountInterface.name).Migrate",
            AccountInterface.MigrateRequest(
                dryRun: isTrial,
                except: arguments.values("except").map { String(decoding: $0, as: UTF8.self) }
            ),
            timeout: nil
        )
        let names = reply.containers.map { "  \($0)\n" }.joined()
        if arguments.has("json") {
            try JSONOutput.write(reply)
        } else if !reply.isNew {
            Terminal.standardOutput.write("it is migrated already\n")
        } else if isTrial {
            Terminal.standardOutput.write(
                names.isEmpty ? "there would be no containers\n" : "its containers would be\n\(names)"
            )
        } else {
            Terminal.standardOutput.write(
                names.isEmpty ? "migrated; there are no containers yet\n" : "migrated; its containers are\n\(names)"
            )
        }
        return 0
    }

    static let accountErase = Command(
        name: "account erase",
        summary: "delete everything in an account, on all devices, for good",
        options: [Option(long: "yes", summary: "do not ask")],
        details: """
            The account is that of the working directory, or the one that --account or --state names. All its documents are
            deleted at the source, and by that on all devices, with the trash, versions, previews and links. No device asks
            whether so large a deletion is meant. What another device has changed and not sent by then comes back from it.
            Nothing brings back the rest: `cove account export` writes it to a folder before.
            """
    ) { arguments throws(Failure) in
        let connection = try AccountConnection.open(arguments)
        let status = try connection.status()
        if !arguments.has("yes") {
            guard isatty(0) == 1 else {
                throw .usage("account erase", "deletes everything for good", "say --yes if that is meant")
            }
            let question =
                "Everything in \(status.source) will be deleted on all devices, for good.\n"
                + "Type the account's name, \(status.account), to go on: "
            guard try Prompt.line(Terminal.standardError.safe(question)) == status.account else {
                throw Failure(status.account, "nothing was deleted")
            }
        }
        let erased = try erase(connection, status)
        if arguments.has("json") {
            try JSONOutput.write(erased)
        } else {
            Terminal.standardOutput.write("\(erased.deleted) deleted, and \(erased.trashed) in the trash\n")
        }
        return 0
    }

    private static func erase(_ connection: AccountConnection, _ status: AccountStatus) throws(Failure) -> ErasedAccount
    {
        let mount = status.mountpoint
        let root = try AccountRoot(connection, status)
        // The others are to know before they see anything go.
        let _: VarlinkNothing = try connection.call("\(AccountInterface.name).BeginErasure", timeout: nil)
        var deleted = 0
        try Failure.explaining(mount, remedy: "try again") { () throws(Errno) in
            for name in try System.rawNames(in: root.path) { deleted += System.removeTree(root.descriptor, name) }
        }
        let left = ((try? System.rawNames(in: root.path)) ?? []).map { String(decoding: $0, as: UTF8.self) }
        if let first = left.min() {
            throw Failure("\(mount)/\(first)", "it can't be deleted", "close what uses it, and try again")
        }
        var request = AccountInterface.SyncRequest()
        (request.wait, request.acceptLocalDeletions) = (true, true)
        let progress = ProgressBar()
        let last: AccountInterface.SyncReply = try connection.stream("\(AccountInterface.name).Sync", request) {
            (reply: AccountInterface.SyncReply) in
            if let status = reply.status { progress.show("\(status.queuedOperations) left, \(status.state)") }
        }
        progress.clear()
        if let report = last.report, !report.isSettled {
            let why = report.errors.first.map { "\($0.path): \($0.message)" } ?? "\(report.remaining) deletions wait"
            throw Failure(status.account, "not all is deleted at the source yet: \(why)", "try again")
        }
        let reply: AccountInterface.EmptyReply = try connection.call(
            "\(AccountInterface.name).FinishErasure",
            timeout: nil
        )
        return ErasedAccount(deleted: deleted, trashed: reply.count)
    }
}

/// What `cove account erase --json` says.
private struct ErasedAccount: Encodable {
    /// Files and links.
    var deleted: Int
    /// Documents that were in the trash, those among them.
    var trashed: Int
}
