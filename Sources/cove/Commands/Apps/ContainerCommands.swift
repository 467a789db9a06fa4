internal import CoveCore

/// Commands for containers: the folders of apps.
extension CommandTable {
    static let containerCreate = Command(
        name: "container create",
        summary: "make a container for an app",
        operands: .init(names: ["ID", "PATH"], minimum: 1, completion: .nothing),
        options: [
            appOption,
            Option(long: "name", argument: "NAME", summary: "what people see; else the app's name or the identifier"),
            Option(long: "public", summary: "list it in the root, and offer its Documents to other apps"),
        ],
        details: """
            At the source the container is the folder of its identifier, in the tree that of its name, with Documents in it.
            Renaming the folder in the tree gives it another name on all devices. Without --public, and unless the app's
            manifest says so, no listing shows it, but it can be opened by its name. PATH is anything inside the mount.
            """
    ) { arguments throws(Failure) in
        guard let app = arguments.value("app") else { throw .usage("--app", "is needed", "say whose the container is") }
        let identifier = try AppIdentifier.read(arguments.operand(0) ?? "")
        let connection = try connection(arguments, operand: 1)
        let request = AccessInterface.CreateRequest(
            identifier: identifier.text,
            app: try AppIdentifier.read(app).text,
            name: arguments.value("name"),
            isPublic: arguments.has("public") ? true : nil
        )
        let reply: AccessInterface.ContainerReply = try connection.call(
            "\(AccessInterface.name).CreateContainer",
            request,
            subject: identifier.text
        )
        try show(reply.container, arguments, connection)
        return 0
    }

    static let containerList = Command(
        name: "container ls",
        summary: "list the account's containers",
        operands: .account
    ) { arguments throws(Failure) in
        let connection = try connection(arguments, operand: 0)
        let reply: AccessInterface.ContainersReply = try connection.call("\(AccessInterface.name).Containers")
        if arguments.has("json") {
            try JSONOutput.write(reply.containers)
            return 0
        }
        let terminal = Terminal.standardOutput
        for container in reply.containers {
            let words = [
                container.identifier, terminal.safe(container.name), container.app,
                container.isPublic ? "public" : "hidden", container.path == nil ? "no folder" : nil,
            ]
            terminal.write(words.compactMap(\.self).joined(separator: "  ") + "\n")
        }
        return 0
    }

    static let containerURL = Command(
        name: "container url",
        summary: "tell the folder of a container",
        operands: .init(names: ["ID"], completion: .nothing),
        options: [appOption],
        details: "Without ID the first container that the app of --app declares. Fails where the app may not have it."
    ) { arguments throws(Failure) in
        let identifier = try arguments.operand(0).map { text throws(Failure) in try AppIdentifier.read(text) }
        let app = try arguments.value("app").map { text throws(Failure) in try AppIdentifier.read(text) }
        guard identifier != nil || app != nil else { throw .usage("ID", "is needed", "or name an app with --app") }
        let connection = try AccountConnection.open(arguments)
        let reply: AccessInterface.PathReply = try connection.call(
            "\(AccessInterface.name).ContainerPath",
            AccessInterface.PathRequest(identifier: identifier?.text, app: app?.text)
        )
        guard let path = reply.path else {
            let whose = app.map { " of \($0)" } ?? ""
            throw Failure(identifier?.text ?? app?.text, "no such container\(whose)", "see `cove container ls`")
        }
        let absolute = try connection.absolute(path)
        if arguments.has("json") {
            try JSONOutput.write(["path": absolute])
        } else {
            Terminal.standardOutput.write(Terminal.standardOutput.safe(absolute) + "\n")
        }
        return 0
    }

    static let containerPublish = setPublic("publish", true, "list a container in the root, and offer it to other apps")
    static let containerHide = setPublic("hide", false, "leave a container out of listings, and offer it to no app")

    private static func setPublic(_ name: String, _ isPublic: Bool, _ summary: String) -> Command {
        Command(
            name: "container \(name)",
            summary: summary,
            operands: .init(names: ["ID", "PATH"], minimum: 1, completion: .nothing)
        ) { arguments throws(Failure) in
            let identifier = try AppIdentifier.read(arguments.operand(0) ?? "")
            let connection = try connection(arguments, operand: 1)
            let reply: AccessInterface.ContainerReply = try connection.call(
                "\(AccessInterface.name).SetPublic",
                AccessInterface.PublicRequest(identifier: identifier.text, isPublic: isPublic),
                subject: identifier.text
            )
            if arguments.has("json") { try JSONOutput.write(reply.container) }
            return 0
        }
    }

    private static func show(
        _ container: AccessInterface.Container,
        _ arguments: Arguments,
        _ connection: AccountConnection
    ) throws(Failure) {
        if arguments.has("json") { return try JSONOutput.write(container) }
        guard let path = container.path else { return }
        Terminal.standardOutput.write(Terminal.standardOutput.safe(try connection.absolute(path)) + "\n")
    }
}

extension AccountStatus {
    /// Folders of the machine that no app is to see: what is kept of the account, its mount, and the folder that is its cloud.
    var keptFolders: [String] {
        var folders = [stateDirectory, mountpoint, StatePaths.sockets]
        if source.hasPrefix("dir://") { folders.append(String(source.dropFirst("dir://".count))) }
        return folders
    }
}

extension AccountConnection {
    /// A path of the account where it is mounted.
    func absolute(_ path: String) throws(Failure) -> String { try mountpoint() + "/" + path }

    /// Where the account is mounted.
    func mountpoint() throws(Failure) -> String { try status().mountpoint }
}
