internal import CoveCore

/// Commands for what apps were given: references and grants.
extension CommandTable {
    static let referenceList = Command(
        name: "refs ls",
        summary: "list the documents that apps have of others",
        operands: .account,
        options: [appOption],
        details: "Each is a name in an app's container that stands for a document elsewhere; removing it takes it back."
    ) { arguments throws(Failure) in
        let connection = try connection(arguments, operand: 0)
        let app = try arguments.value("app").map { text throws(Failure) in try AppIdentifier.read(text) }
        let reply: AccessInterface.ReferencesReply = try connection.call(
            "\(AccessInterface.name).References",
            AccessInterface.AppRequest(app: app?.text)
        )
        if arguments.has("json") {
            try JSONOutput.write(reply.references)
            return 0
        }
        let terminal = Terminal.standardOutput
        for reference in reply.references {
            let target = reference.target.map { terminal.safe($0) } ?? "(not there)"
            let name = reference.path.map { terminal.safe($0) } ?? "(its folder is not here)"
            terminal.write("\(name) -> \(target)\(reference.mayWrite ? "" : "  read-only")\n")
        }
        return 0
    }

    static let referenceRemove = Command(
        name: "refs rm",
        summary: "take back documents that an app was given",
        operands: .init(names: ["PATH"], minimum: 1, repeats: true),
        details: "PATH is the reference, in the app's container. The document stays where it is; rm(1) does the same."
    ) { arguments throws(Failure) in
        var exitCode: Int32 = 0
        for operand in arguments.operands {
            do throws(Failure) {
                let location = try Failure.locating(operand)
                let connection = try AccountConnection(location.daemon, name: location.shown)
                let reply: AccessInterface.GrantsReply = try connection.call("\(AccessInterface.name).Grants")
                guard let grant = reply.grants.first(where: { $0.reference == location.path.description }) else {
                    throw Failure(location.shown, "it is no reference", "see `cove refs ls`")
                }
                try revoke(grant.id, connection)
            } catch {
                Tool.report(error)
                exitCode = error.exitCode
            }
        }
        return exitCode
    }

    static let grantList = Command(
        name: "grants ls",
        summary: "list which apps may use which documents of others",
        operands: .account,
        options: [appOption]
    ) { arguments throws(Failure) in
        let connection = try connection(arguments, operand: 0)
        let app = try arguments.value("app").map { text throws(Failure) in try AppIdentifier.read(text) }
        let reply: AccessInterface.GrantsReply = try connection.call(
            "\(AccessInterface.name).Grants",
            AccessInterface.AppRequest(app: app?.text)
        )
        if arguments.has("json") {
            try JSONOutput.write(reply.grants)
            return 0
        }
        let terminal = Terminal.standardOutput
        for grant in reply.grants {
            let path = grant.path.map { terminal.safe($0) } ?? "(not there)"
            terminal.write("\(grant.id)  \(grant.app)  \(grant.mayWrite ? "rw" : "r")  \(grant.source)  \(path)\n")
        }
        return 0
    }

    static let grantRevoke = Command(
        name: "grants revoke",
        summary: "take back what an app may use",
        operands: .init(names: ["ID"], minimum: 1, repeats: true, completion: .nothing),
        details: """
            ID is a number of `cove grants ls`. The app can open the document no more, and its reference is gone; what it has
            open it keeps until it closes it.
            """
    ) { arguments throws(Failure) in
        let connection = try AccountConnection.open(arguments)
        var exitCode: Int32 = 0
        for index in arguments.operands.indices {
            let text = arguments.operand(index) ?? ""
            do throws(Failure) {
                guard let id = Int64(text) else { throw .usage(text, "is no number", "see `cove grants ls`") }
                try revoke(id, connection)
            } catch {
                Tool.report(error)
                exitCode = error.exitCode
            }
        }
        return exitCode
    }

    private static func revoke(_ id: Int64, _ connection: AccountConnection) throws(Failure) {
        let _: VarlinkNothing = try connection.call(
            "\(AccessInterface.name).Revoke",
            AccessInterface.RevokeRequest(id: id),
            subject: "\(id)"
        )
    }
}
