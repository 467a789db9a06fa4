internal import CoveCore
internal import Foundation

/// Commands for apps: who has containers in the account.
extension CommandTable {
    static let appOption = Option(long: "app", argument: "ID", summary: "the app, such as com.acme.notes")

    static let appRegister = Command(
        name: "app register",
        summary: "make an app known to the account",
        operands: .init(names: ["ID", "PATH"], minimum: 1, completion: .nothing),
        options: [
            Option(
                long: "manifest",
                argument: "FILE",
                summary: "what it says of itself: JSON, or a property list",
                completion: .file
            ),
            Option(
                long: "executable",
                argument: "FILE",
                summary: "its programs run this file here; can be given several times",
                completion: .file
            ),
            Option(
                long: "unit",
                argument: "NAME",
                summary: "its programs run in this unit of systemd here; can be given several times"
            ),
        ],
        details: """
            The manifest has the keys of an Info.plist and of its entitlements: CFBundleIdentifier, CFBundleName,
            CFBundleVersion, NSUbiquitousContainers with NSUbiquitousContainerIsDocumentScopePublic and
            NSUbiquitousContainerName for each container, NSUbiquitousContainerIsDocumentScopePublic for all of them, and
            com.apple.developer.ubiquity-container-identifiers, whose first one is the app's own. It is heeded again only
            where its CFBundleVersion is another one. A container that another app owns stays that app's. PATH is anything
            inside the mount.

            --executable and --unit, or CoveExecutables and CoveSystemdUnits in the manifest, say which programs of this device
            are the app's where they call on the account's sockets: that run the file, as it is now, or in the service or scope.
            They take the place of those that were said before; an empty list in the manifest forgets them. When the file has
            changed, say it again. Interpreters and scripts can't be told apart by their file: use `cove run --app` for them.
            """
    ) { arguments throws(Failure) in
        let identifier = try AppIdentifier.read(arguments.operand(0) ?? "")
        let connection = try connection(arguments, operand: 1)
        var members: [String: JSONValue] = [:]
        if let file = arguments.value("manifest") {
            guard case .object(let read) = try ManifestFile.read(file) else {
                throw Failure(file, "it is no dictionary", "write the manifest's keys at its top")
            }
            members = read
        }
        if members["CFBundleIdentifier"] == nil, members["BundleIdentifier"] == nil {
            members["CFBundleIdentifier"] = .string(identifier.text)
        }
        if arguments.value("manifest") == nil {
            // What it said of itself goes on to hold.
            let known: AccessInterface.AppsReply = try connection.call("\(AccessInterface.name).Apps")
            let version = known.apps.first { $0.identifier == identifier.text }?.version
            if let version { members["CFBundleVersion"] = .string(version) }
        }
        for (option, key) in [("executable", "CoveExecutables"), ("unit", "CoveSystemdUnits")]
        where arguments.has(option) {
            let values = arguments.values(option).map { String(decoding: $0, as: UTF8.self) }
            members[key] = .array(values.map { .string(option == "unit" ? $0 : LocalPath.absolute($0)) })
        }
        do throws(ManifestError) {
            _ = try AppManifest(.object(members), of: identifier)
        } catch {
            throw Failure(arguments.value("manifest") ?? identifier.text, "\(error)", "mend the manifest")
        }
        let reply: AccessInterface.RegisterReply = try connection.call(
            "\(AccessInterface.name).RegisterApp",
            AccessInterface.RegisterRequest(manifest: JSONValue.object(members).description),
            subject: identifier.text
        )
        if arguments.has("json") {
            try JSONOutput.write(reply)
        } else if !reply.isHeeded {
            Terminal.standardOutput.write(
                "\(identifier) is known already, with version \(Terminal.standardOutput.safe(reply.app.version)); nothing has changed\n"
            )
        }
        return 0
    }

    static let appList = Command(
        name: "app ls",
        summary: "list the apps that the account knows",
        operands: .account
    ) { arguments throws(Failure) in
        let connection = try connection(arguments, operand: 0)
        let reply: AccessInterface.AppsReply = try connection.call("\(AccessInterface.name).Apps")
        if arguments.has("json") {
            try JSONOutput.write(reply.apps)
            return 0
        }
        let terminal = Terminal.standardOutput
        for app in reply.apps {
            let containers = app.containers.isEmpty ? "no container" : app.containers.joined(separator: ", ")
            let files = app.executables.map { "\($0.path)\($0.problem.map { " (\($0))" } ?? "")" }
            let programs = (files + app.units).map { terminal.safe($0) }.joined(separator: ", ")
            let known = programs.isEmpty ? "" : "  known by \(programs)"
            terminal.write(
                "\(app.identifier)\(app.name.map { "  \(terminal.safe($0))" } ?? "")  \(containers)\(known)\n"
            )
        }
        return 0
    }

    static let appRemove = Command(
        name: "app remove",
        summary: "forget an app; its containers and grants stay",
        operands: .init(names: ["ID", "PATH"], minimum: 1, completion: .nothing)
    ) { arguments throws(Failure) in
        let identifier = try AppIdentifier.read(arguments.operand(0) ?? "")
        let connection = try connection(arguments, operand: 1)
        let _: VarlinkNothing = try connection.call(
            "\(AccessInterface.name).RemoveApp",
            AccessInterface.IdentifierRequest(identifier: identifier.text),
            subject: identifier.text
        )
        return 0
    }

    /// The account of an operand that may be left out, or of the options.
    static func connection(_ arguments: Arguments, operand index: Int) throws(Failure) -> AccountConnection {
        guard index < arguments.operands.count else { return try AccountConnection.open(arguments) }
        let location = try Failure.locating(arguments.operands[index])
        return try AccountConnection(location.daemon, name: location.shown)
    }
}

extension AppIdentifier {
    /// Reads an identifier that a person typed.
    static func read(_ text: String) throws(Failure) -> AppIdentifier {
        guard let identifier = AppIdentifier(text) else {
            throw .usage(text, "is no identifier", "write it like com.acme.notes")
        }
        return identifier
    }
}

/// A manifest in a file: JSON, or a property list.
enum ManifestFile {
    private static let deepest = 32

    static func read(_ file: String) throws(Failure) -> JSONValue {
        let bytes = try Failure.explaining(file, remedy: "name a manifest that can be read") { () throws(Errno) in
            let descriptor = try System.open(file, O_RDONLY)
            defer { System.close(descriptor) }
            return try System.contents(descriptor, atMost: AppManifest.greatestSize + 1)
        }
        guard bytes.count <= AppManifest.greatestSize else {
            throw Failure(file, "it is too long for a manifest", "leave out what is not for Cove")
        }
        let isList = bytes.starts(with: Array("bplist".utf8)) || bytes.first { !" \t\r\n".utf8.contains($0) } == 0x3C
        let found: JSONValue?
        if isList {
            let object = try? PropertyListSerialization.propertyList(from: Data(bytes), format: nil)
            found = object.flatMap { value($0, depth: 0) }
        } else {
            found = try? JSONValue(parsing: bytes, nestedTo: deepest)
        }
        guard let found else {
            throw Failure(file, "it is neither JSON nor a property list", "see `cove help app register`")
        }
        return found
    }

    private static func value(_ object: Any, depth: Int) -> JSONValue? {
        guard depth < deepest else { return nil }
        switch object {
        case let text as String: return .string(text)
        case let truth as Bool: return .bool(truth)
        case let number as Int: return .integer(Int64(number))
        case let number as Double: return .double(number)
        case let list as [Any]:
            var elements: [JSONValue] = []
            for element in list {
                guard let element = value(element, depth: depth + 1) else { return nil }
                elements.append(element)
            }
            return .array(elements)
        case let members as [String: Any]:
            var values: [String: JSONValue] = [:]
            for (name, member) in members {
                guard let member = value(member, depth: depth + 1) else { return nil }
                values[name] = member
            }
            return .object(values)
        // Dates and data of a property list are nothing for Cove.
        default: return .null
        }
    }
}
