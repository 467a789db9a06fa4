internal import CoveCore
internal import CovePicker
internal import CoveProviders
internal import Glibc

/// What the picker shows of one account: the documents of its root, and those of each container that its owner offers.
struct AccountPickerService: PickerService {
    let request: PickerRequest
    /// The mount that shows the account, without a slash at its end.
    private let mount: [UInt8]
    /// What of the account that mount shows.
    private let top: RemotePath
    let daemon: DaemonAddress
    private let name: String
    /// What the provider of the account says of itself; nil for one without a manifest.
    private let manifest: ProviderManifest?
    /// The types that it offers; nil where it says nothing of these.
    private let offered: TypeFilter?
    /// Why it does not say what it is; nil where it does.
    private let silence: PickerFailure?

    /// Shows what a mount shows.
    init(_ request: PickerRequest, _ place: ItemLocation) {
        self.request = request
        mount = Array(place.mount.path.utf8)
        top = RemotePath(place.mount.root.split(separator: "/").map { FileName(unchecked: Array($0.utf8)) })
        daemon = place.daemon
        name = place.mount.accountName
        do throws(PickerFailure) {
            let source = try Self.failing { [daemon, name] () throws(Failure) in
                try AccountConnection(daemon, name: name).status().source
            }
            manifest = ProviderManifest(source: source)
            silence = nil
        } catch {
            manifest = nil
            silence = error
        }
        offered = manifest.flatMap { $0.types.isEmpty ? nil : try? TypeFilter($0.types) }
    }

    /// Why nothing of the account is offered for what is asked; nil where something is.
    private var refusal: PickerFailure? {
        guard let manifest else { return nil }
        let remedy = "choose another account"
        if manifest.isInstalled, !InstalledProviders.isEnabled(manifest.name) {
            return PickerFailure(
                manifest.name,
                "it is turned off",
                "turn it on with `cove provider enable`, or \(remedy)"
            )
        }
        guard let modes = manifest.modes, !modes.contains(request.mode.rawValue) else { return nil }
        return PickerFailure(
            manifest.name,
            modes.isEmpty ? "nothing is picked of it" : "it takes part in \(modes.joined(separator: ", ")) only",
            "\(remedy), or another mode than \(request.mode.rawValue)"
        )
    }

    /// Refuses an account of which nothing is offered, and one that does not say what it is.
    private func requireOffered() throws(PickerFailure) {
        if let failure = silence ?? refusal { throw failure }
    }

    /// What a look at an account beside others came to.
    enum Offer {
        /// These places are offered.
        case places([PickerRoot])
        /// The program could use nothing of it.
        case refused(PickerFailure)
        /// It does not answer.
        case silent(PickerFailure)
    }

    /// What is offered of it in a menu of accounts.
    var offer: Offer {
        if let silence { return .silent(silence) }
        if let refusal { return .refused(refusal) }
        if !request.mode.choosesFolder, let offered, !offered.overlaps(request.filter) {
            return .refused(PickerFailure(name, "its provider offers no such documents", "choose another account"))
        }
        do throws(PickerFailure) {
            let containers = try Self.failing { () throws(Failure) in try self.containers() }
            if request.mode == .open || request.mode == .move {
                // What is given to an app is in its container in the same account.
                guard containers.contains(where: { $0.app == request.app }) else {
                    let remedy = "make one with `cove container create ID --app \(request.app)`"
                    return .refused(PickerFailure(name, "the app has no container", remedy))
                }
            }
            return .places(roots(containers))
        } catch {
            return .silent(error)
        }
    }

    func roots() throws(PickerFailure) -> [PickerRoot] {
        try requireOffered()
        return roots(try Self.failing { () throws(Failure) in try self.containers() })
    }

    private func roots(_ containers: [AccessInterface.Container]) -> [PickerRoot] {
        var roots = [PickerRoot(name: name, path: mount, identifier: name)]
        for container in containers {
            guard container.isPublic, container.app != request.app, let path = container.path,
                let place = shownPath(RemotePath(unchecked: Array("\(path)/Documents".utf8)))
            else { continue }
            roots.append(PickerRoot(name: container.name, path: place, identifier: container.identifier))
        }
        return roots
    }

    /// The account's containers.
    private func containers() throws(Failure) -> [AccessInterface.Container] {
        let reply: AccessInterface.ContainersReply = try AccountConnection(daemon, name: name).call(
            "\(AccessInterface.name).Containers"
        )
        return reply.containers
    }

    /// How many levels of folders below a folder the app shows whose container it is in, negative where not even that one; nil
    /// where all are shown, as the program's own are.
    private func levels(below folder: RemotePath, of containers: [AccessInterface.Container]) -> Int? {
        for container in containers where container.app != request.app {
            guard let path = container.path, let all = container.folderLevels.flatMap(AppManifest.FolderLevels.init),
                let most = all.count
            else { continue }
            let documents = RemotePath(unchecked: Array("\(path)/Documents".utf8))
            if folder.isInside(documents) { return most - (folder.names.count - documents.names.count) }
        }
        return nil
    }

    /// False for a folder that no place of the picker leads to: one of another app's that is not public, or not in its `Documents`.
    private func isOffered(_ folder: RemotePath, of containers: [AccessInterface.Container]) -> Bool {
        if folder.names.first == DriveFolder.name { return false }
        for container in containers where container.app != request.app {
            guard let path = container.path, folder.isInside(RemotePath(unchecked: Array(path.utf8))) else { continue }
            let documents = RemotePath(unchecked: Array("\(path)/Documents".utf8))
            return container.isPublic && folder.isInside(documents)
        }
        return true
    }

    /// Where the mount shows a path of the account; nil where it doesn't.
    func shownPath(_ path: RemotePath) -> [UInt8]? {
        guard path.isInside(top) else { return nil }
        let inside = path.names.dropFirst(top.names.count)
        return inside.reduce(into: mount == [0x2F] ? [] : mount) { $0 += [0x2F] + $1.bytes }
    }

    func list(
        _ folder: [UInt8],
        interruption: Interruption,
        _ body: ([PickerEntry]) -> Void
    ) throws(PickerFailure) {
        let path = try remotePath(folder)
        try Self.failing { () throws(Failure) in
            let containers = try containers()
            // Containers are places of their own, where they are offered, and what the account knows of them is for nobody to pick.
            var hidden: Set<String> = []
            if path.isRoot { hidden = Set(containers.compactMap(\.path) + [DriveFolder.name.description]) }
            let levels = levels(below: path, of: containers)
            if let levels, levels < 0 { return }
            // Folders hold many files of few types.
            var known: [TypeFilter.Subject: Bool] = [:]
            func take(_ reply: ItemInterface.ListReply) {
                let entries = reply.items.compactMap { hidden.contains($0.path) ? nil : entry($0, in: folder, &known) }
                body(levels == 0 ? entries.filter { $0.kind != .folder } : entries)
            }
            let connection = try AccountConnection(daemon, name: shown(folder))
            let last: ItemInterface.ListReply = try connection.stream(
                "\(ItemInterface.name).List",
                ItemInterface.Request(path: PathParameter(path)),
                subject: shown(folder),
                interruption: interruption,
                take
            )
            take(last)
        }
    }

    func thumbnail(_ path: [UInt8]) throws(PickerFailure) -> [UInt8]? {
        let remote = try remotePath(path)
        return try Self.failing { () throws(Failure) in
            let reply: ItemInterface.ThumbnailReply = try AccountConnection(daemon, name: shown(path)).call(
                "\(ItemInterface.name).Thumbnail",
                ItemInterface.Request(path: PathParameter(remote)),
                subject: shown(path),
                timeout: .seconds(20)
            )
            return reply.file.flatMap { ThumbnailCache.read($0) }?.bytes(texts: [:])
        }
    }

    func choose(_ selection: PickerSelection, interruption: Interruption) throws(PickerFailure) -> PickerOutcome {
        let path = try remotePath(selection.path)
        try requireOffered()
        return try Self.failing { () throws(Failure) in
            // What a face greyed out or did not show, a command line may still name.
            let folder = request.mode.choosesFolder ? path : path.parent
            let containers = try containers()
            if !isOffered(folder, of: containers) || levels(below: folder, of: containers).map({ $0 < 0 }) ?? false {
                throw Failure(shown(selection.path), "is in a folder that its app shows nobody", "choose another one")
            }
            let item = try info(path, selection.path)
            switch request.mode {
            case .import: return try importCopy(of: item, at: selection.path, path, interruption)
            case .export:
                return try exportCopy(to: item, at: selection.path, path, selection.name, interruption).outcome
            case .open:
                try requireAccepted(item, at: selection.path, path)
                return try give(path, selection.path, [:])
            case .move: return try moveFile(to: item, at: selection.path, path, selection.name, interruption)
            }
        }
    }

    func cancel() {}

    // MARK: Items

    private func entry(
        _ item: ItemStatus,
        in folder: [UInt8],
        _ known: inout [TypeFilter.Subject: Bool]
    ) -> PickerEntry? {
        let name = item.rawName
        guard let fileName = FileName(validating: name), !fileName.isReserved else { return nil }
        let subject = subject(of: item, named: fileName, at: folder + [0x2F] + name)
        let isAccepted = known[subject] ?? (request.filter.accepts(subject) && isOffered(subject))
        if known.count < 1000 { known[subject] = isAccepted }
        return PickerEntry(
            name: name,
            kind: PickerEntry.Kind(subject),
            size: item.kind == "file" ? max(0, item.size) : 0,
            modificationTime: item.modificationTime,
            type: subject.type,
            state: PickerEntry.State(item),
            isSelectable: isAccepted
        )
    }

    /// True for what the account's provider offers.
    func isOffered(_ subject: TypeFilter.Subject) -> Bool { offered?.accepts(subject) ?? true }

    /// What an item is, as its name, its kind and, of a directory, its own word tell.
    func subject(of item: ItemStatus, named name: FileName, at path: [UInt8]) -> TypeFilter.Subject {
        let subject = request.filter.subject(name: name.description, kind: item.kind)
        guard subject == .folder, (try? System.attribute(path, PackageTypes.attribute)) == [0x31] else {
            return subject
        }
        return .package
    }

    /// What is at a place, which has to be there.
    func info(_ path: RemotePath, _ shown: [UInt8]) throws(Failure) -> ItemStatus {
        let reply: ItemInterface.InfoReply = try AccountConnection(daemon, name: self.shown(shown)).call(
            "\(ItemInterface.name).Info",
            ItemInterface.Request(path: PathParameter(path)),
            subject: self.shown(shown)
        )
        return reply.item
    }

    /// Runs the body while nobody else changes what the intent names.
    func holding<Value>(
        _ intent: CoordinationInterface.Intent,
        _ place: [UInt8],
        _ interruption: Interruption,
        _ body: () throws(Failure) -> Value
    ) throws(Failure) -> Value {
        // Of the mount, and not of what the place may have become.
        let location = try Failure.locating(mount) { path throws(ItemLocation.Failure) in
            try ItemLocation.find(path + [0x2F], socket: .coordination)
        }
        // The claim is the connection's, and ends with it.
        let connection = try AccountConnection(location.daemon, name: shown(place))
        let claim: CoordinationInterface.ClaimReply = try connection.call(
            "\(CoordinationInterface.name).Claim",
            CoordinationInterface.ClaimRequest(coordinator: "cove-pick", intents: [intent]),
            subject: shown(place),
            timeout: nil,
            interruption: interruption
        )
        let value = try body()
        let _: VarlinkNothing? = try? connection.call(
            "\(CoordinationInterface.name).Release",
            CoordinationInterface.ReleaseRequest(claim: claim.claim)
        )
        return value
    }

    // MARK: Paths and failures

    /// Opens a folder of the account, of which this was asked before: no link leads out of it that has come there since.
    func openFolder(_ remote: RemotePath) throws(Errno) -> Int32 {
        let root = try System.openat(AT_FDCWD, mount + [0x2F], O_RDONLY | O_DIRECTORY)
        defer { System.close(root) }
        let inside = remote.names.dropFirst(top.names.count).map(\.bytes)
        return try System.openBeneath(root, Array(inside.joined(separator: [0x2F])), O_RDONLY | O_DIRECTORY)
    }

    /// Where in the account a path of the mount is.
    private func remotePath(_ path: [UInt8]) throws(PickerFailure) -> RemotePath {
        let isInside = path.starts(with: mount) && (path.count == mount.count || path[mount.count] == 0x2F)
        guard isInside || mount == [0x2F] else {
            throw PickerFailure(shown(path), "is not among the places that are offered", "choose another one")
        }
        var place = top
        for part in path.dropFirst(mount.count).split(separator: 0x2F) {
            guard let name = FileName(validating: part), !name.isReserved else {
                throw PickerFailure(shown(path), "is no path that can be chosen", "choose another one")
            }
            place = place.appending(name)
        }
        return place
    }

    func shown(_ path: [UInt8]) -> String { String(decoding: path, as: UTF8.self) }

    /// The failures of a command, as those of the picker.
    private static func failing<Value>(_ body: () throws(Failure) -> Value) throws(PickerFailure) -> Value {
        do throws(Failure) { return try body() } catch {
            if error.errno == .interrupted || error.errno == .cancelled { throw .interrupted }
            throw PickerFailure(error.subject, error.what, error.remedy, errno: error.errno)
        }
    }
}

extension PickerEntry.Kind {
    fileprivate init(_ subject: TypeFilter.Subject) {
        self =
            switch subject {
            case .file: .file
            case .package: .package
            case .folder: .folder
            case .other: .other
            }
    }
}

extension TypeFilter.Subject {
    /// The MIME type.
    fileprivate var type: String {
        switch self {
        case .file(let type): type
        case .package, .folder: "inode/directory"
        case .other: "inode/x-special"
        }
    }
}

extension PickerEntry.State {
    /// What of an item's state counts most for somebody who is to choose it.
    fileprivate init(_ item: ItemStatus) {
        if item.error != nil {
            self = .error
        } else if item.isDownloading {
            self = .downloading
        } else if item.isUploading || item.isDirty {
            self = .uploading
        } else {
            self = item.state == "dataless" || item.state == "partial" ? .dataless : .local
        }
    }
}
