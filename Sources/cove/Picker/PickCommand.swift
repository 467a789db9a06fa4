internal import CoveCore
internal import CovePicker
internal import Glibc

/// Choosing a document, for programs that have no picker of their own.
extension CommandTable {
    static let pick = Command(
        name: "pick",
        summary: "have a person choose a document, or a folder for one",
        options: [
            Option(long: "app", argument: "ID", summary: "the program it is for, such as org.example.Editor"),
            Option(
                long: "mode",
                argument: "MODE",
                summary: "import, open, export or move",
                completion: .words(PickerMode.allCases.map(\.rawValue))
            ),
            Option(
                long: "type",
                argument: "TYPE",
                summary: "only documents of this type: public.png, image/png or image/*; can be repeated"
            ),
            Option(
                long: "file",
                argument: "FILE",
                summary: "what goes to the folder, for export and move",
                completion: .file
            ),
            Option(
                long: "choose",
                argument: "PATH",
                summary: "choose this and show nothing",
                completion: .file
            ),
            Option(long: "web", summary: "show the picker in a browser instead of this terminal"),
            Option(long: "no-open", summary: "with --web, only print the page's address"),
        ],
        details: """
            Prints the path that the program gets. With import that is a copy of its own, in ~/.cache/cove/picked, which stays until
            the session ends; with export it is the copy in the cloud. With open it is a reference to the document itself, in the
            Documents of the app's container, and with move the same for a file that then is in the cloud alone; see
            `cove refs ls`. Nothing that is there is ever replaced: where the file's name is taken, the copy gets one like it,
            and a name that you give yourself has to be free.

            Without --type every document can be chosen. Types are uniform type identifiers, such as public.plain-text, public.image
            or com.adobe.pdf, or MIME types; a document of a more special type counts too.

            Where several accounts are mounted, a menu of them comes first, with those that can take part in this; --account
            shows one alone.

            On the terminal: the arrows move, Enter goes into a folder or chooses, Left and Backspace go up, and what you type
            filters the names; a dot at its beginning shows hidden ones. Tab goes to the name of the copy, or chooses a folder
            where folders are wanted. Escape clears the filter, and then leaves.

            With --web the address works once, in one browser of this machine, until something is chosen or this command ends.

            Exit status 1 and the word "cancelled" ({"cancelled": true} with --json) say that the person left without a choice;
            nothing has changed then.
            """
    ) { arguments throws(Failure) in
        let command = try PickCommand(arguments)
        return try command.run(arguments)
    }
}

/// `cove pick`.
private struct PickCommand {
    private let service: any PickerService
    private let choice: PickerSelection?

    init(_ arguments: Arguments) throws(Failure) {
        let request = try Self.request(arguments)
        guard let path = arguments.values("choose").last else {
            choice = nil
            service = try Self.service(request, arguments)
            return
        }
        guard !arguments.has("web") else {
            throw .usage("--choose", "it shows nothing, and --web shows a page", "give one of them")
        }
        let isNewName = request.mode.choosesFolder && !Self.isDirectory(path)
        let location = try Failure.locating(path) { path throws(ItemLocation.Failure) in
            // What is to be made is not there yet.
            isNewName ? try ItemLocation.find(path) : try ItemLocation.existing(path)
        }
        service = AccountPickerService(request, location)
        if isNewName, let slash = location.absolute.lastIndex(of: 0x2F), slash + 1 < location.absolute.count {
            let folder = slash == 0 ? [0x2F] : Array(location.absolute[..<slash])
            choice = PickerSelection(path: folder, name: Array(location.absolute[(slash + 1)...]))
        } else {
            choice = PickerSelection(path: location.absolute)
        }
    }

    func run(_ arguments: Arguments) throws(Failure) -> Int32 {
        do throws(PickerFailure) {
            // Where the account has no apps nothing can be picked for one.
            _ = try service.roots()
            return try finish(try end(arguments), isJSON: arguments.has("json"))
        } catch {
            var failure = Failure(error.subject, error.what, error.remedy)
            failure.errno = error.errno
            throw failure
        }
    }

    private func end(_ arguments: Arguments) throws(PickerFailure) -> PickerEnd {
        if let choice {
            let interruption: Interruption
            do throws(Errno) { interruption = try Interruption() } catch {
                throw PickerFailure(nil, "nothing can be done: \(error)", "close other programs", errno: error)
            }
            return .picked(try service.choose(choice, interruption: interruption))
        }
        guard arguments.has("web") else { return try TerminalFace.run(service) }
        return try WebFace.run(service) { address in
            Terminal.standardError.write("cove pick: open \(address) in a browser of this machine; Ctrl-C cancels\n")
            guard !arguments.has("no-open") else { return }
            // It may stay as long as the browser that it starts; where there is none, the printed address is left.
            _ = try? ChildProcess.start([address], program: "xdg-open", standardError: .null, group: .own)
        }
    }

    private func finish(_ end: PickerEnd, isJSON: Bool) throws(PickerFailure) -> Int32 {
        switch end {
        case .picked(let outcome):
            if isJSON {
                var members = PathParameter(RemotePath(unchecked: outcome.path)).members
                members.merge(outcome.members) { $1 }
                members["mode"] = .string(service.request.mode.rawValue)
                members["app"] = .string(service.request.app)
                Terminal.standardOutput.write(JSONValue.object(members).bytes + [0x0A])
            } else {
                Terminal.standardOutput.write(Terminal.standardOutput.safe(outcome.path) + [0x0A])
            }
            return 0
        case .cancelled: return cancelled(isJSON)
        case .signalled(let number):
            service.cancel()
            // The shell is to see how this ended.
            signal(number, SIG_DFL)
            kill(getpid(), number)
            return 128 + number
        }
    }

    private func cancelled(_ isJSON: Bool) -> Int32 {
        service.cancel()
        if isJSON { Terminal.standardOutput.write(JSONValue.object(["cancelled": .bool(true)]).bytes + [0x0A]) }
        Tool.report(Failure(nil, "cancelled"))
        return 1
    }

    // MARK: The command line

    private static func request(_ arguments: Arguments) throws(Failure) -> PickerRequest {
        guard let app = arguments.value("app") else {
            throw .usage("--app", "is needed", "say for which program, such as org.example.Editor")
        }
        let isPlain = app.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"):
                true
            default: false
            }
        }
        guard isPlain, !app.isEmpty, app.utf8.count <= 200, !app.hasPrefix(".") else {
            throw .usage("--app", "\(app) is no application id", "write it as org.example.Editor")
        }
        let modes = PickerMode.allCases.map(\.rawValue).joined(separator: ", ")
        guard let word = arguments.value("mode") else {
            throw .usage("--mode", "is needed", "choose one of \(modes)")
        }
        guard let mode = PickerMode(rawValue: word) else {
            throw .usage("--mode", "\(word) is not known", "choose one of \(modes)")
        }
        let filter: TypeFilter
        do throws(TypeFilter.UnknownType) {
            filter = try TypeFilter(arguments.values("type").map { String(decoding: $0, as: UTF8.self) })
        } catch {
            let known = UniformType.known.map(\.identifier).joined(separator: ", ")
            throw .usage(
                "--type",
                "\(error.name) is not known",
                "give a MIME type, a pattern such as image/*, or one of \(known)"
            )
        }
        return PickerRequest(app: app, mode: mode, filter: filter, file: try file(arguments, mode))
    }

    private static func file(_ arguments: Arguments, _ mode: PickerMode) throws(Failure) -> [UInt8]? {
        guard let path = arguments.values("file").last else {
            if mode.choosesFolder { throw .usage("--file", "is needed", "say which file goes to the folder") }
            return nil
        }
        guard mode.choosesFolder else {
            throw .usage("--file", "belongs to --mode export and move", "leave it out, or choose one of these")
        }
        let shown = String(decoding: path, as: UTF8.self)
        return try Failure.explaining(shown, remedy: "name a file that is there") { () throws(Errno) in
            let absolute = try ItemLocation.resolve(path)
            let kind = try System.status(AT_FDCWD, absolute).kind
            guard kind == .file || kind == .symbolicLink else {
                throw kind == .directory ? .isDirectory : .notSupported
            }
            return absolute
        }
    }

    /// What is shown: the account of the options alone, or all that the person has, that of the working directory first.
    private static func service(
        _ request: PickerRequest,
        _ arguments: Arguments
    ) throws(Failure) -> any PickerService {
        // No mount is entered for this, as it may hang.
        let here = (try? MountTable.coveMount(holding: ".")) ?? nil
        let isNamed = arguments.has("account") || arguments.has("state")
        let own = isNamed ? [] : (try? Mount.ofOwnAccounts(first: here)) ?? []
        guard !isNamed, here?.isWholeOwnAccount ?? true, !own.isEmpty else {
            // Who sees a part of an account, or another person's, sees no more by this.
            if !isNamed, here != nil {
                return AccountPickerService(request, try Failure.locating([0x2E], ItemLocation.find))
            }
            let mount = try AccountConnection.open(arguments).status().mountpoint
            return AccountPickerService(request, try Failure.locating(Array(mount.utf8) + [0x2F]))
        }
        do throws(PickerFailure) {
            return try AccountsPickerService(request, own)
        } catch {
            var failure = Failure(error.subject, error.what, error.remedy)
            failure.errno = error.errno
            throw failure
        }
    }

    private static func isDirectory(_ path: [UInt8]) -> Bool {
        (try? System.status(AT_FDCWD, path + [0x2F, 0x2E]))?.kind == .directory
    }
}
