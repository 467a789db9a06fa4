internal import CoveCore
internal import CovePicker
internal import Glibc

/// The choices that copy.
extension AccountPickerService {
    /// Refuses what is no document of a type that the program takes; its name.
    @discardableResult
    func requireAccepted(_ item: ItemStatus, at path: [UInt8], _ remote: RemotePath) throws(Failure) -> FileName {
        guard let name = remote.name else { throw Failure(shown(path), "is the whole account", "choose a document") }
        let subject = subject(of: item, named: name, at: path)
        guard request.filter.accepts(subject) else {
            let wanted = request.filter.names.joined(separator: ", ")
            let what = wanted.isEmpty ? "is no document" : "is not of a type that \(request.app) takes (\(wanted))"
            throw Failure(shown(path), what, "choose another one")
        }
        guard isOffered(subject) else {
            throw Failure(shown(path), "is not of a type that its provider offers", "choose another one")
        }
        return name
    }

    /// Copies a document to a place of the program's own, while nobody changes it.
    func importCopy(
        of item: ItemStatus,
        at path: [UInt8],
        _ remote: RemotePath,
        _ interruption: Interruption
    ) throws(Failure) -> PickerOutcome {
        let name = try requireAccepted(item, at: path, remote)
        let intent = CoordinationInterface.Intent(reading: PathParameter(remote))
        let copy = try holding(intent, path, interruption) { () throws(Failure) in
            let folder = try Failure.explaining(shown(path), remedy: "choose another one") { () throws(Errno) in
                try openFolder(remote.parent)
            }
            defer { System.close(folder) }
            return try PrivateCopies(app: request.app).make(of: path, in: folder, named: name.bytes, interruption)
        }
        return PickerOutcome(path: copy, members: Self.source(path))
    }

    /// Copies the program's file into a folder, under a name that is free.
    func exportCopy(
        to item: ItemStatus,
        at path: [UInt8],
        _ remote: RemotePath,
        _ wanted: [UInt8]?,
        _ interruption: Interruption
    ) throws(Failure) -> (outcome: PickerOutcome, copy: ScratchCopy) {
        guard item.kind == "directory" else { throw Failure(shown(path), "is no folder", "choose a folder") }
        guard let source = request.file else { throw .usage("--file", "is needed", "say which file goes there") }
        let folder = try Failure.explaining(shown(path), remedy: "choose another folder") { () throws(Errno) in
            try openFolder(remote)
        }
        let scratch = try ScratchCopy(of: source, in: path, folder, interruption)
        for name in try Self.names(for: source, wanted) {
            let intent = CoordinationInterface.Intent(writing: PathParameter(remote.appending(name)), .forReplacing)
            let isPlaced = try holding(intent, path, interruption) { () throws(Failure) in
                try scratch.place(as: name)
            }
            if isPlaced { return (PickerOutcome(path: scratch.path(name), members: Self.source(source)), scratch) }
        }
        let name = wanted ?? request.file?.split(separator: 0x2F).last.map(Array.init) ?? []
        var failure = Failure(shown(scratch.path(FileName(unchecked: name))), "\(Errno.exists)", "choose another name")
        failure.errno = .exists
        throw failure
    }

    /// Moves the program's file into a folder; the program has a reference to it from then on.
    ///
    /// The file stays where it is until the program has that.
    func moveFile(
        to item: ItemStatus,
        at path: [UInt8],
        _ remote: RemotePath,
        _ wanted: [UInt8]?,
        _ interruption: Interruption
    ) throws(Failure) -> PickerOutcome {
        guard let source = request.file else { throw .usage("--file", "is needed", "say which file goes there") }
        let before = try? System.statat(AT_FDCWD, source)
        let (copy, scratch) = try exportCopy(to: item, at: path, remote, wanted, interruption)
        let name = copy.path.split(separator: 0x2F).last.map(Array.init) ?? []
        let outcome: PickerOutcome
        do throws(Failure) {
            outcome = try give(remote.appending(FileName(unchecked: name)), copy.path, copy.members)
        } catch {
            scratch.remove(name)
            throw error
        }
        let now = try? System.statat(AT_FDCWD, source)
        guard let before, let now, before.st_dev == now.st_dev, before.st_ino == now.st_ino,
            before.st_size == now.st_size,
            before.st_mtim.tv_sec == now.st_mtim.tv_sec, before.st_mtim.tv_nsec == now.st_mtim.tv_nsec
        else {
            throw Failure(shown(source), "it was changed meanwhile and stays", "the copy is \(shown(copy.path))")
        }
        try Failure.explaining(shown(source), "it was copied and can't be removed", remedy: "remove it") {
            () throws(Errno) in try System.unlinkat(AT_FDCWD, source)
        }
        return outcome
    }

    /// Gives the program a document; where it has it from now on.
    func give(
        _ remote: RemotePath,
        _ path: [UInt8],
        _ members: [String: JSONValue]
    ) throws(Failure) -> PickerOutcome {
        let reply: AccessInterface.GiveReply = try AccountConnection(daemon, name: shown(path)).call(
            "\(AccessInterface.name).Give",
            AccessInterface.GiveRequest(app: request.app, path: remote),
            subject: shown(path)
        )
        let reference = RemotePath(unchecked: Array(reply.reference.utf8))
        var members = members
        members["document"] = .string(shown(path))
        if let scope = reply.scope { members["scope"] = .string(scope) }
        return PickerOutcome(path: shownPath(reference) ?? path, members: members)
    }

    /// The names to try: the one that was given, or the file's own and then ones like it.
    private static func names(for source: [UInt8], _ wanted: [UInt8]?) throws(Failure) -> [FileName] {
        let bytes = wanted ?? source.split(separator: 0x2F).last.map(Array.init) ?? []
        let problem = FileName.problem(with: bytes)
        guard problem == nil, let name = FileName(validating: bytes), !name.isReserved else {
            let what = problem.map { "is \($0)" } ?? "is a name that Cove keeps for itself"
            throw Failure(String(decoding: bytes, as: UTF8.self), what, "choose another name")
        }
        return wanted == nil ? [name] + (2...1000).map { name.inserting(" \($0)") } : [name]
    }

    private static func source(_ path: [UInt8]) -> [String: JSONValue] {
        let parameter = PathParameter(RemotePath(unchecked: path))
        if let text = parameter.path { return ["source": .string(text)] }
        return ["source_base64": .string(parameter.pathBase64 ?? "")]
    }
}

/// A copy of a file in a folder, under a name that is never sent, which goes unless it gets another one.
final class ScratchCopy {
    private static let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789".utf8)

    private let folderPath: [UInt8]
    private let folder: Int32
    private let name: [UInt8]
    private var isPlaced = false

    /// Makes the copy in an open folder, which is its own from then on; it is durable then.
    init(of source: [UInt8], in folderPath: [UInt8], _ folder: Int32, _ interruption: Interruption) throws(Failure) {
        // As GLib names its own: it stays here while it is written.
        name = Array(".goutputstream-".utf8) + (0..<6).map { _ in Self.letters[Int.random(in: 0..<Self.letters.count)] }
        self.folderPath = folderPath
        self.folder = folder
        let shown = String(decoding: source, as: UTF8.self)
        let file = try Failure.explaining(shown, "it can't be read", remedy: "choose another file") {
            () throws(Errno) in
            let file = try System.openat(AT_FDCWD, source, O_RDONLY | O_NONBLOCK)
            guard try System.status(file).kind == .file else {
                System.close(file)
                throw .isDirectory
            }
            return file
        }
        defer { System.close(file) }
        let place = String(decoding: folderPath, as: UTF8.self)
        let remedy = "choose another folder"
        do throws(Errno) {
            let target = try System.openat(folder, name, O_WRONLY | O_CREAT | O_EXCL, 0o600)
            defer { System.close(target) }
            try FileCopy(interruption).copyBytes(from: file, to: target)
            try TreeCopy.describe(file, target)
            try System.fsync(target)
        } catch {
            var failure = Failure(place, "the copy can't be made: \(error)", remedy)
            failure.errno = error
            throw failure
        }
    }

    deinit {
        if !isPlaced { try? System.unlinkat(folder, name) }
        System.close(folder)
    }

    /// Gives the copy its name; false where something has that already.
    func place(as newName: FileName) throws(Failure) -> Bool {
        do throws(Errno) {
            try System.renameat(folder, name, folder, newName.bytes, .exclusive)
        } catch .exists {
            return false
        } catch {
            var failure = Failure(newName.description, "\(error)", "choose another name")
            failure.errno = error
            throw failure
        }
        isPlaced = true
        return true
    }

    /// Removes what it has become.
    func remove(_ name: [UInt8]) { try? System.unlinkat(folder, name) }

    /// The path of a name in the folder.
    func path(_ name: FileName) -> [UInt8] { (folderPath == [0x2F] ? [] : folderPath) + [0x2F] + name.bytes }
}
